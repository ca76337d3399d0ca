"""exported_by_documents.py REHEARSE SOURCE: the snippets of docs/models.md run as printed, and what they write trains."""
import os
import re
import subprocess
import sys
import tempfile

from packages import SKIPPED, need

need('numpy')
import numpy

TORCH = ['torch', 'onnx', 'onnxscript']
NETWORK = 'import torch; model = small_network(); x = torch.randn(2, 3, 8, 8)'
# by the heading of a snippet: packages that it needs besides, names that it finds defined, and data for the file that it writes
PREPARED = {
    'PyTorch, the exporter of today': (TORCH, NETWORK, {'x': (3, 8, 8)}),
    'PyTorch, the older exporter': (TORCH, NETWORK, {'x': (3, 8, 8)}),
    'Hugging Face': (TORCH + ['transformers'],
                     'import torch\n'
                     'from transformers import AutoModelForCausalLM, GPT2Config\n'
                     'config = GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2); ids = torch.zeros(2, 6, dtype=torch.int64)',
                     {'input_ids': 6}),
    'Keras': (['keras', 'tensorflow', 'tf2onnx'],
              'import keras\n'
              'from keras import layers\n'
              'model = keras.Sequential([keras.Input((8, 8, 3), name="x"), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(),'
              ' layers.Flatten(), layers.Dense(5)]); x = keras.ops.zeros((2, 8, 8, 3))',
              {'x': (8, 8, 3)}),
    'JAX': (['jax', 'flax', 'jax2onnx'],
            'import jax2onnx\n'
            'from flax import nnx\n'
            'rngs = nnx.Rngs(0)\n'
            'model = nnx.Sequential(nnx.Linear(64, 8, rngs=rngs), nnx.LayerNorm(8, rngs=rngs), nnx.relu, nnx.Linear(8, 5, rngs=rngs))',
            {'in_0': (64,)}),
}


def small_network():
    """A network whose input is named x, as dynamic_shapes asks for."""
    from torch import nn

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(144, 5))

        def forward(self, x):
            return self.layers(x)

    return Named()


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
    names = {'small_network': small_network}
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
    sys.exit(1 if failed else SKIPPED if ran == 0 else 0)


if __name__ == '__main__':
    main()
