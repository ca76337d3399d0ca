"""compressed_gradients.py REHEARSE SOURCE: every compressor of gradients against its paper's algorithm in NumPy, in f64. A network of dense
layers trains under mpirun; here it is trained again, with gradients, compression and updates of our own. Losses of every step and the
weights at the end are equal to 1e-6. Random numbers are counter-based ones (base/random.hpp), so that both sides can draw the same."""
import json
import os
import subprocess
import sys
import tempfile

from packages import need

need('numpy')
import numpy as np

import small_onnx

BATCH, STEPS, RATE, MOMENTUM, BLOCK = 12, 4, 0.05, 0.9, 512
SIZES = (40, 30, 10)  # gradients of 1,200, 30, 300 and 10 elements: three blocks of which one is not full, and less than one
TOLERANCE = 1e-6
WORD = 2**64
MPI = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_rmaps_base_oversubscribe': '1',
       'OMPI_MCA_hwloc_base_binding_policy': 'none', 'PRTE_ALLOW_RUN_AS_ROOT': '1', 'PRTE_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
       'PRTE_MCA_rmaps_default_mapping_policy': ':oversubscribe', 'OMP_NUM_THREADS': '1'}


# Random numbers

def mixed(z):
    """SplitMix64's finalizer (Steele, Lea, Flood 2014)."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


def bits(seed, stream, index):
    golden = 0x9E3779B97F4A7C15
    return mixed((mixed((seed + golden * (stream + 1)) % WORD) + golden * (index + 1)) % WORD)


def uniform(seed, stream, count):
    return np.array([(bits(seed, stream, i) >> 11) * 2.0**-53 for i in range(count)])


def normal(seed, stream, count):
    u = uniform(seed, stream, 2 * count)
    return np.sqrt(-2 * np.log(1 - u[0::2])) * np.cos(2 * np.pi * u[1::2])


def stream_of(gradient):
    """FNV-1a of the name's length and the name."""
    state = 0xCBF29CE484222325
    for byte in len(gradient).to_bytes(8, 'little') + gradient.encode():
        state = (state ^ byte) * 0x100000001B3 % WORD
    return state ^ 0x636F6D7072657373


class Draws:
    """What a rank draws in a step of a training with seed 0, and what all ranks draw alike."""

    def __init__(self, gradient, step, rank):
        self.seed, self.shared = bits(0, 0x6772616469656E74, step), stream_of(gradient)
        self.own = (self.shared + 0x9E3779B97F4A7C15 * (rank + 1)) % WORD


# What a rank sends of a gradient: compressors, each (gradient, setting, draws) -> what others decode of it

def blocks(g):
    return np.split(g, range(BLOCK, g.size, BLOCK))


def sign(g, _setting, _draws):
    return np.where(g < 0, -1.0, 1.0)


def one_bit(g, _setting, _draws):
    """Seide et al. 2014: a bit says on which side of 0, and the mean of that side is what is decoded."""
    sent = []
    for block in blocks(g):
        below = block < 0
        sides = [block[side].mean() if side.any() else 0 for side in (~below, below)]
        sent.append(np.where(below, sides[1], sides[0]))
    return np.concatenate(sent)


def terngrad(g, _setting, draws):
    """Wen et al. 2017, equation 2: s sign(g) b, where b is 1 with the probability |g|/s."""
    s = np.abs(g).max()
    return s * np.sign(g) * (uniform(draws.seed, draws.own, g.size) < np.abs(g) / s)


def qsgd(g, levels, draws):
    """Alistarh et al. 2017, section 3.1, in buckets."""
    u, sent = uniform(draws.seed, draws.own, g.size), []
    for block, chance in zip(blocks(g), blocks(u)):
        norm = np.linalg.norm(block)
        level = np.floor(levels * np.abs(block) / norm + 1 - chance)  # up where the fraction is above the chance
        sent.append(norm * np.sign(block) * level / levels)
    return np.concatenate(sent)


def largest(g, count):
    sent = np.zeros_like(g)
    chosen = np.argsort(-np.abs(g), kind='stable')[:count]
    sent[chosen] = g[chosen]
    return sent


def count_of(share, elements):
    return max(1, round(share * elements))


def top_k(g, share, _draws):
    return largest(g, count_of(share, g.size))


def sparcml(g, share, _draws):
    return np.concatenate([largest(block, min(count_of(share, BLOCK), block.size)) for block in blocks(g)])


def drawn(g, share, draws, scaled):
    """One element of each of as many parts, which are equally long to one element."""
    parts = np.array_split(np.arange(g.size), count_of(share, g.size))
    sent = np.zeros_like(g)
    for part, u in zip(parts, uniform(draws.seed, draws.shared, len(parts))):
        chosen = part[int(u * part.size)]
        sent[chosen] = g[chosen] * (part.size if scaled else 1)
    return sent


def random_k(g, share, draws):
    return drawn(g, share, draws, True)


def random_k_memory(g, share, draws):
    return drawn(g, share, draws, False)


# How ranks come to the sum

class Sent:
    """Every rank decodes what all send; with a memory, what it did not send is added to its next gradient."""

    def __init__(self, compress, setting=None, memory=False, vote=False):
        self.compress, self.setting, self.memory, self.vote, self.left = compress, setting, memory, vote, {}

    def sum(self, name, gradients, step):
        total = 0
        for rank, g in enumerate(gradients):
            g = g.ravel() + self.left.get((name, rank), 0)
            sent = self.compress(g, self.setting, Draws(name + '.grad', step, rank))
            if self.memory:
                self.left[name, rank] = g - sent
            total = total + sent
        return (np.sign(total) if self.vote else total).reshape(gradients[0].shape)


class PowerSgd:
    """Vogels et al. 2019, algorithms 1 and 2: one step of power iteration from the last Q, what is not sent is added to the next gradient.
    Any orthonormal basis of P's columns gives the same P Pᵀ M, so ours is of Householder's QR, not of Gram and Schmidt."""

    def __init__(self, rank):
        self.rank, self.q, self.left = rank, {}, {}

    def sum(self, name, gradients, step):
        shape, ranks = gradients[0].shape, len(gradients)
        n, m = shape[0], gradients[0].size // shape[0]
        r = min(self.rank, n, m)
        if len(shape) == 1 or (n + m) * r >= n * m:
            return sum(gradients)
        if name not in self.q:
            draws = Draws(name + '.grad', step, 0)
            self.q[name] = normal(draws.seed, draws.shared, m * r).reshape(m, r)
        whole = [g.reshape(n, m) + self.left.get((name, i), 0) for i, g in enumerate(gradients)]
        p = np.linalg.qr(sum(g @ self.q[name] for g in whole))[0]
        self.q[name] = sum(g.T @ p for g in whole)
        total = p @ self.q[name].T
        for i, g in enumerate(whole):
            self.left[name, i] = g - total / ranks
        return total.reshape(shape)


# Updates

class Momentum:
    def __init__(self, how, exact_steps=0):
        self.how, self.exact_steps, self.velocity = how, exact_steps, {}

    def update(self, name, weight, gradients, step):
        total = sum(gradients) if step < self.exact_steps else self.how.sum(name, gradients, step)
        self.velocity[name] = MOMENTUM * self.velocity.get(name, 0) + total
        return weight - RATE * self.velocity[name]


class OneBitAdam:
    """Tang et al. 2021, algorithm 1: Adam at first, then a frozen second moment, and first moments that travel as signs and a mean size of
    each block, with what is left over kept by each rank and for the sum. Moves are bounded as docs/compression.md says."""
    B1, B2, EPS = 0.9, 0.999, 1e-8

    def __init__(self, exact_steps):
        self.exact_steps, self.first, self.second, self.left = exact_steps, {}, {}, {}

    def scaled_signs(self, key, moment):
        moment = moment.ravel() + self.left.get(key, 0)
        sent = np.concatenate([np.where(block < 0, -1, 1) * np.abs(block).mean() for block in blocks(moment)])
        self.left[key] = moment - sent
        return sent

    def update(self, name, weight, gradients, step):
        m, v = self.first.get(name, np.zeros_like(weight)), self.second.get(name, np.zeros_like(weight))
        of_first, of_second = 1 - self.B1**(step + 1), 1 - self.B2**min(step + 1, self.exact_steps)
        if step < self.exact_steps:
            g = sum(gradients)
            m, v = self.B1 * m + (1 - self.B1) * g, self.B2 * v + (1 - self.B2) * g * g
        else:
            own = [self.scaled_signs((name, rank), self.B1 * m / len(gradients) + (1 - self.B1) * g) for rank, g in enumerate(gradients)]
            m = self.scaled_signs((name, 'sum'), sum(own)).reshape(weight.shape)
            most = 10 * (1 - self.B1) / np.sqrt(1 - self.B2) * of_first * np.sqrt(v / of_second)
            m = np.clip(m, -most, most)
        self.first[name], self.second[name] = m, v
        return weight - RATE * (m / of_first) / (np.sqrt(v / of_second) + self.EPS)


# The network: dense layers with relu between them, and the mean cross-entropy

def loss_and_gradients(weights, x, target):
    last = len(SIZES) - 2
    inputs = [x]
    for i in range(last + 1):
        y = inputs[-1] @ weights[f'W{i}'] + weights[f'b{i}']
        inputs.append(y if i == last else np.maximum(y, 0))
    logits = inputs[-1] - inputs[-1].max(axis=1, keepdims=True)
    log_shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows = np.arange(len(target))
    d = np.exp(log_shares)
    d[rows, target] -= 1
    d /= len(target)
    gradients = {}
    for i in reversed(range(last + 1)):
        gradients[f'W{i}'], gradients[f'b{i}'] = inputs[i].T @ d, d.sum(axis=0)
        d = d @ weights[f'W{i}'].T * (inputs[i] > 0)
    return -log_shares[rows, target].mean(), gradients


def trained(weights, data, ranks, rule):
    """Losses of all steps, and the weights behind them; each rank has its share of every batch, and of the mean over all of it."""
    weights, losses, part = dict(weights), [], BATCH // ranks
    for step in range(STEPS):
        found = []
        for rank in range(ranks):
            mine = slice(step * BATCH + rank * part, step * BATCH + (rank + 1) * part)
            found.append(loss_and_gradients(weights, data['x'][mine], data['target'][mine]))
        losses.append(sum(loss for loss, _ in found) / ranks)
        for name in weights:
            weights[name] = rule.update(name, weights[name], [g[name] / ranks for _, g in found], step)
    return losses, weights


CASES = {  # by plan: what is done here
    'compression=sign': lambda: Momentum(Sent(sign, vote=True)),
    'compression=1bit': lambda: Momentum(Sent(one_bit, memory=True)),
    'compression=terngrad': lambda: Momentum(Sent(terngrad)),
    'compression=qsgd:4': lambda: Momentum(Sent(qsgd, 4)),
    'compression=qsgd:127': lambda: Momentum(Sent(qsgd, 127)),
    'compression=topk:0.05': lambda: Momentum(Sent(top_k, 0.05, memory=True)),
    'compression=randomk:0.1': lambda: Momentum(Sent(random_k, 0.1)),
    'compression=randomk-memory:0.1': lambda: Momentum(Sent(random_k_memory, 0.1, memory=True)),
    'compression=sparcml:0.02': lambda: Momentum(Sent(sparcml, 0.02, memory=True)),
    'compression=sparcml:0.5': lambda: Momentum(Sent(sparcml, 0.5, memory=True)),  # the sum travels whole
    'compression=powersgd:1': lambda: Momentum(PowerSgd(1)),
    'compression=powersgd:4': lambda: Momentum(PowerSgd(4)),
    'compression=powersgd:2,exact_steps=2': lambda: Momentum(PowerSgd(2), 2),
    'compression=topk:0.05,exact_steps=1': lambda: Momentum(Sent(top_k, 0.05, memory=True), 1),
    'compression=1bit-adam,exact_steps=2': lambda: OneBitAdam(2),
}
PLANS = {'dp=2': (2, 2), 'dp=3': (3, 3), 'dp=2,pp=2,micro_batch=2': (4, 2)}  # ranks started, and those that share the batch


def ran(program, folder, plan, ranks):
    metrics, export = os.path.join(folder, 'metrics.jsonl'), os.path.join(folder, 'trained.onnx')
    adam = ['--optimizer', 'adam'] if '1bit-adam' in plan else ['--momentum', str(MOMENTUM)]
    command = ['mpirun', '-n', str(ranks), program, 'run', os.path.join(folder, 'model.onnx'), '--data', os.path.join(folder, 'data.npz'),
               '--shuffle', 'off', '--batch', str(BATCH), '--steps', str(STEPS), '--dtype', 'f64', '--lr', str(RATE), *adam,
               '--plan', plan, '--metrics', metrics, '--export', export]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **MPI})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    with open(metrics) as lines:
        return [json.loads(line)['loss'] for line in lines], small_onnx.read_weights(export)


def distance(ours, reference):
    """The largest of losses and of each tensor, as a share of the largest number there."""
    losses = np.abs(np.array(ours[0]) / np.array(reference[0]) - 1).max()
    return max([losses] + [np.abs(ours[1][name] - w).max() / np.abs(w).max() for name, w in reference[1].items()])


def main():
    draw = np.random.default_rng(1)
    weights = {}
    for i, (inputs, outputs) in enumerate(zip(SIZES, SIZES[1:])):
        weights[f'W{i}'] = draw.standard_normal((inputs, outputs)) / inputs**0.5
        weights[f'b{i}'] = draw.standard_normal(outputs) / 10
    data = {'x': draw.standard_normal((BATCH * STEPS, SIZES[0])), 'target': draw.integers(0, SIZES[-1], BATCH * STEPS)}
    plain = trained(weights, data, 2, Momentum(None, STEPS))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        layers = [(weights[f'W{i}'], weights[f'b{i}']) for i in range(len(SIZES) - 1)]
        with open(os.path.join(folder, 'model.onnx'), 'wb') as file:
            file.write(small_onnx.dense_network(layers, BATCH))
        np.savez(os.path.join(folder, 'data.npz'), **data)
        for plan, (ranks, replicas) in PLANS.items():
            for how, rule in CASES.items():
                reference = trained(weights, data, replicas, rule())
                # A reference that compresses nothing would be equal to what compresses nothing.
                assert distance(plain, reference) > 1e-3, f'{how}: the reference is what uncompressed gradients give'
                away = distance(ran(sys.argv[1], folder, f'{plan},{how}', ranks), reference)
                failed += not away <= TOLERANCE
                print(f"{plan},{how}: {away:.1e} {'away' if away <= TOLERANCE else 'AWAY: more than %g' % TOLERANCE}", flush=True)
    return 1 if failed else 0


sys.exit(main())
