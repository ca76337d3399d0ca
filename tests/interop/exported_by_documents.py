"""exported_by_documents.py REHEARSE SOURCE: the snippets of docs/models.md run as printed, and what they write trains."""
import os
import re
import subprocess
import sys
import tempfile

from packages import need

need('numpy', 'torch', 'onnx', 'onnxscript')
import numpy
import torch

# by the heading of a snippet: packages that it needs besides, names that it finds defined, and data for the file that it writes
PREPARED = {
    'PyTorch, the exporter of today': ([], 'model = small_network(); x = torch.randn(2, 3, 8, 8)', {'x': (3, 8, 8)}),
    'PyTorch, the older exporter': ([], 'model = small_network(); x = torch.randn(2, 3, 8, 8)', {'x': (3, 8, 8)}),
    'Hugging Face': (['transformers'],
                     'from transformers import AutoModelForCausalLM, GPT2Config\n'
                     'config = GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2); ids = torch.zeros(2, 6, dtype=torch.int64)',
                     {'input_ids': 6}),
}


def small_network():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(144, 5))


class Named(torch.nn.Module):
    """The snippets name their input x, as dynamic_shapes asks for."""

    def __init__(self):
        super().__init__()
        self.layers = small_network()

    def forward(self, x):
        return self.layers(x)


def snippets(document):
    """-> (heading, code) of every Python block."""
    with open(document) as f:
        text = f.read()
    return re.findall(r'^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```', text, re.S | re.M)


def data_of(shapes):
    draw = numpy.random.default_rng(1)
    arrays = {}
    for name, shape in shapes.items():
        if isinstance(shape, int):
            arrays[name] = draw.integers(0, 11, (2, shape))
            arrays['target'] = draw.integers(0, 11, (2, shape))
        else:
            arrays[name] = draw.random((2,) + shape, dtype=numpy.float32)
            arrays['target'] = draw.integers(0, 5, 2)
    return arrays


def check(program, heading, code, folder):
    """-> what became of a snippet."""
    key = next((k for k in PREPARED if heading.startswith(k)), None)
    if key is None:
        return f'not run: {heading}'
    packages, preparation, shapes = PREPARED[key]
    for package in packages:
        try:
            __import__(package)
        except ImportError as error:
            return f'not run: {heading}: {error}'
    os.chdir(folder)
    names = {'torch': torch, 'small_network': Named}
    exec(preparation, names)
    exec(code, names)
    numpy.savez('data.npz', **data_of(shapes))
    done = subprocess.run([program, 'run', 'model.onnx', '--data', 'data.npz', '--batch', '2', '--steps', '2'], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return f'pass {heading}'


def main():
    program, source = sys.argv[1:3]
    found, failed, ran = snippets(os.path.join(source, 'docs', 'models.md')), 0, 0
    for heading, code in found:
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict = check(program, heading, code, folder)
                ran += verdict.startswith('pass')
                print(verdict, flush=True)
            except Exception as error:  # whatever a snippet throws is the finding
                print(f'FAIL {heading}: {type(error).__name__}: {error}', flush=True)
                failed += 1
            finally:
                os.chdir(source)
    sys.exit(1 if failed or ran < 2 else 0)


if __name__ == '__main__':
    main()
