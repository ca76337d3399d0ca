#include "exec/bench/cases.hpp"

#include <span>
#include <utility>

namespace rehearsal::exec::bench {
namespace {

using graph::Shape;
using graph::TensorType;
using Sizes = std::vector<std::int64_t>;

TensorType f32(Shape shape) { return {DType::F32, std::move(shape)}; }
TensorType f64(Shape shape) { return {DType::F64, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::I64, std::move(shape)}; }

struct ConvolutionSize {
  std::int64_t in, out, image, kernel, stride;
};
constexpr ConvolutionSize kConvolutions[] = {
    {3, 64, 64, 7, 2},    {3, 64, 64, 3, 1},   {64, 64, 16, 3, 1},   {64, 128, 32, 3, 1}, {128, 128, 8, 3, 1}, {64, 128, 16, 1, 2},
    {128, 256, 16, 3, 1}, {256, 256, 4, 3, 1}, {256, 256, 16, 3, 1}, {256, 512, 8, 3, 1}, {512, 512, 8, 3, 1}, {512, 512, 2, 3, 1},
    {64, 128, 16, 3, 2},  {256, 512, 4, 3, 2}, {512, 512, 4, 3, 1},  {256, 64, 28, 1, 1}, {64, 256, 28, 1, 1}, {1024, 256, 7, 1, 1},
};
constexpr std::size_t kQuickConvolutions = 15;

/// Of ResNet-50 on pictures of 224 x 224; the last ones are of small pictures.
constexpr ConvolutionSize kGpuConvolutions[] = {
    {3, 64, 224, 7, 2},   {64, 64, 56, 1, 1},   {64, 64, 56, 3, 1},   {64, 256, 56, 1, 1},  {256, 64, 56, 1, 1},   {256, 512, 56, 1, 2},
    {128, 128, 28, 3, 1}, {128, 512, 28, 1, 1}, {512, 128, 28, 1, 1}, {256, 256, 14, 3, 1}, {256, 1024, 14, 1, 1}, {512, 512, 7, 3, 1},
    {2048, 512, 7, 1, 1}, {64, 128, 32, 3, 1},  {128, 128, 56, 3, 2}, {512, 512, 14, 3, 2}, {1024, 256, 14, 1, 1}, {512, 2048, 7, 1, 1},
};
constexpr std::size_t kQuickGpuConvolutions = 14;

void add_convolutions(std::vector<Case>& cases, std::int64_t batch, std::span<const ConvolutionSize> convolutions) {
  for (const auto& c : convolutions) {
    const auto pad = c.kernel / 2, windows = (c.image + 2 * pad - c.kernel) / c.stride + 1;
    const graph::Attributes window{{"pads", Sizes(4, pad)}, {"strides", Sizes(2, c.stride)}, {"kernel_shape", Sizes(2, c.kernel)}};
    auto input = window;
    input.set("shape", Sizes(2, c.image));
    const auto x = f32({batch, c.in, c.image, c.image}), w = f32({c.out, c.in, c.kernel, c.kernel}),
               y = f32({batch, c.out, windows, windows});
    cases.push_back({"Conv", window, {x, w}, true});
    cases.push_back({"ConvGradWeight", window, {x, y}, true});
    if (c.in > 3) cases.push_back({"ConvGradInput", input, {y, w}, true});
  }
}

/// Depthwise, whose gradients of weights have a kernel of their own: of ConvNeXt and EfficientNet, on smaller pictures.
constexpr ConvolutionSize kDepthwiseConvolutions[] = {{96, 96, 28, 7, 1}, {768, 768, 7, 7, 1}, {240, 240, 14, 5, 1}, {144, 144, 28, 5, 2}};

void add_depthwise(std::vector<Case>& cases, std::int64_t batch, std::span<const ConvolutionSize> convolutions) {
  for (const auto& c : convolutions) {
    const std::int64_t windows = (c.image - 1) / c.stride + 1;
    const graph::Attributes window{
        {"pads", Sizes(4, c.kernel / 2)}, {"strides", Sizes(2, c.stride)}, {"kernel_shape", Sizes(2, c.kernel)}, {"group", c.in}};
    cases.push_back({"ConvGradWeight", window, {f32({batch, c.in, c.image, c.image}), f32({batch, c.out, windows, windows})}, true});
  }
}

struct ImageSize {
  std::int64_t batch, channels, image;
};
constexpr ImageSize kImages[] = {{4, 64, 32}, {4, 512, 2}, {8, 128, 16}, {4, 256, 4}, {8, 64, 64}, {4, 128, 8}, {8, 256, 28}};
constexpr std::size_t kQuickImages = 5;
constexpr ImageSize kGpuImages[] = {{32, 64, 112}, {32, 256, 56}, {32, 512, 28}, {32, 512, 7}, {8, 64, 16}, {128, 1024, 14}, {64, 128, 56}};
constexpr std::size_t kQuickGpuImages = 5;

void add_normalizations(std::vector<Case>& cases, const ImageSize& i) {
  const auto x = f32({i.batch, i.channels, i.image, i.image}), v = f32({i.channels});
  const auto sums = f64({2, i.channels});
  const graph::Attributes count{{"count", i.batch * i.image * i.image}, {"epsilon", 1e-5}};
  cases.push_back({"BatchNormSums", count, {x}, true});
  cases.push_back({"BatchNormApply", count, {x, sums, v, v}, true});
  cases.push_back({"BatchNormGradSums", count, {x, sums, x}, true});
  cases.push_back({"BatchNormGradInput", count, {x, sums, v, x, sums}, true});
  cases.push_back({"BatchNormGradParameters", {}, {sums, v}});
  auto running = count;
  running.set("momentum", 0.9);
  cases.push_back({"BatchNormRunning", running, {sums, v, v}});
}

void add_group_normalizations(std::vector<Case>& cases, const ImageSize& i) {
  const std::int64_t groups = 8;
  const auto x = f32({i.batch, i.channels, i.image, i.image}), v = f32({i.channels});
  const auto sums = f64({2, i.batch, groups});
  const graph::Attributes by{{"num_groups", groups}, {"count", i.channels / groups * i.image * i.image}, {"epsilon", 1e-5}};
  cases.push_back({"GroupNormSums", by, {x}, true});
  cases.push_back({"GroupNormApply", by, {x, sums, v, v}, true});
  cases.push_back({"GroupNormGradSums", by, {x, sums, v, x}, true});
  cases.push_back({"GroupNormGradInput", by, {x, sums, v, x, sums}, true});
  cases.push_back({"GroupNormGradParameters", by, {x, sums, x}, true});
}

void add_image_work(std::vector<Case>& cases, const ImageSize& i) {
  const auto x = f32({i.batch, i.channels, i.image, i.image}), y = f32({i.batch, i.channels, i.image / 2, i.image / 2});
  const graph::Attributes pool{{"kernel_shape", Sizes{2, 2}}, {"strides", Sizes{2, 2}}};
  cases.push_back({"Relu", {}, {x}, true});
  cases.push_back({"ReluGrad", {}, {x, x}, true});
  cases.push_back({"Add", {}, {x, x}, true});
  cases.push_back({"MaxPool", pool, {x}, true});
  cases.push_back({"MaxPoolGrad", pool, {x, y}, true});
  cases.push_back({"ReduceSum", {{"axes", Sizes{2, 3}}, {"keepdims", std::int64_t{0}}, {"scale", 0.25}}, {x}, true});
  cases.push_back({"ConvGradBias", {}, {x}, true});
  cases.push_back({"Concat", {{"axis", std::int64_t{1}}}, {x, x}, true});
  cases.push_back({"reorder", {}, {x}, true});
  cases.push_back({"reorder", {}, {x}, false});
}

void add_products(std::vector<Case>& cases, std::int64_t tokens, std::int64_t hidden) {
  const std::int64_t one = 1;
  for (const std::int64_t wide : {hidden, 3 * hidden, 4 * hidden}) {
    cases.push_back({"MatMul", {}, {f32({tokens, hidden}), f32({hidden, wide})}});
    cases.push_back({"MatMul", {{"trans_b", one}}, {f32({tokens, wide}), f32({hidden, wide})}});
    cases.push_back({"MatMul", {{"trans_a", one}}, {f32({tokens, hidden}), f32({tokens, wide})}});
  }
}

void add_heads(std::vector<Case>& cases, std::int64_t batch, std::int64_t heads, std::int64_t length) {
  const std::int64_t one = 1, size = 64;
  const auto q = f32({batch, heads, length, size}), p = f32({batch, heads, length, length});
  const graph::Attributes last{{"axis", std::int64_t{-1}}};
  cases.push_back({"MatMul", {}, {p, q}});
  cases.push_back({"MatMul", {{"trans_b", one}}, {q, q}});
  cases.push_back({"MatMul", {{"trans_a", one}}, {p, q}});
  cases.push_back({"Softmax", last, {p}});
  cases.push_back({"SoftmaxGrad", last, {p, p}});
  cases.push_back({"Mul", {}, {p, f32({})}});
  cases.push_back({"Where", {}, {TensorType{DType::Bool, {length, length}}, p, f32({})}});
  const graph::Attributes scaled{{"steps", Sizes{0, -1, 0}}, {"numbers", std::vector<double>{0.125}}};  // graph/ops/attention.hpp
  cases.push_back({"Attention", scaled, {q, q, q}});
  cases.push_back({"AttentionGrad", scaled, {q, q, q, q}});
  cases.push_back({"Transpose", {{"perm", Sizes{0, 2, 1, 3}}}, {f32({batch, length, heads, size})}});
  cases.push_back({"Transpose", {{"perm", Sizes{0, 2, 3, 1}}}, {f32({batch, length, heads, size})}});
  cases.push_back({"Split", {{"axis", std::int64_t{2}}, {"split", Sizes(3, heads * size)}}, {f32({batch, length, 3 * heads * size})}});
  cases.push_back({"Concat", {{"axis", std::int64_t{2}}}, std::vector<std::optional<TensorType>>(3, f32({batch, length, heads * size}))});
}

void add_tokens(std::vector<Case>& cases, std::int64_t batch, std::int64_t length, std::int64_t hidden) {
  const auto x = f32({batch, length, hidden}), wide = f32({batch, length, 4 * hidden}), v = f32({hidden}), rows = f32({batch, length, 1});
  const graph::Attributes last{{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}}, tanh{{"approximate", std::string("tanh")}};
  cases.push_back({"LayerNormalization", last, {x, v, v}});
  cases.push_back({"LayerNormalizationGradInput", last, {x, rows, rows, x, v}});
  cases.push_back({"LayerNormalizationGradParameters", last, {x, rows, rows, x}});
  cases.push_back({"RMSNormalization", last, {x, v}});
  cases.push_back({"RMSNormalizationGradInput", last, {x, rows, x, v}});
  cases.push_back({"RMSNormalizationGradParameters", last, {x, rows, x}});
  cases.push_back({"Gelu", tanh, {wide}});
  cases.push_back({"GeluGrad", tanh, {wide, wide}});
  cases.push_back({"Add", {}, {x, x}});
  cases.push_back({"Add", {}, {wide, f32({4 * hidden})}});
  cases.push_back({"ReduceSum", {{"axes", Sizes{0, 1}}, {"keepdims", std::int64_t{0}}}, {wide}});
  cases.push_back({"Gather", {{"axis", std::int64_t{0}}}, {f32({1000, hidden}), i64({batch, length})}});
  cases.push_back(
      {"GatherGrad", {{"axis", std::int64_t{0}}, {"shape", Sizes{1000, hidden}}, {"size", std::int64_t{1000}}}, {x, i64({batch, length})}});
}

void add_losses(std::vector<Case>& cases, std::int64_t rows, std::int64_t classes) {
  const graph::Attributes last{{"axis", std::int64_t{1}}};
  cases.push_back({"LogSumExp", last, {f32({rows, classes})}});
  cases.push_back({"CrossEntropySum", last, {f32({rows, classes}), i64({rows}), std::nullopt, f64({rows})}});
  cases.push_back({"CrossEntropyGrad", last, {f32({rows, classes}), i64({rows}), f64({}), std::nullopt, f64({rows})}});
}

void add_dense(std::vector<Case>& cases, std::int64_t batch, std::int64_t in, std::int64_t out) {
  const std::int64_t one = 1;
  cases.push_back({"Gemm", {{"trans_b", one}}, {f32({batch, in}), f32({out, in}), f32({out})}});
  cases.push_back({"MatMul", {}, {f32({batch, out}), f32({out, in})}});
  cases.push_back({"MatMul", {{"trans_a", one}}, {f32({batch, out}), f32({batch, in})}});
  cases.push_back({"Relu", {}, {f32({batch, out})}});
  cases.push_back({"ReduceSum", {{"axes", Sizes{0}}, {"keepdims", std::int64_t{0}}}, {f32({batch, out})}});
}

void add_updates(std::vector<Case>& cases, std::int64_t elements) {
  const auto p = f32({elements});
  const graph::Attributes sgd{{"lr", 1e-3}}, momentum{{"lr", 1e-3}, {"momentum", 0.9}}, adam{{"lr", 1e-3}};
  cases.push_back({"SgdUpdate", sgd, {p, p, i64({})}});
  cases.push_back({"SgdUpdate", momentum, {p, p, i64({}), p}});
  cases.push_back({"AdamUpdate", adam, {p, p, i64({}), p, p}});
  cases.push_back({"accumulate", {}, {p}});
}

/// Between f32 and 16 bits, as weights and their gradients are for every step.
void add_casts(std::vector<Case>& cases, std::int64_t elements) {
  const graph::TensorType narrow{DType::BF16, {elements}};
  cases.push_back({"Cast", {{"to", std::string(name(DType::BF16))}}, {f32({elements})}});
  cases.push_back({"Cast", {{"to", std::string(name(DType::F32))}}, {narrow}});
}

/// True for what is done in f32 whatever the type of the model is: updates of parameters and of running statistics.
bool stays_wide(const std::string& op) { return op.ends_with("Update") || op == "BatchNormRunning"; }

/// The cases once more in bf16, which takes other kernels, or the same ones on widened operands.
void add_narrow(std::vector<Case>& cases) {
  const std::size_t wide = cases.size();
  for (std::size_t i = 0; i < wide; ++i) {
    if (stays_wide(cases[i].op)) continue;
    Case narrow = cases[i];
    for (auto& type : narrow.inputs)
      if (type && type->dtype == DType::F32) type->dtype = DType::BF16;
    cases.push_back(std::move(narrow));
  }
}

/// Deals the cases out so that those of one family are far apart.
std::vector<Case> dealt(std::vector<Case> cases) {
  constexpr std::size_t kStride = 37;
  std::vector<Case> result;
  for (std::size_t first = 0; first < kStride; ++first)
    for (std::size_t i = first; i < cases.size(); i += kStride) result.push_back(std::move(cases[i]));
  return result;
}

/// Tensors of sequences: `width` is heads of 64 elements, or elements of a token.
struct SequenceSize {
  std::int64_t batch, width, length;
};

/// What families of layers are measured with.
struct SweepSizes {
  Sizes batches;
  std::span<const ConvolutionSize> convolutions, depthwise;
  std::span<const ImageSize> images;
  Sizes tokens, hidden;
  std::vector<SequenceSize> heads, sequences;
  std::vector<std::pair<std::int64_t, std::int64_t>> losses;  ///< rows, classes
  std::int64_t dense_batch;
  Sizes dense_in, dense_out, elements;
};

SweepSizes sizes_of_cores(bool thorough) {
  return {.batches = thorough ? Sizes{4, 8, 16} : Sizes{4, 8},
          .convolutions = std::span(kConvolutions).first(thorough ? std::size(kConvolutions) : kQuickConvolutions),
          .depthwise = kDepthwiseConvolutions,
          .images = std::span(kImages).first(thorough ? std::size(kImages) : kQuickImages),
          .tokens = thorough ? Sizes{128, 256, 512, 1024} : Sizes{128, 256, 512},
          .hidden = thorough ? Sizes{128, 256, 512, 768} : Sizes{256, 512},
          .heads = {{2, 4, 64}, {4, 4, 64}, {8, 4, 64}, {1, 8, 128}},
          .sequences = {{2, 256, 64}, {4, 256, 64}, {8, 256, 64}, {2, 512, 128}},
          .losses = {{8, 1000}, {128, 1000}, {512, 1000}},
          .dense_batch = 8,
          .dense_in = {512, 2048, 4096},
          .dense_out = {1000, 4096},
          .elements = {256, 16384, 262144, 2359296, 8388608}};
}

SweepSizes sizes_of_gpus(bool thorough) {
  return {.batches = thorough ? Sizes{8, 32, 128} : Sizes{32},
          .convolutions = std::span(kGpuConvolutions).first(thorough ? std::size(kGpuConvolutions) : kQuickGpuConvolutions),
          .depthwise = {},  // cuDNN's is one kernel among others
          .images = std::span(kGpuImages).first(thorough ? std::size(kGpuImages) : kQuickGpuImages),
          .tokens = thorough ? Sizes{512, 2048, 8192} : Sizes{512, 4096},
          .hidden = thorough ? Sizes{512, 768, 1024, 2048, 4096} : Sizes{768, 2048},
          .heads = thorough ? std::vector<SequenceSize>{{4, 12, 1024}, {32, 12, 128}, {8, 12, 512}, {2, 16, 2048}, {1, 8, 128}}
                            : std::vector<SequenceSize>{{4, 12, 1024}, {16, 12, 128}, {1, 8, 128}},
          .sequences = thorough ? std::vector<SequenceSize>{{8, 768, 1024}, {4, 2048, 2048}, {32, 1024, 128}, {2, 512, 128}}
                                : std::vector<SequenceSize>{{8, 768, 1024}, {16, 1024, 128}, {2, 512, 128}},
          .losses = {{64, 1000}, {4096, 1000}, {2048, 50304}},
          .dense_batch = 64,
          .dense_in = {512, 2048, 4096},
          .dense_out = {1000, 4096},
          .elements = {256, 262144, 2359296, 8388608, 67108864}};
}

std::vector<Case> sweep_of(const SweepSizes& sizes) {
  std::vector<Case> cases;
  for (const auto batch : sizes.batches) {
    add_convolutions(cases, batch, sizes.convolutions);
    add_depthwise(cases, batch, sizes.depthwise);
  }
  for (const auto& i : sizes.images) {
    add_normalizations(cases, i);
    add_group_normalizations(cases, i);
    add_image_work(cases, i);
  }
  for (const auto tokens : sizes.tokens)
    for (const auto hidden : sizes.hidden) add_products(cases, tokens, hidden);
  for (const auto& [batch, heads, length] : sizes.heads) add_heads(cases, batch, heads, length);
  for (const auto& [batch, width, length] : sizes.sequences) add_tokens(cases, batch, length, width);
  for (const auto& [rows, classes] : sizes.losses) add_losses(cases, rows, classes);
  for (const auto in : sizes.dense_in)
    for (const auto out : sizes.dense_out) add_dense(cases, sizes.dense_batch, in, out);
  for (const auto elements : sizes.elements) add_updates(cases, elements);
  add_narrow(cases);
  for (const auto elements : sizes.elements) add_casts(cases, elements);
  return dealt(std::move(cases));
}

}  // namespace

CaseNode::CaseNode(const Case& c)
    : schema_(graph::op_table()[graph::op(c.op)]), attributes_(c.attributes), inputs_(c.inputs), outputs_(c.outputs) {
  for (const auto& type : inputs_)
    formats_.push_back(c.channels_last && type && type->shape.size() == 4 ? plan::Format::ChannelsLast : plan::Format::Plain);
  if (!outputs_.empty()) return;
  for (auto& type : schema_.infer({inputs_, {}, attributes_})) outputs_.emplace_back(std::move(type));
}

std::vector<Case> by_other_kernels(const Case& c, const plan::Backend& backend, int threads) {
  std::vector<Case> cases;
  if (!graph::find_op(c.op)) return cases;
  const CaseNode node(c);
  const auto offers = backend.offers(node.on(threads));
  for (const auto& offer : std::span(offers).subspan(1)) {
    cases.push_back(c);
    cases.back().implementation = offer.implementation;
  }
  return cases;
}

std::vector<Case> sweep(bool thorough) { return sweep_of(sizes_of_cores(thorough)); }
std::vector<Case> sweep_of_gpus(bool thorough) {
  auto cases = sweep_of(sizes_of_gpus(thorough));
  // It is in 16 bits that convolutions leave images channels-last.
  for (auto& c : cases) c.channels_last = c.channels_last && size_of(c.inputs[0]->dtype) == 2;
  return cases;
}

}  // namespace rehearsal::exec::bench
