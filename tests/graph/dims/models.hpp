#pragma once
// Small networks of the usual families, built by hand.

#include <random>
#include <string>
#include <vector>

#include "graph/builder.hpp"
#include "graph/composites.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph::test {

/// A GraphBuilder with the layers that the models below are made of. Parameters have no values: shapes are all that matters here.
class Net {
 public:
  GraphBuilder b;

  TensorId input(const std::string& name, Shape shape, DType type = DType::F32) { return b.add_input(name, {type, std::move(shape)}); }
  TensorId parameter(const std::string& name, Shape shape) {
    return b.add_stored(name, {DType::F32, std::move(shape)}, TensorRole::Parameter, {});
  }
  TensorId constant(const std::string& name, Shape shape) {
    return b.add_stored(name, {DType::F32, std::move(shape)}, TensorRole::Constant, {});
  }
  TensorId op(std::string_view row, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return b.add(row, std::move(inputs), std::move(attributes)).front();
  }
  TensorId reshape(TensorId x, Shape shape) { return op("Reshape", {x}, {{"shape", std::move(shape)}}); }
  TensorId transpose(TensorId x, std::vector<std::int64_t> perm) { return op("Transpose", {x}, {{"perm", std::move(perm)}}); }

  /// x W + bias over the last dimension.
  TensorId linear(TensorId x, const std::string& name, std::int64_t out) {
    const TensorId w = parameter(name + ".weight", {b.type(x).shape.back(), out});
    return op("Add", {op("MatMul", {x, w}), parameter(name + ".bias", {out})});
  }
  TensorId conv(TensorId x, const std::string& name, std::int64_t out, std::int64_t stride = 1) {
    const TensorId w = parameter(name + ".weight", {out, b.type(x).shape[1], 3, 3});
    return op("Conv", {x, w}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}, {"strides", std::vector<std::int64_t>{stride, stride}}});
  }
  TensorId batch_norm(TensorId x, const std::string& name) {
    const std::int64_t c = b.type(x).shape[1];
    const auto state = [&](const std::string& s) { return b.add_stored(name + s, {DType::F32, {c}}, TensorRole::State, {}); };
    return add_batch_norm(b, {x, parameter(name + ".weight", {c}), parameter(name + ".bias", {c}), state(".mean"), state(".var")}, name);
  }
  TensorId layer_norm(TensorId x, const std::string& name) {
    const std::int64_t c = b.type(x).shape.back();
    return b.add("LayerNormalization", {x, parameter(name + ".weight", {c}), parameter(name + ".bias", {c})}).front();
  }

  Graph model(TensorId output) {
    b.set_outputs({output});
    return std::move(b).build();
  }
};

inline TrainingGraph trained(const Graph& model, const std::string& loss = "", const std::string& optimizer = "sgd") {
  TrainingOptions options;
  options.loss = loss;
  options.optimizer.name = optimizer;
  return build_training_graph(model, options);
}

/// 2 layers: 4 parameters.
inline TrainingGraph mlp(std::int64_t batch = 6, const std::string& loss = "", const std::string& optimizer = "sgd") {
  Net n;
  const TensorId h = n.op("Relu", {n.linear(n.input("x", {batch, 8}), "fc1", 12)});
  return trained(n.model(n.linear(h, "fc2", 3)), loss, optimizer);
}

/// 2 convolutions, each with a batch normalization, global sum, classifier: 2 + 4 + 2 parameters.
inline TrainingGraph cnn(std::int64_t batch = 6, bool normalized = true) {
  Net n;
  TensorId x = n.conv(n.input("x", {batch, 3, 8, 8}), "conv1", 4);
  x = n.op("Relu", {normalized ? n.batch_norm(x, "bn1") : x});
  x = n.op("MaxPool", {x}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}});
  x = n.conv(x, "conv2", 8, 2);
  x = n.op("Relu", {normalized ? n.batch_norm(x, "bn2") : x});
  x = n.op("ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{2, 3}}, {"keepdims", std::int64_t{1}}});
  return trained(n.model(n.linear(n.reshape(x, {batch, 8}), "fc", 5)));
}

/// One level of a U-Net: down by a strided pool, up by a transposed convolution, skip by concatenation; dropout in the middle.
inline TrainingGraph unet(std::int64_t batch = 6, const std::string& loss = "dice", bool normalized = true) {
  Net n;
  const auto block = [&](TensorId x, const std::string& name, std::int64_t c) {
    const TensorId y = n.conv(x, name, c);
    return n.op("Relu", {normalized ? n.batch_norm(y, name + ".bn") : y});
  };
  const TensorId top = block(n.input("x", {batch, 2, 8, 8}), "down", 4);
  const std::vector<std::int64_t> two = {2, 2};
  TensorId x = block(n.op("MaxPool", {top}, {{"kernel_shape", two}, {"strides", two}}), "middle", 6);
  x = n.op("Dropout", {x}, {{"ratio", 0.3}, {"stream", std::int64_t{1}}});
  x = n.op("ConvTranspose", {x, n.parameter("up.weight", {6, 4, 2, 2}), n.parameter("up.bias", {4})}, {{"strides", two}});
  x = block(n.op("Concat", {x, top}, {{"axis", std::int64_t{1}}}), "merge", 4);
  return trained(n.model(n.conv(x, "head", 2)), loss);
}

struct GptSizes {
  std::int64_t batch = 6, sequence = 10, heads = 4, width = 16, vocabulary = 21, layers = 1;
};

/// A GPT-2-style decoder: fused query-key-value, causal mask, tied embedding. 12 parameters a layer, 4 besides.
inline TrainingGraph gpt(const GptSizes& s = {}) {
  Net n;
  const std::int64_t B = s.batch, T = s.sequence, H = s.heads, D = s.width / s.heads, C = s.width;
  const TensorId table = n.parameter("wte", {s.vocabulary, C});
  TensorId x = n.op("Add", {n.op("Gather", {table, n.input("ids", {B, T}, DType::I64)}), n.parameter("wpe", {T, C})});
  const TensorId mask = n.constant("mask", {T, T});
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string h = "h." + std::to_string(layer);
    const auto qkv = n.b.add("Split", {n.linear(n.layer_norm(x, h + ".ln1"), h + ".qkv", 3 * C)},
                             {{"axis", std::int64_t{2}}, {"split", std::vector<std::int64_t>{C, C, C}}});
    const auto heads = [&](TensorId t) { return n.transpose(n.reshape(t, {B, T, H, D}), {0, 2, 1, 3}); };
    const TensorId scores = n.op("Add", {n.op("MatMul", {heads(qkv[0]), heads(qkv[1])}, {{"trans_b", std::int64_t{1}}}), mask});
    const TensorId mixed = n.op("MatMul", {n.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), heads(qkv[2])});
    x = n.op("Add", {x, n.linear(n.reshape(n.transpose(mixed, {0, 2, 1, 3}), {B, T, C}), h + ".proj", C)});
    x = n.op("Add", {x, n.linear(n.op("Relu", {n.linear(n.layer_norm(x, h + ".ln2"), h + ".up", 4 * C)}), h + ".down", C)});
  }
  return trained(n.model(n.op("MatMul", {n.layer_norm(x, "ln_f"), table}, {{"trans_b", std::int64_t{1}}})));
}

/// A random chain of layers on [batch, 12]: matrices, reshapes and back, transposes, splits, sums, residuals.
inline TrainingGraph random_network(std::mt19937& random, std::int64_t batch) {
  Net n;
  std::vector<TensorId> wide = {n.input("x", {batch, 12})};
  const auto pick = [&] { return wide[random() % wide.size()]; };
  const int layers = 2 + static_cast<int>(random() % 6);
  for (int i = 0; i < layers; ++i) {
    const std::string name = "l" + std::to_string(i);
    const TensorId x = wide.back();
    switch (random() % 7) {
      case 0:
        wide.push_back(n.linear(x, name, 12));
        break;
      case 1:
        wide.push_back(n.op("Relu", {x}));
        break;
      case 2:
        wide.push_back(n.op("Add", {x, pick()}));
        break;
      case 3:
        wide.push_back(n.reshape(n.transpose(n.reshape(x, {batch, 3, 4}), {0, 2, 1}), {batch, 12}));
        break;
      case 4: {
        const auto parts = n.b.add("Split", {x}, {{"axis", std::int64_t{1}}, {"split", std::vector<std::int64_t>{4, 8}}});
        wide.push_back(n.op("Concat", {parts[1], n.op("Relu", {parts[0]})}, {{"axis", std::int64_t{1}}}));
        break;
      }
      case 5:
        wide.push_back(n.transpose(n.op("Relu", {n.transpose(x, {1, 0})}), {1, 0}));
        break;
      default:
        wide.push_back(n.reshape(n.linear(n.reshape(x, {batch * 3, 4}), name, 4), {batch, 12}));
        break;
    }
  }
  return trained(n.model(n.linear(wide.back(), "head", 5)));
}

}  // namespace rehearsal::graph::test
