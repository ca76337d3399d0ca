#include "predict/frameworks/node_rows.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/accelerator.hpp"
#include "costmodel/attention_kernels.hpp"
#include "costmodel/calibration.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::CostRow;
using costmodel::MatmulShape;
using costmodel::RateKind;
using graph::CostFamily;
using graph::TensorId;

double product_of(const graph::Shape& s, std::size_t first, std::size_t last) {
  double p = 1;
  for (std::size_t i = first; i < last; ++i) p *= static_cast<double>(s[i]);
  return p;
}

/// FLOPs that the transform of a small square window with stride 1 saves, F(2x2) below 28 pixels, F(4x4) above (Lavin, Gray, CVPR 2016),
/// its own additions included; 1: none.
double winograd_saving(const graph::Shape& weight, const graph::Shape& result, const std::vector<std::int64_t>& strides) {
  if (weight.size() != 4 || weight[2] != weight[3] || (weight[2] != 3 && weight[2] != 5) || weight[1] < 16) return 1;
  if (std::any_of(strides.begin(), strides.end(), [](auto s) { return s != 1; })) return 1;
  return std::min(result[2], result[3]) < 28 ? 2.25 : costmodel::kTiledSaving;
}

constexpr double kGroupedPenalty = 1.3, kGroupedBytes = 1.2;  // of grouped kernels over dense ones
constexpr double kLeastQuantised = 128;                       // sides of weights that quantised products are for: one block of scales
constexpr double kLibraryLaunch = 0.3;                        // of a framework's: a library issues its kernels itself
constexpr double kFlashBackwardWork = 2.5;                    // Dao et al. 2022: five products backward, two forward

bool is_depthwise(const graph::Node& node, const graph::Shape& x, const graph::Shape& w) {
  const auto groups = node.attributes.integer("group", 1);
  return groups == x[1] && groups > 1 && w[1] == 1;
}

}  // namespace

RowSetting::RowSetting(const FoldedModel& m, const plan::Sharding& s, const FrameworkJob& j, std::size_t group)
    : model(m),
      sharding(s),
      job(j),
      device(j.device(group)),
      precision(j.precision_on(group)),
      fused_attention(costmodel::fused_attention(j.profile, device)),
      capture(capture_of(j, router_of(m.graph()) != nullptr && !m.has_convolution())),
      at(s.axes.size(), 0) {
  if (router_of(m.graph()) == nullptr) return;
  const auto axis = std::ranges::find(s.axes, "cp", &plan::MeshAxis::name);
  if (axis != s.axes.end()) tokens_axis = static_cast<std::size_t>(axis - s.axes.begin());
}

double RowSetting::own_share(graph::NodeId node) const {
  if (!tokens_axis || sharding.choice(node, *tokens_axis) != nullptr) return 1;
  return 1 / static_cast<double>(sharding.axes[*tokens_axis].size);
}

graph::Shape RowSetting::local(TensorId t) const { return sharding.result_shape(t, at); }

graph::Shape RowSetting::operand(std::size_t node, std::size_t operand) const {
  return sharding.operand_shape(static_cast<graph::NodeId>(node), operand, at);
}

void RowCollector::add(std::size_t n, std::uint32_t offset) {
  const auto kept = part_.kept;
  const auto ahead = part_.forward.size(), back = part_.backward.size();
  add_whole(n, offset);
  const double share = s_.own_share(static_cast<graph::NodeId>(n));
  part_.widest_gradients = std::max(part_.widest_gradients, share * gradients_at(n));
  if (share == 1) return;
  const auto scale = [&](auto from, auto to) {
    for (; from != to; ++from)
      if (!from->once_a_step) from->row.work *= share, from->row.bytes *= share;
  };
  scale(part_.forward.begin() + static_cast<std::ptrdiff_t>(ahead), part_.forward.end());
  scale(part_.backward.begin() + static_cast<std::ptrdiff_t>(back), part_.backward.end());
  part_.kept.others = kept.others + share * (part_.kept.others - kept.others);
}

/// Those of a fused attention core are no larger than what enters it, views have no memory of their own, and the result's are the loss's.
double RowCollector::gradients_at(std::size_t n) const {
  const auto& node = graph().nodes()[n];
  if (graph::schema(node).family == CostFamily::View || (s_.fused_attention && flow().core_of(n) >= 0)) return 0;
  if (!node.outputs.empty() && std::ranges::find(graph().outputs(), node.outputs.front()) != graph().outputs().end()) return 0;
  double sum = 0;
  const auto add = [&](TensorId t) {
    if (t != TensorId::None && flow().activation(t) && flow().gradient(t)) sum += s_.bytes(t);
  };
  for (const auto t : node.outputs) add(t);
  for (const auto t : operands_of(node)) add(t);
  return sum;
}

void RowCollector::add_whole(std::size_t n, std::uint32_t offset) {
  node_ = n;
  offset_ = offset;
  const auto& node = graph().nodes()[n];
  const auto& schema = graph::schema(node);
  if (node.outputs.empty() || !flow().activation(node.outputs.front())) return;
  if (flow().in_cell(n) || (s_.capture.fused_experts && flow().between_experts(n))) return keep_operands(node);
  if (const int core = flow().core_of(n); core >= 0) {
    const auto& attention = flow().cores()[static_cast<std::size_t>(core)];
    if (schema.family == CostFamily::MatMul) {
      const double all = static_cast<double>(graph()[graph().nodes()[attention.first_product].outputs[0]].type.shape.back());
      count_flops(graph::flops_of(graph(), node), {}, all / keys_computed(attention, all));
      if (!s_.fused_attention) attention_product(node);
    }
    if (n == attention.softmax) s_.fused_attention ? fused_attention(attention) : scores(attention);
    return;
  }
  switch (schema.family) {
    case CostFamily::MatMul:
      matmul(node);
      break;
    case CostFamily::Convolution:
      convolution(node);
      break;
    case CostFamily::Normalization:
      normalization(node);
      break;
    case CostFamily::Elementwise:
      elementwise(node);
      break;
    case CostFamily::Pooling:
      pooling(node);
      break;
    case CostFamily::Movement:
      movement(node);
      break;
    case CostFamily::Gather:
      gather(node);
      break;
    case CostFamily::View:
      break;
    default:
      generic(node);
      break;
  }
  keep_operands(node);
}

void RowCollector::finish() { std::reverse(part_.backward.begin(), part_.backward.end()); }

void RowCollector::forward(const CostRow& row) { part_.forward.push_back({row, std::nullopt, offset_, false}); }
void RowCollector::backward(const CostRow& row, bool weight_gradient) {
  // Below everything that is trained no gradient is wanted.
  if (flow().gradient(graph().nodes()[node_].outputs.front())) part_.backward.push_back({row, std::nullopt, offset_, weight_gradient});
}

/// Of the whole model and one sample, as the model is written: rows of experts that stay empty count, as `inspect` counts them.
void RowCollector::count_flops(double forward, Gradients g, double saving) {
  const double all = forward * (1 + (g.data ? 1 : 0) + (g.weight ? 1 : 0)) / static_cast<double>(s_.model.batch());
  part_.flops += all;
  part_.computed_flops += all / saving;
}

void RowCollector::product(RateKind kind, const MatmulShape& shape, Gradients g) {
  const auto& p = s_.precision;
  const bool dense = kind == RateKind::Matmul || kind == RateKind::WideMatmul;
  const double overhead = dense ? p.fill : p.fill_share * costmodel::kShortLoopOverhead;
  const bool experts = dense && shape.batch > 1;
  const double slowed = experts ? 1 / p.grouped_share : 1;
  const bool each = s_.job.profile.launches_each_expert && !s_.capture.fused_experts;
  const double launches = experts && each ? std::max(1.0, kLibraryLaunch * shape.batch) : 1;
  const double bytes = (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) * shape.batch * p.element_bytes;
  const auto row = [&](double m, double n, double k) {
    // A product with a vector reads its matrix once and needs no matrix units.
    if (std::min({shape.m, shape.n, shape.k}) <= 1) return CostRow{RateKind::Elementwise, 0, bytes, 1, 1};
    const auto s = costmodel::aligned({std::max(1.0, m), std::max(1.0, n), std::max(1.0, k), shape.batch}, p.element_bytes, p.matrix_units);
    return CostRow{kind, slowed * costmodel::quantised_flops(s, s_.device.compute_units, overhead, p.reuse_share), bytes, 1, launches};
  };
  forward(row(shape.m, shape.n, shape.k));
  // The gradient of the weight comes last: what the pass before waits for is the other one. finish() turns the order round.
  if (g.weight) backward(row(shape.k, shape.n, shape.m), true);
  if (g.data) backward(row(shape.m, shape.k, shape.n));
}

void RowCollector::matmul(const graph::Node& node) {
  if (!weight_product(flow(), node)) {
    count_flops(graph::flops_of(graph(), node), {});
    attention_product(node);
    return;
  }
  const auto a = s_.operand(node_, 0), w = s_.operand(node_, 1), y = s_.local(node.outputs[0]);
  const double k = static_cast<double>(a.back()), width = static_cast<double>(y.back());
  // Experts have a matrix each, and to each come the tokens of all ranks that share them.
  const double experts = w.size() > 2 ? product_of(w, 0, w.size() - 2) : 1;
  const double load = of_experts(graph(), node) ? s_.expert_load : 1;
  const MatmulShape shape{load * static_cast<double>(graph::element_count(y)) / width / experts, width, k, experts};
  const double more = load / s_.used_share(node.inputs[0]) - 1;  // of the busiest rank than of a mean one
  if (more != 0 && flow().gradient(node.inputs[1])) part_.kept.others += more * s_.bytes(node.inputs[0]);
  const Gradients gradients{flow().gradient(node.inputs[0]), flow().gradient(node.inputs[1])};
  count_flops(graph::flops_of(graph(), node), gradients);
  if (flow().steps_of(node_) > 0) return recurrent_step(shape);
  dense_product(node, shape, gradients);
  part_.last_product = offset_;
  if (node.inputs.size() > 2 && node.inputs[2] != TensorId::None) bias(node);
}

/// In the arithmetic of the job, with the casts of its operands where that has fewer than 16 bits. What makes the model's result, the
/// logits, stays in 16, and so do low-rank adapters.
void RowCollector::dense_product(const graph::Node& node, const MatmulShape& shape, Gradients g) {
  const auto& p = s_.precision;
  const auto outputs = graph().outputs();
  if (s_.job.recipe.frozen_bytes > 0 && !g.weight) {
    // What is stored in 4 bits is written out in 16 before every product.
    const double written = (s_.job.recipe.frozen_bytes + p.element_bytes) * shape.k * shape.n * shape.batch;
    bytes({written, 1}, {written, 1});
  }
  const bool makes_result = std::find(outputs.begin(), outputs.end(), node.outputs[0]) != outputs.end();
  const bool wide = !p.quantised() || makes_result || std::min(shape.k, shape.n) < kLeastQuantised;
  const auto* from = flow().origin(node.inputs[0]);
  const auto number = [&](const graph::Node& n) { return static_cast<std::size_t>(&n - graph().nodes().data()); };
  const bool written_cast = s_.capture.fused_experts && from != nullptr && flow().between_experts(number(*from));
  if (!wide && !written_cast) cast(node.inputs[0]);
  // Weights are cast once for all micro-batches of a step.
  if (!wide) {
    forward({RateKind::Elementwise, 0, p.cast_bytes * shape.k * shape.n * shape.batch, 1, 1});
    part_.forward.back().once_a_step = true;
  }
  product(p.quantised() && wide ? RateKind::WideMatmul : RateKind::Matmul, shape, g);
  if (wide || (s_.capture.fused_experts && flow().read_between_experts(node.outputs[0]))) return;
  // Where tensor parallelism splits the sum, every rank has the gradient of its tokens until it is gathered.
  const bool split_sum = shape.k < static_cast<double>(graph()[node.inputs[0]].type.shape.back());
  const double ranks = split_sum && s_.job.plan.sequence_parallel ? s_.job.plan.tp : 1;
  backward({RateKind::Elementwise, 0, p.cast_bytes * shape.m * shape.n * shape.batch / ranks, 1, 1});
}

/// As it is produced: what is gathered is cast before. Products that read the same activation share its copy.
void RowCollector::cast(graph::TensorId activation) {
  if (!counted_.cast.insert(activation).second) return;
  forward({RateKind::Elementwise, 0, s_.precision.cast_bytes * s_.elements(activation), 1, 1});
}

/// A step of a recurrent layer as libraries run it: the product with the state, then the cell as one kernel that reads the gates of input
/// and state, and reads and writes the state; the gradient of the weight is one product over all steps (Appleyard et al. 2016). The
/// library issues its kernels itself, several times quicker than a framework.
void RowCollector::recurrent_step(const MatmulShape& shape) {
  constexpr double kCellPasses = 4;
  const int steps = flow().steps_of(node_);
  product(RateKind::Matmul, {shape.k, shape.n, shape.m * steps, 1}, {false, false});
  auto weight_gradient = part_.forward.back().row;
  part_.forward.pop_back();
  weight_gradient.count = 1.0 / steps;  // every step has its share, since steps are counted as repetitions
  if (flow().gradient(graph().nodes()[node_].inputs[1])) backward(weight_gradient, true);
  const auto before = part_.backward.size();
  product(RateKind::Matmul, shape, {true, false});
  const double cell = kCellPasses * shape.m * shape.n * element_bytes();
  part_.forward.back().row.launches = kLibraryLaunch;
  if (part_.backward.size() > before) part_.backward.back().row.launches = kLibraryLaunch;
  forward({RateKind::Elementwise, 0, cell, 1, kLibraryLaunch});
  backward({RateKind::Elementwise, 0, cell, 1, kLibraryLaunch});
}

/// Products of result and first operand that an operator makes: one, but two of a scan of states, and half a one of a triangle.
double RowCollector::products_of(const graph::Node& node) const {
  const double one = 2 * static_cast<double>(graph::element_count(graph()[node.outputs[0]].type.shape)) *
                     static_cast<double>(graph()[node.inputs[0]].type.shape.back());
  return graph::flops_of(graph(), node) / one;
}

/// A product of two activations: of attention, or any other.
void RowCollector::attention_product(const graph::Node& node) {
  const auto a = s_.operand(node_, 0), y = s_.local(node.outputs[0]);
  const MatmulShape shape{static_cast<double>(y[y.size() - 2]), static_cast<double>(y.back()), static_cast<double>(a.back()),
                          product_of(y, 0, y.size() - 2) * products_of(node)};
  const int core = flow().core_of(node_);
  const AttentionCore* attention = core < 0 ? nullptr : &flow().cores()[static_cast<std::size_t>(core)];
  const double head = attention == nullptr ? 8 : attention->first_product == node_ ? shape.k : shape.n;
  const bool aligned = element_bytes() == 4 || std::fmod(head, 8) == 0;
  const auto before = part_.backward.size();
  product(aligned ? RateKind::BatchedMatmul : RateKind::CudaCoreMatmul, shape, {});
  for (auto step = before; step < part_.backward.size(); ++step) part_.backward[step].weight_gradient = false;
  const bool second = attention != nullptr && attention->second_product == node_;
  if (!second) keep(node.inputs[0]);  // the softmax keeps its own result
  keep(node.inputs[1]);
}

/// Of so many: those in a query's document, and in its window; half of them count as well where attention is causal.
double RowCollector::keys_computed(const AttentionCore& core, double all) const {
  if (!s_.fused_attention) return all;
  for (const double most : {s_.job.recipe.attention_window, core.window})
    if (most > 0) all = std::min(all, most);
  return all;
}

/// Whether the weight behind an attention is trained, and no adapter beside it: its gradient needs what the attention makes.
bool RowCollector::trains_projection(const graph::Node& second) const {
  const auto* reader = flow().only_reader(second.outputs[0]);
  if (reader != nullptr && graph::schema(*reader).family == CostFamily::Movement) reader = flow().only_reader(reader->outputs[0]);
  return reader != nullptr && weight_product(flow(), *reader) && flow().gradient(reader->inputs[1]);
}

void RowCollector::fused_attention(const AttentionCore& core) {
  const auto& first = graph().nodes()[core.first_product];
  const auto& second = graph().nodes()[core.second_product];
  double length = static_cast<double>(s_.local(first.outputs[0]).back());
  if (s_.job.recipe.attention_window > 0) length = std::min(length, s_.job.recipe.attention_window);
  // Values may be narrower than queries and keys (multi-head latent attention).
  const double queries = static_cast<double>(graph::element_count(s_.operand(core.first_product, 0))),
               mixed = s_.elements(second.outputs[0]);
  // Under a triangle half of all pairs; under a band of `window` keys as many to a query, fewer to the first ones.
  const double most = keys_computed(core, length);
  const bool banded = most < length;
  const double pairs = banded ? most * (1 - most / (2 * length)) : length * (core.causal ? 0.5 : 1.0);
  const auto scores = s_.local(first.outputs[0]);
  const double lines = product_of(scores, 0, scores.size() - 1), each = static_cast<double>(scores[scores.size() - 2]);
  const double work = costmodel::occupied_attention({lines / each, each, most, pairs, (queries + mixed) / lines}, s_.device.compute_units,
                                                    costmodel::attention_kernels(s_.device.generation));
  const double bytes = (queries + mixed) / 2 * element_bytes();
  forward({RateKind::FlashAttention, work, 4 * bytes, 1, 1});
  backward({RateKind::FlashAttention, kFlashBackwardWork * work, 8 * bytes, 1, 3});
  for (const auto t : {first.inputs[0], first.inputs[1], second.inputs[1]}) keep(t);
  // Its backward pass reads its result, too, which the projection behind it keeps, unless that keeps it in 8 bits, or not at all but for an
  // adapter in 32.
  const bool apart = s_.precision.quantised() ? s_.job.profile.keeps_quantised_operands
                                              : s_.job.profile.adapters_in_fp32 && flow().has_frozen() && !trains_projection(second);
  if (apart) keep(second.outputs[0]);
}

void RowCollector::convolution(const graph::Node& node) {
  const auto x = s_.operand(node_, 0), w = s_.operand(node_, 1);
  const double moved = s_.bytes(node.inputs[0]) + s_.bytes(node.outputs[0]);
  const bool data_gradient = flow().gradient(node.inputs[0]);
  const double whole = graph::flops_of(graph(), node);
  const bool weight_gradient = flow().gradient(node.inputs[1]);
  count_flops(whole, {data_gradient, weight_gradient}, saving_of(node));
  if (is_depthwise(node, x, w))
    depthwise_convolution(
        whole * s_.elements(node.outputs[0]) / static_cast<double>(graph::element_count(graph()[node.outputs[0]].type.shape)), moved,
        data_gradient);
  else
    dense_convolution(node);
  const auto& recipe = s_.job.recipe;
  const bool turned = s_.precision.matrix_units && !(element_bytes() == 2 ? recipe.channels_last : recipe.channels_last_single);
  if (turned || (s_.job.profile.volumes_transposed && x.size() > 4)) layout_conversions(moved, data_gradient);
  if (node.inputs.size() > 2 && node.inputs[2] != TensorId::None) bias(node);
}

double RowCollector::saving_of(const graph::Node& node) const {
  const bool direct = s_.precision.matrix_units || graph::schema(node).name == "ConvTranspose" || node.attributes.integer("group", 1) > 1;
  if (direct) return 1;
  const auto x = s_.operand(node_, 0);
  const auto strides = node.attributes.integers("strides", std::vector<std::int64_t>(x.size() - 2, 1));
  return winograd_saving(s_.operand(node_, 1), s_.local(node.outputs[0]), strides);
}

/// Implicit products: forward (NPQ, K, CRS), data gradient (NHW, C, KRS/stride²), weight gradient (K, CRS, NPQ) (Chetlur et al. 2014).
void RowCollector::dense_convolution(const graph::Node& node) {
  const auto x = s_.operand(node_, 0), w = s_.operand(node_, 1), y = s_.local(node.outputs[0]);
  const auto& p = s_.precision;
  const bool transposed = graph::schema(node).name == "ConvTranspose";
  const double groups = static_cast<double>(node.attributes.integer("group", 1)), step = p.matrix_units ? 16.0 / p.element_bytes : 1;
  const auto padded = [&](double channels) { return std::ceil(channels / step) * step; };
  const double c = padded(static_cast<double>(x[1]) / groups), k = padded(static_cast<double>(y[1]) / groups),
               window = product_of(w, 2, w.size());
  const double in = static_cast<double>(x[0]) * product_of(x, 2, x.size()), out = static_cast<double>(y[0]) * product_of(y, 2, y.size());
  const auto strides = node.attributes.integers("strides", std::vector<std::int64_t>(x.size() - 2, 1));
  double stride = 1;
  for (const auto s : strides) stride *= static_cast<double>(s);
  const MatmulShape ahead = transposed ? MatmulShape{in, k * window, c, groups} : MatmulShape{out, k, c * window, groups};
  const MatmulShape data =
      transposed ? MatmulShape{in, c, k * window, groups} : MatmulShape{in, c, std::max(1.0, k * window / stride), groups};
  const MatmulShape weights = transposed ? MatmulShape{c, k * window, in, groups} : MatmulShape{k, c * window, out, groups};
  const double saving = saving_of(node);
  const double bytes = s_.bytes(node.inputs[0]) + s_.bytes(node.outputs[0]) + product_of(w, 0, w.size()) * p.element_bytes;
  const auto row = [&](const MatmulShape& m) {
    const double work = groups > 1
                            ? 2 * m.m * m.n * m.k * groups * kGroupedPenalty
                            : costmodel::quantised_flops(m, s_.device.compute_units, costmodel::kShortLoopOverhead * p.fill_share) / saving;
    return CostRow{saving > 1 ? RateKind::Winograd : RateKind::Convolution, work, bytes * (groups > 1 ? kGroupedBytes : 1.0), 1, 1};
  };
  forward(row(ahead));
  if (flow().gradient(node.inputs[1])) backward(row(weights), true);
  if (flow().gradient(node.inputs[0])) backward(row(data));
}

void RowCollector::depthwise_convolution(double work, double bytes, bool data_gradient) {
  forward({RateKind::Depthwise, work, bytes, 1, 1});
  backward({RateKind::Depthwise, work, 1.5 * bytes, 1, 1}, true);
  if (data_gradient) backward({RateKind::Depthwise, work, bytes, 1, 1});
}

/// Matrix units want channels last: tensors in NCHW are converted around every kernel. Kernels for volumes want channels first, which is
/// not how TensorFlow keeps them.
void RowCollector::layout_conversions(double moved, bool data_gradient) { bytes({2 * moved, 2}, {(data_gradient ? 4 : 2) * moved, 4}); }

}  // namespace rehearsal::predict::frameworks
