"""exported_in_onnxruntime.py REHEARSE SOURCE: what `run --export` writes gives in ONNX Runtime what `evaluate` gives, and is read again."""
import json
import os
import subprocess
import sys
import tempfile

from packages import need

need('numpy', 'onnxruntime')
import numpy
import onnxruntime

# by zoo reference: the input's shape, or the vocabulary and length of text
MODELS = {
    'resnet18?image=32&classes=3': {'shape': (3, 32, 32), 'classes': 3},
    'mobilenet_v3_small?image=32&classes=3': {'shape': (3, 32, 32), 'classes': 3},
    'densenet121?image=32&classes=3': {'shape': (3, 32, 32), 'classes': 3},
    'gpt?layers=2&hidden=16&heads=2&seq=6&vocab=11': {'text': (11, 6)},
    'bert?layers=1&hidden=16&heads=2&seq=6&vocab=11': {'text': (11, 6)},
}
BATCH = 2


def arrays(inputs, model, draw):
    if 'text' in model:
        vocabulary, length = model['text']
        text = {i['name']: draw.integers(0, min(2, vocabulary), (BATCH, length)).astype(i['dtype']) for i in inputs}
        return text, draw.integers(0, vocabulary, (BATCH, length))
    return {i['name']: draw.random((BATCH,) + model['shape'], dtype=numpy.float32) for i in inputs}, draw.integers(0, model['classes'], BATCH)


def rehearse(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def check(program, reference, model, folder):
    """-> the largest difference, as a share of the largest output."""
    source, data, trained, outputs = (os.path.join(folder, n) for n in ('m.onnx', 'd.npz', 't.onnx', 'o.npz'))
    rehearse(program, 'zoo', reference, '-o', source)
    inputs = json.loads(rehearse(program, 'inspect', 'zoo:' + reference, '--batch', str(BATCH), '--format', 'json'))['inputs']
    fed, target = arrays(inputs, model, numpy.random.default_rng(1))
    numpy.savez(data, target=target, **fed)
    rehearse(program, 'run', 'zoo:' + reference, '--data', data, '--batch', str(BATCH), '--steps', '3', '--lr', '0.01', '--export', trained)
    rehearse(program, 'evaluate', trained, '--data', data, '--batch', str(BATCH), '--outputs', outputs)
    session = onnxruntime.InferenceSession(trained, providers=['CPUExecutionProvider'])
    theirs = dict(zip((o.name for o in session.get_outputs()), session.run(None, fed)))
    worst = 0.0
    with numpy.load(outputs) as ours:
        for name in ours.files:
            scale = max(1e-6, float(numpy.abs(ours[name]).max()))
            worst = max(worst, float(numpy.abs(theirs[name] - ours[name]).max()) / scale)
    # read again: the same parameters, and it trains on
    before, after = (json.loads(rehearse(program, 'inspect', f, '--batch', str(BATCH), '--format', 'json')) for f in (source, trained))
    if before['trainable_parameters'] != after['trainable_parameters']:
        raise RuntimeError(f"{before['trainable_parameters']} parameters before, {after['trainable_parameters']} after")
    rehearse(program, 'run', trained, '--data', data, '--batch', str(BATCH), '--steps', '1')
    return worst


def main():
    program, failed = sys.argv[1], 0
    for reference, model in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst = check(program, reference, model, folder)
                verdict = 'pass' if worst < 1e-3 else 'FAIL'
                print(f'{verdict} {reference} {worst:.1e}')
                failed += verdict == 'FAIL'
            except (RuntimeError, KeyError) as error:
                print(f'FAIL {reference} {error}')
                failed += 1
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
