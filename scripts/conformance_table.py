"""conformance_table.py docs/onnx.md FORWARD.json GRADIENTS.json: writes the counts of two runs of `rehearse conformance` into the document."""
import collections
import json
import sys

BEGIN, END = '<!-- conformance: scripts/conformance --table -->', '<!-- end of conformance -->'


def counts(path):
    """-> cases by operator, each counted by result; and those of all."""
    with open(path) as f:
        document = json.load(f)
    by_operator = collections.defaultdict(collections.Counter)
    for case in document['cases']:
        by_operator[case['operator']][case['result']] += 1
    return by_operator, sum(by_operator.values(), collections.Counter())


def cell(counter):
    parts = [f"{counter['pass']} of {counter.total()}"] if counter.total() else ['-']
    parts += [f"{counter[kind]} {kind}" for kind in ('fail', 'refused') if counter[kind]]
    return ', '.join(parts)


def differentiable(counter):
    return collections.Counter({kind: n for kind, n in counter.items() if kind != 'skipped'})


def table(forward, gradients):
    (ahead, all_ahead), (back, all_back) = forward, gradients
    lines = ['| operator | forward | gradient |', '| --- | --- | --- |',
             f'| **all** | {cell(all_ahead)} | {cell(differentiable(all_back))} |']
    for operator in sorted(ahead):
        lines.append(f'| {operator} | {cell(ahead[operator])} | {cell(differentiable(back[operator]))} |')
    return '\n'.join(lines)


def main(document, forward, gradients):
    with open(document) as f:
        text = f.read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(document, 'w') as f:
        f.write(f'{head}{BEGIN}\n{table(counts(forward), counts(gradients))}\n{END}{tail}')


if __name__ == '__main__':
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
