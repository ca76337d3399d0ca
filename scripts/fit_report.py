#!/usr/bin/env python3
"""fit_report.py REPORT.json ACCURACY.md DATE COMMIT: puts the report of `rehearse fit` between the marks in the document."""
import json
import sys

LOW, HIGH = 0.85, 0.95  # of a family's quantities that 90 % intervals should hold


def marks(name):
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def rows_of(table):
    for row in table:
        yield f"| {row['name']} | {row['quantities']} | {100 * row['mean_fitted']:.1f} | {100 * row['mean_left_out']:.1f} | {100 * row['median_left_out']:.1f} |"


def text_of(report, date, commit):
    quantities, constants = report["quantities"], report["fitted_constants"]
    lines = [f"Frozen {date} at commit {commit}: {constants} fitted constants for {quantities} measured quantities "
             f"(one for {quantities // max(1, constants)}), 90 % intervals hold {100 * report['coverage_left_out']:.0f} % of quantities of left-out sources.", "",
             "| group or family | n | mean error %, fitted | mean %, source left out | median %, source left out |", "| --- | ---: | ---: | ---: | ---: |"]
    lines += rows_of(report["totals"])
    lines += rows_of(report["families"])
    values = ", ".join(f"{name} {value:.4g}" for name, value in report["constants"].items())
    return "\n".join(lines) + f"\n\nThe fitted constants: {values}.\n"


def middle(values):
    return sorted(values)[len(values) // 2]


def share(count, of):
    return f"{100 * count / of:.0f} %"


def summary_row(by, families):
    """All families of one kind: how many of them are held as they should be."""
    quantities = sum(f["quantities"] for f in families)
    held = sum(f["quantities"] * f["held_by_interval"] for f in families)
    inside = [f for f in families if LOW <= f["held_by_interval"] <= HIGH]
    above = [f for f in families if f["held_by_interval"] > HIGH]
    below = len(families) - len(inside) - len(above)
    ratio = middle([f["median_interval_ratio"] for f in families])
    return f"| {by} | {len(families)} | {share(held, quantities)} | {below} | {len(inside)} | {len(above)} | {ratio:.2f} |"


def family_row(family):
    mark = " (too few)" if family["held_by_interval"] < LOW else ""
    return f"| {family['by']} | {family['name']} | {family['quantities']} | {share(family['held_by_interval'], 1)}{mark} | {family['median_interval_ratio']:.2f} |"


def intervals_text_of(report, date):
    """What intervals hold of families that were left out, of every one but single sources, which are named where too few are held."""
    families = report["left_out_in_turn"]
    kinds = list(dict.fromkeys(f["by"] for f in families))
    widening = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in report["widening"].items())
    lines = [f"As of {date}. Factors of the logarithm: {widening}.", "",
             "| left out in turn | families of 8 and more | held | families below 85 % | 85 to 95 % | above 95 % | upper over lower end, median |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    lines += [summary_row(by, [f for f in families if f["by"] == by]) for by in kinds]
    lines += ["", "| left out | family | n | held | upper over lower end, median |", "| --- | --- | ---: | ---: | ---: |"]
    lines += [family_row(f) for f in families if f["by"] != "source" or f["held_by_interval"] < LOW]
    return "\n".join(lines) + "\n"


def put(document, name, text):
    begin, end = marks(name)
    before, rest = document.split(begin)
    return f"{before}{begin}\n{text}{end}{rest.split(end)[1]}"


def main(report_path, document_path, date, commit):
    with open(report_path, encoding="utf-8") as f:
        report = json.load(f)
    with open(document_path, encoding="utf-8") as f:
        document = f.read()
    document = put(document, "fit-published", text_of(report, date, commit))
    document = put(document, "fit-intervals", intervals_text_of(report, date))
    with open(document_path, "w", encoding="utf-8") as f:
        f.write(document)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
