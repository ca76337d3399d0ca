#include "predict/frameworks/node_rows.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::predict::frameworks {
namespace {

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
  return std::min(result[2], result[3]) < 28 ? 2.25 : 2.7;
}

constexpr double kGroupedPenalty = 1.3, kGroupedBytes = 1.2;  // of grouped kernels over dense ones
constexpr double kFlashBackwardWork = 2.5;                    // Dao et al. 2022: five products backward, two forward

}  // namespace

void RowCollector::add(std::size_t n) {
  const auto& node = s_.graph.nodes()[n];
  const auto& schema = graph::schema(node);
  if (node.outputs.empty() || !s_.flow.activation(node.outputs.front())) return;
  if (s_.flow.in_cell(n)) return keep_operands(node);
  const int core = s_.flow.core_of(n);
  if (schema.family <= CostFamily::MatMul)
    part_.flops += graph::work_of(schema, graph::NodeTypes(s_.graph, node).view()).flops.value() * (core >= 0 ? s_.job.plan.cp : 1);
  if (core >= 0) {
    const auto& attention = s_.flow.cores()[static_cast<std::size_t>(core)];
    if (schema.family == CostFamily::MatMul && !s_.fused_attention) attention_product(node);
    if (n == attention.softmax) s_.fused_attention ? fused_attention(attention) : scores(attention);
    return;
  }
  switch (schema.family) {
    case CostFamily::MatMul:
      matmul(node, n);
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

void RowCollector::product(RateKind kind, const MatmulShape& shape, bool data_gradient, bool weight_gradient) {
  const auto& p = s_.job.precision;
  const double overhead = p.fill_share * (kind == RateKind::Matmul ? costmodel::kDenseLoopOverhead : costmodel::kShortLoopOverhead);
  const double bytes = (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n) * shape.batch * p.element_bytes;
  const auto row = [&](double m, double n, double k) {
    // A product with a vector reads its matrix once and needs no matrix units.
    if (std::min({shape.m, shape.n, shape.k}) <= 1) return costmodel::KernelRow{RateKind::Elementwise, 0, bytes, 1, 1};
    const auto s = costmodel::aligned({std::max(1.0, m), std::max(1.0, n), std::max(1.0, k), shape.batch}, p.element_bytes, p.matrix_units);
    return costmodel::KernelRow{kind, costmodel::quantised_flops(s, s_.job.device().compute_units, overhead, p.reuse_share), bytes, 1, 1};
  };
  part_.forward.push_back(row(shape.m, shape.n, shape.k));
  if (data_gradient) part_.backward.push_back(row(shape.m, shape.k, shape.n));
  if (weight_gradient) part_.backward.push_back(row(shape.k, shape.n, shape.m));
}

void RowCollector::matmul(const graph::Node& node, std::size_t n) {
  const auto& a = s_.graph[node.inputs[0]].type.shape;
  const auto& y = s_.graph[node.outputs[0]].type.shape;
  if (!weight_product(s_.flow, node)) {
    attention_product(node);
    return;
  }
  const auto role = s_.flow.role(n);
  const double t = s_.job.plan.tp, k = static_cast<double>(a.back()), width = static_cast<double>(y.back());
  const auto& w = s_.graph[node.inputs[1]].type.shape;
  const double experts = w.size() > 2 ? product_of(w, 0, w.size() - 2) : 1;
  // Fewer experts on a rank, and to each the tokens of all ranks that share them.
  const double here = std::max(1.0, experts / s_.job.plan.ep);
  MatmulShape shape{static_cast<double>(graph::element_count(y)) / width / here, width, k, here};
  if (role == MatmulRole::ColumnSplit) shape.n = std::ceil(shape.n / t);
  if (role == MatmulRole::RowSplit) shape.k = std::ceil(shape.k / t);
  // What the first product of the experts reads is what was sent to them; under sequence parallelism every rank sends its own tokens.
  if (experts > 1 && part_.experts_bytes <= 0)
    part_.experts_bytes = static_cast<double>(graph::element_count(a)) * element_bytes() / (s_.job.plan.sequence_parallel ? t : 1);
  if (s_.flow.steps_of(n) > 0) return recurrent_step(shape, n);
  const bool trained = s_.job.plan.trained_share >= 1;
  product(RateKind::Matmul, shape, s_.flow.gradient(node.inputs[0]), trained);
  part_.last_matmul = part_.forward.back();
  if (role == MatmulRole::RowSplit) {
    part_.reductions += 1;
    part_.reduction_bytes = static_cast<double>(graph::element_count(y)) * element_bytes();
  }
  if (node.inputs.size() > 2 && node.inputs[2] != TensorId::None) bias(node);
}

/// A step of a recurrent layer as libraries run it: the product with the state, then the cell as one kernel that reads the gates of input
/// and state, and reads and writes the state; the gradient of the weight is one product over all steps (Appleyard et al. 2016). The
/// library issues its kernels itself, several times quicker than a framework.
void RowCollector::recurrent_step(const MatmulShape& shape, std::size_t n) {
  constexpr double kLibraryLaunch = 0.3, kCellPasses = 4;
  product(RateKind::Matmul, shape, true, false);
  const double cell = kCellPasses * shape.m * shape.n * element_bytes();
  for (auto* rows : {&part_.forward, &part_.backward}) {
    rows->back().launches = kLibraryLaunch;
    rows->push_back({RateKind::Elementwise, 0, cell, 1, kLibraryLaunch});
  }
  product(RateKind::Matmul, {shape.k, shape.n, shape.m * s_.flow.steps_of(n), 1}, false, false);
  part_.backward.push_back(part_.forward.back());
  part_.forward.pop_back();
  part_.backward.back().count = 1.0 / s_.flow.steps_of(n);  // every step has its share, since steps are counted as repetitions
}

/// A product of two activations: of attention, or any other.
void RowCollector::attention_product(const graph::Node& node) {
  const auto& a = s_.graph[node.inputs[0]].type.shape;
  const auto& y = s_.graph[node.outputs[0]].type.shape;
  MatmulShape shape{static_cast<double>(y[y.size() - 2]), static_cast<double>(y.back()), static_cast<double>(a.back()),
                    product_of(y, 0, y.size() - 2)};
  const auto n = static_cast<std::size_t>(&node - s_.graph.nodes().data());
  const int core = s_.flow.core_of(n);
  double head = 8;
  if (core >= 0) {
    const bool first = s_.flow.cores()[static_cast<std::size_t>(core)].first_product == n;
    head = first ? shape.k : shape.n;
    (first ? shape.n : shape.k) *= s_.job.plan.cp;
    shape.batch = std::max(1.0, shape.batch / s_.job.plan.tp);
  } else {
    shape.batch = std::max(1.0, shape.batch * share_of(node.outputs[0]));
  }
  const bool aligned = element_bytes() == 4 || std::fmod(head, 8) == 0;
  product(aligned ? RateKind::BatchedMatmul : RateKind::CudaCoreMatmul, shape, true, true);
  const bool second = core >= 0 && s_.flow.cores()[static_cast<std::size_t>(core)].second_product == n;
  if (!second) keep(node.inputs[0]);  // the softmax keeps its own result
  keep(node.inputs[1]);
  part_.key_value_bytes += core >= 0 ? local_bytes(node.inputs[1]) : 0;
}

void RowCollector::fused_attention(const AttentionCore& core) {
  const auto& first = s_.graph.nodes()[core.first_product];
  const auto& second = s_.graph.nodes()[core.second_product];
  double length = static_cast<double>(s_.graph[first.outputs[0]].type.shape.back()) * s_.job.plan.cp;
  if (s_.job.plan.attention_window > 0) length = std::min(length, s_.job.plan.attention_window);
  const double queries = static_cast<double>(graph::element_count(s_.graph[second.outputs[0]].type.shape)) / s_.job.plan.tp;
  const double work = 4 * queries * length * (core.causal ? 0.5 : 1.0), bytes = queries * element_bytes();
  part_.forward.push_back({RateKind::FlashAttention, work, 4 * bytes, 1, 1});
  part_.backward.push_back({RateKind::FlashAttention, kFlashBackwardWork * work, 8 * bytes, 1, 3});
  for (const auto t : {first.inputs[0], first.inputs[1], second.inputs[1]}) keep(t);
  part_.key_value_bytes += local_bytes(first.inputs[1]) + local_bytes(second.inputs[1]);
}

void RowCollector::convolution(const graph::Node& node) {
  const graph::NodeTypes types(s_.graph, node);
  const auto view = types.view();
  const auto& x = view.input(0).shape;
  const auto& w = view.input(1).shape;
  const auto groups = node.attributes.integer("group", 1);
  const double moved = local_bytes(node.inputs[0]) + local_bytes(node.outputs[0]);
  const bool data_gradient = s_.flow.gradient(node.inputs[0]);
  if (groups == x[1] && groups > 1 && w[1] == 1)
    depthwise_convolution(graph::work_of(graph::schema(node), view).flops.value(), moved, data_gradient);
  else
    dense_convolution(node, view);
  const bool first =
      s_.job.precision.matrix_units && !(element_bytes() == 2 ? s_.job.plan.channels_last : s_.job.plan.channels_last_single);
  if (first || (s_.job.framework.volumes_transposed && x.size() > 4)) layout_conversions(moved, data_gradient);
  if (node.inputs.size() > 2 && node.inputs[2] != TensorId::None) bias(node);
}

/// Implicit products: forward (NPQ, K, CRS), data gradient (NHW, C, KRS/stride²), weight gradient (K, CRS, NPQ) (Chetlur et al. 2014).
void RowCollector::dense_convolution(const graph::Node& node, const graph::NodeView& view) {
  const auto& x = view.input(0).shape;
  const auto& y = view.output().shape;
  const auto& w = view.input(1).shape;
  const auto& p = s_.job.precision;
  const bool transposed = graph::schema(node).name == "ConvTranspose";
  const double groups = static_cast<double>(node.attributes.integer("group", 1)), step = p.matrix_units ? 16.0 / p.element_bytes : 1;
  const auto padded = [&](double channels) { return std::ceil(channels / step) * step; };
  const double c = padded(static_cast<double>(x[1]) / groups), k = padded(static_cast<double>(y[1]) / groups),
               window = product_of(w, 2, w.size());
  const double in = static_cast<double>(x[0]) * product_of(x, 2, x.size()), out = static_cast<double>(y[0]) * product_of(y, 2, y.size());
  const auto strides = node.attributes.integers("strides", std::vector<std::int64_t>(x.size() - 2, 1));
  double stride = 1;
  for (const auto s : strides) stride *= static_cast<double>(s);
  const MatmulShape forward = transposed ? MatmulShape{in, k * window, c, groups} : MatmulShape{out, k, c * window, groups};
  const MatmulShape data =
      transposed ? MatmulShape{in, c, k * window, groups} : MatmulShape{in, c, std::max(1.0, k * window / stride), groups};
  const MatmulShape weights = transposed ? MatmulShape{c, k * window, in, groups} : MatmulShape{k, c * window, out, groups};
  const double saving = p.matrix_units || transposed || groups > 1 ? 1 : winograd_saving(w, y, strides);
  const double bytes = local_bytes(node.inputs[0]) + local_bytes(node.outputs[0]) + product_of(w, 0, w.size()) * p.element_bytes;
  const auto row = [&](const MatmulShape& m) {
    const double work =
        groups > 1 ? 2 * m.m * m.n * m.k * groups * kGroupedPenalty
                   : costmodel::quantised_flops(m, s_.job.device().compute_units, costmodel::kShortLoopOverhead * p.fill_share) / saving;
    return costmodel::KernelRow{saving > 1 ? RateKind::Winograd : RateKind::Convolution, work, bytes * (groups > 1 ? kGroupedBytes : 1.0),
                                1, 1};
  };
  part_.forward.push_back(row(forward));
  if (s_.flow.gradient(node.inputs[0])) part_.backward.push_back(row(data));
  part_.backward.push_back(row(weights));
}

void RowCollector::depthwise_convolution(double work, double bytes, bool data_gradient) {
  part_.forward.push_back({RateKind::Depthwise, work, bytes, 1, 1});
  if (data_gradient) part_.backward.push_back({RateKind::Depthwise, work, bytes, 1, 1});
  part_.backward.push_back({RateKind::Depthwise, work, 1.5 * bytes, 1, 1});
}

/// Matrix units want channels last: tensors in NCHW are converted around every kernel. Kernels for volumes want channels first, which is
/// not how TensorFlow keeps them.
void RowCollector::layout_conversions(double moved, bool data_gradient) { bytes({2 * moved, 2}, {(data_gradient ? 4 : 2) * moved, 4}); }

}  // namespace rehearsal::predict::frameworks
