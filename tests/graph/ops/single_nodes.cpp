#include "tests/graph/ops/single_nodes.hpp"

#include "graph/noise_scale.hpp"

namespace rehearsal::graph {
namespace {

using Integers = std::vector<std::int64_t>;
constexpr std::int64_t kOne = 1, kNone = 0;

TensorType of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }
TensorType f32(Shape shape) { return of(DType::F32, std::move(shape)); }
TensorType f64(Shape shape) { return of(DType::F64, std::move(shape)); }
TensorType i64(Shape shape) { return of(DType::I64, std::move(shape)); }
TensorType truths(Shape shape) { return of(DType::Bool, std::move(shape)); }
const TensorType kStep = i64({}), kNumber = f64({});

}  // namespace

SingleNodes elementwise_nodes() {
  SingleNodes nodes{{"StopGradient", {f32({2, 3})}}, {"IsNaN", {f32({2, 3})}}, {"IsInf", {f32({2, 3})}}, {"Not", {truths({2, 3})}}};
  for (const char* op : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) nodes.push_back({op, {f32({2, 3}), f32({3})}});
  for (const char* op : {"And", "Or", "Xor"}) nodes.push_back({op, {truths({2, 3}), truths({2, 1})}});
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) nodes.push_back({op, {i64({2, 3}), i64({3})}});
  nodes.push_back({"BitShift", {of(DType::I32, {2, 3}), of(DType::I32, {3})}, {{"left", kOne}}});
  for (const char* op : {"Add", "Div", "Mod", "Max", "Pow"}) nodes.push_back({op, {i64({4}), i64({2, 1})}});
  nodes.push_back({"Where", {truths({2, 1}), i64({3}), i64({2, 3})}});
  nodes.push_back({"Cast", {i64({2, 3})}, {{"to", std::string("bf16")}}});
  nodes.push_back({"Cast", {f32({2, 3})}, {{"to", std::string("bool")}}});
  nodes.push_back({"Noise", {}, {{"shape", Integers{2, 3}}, {"dtype", std::string("f64")}, {"stream", kOne}}});
  return nodes;
}

SingleNodes matrix_nodes() {
  const Attributes every{{"root", std::int64_t{4}}, {"interval", std::int64_t{10}}};
  SingleNodes nodes;
  for (const char* op : {"InverseRoot", "EigenBasis"}) nodes.push_back({op, {f32({5, 3, 3}), f32({5, 3, 3}), kStep}, every});
  nodes.push_back({"DampedInverse", {f32({4, 4}), f32({4, 4}), kStep, f32({3, 3})}, {{"damping", 0.01}, {"interval", std::int64_t{2}}}});
  nodes.push_back({"OuterProducts", {f32({2, 3, 5}), kStep}, {{"interval", std::int64_t{3}}}});
  nodes.push_back({"OuterProducts",
                   {f32({2, 3, 6, 7}), kStep},
                   {{"kernel_shape", Integers{3, 2}}, {"strides", Integers{2, 1}}, {"pads", Integers{1, 0, 1, 1}}}});
  nodes.push_back({"DeltaScan", {f32({3, 2, 4}), f32({3, 2, 4}), f32({3, 2, 5}), f32({3, 1, 1})}});
  return nodes;
}

SingleNodes attention_nodes() {
  // Scaled, a mask added of which the gradient is wanted, hidden where a truth does not hold and where another one does.
  const Attributes steps{{"steps", Integers{0, -1, 0, 2, 0, 1, 3, 1, 0, 4, 1, 0}},
                         {"numbers", std::vector<double>{0.5, 1, -1e30, -1e30}},
                         {"ratio", 0.25},
                         {"stream", kOne},
                         {"guarded", kOne}};
  const TensorType q = f32({2, 1, 4, 3}), k = f32({7, 5, 3}), v = f32({7, 5, 6}), mask = f32({4, 5}), shown = truths({4, 5});
  const TensorType scores = f32({2, 4, 5}), rows = f32({2, 4, 2}), row = f32({2, 4, 1});
  return {{"Attention", {q, k, v, mask, shown}, steps},
          {"AttentionGrad", {f32({2, 7, 4, 6}), q, k, v, mask, shown}, steps},
          {"Attention", {f32({4, 3}), f32({3, 5}), f32({5, 6})}, {{"keys_last", kOne}}},
          {"BlockSoftmax", {scores}},
          {"MergeBlocks", {scores, rows, scores, rows}},
          {"BlockWeights", {scores, rows}},
          {"RowDot", {scores, scores}},
          {"BlockSoftmaxGrad", {scores, scores, row}}};
}

SingleNodes reduction_nodes() {
  SingleNodes nodes;
  for (const char* op : {"ArgMax", "ArgMin"}) {
    nodes.push_back({op, {f32({2, 3, 4})}, {{"axis", kOne}, {"keepdims", kNone}}});
    nodes.push_back({op, {f32({2, 3, 4})}, {{"axis", std::int64_t{-1}}}});
  }
  nodes.push_back({"ReduceSum", {i64({2, 3})}, {{"axes", Integers{1}}}});
  nodes.push_back({"LogSumExp", {f32({2, 5, 3})}, {{"axis", kOne}}});
  nodes.push_back({"TopK", {f32({4, 6})}, {{"k", std::int64_t{2}}, {"axis", kNone}}});
  nodes.push_back({"SquaredNorm", {f32({2, 3})}});
  nodes.push_back({std::string(kSquaresOfParts), {f32({2, 3})}, {{"samples", std::int64_t{8}}}});
  nodes.push_back({"AdaptiveSumProducts", {f32({2, 3, 4})}});
  nodes.push_back({"AdaptiveSum", {f32({2, 3, 4}), f64({3})}});
  return nodes;
}

SingleNodes movement_nodes() {
  return {{"ConstantOfShape", {}, {{"shape", Integers{2, 3}}, {"dtype", std::string("i64")}, {"value", 2.0}}},
          {"Range", {}, {{"start", 1.0}, {"limit", 9.0}, {"delta", 2.0}}},
          {"Slice", {f32({6, 5})}, {{"starts", Integers{-4}}, {"ends", Integers{5}}}},
          {"Split", {f32({6, 5})}, {{"split", Integers{4, 2}}}},
          {"Concat", {f32({2, 3}), f32({2, 3})}},
          {"Tile", {f32({2, 1, 3})}, {{"repeats", Integers{1, 4, 2}}}},
          {"Reshape", {f32({4, 6})}, {{"shape", Integers{2, 2, 3, 2}}}},
          {"Reshape", {f32({4, 6})}, {{"shape", Integers{3, 8}}}}};
}

SingleNodes gather_nodes() {
  return {{"Gather", {f32({5, 3}), of(DType::I32, {2, 4})}, {{"padding", kOne}}},
          {"GatherElements", {f32({5, 3}), i64({2, 3})}},
          {"ScatterND", {f32({5, 3}), i64({2, 2}), f32({2})}, {{"reduction", std::string("max")}}},
          {"ScatterElements", {f32({5, 3}), i64({2, 3}), f32({2, 3})}, {{"axis", kNone}}}};
}

SingleNodes image_nodes() {
  const Integers two{2, 2}, pads{0, 1, 1, 0};
  return {{"MaxPoolPositions", {f32({2, 3, 5, 6})}, {{"kernel_shape", two}, {"strides", two}, {"pads", pads}}},
          {"MaxPool", {f32({2, 3, 8})}, {{"kernel_shape", Integers{3}}}},
          {"Pad", {f32({2, 3, 4})}, {{"pads", Integers{1, 2}}}},
          {"Resize", {f32({2, 3, 4})}, {{"sizes", Integers{7}}}}};
}

SingleNodes normalization_nodes() {
  const Attributes count{{"count", std::int64_t{8}}, {"momentum", 0.9}};
  return {{"BatchNormRunning", {f64({2, 3}), f32({3}), f32({3})}, count},
          {"LayerNormalization", {f32({2, 4}), f32({4}), f32({4})}},
          {"RMSNormalization", {f32({2, 4}), f32({4})}}};
}

SingleNodes loss_nodes() {
  return {{"CrossEntropyWeight", {of(DType::I32, {4, 2})}},
          {"CrossEntropySum", {f32({4, 6, 3}), of(DType::U8, {4, 3}), std::nullopt, f64({4, 3})}},
          {"CrossEntropySum", {f32({4, 6}), i64({4}), f32({6}), f64({4})}, {{"label_smoothing", 0.1}}}};
}

SingleNodes update_nodes() {
  const TensorType whole = f32({4, 6}), half = of(DType::BF16, {4, 6}), rows = f32({4, 1}), columns = f32({1, 6});
  const Attributes rounded{{"rounded_to", std::string("bf16")}};
  SingleNodes nodes{{"AdamUpdate", {whole, half, kStep, whole, whole}, rounded},
                    {"SgdUpdate", {whole, whole, std::nullopt, whole}},
                    {"ScheduleFreeShare", {kNumber, kNumber}},
                    {"AdafactorDirection", {whole, rows, columns, f32({1, 1})}},
                    {"AdafactorDirection", {whole, whole}},
                    {"DivideByNorm", {f32({3, 4, 6}), f32({3, 1, 1})}}};
  return nodes;
}

}  // namespace rehearsal::graph
