// Rows of operators that are bound by memory: how many times a tensor passes through memory, by what a framework fuses.

#include <algorithm>
#include <array>

#include "predict/frameworks/node_rows.hpp"

namespace rehearsal::predict::frameworks {

struct PassRow {
  double forward, backward, forward_launches, backward_launches;
};

namespace {

using costmodel::RateKind;
using graph::CostFamily;
using graph::TensorId;

/// By fusion level 0, 1, 2.
using PassTable = std::array<PassRow, 3>;
// Layer norm: statistics, normalise, scale as separate kernels; one kernel that reads and writes; backward reads x, dy twice, writes dx.
constexpr PassTable kLayerNorm{{{5, 8, 4, 6}, {2, 4, 1, 2}, {2, 4, 1, 2}}};
// Between conversions to and from fp32, in passes of 16 bits: 3 + 4 + 3 forward; gradient in, x and dy twice, gradient out backward.
constexpr PassRow kCastLayerNorm{10, 16, 3, 4};
// Batch norm: statistics, then normalise; backward reads x and dy twice and writes dx.
constexpr PassRow kImageNorm{3, 5, 1, 1};
constexpr PassTable kActivationAfterNorm{{{2, 3, 1, 1}, {0, 1, 0, 0}, {0, 0.1, 0, 0}}};
constexpr PassTable kActivationAlone{{{2, 3, 1, 1}, {2, 3, 1, 1}, {0, 3, 0, 1}}};
constexpr PassTable kImageSum{{{3, 0, 1, 0}, {3, 0, 1, 0}, {1, 0, 0, 0}}};
constexpr PassTable kBias{{{2, 1, 1, 1}, {2, 1, 1, 1}, {0, 1, 0, 1}}};
constexpr PassTable kImageFanIn{{{0, 3, 0, 1}, {0, 2, 0, 1}, {0, 1, 0, 0}}};
constexpr PassTable kFanIn{{{0, 3, 0, 1}, {0, 3, 0, 1}, {0, 1.5, 0, 1}}};
constexpr PassTable kDropout{{{2.5, 2.5, 1, 1}, {2.5, 2.5, 1, 1}, {0.5, 2.5, 0, 1}}};
constexpr double kStridedShare = 0.25;  // of a transposition's traffic when fused attention reads strided operands
constexpr double kSingle = 4;           // bytes of a value in 32 bits
constexpr double kMaskPass = 0.5;       // a byte per 16-bit element

bool is_norm_result(const graph::Node* node) {
  return node != nullptr && graph::schema(*node).family == CostFamily::Normalization && graph::schema(*node).name != "Softmax";
}

/// The derivative follows from the sign of the result, which is written over the operand, and which the next node keeps.
bool follows_from_sign(std::string_view op) { return op == "Relu" || op == "LeakyRelu"; }

}  // namespace

bool RowCollector::image_tensor(TensorId t) const { return flow().has_convolution() && graph()[t].type.shape.size() >= 4; }

void RowCollector::bytes(PassTraffic forward, PassTraffic backward, RateKind kind) {
  if (forward.bytes > 0) this->forward({kind, 0, forward.bytes, 1, forward.launches});
  if (backward.bytes > 0) this->backward({kind, 0, backward.bytes, 1, backward.launches});
}

void RowCollector::passes(const PassRow& row, double size) {
  bytes({row.forward * size, row.forward_launches}, {row.backward * size, row.backward_launches});
}

void RowCollector::normalization(const graph::Node& node) {
  const auto name = graph::schema(node).name;
  if (name == "BatchNormSums" || name == "BatchNormRunning" || name == "GroupNormSums") return;
  const double size = s_.bytes(node.outputs[0]);
  double factor = 1;
  PassRow row = kImageNorm;
  if (name == "LayerNormalization" || name == "RMSNormalization")
    row = s_.precision.autocast && s_.job.profile.casts_norms ? kCastLayerNorm : kLayerNorm[static_cast<std::size_t>(fusion())];
  if (name == "LogSoftmax" || name == "Softmax") row = {2, 3, 1, 1};
  if (name == "GroupNormApply")
    factor = element_bytes() == 4 ? s_.job.profile.composed_instance_norm : s_.job.profile.composed_instance_norm_16bit;
  passes(row, size * factor);
  fan_in(node);
}

/// Gradients of a tensor that several operators read are added up.
void RowCollector::fan_in(const graph::Node& node) {
  const auto t = node.outputs[0];
  const int extra = flow().readers(t) - 1;
  if (extra < 1 || !flow().gradient(t)) return;
  const auto& table = image_tensor(t) ? kImageFanIn : kFanIn;
  const int level = image_tensor(t) ? s_.job.profile.normalization_fusion : fusion();
  const auto& row = table[static_cast<std::size_t>(level)];
  bytes({0, 0}, {row.backward * s_.bytes(t) * extra, row.backward_launches * extra});
}

void RowCollector::bias(const graph::Node& node) {
  const auto y = node.outputs[0];
  const int level = image_tensor(y) ? std::min(fusion(), s_.job.profile.normalization_fusion) : fusion();
  passes(kBias[static_cast<std::size_t>(level)], s_.bytes(y));
}

void RowCollector::residual(const graph::Node& node) {
  const double size = s_.bytes(node.outputs[0]);
  bytes({3 * size, 1}, {0, 0});
  if (!s_.job.profile.dropout || flow().has_dropout() || flow().cores().empty()) return;
  passes(kDropout[static_cast<std::size_t>(fusion())], size);
  part_.kept.others += kMaskPass * size;
}

void RowCollector::after_normalization(const graph::Node& node) {
  const auto level = static_cast<std::size_t>(s_.job.profile.normalization_fusion);
  passes(kActivationAfterNorm[level], s_.bytes(node.outputs[0]));
}

/// Activations that a node reads, without the gate of a gated activation.
std::vector<TensorId> RowCollector::operands_of(const graph::Node& node) const {
  std::vector<TensorId> operands;
  for (const auto t : node.inputs)
    if (t != TensorId::None && flow().activation(t) && !is_gate(t)) operands.push_back(t);
  return operands;
}

bool RowCollector::is_gate(TensorId t) const {
  const auto* from = flow().origin(t);
  return from != nullptr && flow().self_gate(*from);
}

void RowCollector::elementwise(const graph::Node& node) {
  if (flow().self_gate(node) || is_absorbed(node)) return;  // what reads it is the kernel
  const auto y = node.outputs[0];
  const double size = s_.bytes(y);
  const auto operands = operands_of(node);
  const auto* before = operands.empty() ? nullptr : flow().origin(operands.front());
  if (is_bias(node)) {
    bias(node);
  } else if (is_sum(node) && adds_whole(node) && image_tensor(y)) {
    passes(kImageSum[static_cast<std::size_t>(s_.job.profile.normalization_fusion)], size);
  } else if (is_residual(node)) {
    residual(node);
  } else if (operands.size() == 1 && image_tensor(y) && !multiplies(node) &&
             (is_norm_result(before) || (before != nullptr && is_sum(*before)))) {
    after_normalization(node);
  } else if (operands.size() == 1 && image_tensor(y)) {
    passes(kActivationAlone[static_cast<std::size_t>(std::min(fusion(), s_.job.profile.normalization_fusion))], size);
  } else {
    generic(node);
  }
  fan_in(node);
}

/// Reads every operand, writes the result; backward reads the gradient and what the derivative needs, writes a gradient per operand.
void RowCollector::generic(const graph::Node& node) {
  if (fusion() == 2) return chain(node);
  const auto y = node.outputs[0];
  double forward = s_.bytes(y), backward = s_.bytes(y);
  for (const auto t : operands_of(node)) {
    forward += s_.bytes(t);
    if (flow().gradient(t)) backward += (graph::schema(node).family == CostFamily::Elementwise ? 2 : 1) * s_.bytes(t);
  }
  bytes({forward, 1}, {flow().gradient(y) ? backward : 0, 1});
}

void RowCollector::movement(const graph::Node& node) {
  const auto name = graph::schema(node).name;
  if (is_free(node) || is_absorbed(node)) return;
  if (fusion() == 2 && name == "Concat") return chain(node), fan_in(node);
  double share = 1;
  if (s_.fused_attention && name == "Transpose") share = kStridedShare;
  const double moved = (s_.bytes(node.outputs[0]) + s_.bytes(node.inputs[0])) * share;
  const double size = name == "Concat" ? 2 * s_.bytes(node.outputs[0]) : moved;
  const double launches = fusion() == 2 && share < 1 ? 0 : 1;
  bytes({size, launches}, {size, launches});
  fan_in(node);
}

void RowCollector::pooling(const graph::Node& node) {
  const double x = s_.bytes(node.inputs[0]), y = s_.bytes(node.outputs[0]);
  bytes({x + y, 1}, {x + 2 * y, 1});
  fan_in(node);
}

void RowCollector::gather(const graph::Node& node) {
  const double size = s_.bytes(node.outputs[0]);
  if (!flow().gradient(node.outputs[0])) return;
  bytes({2 * size, 1}, {3 * size, 2});
}

/// Softmax with what surrounds it: scale and mask as own kernels or folded, dropout of the weights.
void RowCollector::scores(const AttentionCore& core) {
  const auto softmax = graph().nodes()[core.softmax].outputs[0];
  const double size = s_.bytes(softmax);
  const bool dropout = s_.job.profile.dropout || flow().has_dropout();
  const double drop = dropout ? 2.5 : 0;
  const std::array<double, 3> separate{static_cast<double>(core.elementwise), std::min(1.0, static_cast<double>(core.elementwise)), 0};
  const double others = separate[static_cast<std::size_t>(fusion())];
  bytes({(2 * others + 2 + drop) * size, others + 1 + dropout}, {(2 * others + 3 + drop) * size, others + 1 + dropout},
        RateKind::ScoreElementwise);
  if (!s_.job.profile.keeps_no_scores) part_.kept.attention += size * (dropout ? 2.5 : 1.0);
}

void RowCollector::keep(TensorId t, double share) {
  while (t != TensorId::None && graph()[t].producer != graph::NodeId::None) {
    const auto& node = graph()[graph()[t].producer];
    if (graph::schema(node).family != CostFamily::View) break;
    t = node.inputs.front();
  }
  if (t == TensorId::None || !flow().activation(t) || !counted_.kept.insert(t).second) return;
  part_.kept.others += share * s_.bytes(t);
}

/// What a chain of element-wise operators begins with: in one kernel the backward pass computes the rest of it again.
TensorId RowCollector::source_of(TensorId t) const {
  for (const auto* from = flow().origin(t); from != nullptr && flow().activation(t); from = flow().origin(t)) {
    const auto operands = operands_of(*from);
    if (graph::schema(*from).family != CostFamily::Elementwise || flow().readers(t) > 1 || operands.size() != 1) break;
    t = operands.front();
  }
  return t;
}

/// In 8 bits, beside what others keep of it.
void RowCollector::keep_quantised(TensorId t) {
  if (counted_.quantised.insert(t).second) part_.kept.others += s_.elements(t);
}

/// Of a product or quotient, element by element: each factor for the other's gradient. Nobody wants that of a rotation's cosines.
bool RowCollector::wanted_again(const graph::Node& node, TensorId t) const {
  if (!multiplies(node) || (graph::schema(node).name == "Div" && node.inputs[1] == t)) return true;
  const auto others = std::ranges::count_if(node.inputs, [&](TensorId i) { return i != t && flow().gradient(i); });
  return others > 0 || std::ranges::count(node.inputs, t) > 1;
}

/// Whether a node multiplies two activations, of which one opens a gate for the other.
bool RowCollector::gates(const graph::Node& node) const {
  const auto wanted = [&](TensorId t) { return flow().activation(t) && flow().gradient(t); };
  return graph::schema(node).name == "Mul" && std::ranges::all_of(node.inputs, wanted);
}

/// Whether a node multiplies what experts made by how much each of them counts.
bool RowCollector::weighs_experts(const graph::Node& node) const {
  if (!multiplies(node)) return false;
  return std::ranges::any_of(node.inputs, [&](TensorId t) {
    const auto* from = flow().origin(t);
    return from != nullptr && graph::schema(*from).name == "GatherElements" && flow().of_slots(from->inputs.front());
  });
}

/// What the backward pass of a node reads again.
void RowCollector::keep_operands(const graph::Node& node) {
  const auto& schema = graph::schema(node);
  if (!flow().gradient(node.outputs.front())) return;
  if (weight_product(flow(), node) && !flow().gradient(node.inputs[1])) return;  // its operand is wanted for the weight's gradient alone
  if (s_.precision.quantised() && s_.job.profile.keeps_quantised_operands && weight_product(flow(), node)) {
    for (const auto t : operands_of(node)) keep_quantised(t);
    return;
  }
  if (s_.job.profile.adapters_in_fp32 && flow().of_adapter(node_)) {
    part_.kept.others += kSingle * s_.elements(node.inputs[0]);
    return;
  }
  const bool needs = graph::is_product(schema.family) || schema.family == CostFamily::Normalization ||
                     schema.family == CostFamily::Pooling ||
                     (schema.family == CostFamily::Elementwise && !is_linear(node) && !follows_from_sign(schema.name));
  if (!needs || schema.name == "BatchNormRunning") return;
  if (flow().self_gate(node)) return;
  if (s_.job.profile.weighs_gated_rows && weighs_experts(node)) return;
  const bool fused = fusion() == 2 && schema.family == CostFamily::Elementwise;
  const double share = s_.precision.quantised() && s_.job.profile.keeps_quantised_gates && gates(node) ? 1.0 / element_bytes() : 1;
  for (const auto t : operands_of(node))
    if (is_float(graph()[t].type.dtype) && graph()[t].type.shape.size() > 1 && wanted_again(node, t)) keep(fused ? source_of(t) : t, share);
  if (schema.name == "Dropout") part_.kept.others += kMaskPass * s_.bytes(node.outputs[0]);
}

}  // namespace rehearsal::predict::frameworks
