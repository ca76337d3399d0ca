// How each operator of the graph is written. To add one: a row, or its name where ONNX has the same.

#include <algorithm>

#include "base/words.hpp"
#include "formats/onnx/node_export.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;
using Integers = std::vector<std::int64_t>;
using ExportRowsNames = std::vector<std::string>;

ExportRowsNames inputs_of(const NodeExport& n) {
  ExportRowsNames names;
  for (std::size_t i = 0; i < n.node().inputs.size(); ++i) names.push_back(n.input(i));
  return names;
}

/// ONNX's operator has the same name and attributes, and one result.
void same(NodeExport& n) {
  n.add(n.op(), inputs_of(n), {n.output()});
  n.copy({"alpha",   "beta",      "gamma",    "axis",  "perm",           "fmod",         "keepdims",  "select_last_index", "batch_dims",
          "strides", "dilations", "pads",     "group", "output_padding", "kernel_shape", "ceil_mode", "count_include_pad", "k",
          "largest", "sorted",    "reduction"});
}

/// A row that takes no gradient is told as torch.onnx tells it.
void gather(NodeExport& n) {
  same(n);
  const std::int64_t padding = n.attributes().integer("padding", -1);
  if (padding >= 0) n.set_source_call("aten.embedding.default", {"%" + n.input(0), "%" + n.input(1), std::to_string(padding)});
}

/// The format has no such operator: the copy says where it comes from, as torch.onnx writes it.
void stop_gradient(NodeExport& n) { n.add("Identity", {n.input(0)}, {n.output()}).set_source_function("aten.detach.default"); }

void several_results(NodeExport& n) {
  ExportRowsNames outputs;
  for (std::size_t i = 0; i < n.node().outputs.size(); ++i)
    outputs.push_back(n.readers(n.node().outputs[i]).empty() && i > 0 ? std::string() : n.output(i));
  while (outputs.size() > 1 && outputs.back().empty()) outputs.pop_back();
  if (n.op() == "RMSNormalization") n.need_opset(23);
  n.add(n.op(), inputs_of(n), outputs).copy({"axis", "epsilon"});
}

void gelu(NodeExport& n) {
  n.need_opset(20);
  n.add("Gelu", inputs_of(n), {n.output()}).copy({"approximate"});
}

void scale(NodeExport& n) { n.add("Mul", {n.input(0), n.scalar(n.attributes().number("factor", 1), n.type(0).dtype)}, {n.output()}); }

void clip(NodeExport& n) {
  ExportRowsNames inputs{n.input(0)};
  for (const char* key : {"min", "max"})
    inputs.push_back(n.attributes().has(key) ? n.scalar(n.attributes().number(key, 0), n.type(0).dtype) : std::string());
  n.add("Clip", inputs, {n.output()});
}

DType named_type(const NodeExport& n, const char* key, std::string_view otherwise) {
  return dtype_from_name(n.attributes().text(key, otherwise)).value_or(DType::F32);
}

void cast(NodeExport& n) { n.add("Cast", {n.input(0)}, {n.output()}).set("to", std::int64_t{row(named_type(n, "to", "f32")).onnx_code}); }

void dropout(NodeExport& n) {
  const std::string training = n.scalar(n.inference() ? 0 : 1, DType::Bool);
  n.add("Dropout", {n.input(0), n.scalar(n.attributes().number("ratio", 0.5), DType::F32), training}, {n.output()});
}

// Matrices

/// MatMul has no transposing attributes: a Transpose of the last two dimensions stands before it.
std::string matrix(NodeExport& n, std::size_t i, const char* key) {
  if (n.attributes().integer(key, 0) == 0 || n.type(i).shape.size() < 2) return n.input(i);
  Integers perm;
  for (std::size_t d = 0; d < n.type(i).shape.size(); ++d) perm.push_back(static_cast<std::int64_t>(d));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const std::string name = n.add1("Transpose", {n.input(i)});
  n.set("perm", perm);
  return name;
}

void matmul(NodeExport& n) {
  const std::string a = matrix(n, 0, "trans_a"), b = matrix(n, 1, "trans_b");
  n.add("MatMul", {a, b}, {n.output()});
}

void gemm(NodeExport& n) {
  n.add("Gemm", inputs_of(n), {n.output()}).copy({"alpha", "beta"});
  n.set("transA", n.attributes().integer("trans_a", 0)).set("transB", n.attributes().integer("trans_b", 0));
}

// Shapes and movement

void reshape(NodeExport& n) {
  n.add("Reshape", {n.input(0), n.integers(n.free_shape(n.node().outputs.at(0)))}, {n.output()});
  const auto& shape = n.result_type().shape;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) n.set("allowzero", std::int64_t{1});
}

void expand(NodeExport& n) { n.add("Expand", {n.input(0), n.integers(n.attributes().integers("shape"))}, {n.output()}); }
void tile(NodeExport& n) { n.add("Tile", {n.input(0), n.integers(n.attributes().integers("repeats"))}, {n.output()}); }

void slice(NodeExport& n) {
  const auto& a = n.attributes();
  Integers axes = a.integers("axes");
  if (axes.empty()) {
    for (std::size_t d = 0; d < a.integers("starts").size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  }
  ExportRowsNames inputs{n.input(0), n.integers(a.integers("starts")), n.integers(a.integers("ends")), n.integers(axes)};
  if (a.has("steps")) inputs.push_back(n.integers(a.integers("steps")));
  n.add("Slice", inputs, {n.output()});
}

void split(NodeExport& n) {
  ExportRowsNames outputs;
  for (std::size_t i = 0; i < n.node().outputs.size(); ++i) outputs.push_back(n.output(i));
  n.add("Split", {n.input(0), n.integers(n.attributes().integers("split"))}, outputs).copy({"axis"});
}

std::string piece(NodeExport& n, std::int64_t axis, std::int64_t start, std::int64_t end) {
  return n.add1("Slice", {n.input(0), n.integers({start}), n.integers({end}), n.integers({axis})});
}

void roll(NodeExport& n) {
  const auto& shape = n.result_type().shape;
  const std::int64_t axis = graph::normalize_axis(n.attributes().integer("axis", 0), shape.size());
  const std::int64_t size = shape[static_cast<std::size_t>(axis)], shift = n.attributes().integer("shift", 0);
  const std::int64_t first = size == 0 ? 0 : (size - shift % size) % size;
  const std::string tail = piece(n, axis, first, size), head = piece(n, axis, 0, first);
  n.add("Concat", {tail, head}, {n.output()}).set("axis", axis);
}

void rotary_embedding(NodeExport& n) {
  const auto& shape = n.result_type().shape;
  const auto axis = static_cast<std::int64_t>(shape.size()) - 1;
  const std::string second = n.add1("Neg", {piece(n, axis, shape.back() / 2, shape.back())}), first = piece(n, axis, 0, shape.back() / 2);
  const std::string turned = n.add1("Concat", {second, first});
  n.set("axis", axis);
  const std::string straight = n.add1("Mul", {n.input(0), n.input(1)}), across = n.add1("Mul", {turned, n.input(2)});
  n.add("Add", {straight, across}, {n.output()});
}

void trilu(NodeExport& n) { n.add("Trilu", {n.input(0), n.integer(n.attributes().integer("k", 0))}, {n.output()}).copy({"upper"}); }

void cumulative_sum(NodeExport& n) {
  n.add("CumSum", {n.input(0), n.integer(n.attributes().integer("axis", 0))}, {n.output()}).copy({"exclusive", "reverse"});
}

void constant_of_shape(NodeExport& n) {
  const std::string value = n.scalar(n.attributes().number("value", 0), n.result_type().dtype);
  n.add("Expand", {value, n.integers(n.result_type().shape)}, {n.output()});
}

void range(NodeExport& n) {
  const auto& a = n.attributes();
  const DType type = n.result_type().dtype;
  n.add("Range", {n.scalar(a.number("start", 0), type), n.scalar(a.number("limit", 0), type), n.scalar(a.number("delta", 1), type)},
        {n.output()});
}

/// Pads and sizes of the trailing axes, completed with what leaves the leading ones alone.
void pad(NodeExport& n) {
  const Integers own = n.attributes().integers("pads");
  const std::size_t axes = own.size() / 2, leading = n.type(0).shape.size() - axes;
  Integers pads(2 * (leading + axes), 0);
  std::copy_n(own.begin(), axes, pads.begin() + static_cast<std::ptrdiff_t>(leading));
  std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(axes), axes, pads.end() - static_cast<std::ptrdiff_t>(axes));
  const std::string mode = n.attributes().text("mode", "constant");
  if (mode == "wrap") n.need_opset(19);
  n.add("Pad", {n.input(0), n.integers(pads), n.scalar(n.attributes().number("value", 0), n.type(0).dtype)}, {n.output()})
      .set("mode", mode);
}

void resize(NodeExport& n) {
  n.add("Resize", {n.input(0), "", "", n.integers(n.result_type().shape)}, {n.output()});
  n.copy({"mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "antialias"});
}

// Reductions

void reduce_sum(NodeExport& n) {
  const auto& a = n.attributes();
  const double scale_factor = a.number("scale", 1);
  const auto count = static_cast<double>(graph::element_count(n.type(0).shape)),
             left = static_cast<double>(graph::element_count(n.result_type().shape));
  const bool is_mean = a.has("scale") && count > 0 && std::abs(scale_factor * count / left - 1) < 1e-12;
  ExportRowsNames inputs{n.input(0)};
  if (a.has("axes")) inputs.push_back(n.integers(a.integers("axes")));
  if (scale_factor == 1 || is_mean) {
    n.add(is_mean && scale_factor != 1 ? "ReduceMean" : "ReduceSum", inputs, {n.output()}).copy({"keepdims"});
    return;
  }
  const std::string sum = n.add1("ReduceSum", inputs);
  n.copy({"keepdims"});
  n.add("Mul", {sum, n.scalar(scale_factor, n.type(0).dtype)}, {n.output()});
}

void reduce(NodeExport& n) {
  ExportRowsNames inputs{n.input(0)};
  if (n.attributes().has("axes")) inputs.push_back(n.integers(n.attributes().integers("axes")));
  n.add(n.op(), inputs, {n.output()}).copy({"keepdims"});
}

// Normalizations: sums, their use and the running statistics are one operator of ONNX.

void part_of_another(NodeExport&) {}

const graph::Node* reader_of(const NodeExport& n, TensorId t, std::string_view op) {
  for (const graph::NodeId reader : n.readers(t)) {
    if (graph::schema(n.graph()[reader]).name == op) return &n.graph()[reader];
  }
  return nullptr;
}

void batch_norm(NodeExport& n) {
  const graph::Node* running = reader_of(n, n.node().inputs[1], "BatchNormRunning");
  const std::int64_t channels = n.type(2).shape[0];
  const auto statistic = [&](std::size_t i, double fill) {
    if (running) return n.name(running->inputs[i]);
    return n.add1("Expand", {n.scalar(fill, n.type(2).dtype), n.integers({channels})});
  };
  const std::string mean = statistic(1, 0), variance = statistic(2, 1);
  ExportRowsNames outputs{n.output()};
  for (std::size_t i = 0; i < 2 && !n.inference(); ++i)
    outputs.push_back(running ? n.name(running->outputs[i]) : n.output() + (i == 0 ? "/mean" : "/variance"));
  n.add("BatchNormalization", {n.input(0), n.input(2), n.input(3), mean, variance}, outputs).copy({"epsilon"});
  if (running) n.set("momentum", running->attributes.number("momentum", 0.9));
  n.set("training_mode", std::int64_t{!n.inference()});
}

void batch_norm_inference(NodeExport& n) { n.add("BatchNormalization", inputs_of(n), {n.output()}).copy({"epsilon"}); }

void group_norm(NodeExport& n) {
  const std::int64_t groups = n.attributes().integer("num_groups", 1);
  const ExportRowsNames operands{n.input(0), n.input(2), n.input(3)};
  if (groups == n.type(0).shape[1]) {
    n.add("InstanceNormalization", operands, {n.output()}).copy({"epsilon"});
    return;
  }
  n.need_opset(21);
  n.add("GroupNormalization", operands, {n.output()}).copy({"epsilon", "num_groups"});
}

// Losses

std::int64_t ignored(const NodeExport& n) { return n.attributes().integer("ignore_index", -100); }

void cross_entropy(NodeExport& n) {
  if (n.attributes().integer("axis", 1) != 1) n.refuse("a cross-entropy whose class axis is not 1 has no ONNX form");
  if (n.attributes().number("label_smoothing", 0) != 0) n.refuse("label smoothing has no ONNX form");
  const bool log_probabilities = n.attributes().integer("log_probabilities", 0) != 0;
  ExportRowsNames operands{n.input(0), n.input(1)};
  if (n.has(2)) operands.push_back(n.input(2));  // operand 3 is computed from the scores again
  const std::string sum = n.add1(log_probabilities ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss", operands);
  n.set("reduction", std::string("sum")).set("ignore_index", ignored(n));
  n.add("Cast", {sum}, {n.output()}).set("to", std::int64_t{row(DType::F64).onnx_code});
}

void log_sum_exp(NodeExport& n) {
  const std::string axes = n.integers({n.attributes().integer("axis", 1)});
  const std::string total = n.add1("ReduceLogSumExp", {n.input(0), axes});
  n.set("keepdims", std::int64_t{0});
  n.add("Cast", {total}, {n.output()}).set("to", std::int64_t{row(DType::F64).onnx_code});
}

void label_weight(NodeExport& n) {
  const DType label = n.type(0).dtype;
  const auto f64 = std::int64_t{row(DType::F64).onnx_code};
  const std::string left_out = n.add1("Equal", {n.input(0), n.scalar(static_cast<double>(ignored(n)), label)});
  const std::string counts = n.add1("Not", {left_out});
  std::string weight = n.add1("Cast", {counts});
  n.set("to", f64);
  if (n.has(1)) {
    const std::string safe = n.add1("Where", {left_out, n.scalar(0, label), n.input(0)});
    const std::string picked = n.add1("Gather", {n.input(1), safe});
    const std::string wide = n.add1("Cast", {picked});
    n.set("to", f64);
    weight = n.add1("Mul", {wide, weight});
  }
  n.add("ReduceSum", {weight}, {n.output()}).set("keepdims", std::int64_t{0});
}

/// Operators that same() writes.
constexpr std::string_view kWrittenAsTheyAre =
    "Add Sub Mul Div Pow Max Min Mod PRelu Equal Less Greater LessOrEqual GreaterOrEqual Not And Or Xor Where Relu Sigmoid Tanh Exp Log "
    "Sqrt Neg Abs Erf Reciprocal LeakyRelu Elu Selu Celu Softplus Softsign HardSigmoid HardSwish Mish Sin Cos Atan Identity Floor Ceil "
    "Round Sign IsNaN IsInf Softmax LogSoftmax Concat Transpose GatherElements GatherND ScatterND ScatterElements Conv ConvTranspose "
    "MaxPool AveragePool ArgMax ArgMin";

constexpr ExportRow kExportRowsRows[] = {
    {"StopGradient", stop_gradient},
    {"Gather", gather},
    {"Gelu", gelu},
    {"Scale", scale},
    {"Clip", clip},
    {"Cast", cast},
    {"Dropout", dropout},
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Reshape", reshape},
    {"Expand", expand},
    {"Tile", tile},
    {"Slice", slice},
    {"Split", split},
    {"Trilu", trilu},
    {"Roll", roll},
    {"RotaryEmbedding", rotary_embedding},
    {"CumSum", cumulative_sum},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
    {"Pad", pad},
    {"Resize", resize},
    {"ReduceSum", reduce_sum},
    {"ReduceMax", reduce},
    {"ReduceMin", reduce},
    {"ReduceProd", reduce},
    {"LayerNormalization", several_results},
    {"RMSNormalization", several_results},
    {"BatchNormSums", part_of_another},
    {"BatchNormApply", batch_norm},
    {"BatchNormRunning", part_of_another},
    {"BatchNormInference", batch_norm_inference},
    {"GroupNormSums", part_of_another},
    {"GroupNormApply", group_norm},
    {"LogSumExp", log_sum_exp},
    {"CrossEntropySum", cross_entropy},
    {"CrossEntropyWeight", label_weight},
};

}  // namespace

const ExportRow* find_export_row(std::string_view op) {
  static constexpr ExportRow kSame{{}, same};
  if (has_word(kWrittenAsTheyAre, op)) return &kSame;
  const auto* row = std::find_if(std::begin(kExportRowsRows), std::end(kExportRowsRows), [&](const ExportRow& r) { return r.op == op; });
  return row == std::end(kExportRowsRows) ? nullptr : row;
}

}  // namespace rehearsal::formats
