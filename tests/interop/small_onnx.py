"""Just enough of ONNX's wire format to write a network of dense layers with its weights, and to read weights again: without packages but
NumPy. Field numbers are those of formats/onnx/onnx.proto."""
import numpy

DOUBLE, INT64 = 11, 7  # TensorProto.DataType
TYPES = {1: numpy.float32, DOUBLE: numpy.float64, INT64: numpy.int64}


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """A whole number, text, or a message that is bytes already."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, values):
    dims = b''.join(field(1, d) for d in values.shape)
    return dims + field(2, DOUBLE) + field(8, name) + field(9, values.astype('<f8').tobytes())


def value_info(name, shape):
    dims = b''.join(field(1, field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, DOUBLE) + field(2, dims)))


def node(kind, inputs, output):
    return b''.join(field(1, i) for i in inputs) + field(2, output) + field(3, output) + field(4, kind)


def dense_network(layers, batch):
    """Layers are pairs of a matrix [inputs, outputs] and a vector; a relu is behind each but the last. Weights are W0, b0, W1, ..."""
    nodes, weights, last = [], [], 'x'
    for i, (matrix, vector) in enumerate(layers):
        nodes.append(node('Gemm', [last, f'W{i}', f'b{i}'], f'dense{i}'))
        weights += [tensor(f'W{i}', matrix), tensor(f'b{i}', vector)]
        last = f'dense{i}'
        if i + 1 < len(layers):
            nodes.append(node('Relu', [last], f'relu{i}'))
            last = f'relu{i}'
    graph = b''.join(field(1, n) for n in nodes) + field(2, 'dense') + b''.join(field(5, w) for w in weights)
    graph += field(11, value_info('x', (batch, layers[0][0].shape[0]))) + field(12, value_info(last, (batch, layers[-1][1].size)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def fields(message):
    """(number, value) of each field: whole numbers, or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        length = {1: 8, 5: 4}.get(key & 7) or number()
        yield key >> 3, message[at:at + length]
        at += length


def read_weights(path):
    """Arrays by name, of a model whose initializers are raw data in the file."""
    with open(path, 'rb') as file:
        model = file.read()
    weights = {}
    for graph in (v for k, v in fields(model) if k == 7):
        for initializer in (v for k, v in fields(graph) if k == 5):
            parts = list(fields(initializer))
            shape = [v for k, v in parts if k == 1]
            packed = [v for v in shape if isinstance(v, bytes)]
            if packed:
                raise ValueError(f'{path}: packed dims')
            only = dict((k, v) for k, v in parts if k != 1)
            weights[only[8].decode()] = numpy.frombuffer(only[9], TYPES[only[2]]).reshape(shape)
    return weights
