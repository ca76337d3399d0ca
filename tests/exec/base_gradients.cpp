// Cases of the elementwise, matrix, reduction, movement, gather and softmax families.

#include "tests/exec/gradients.hpp"

namespace rehearsal::exec {

namespace {

using Integers = std::vector<std::int64_t>;
const std::int64_t kYes = 1, kNo = 0;

GradientCase smooth(const std::string& op, double low, double high, graph::Attributes attributes = {}) {
  return {op, {drawn({2, 3}, low, high)}, std::move(attributes)};
}
GradientCase kinked(const std::string& op, std::vector<double> kinks, graph::Attributes attributes = {}) {
  return {op, {away_from(std::move(kinks), {3, 4}, -4, 4)}, std::move(attributes)};
}

}  // namespace

GradientCases elementwise_cases() {
  GradientCases cases = {
      kinked("Relu", {0}),
      smooth("Sigmoid", -3, 3),
      smooth("Tanh", -2, 2),
      smooth("Exp", -2, 2),
      smooth("Log", 0.5, 3),
      smooth("Sqrt", 0.5, 3),
      smooth("Neg", -1, 1),
      kinked("Abs", {0}),
      smooth("Erf", -2, 2),
      smooth("Reciprocal", 0.5, 2),
      smooth("Gelu", -3, 3),
      smooth("Gelu", -3, 3, {{"approximate", std::string("tanh")}}),
      kinked("LeakyRelu", {0}),
      kinked("LeakyRelu", {0}, {{"alpha", 0.3}}),
      kinked("Elu", {0}, {{"alpha", 0.7}}),
      kinked("Selu", {0}),
      kinked("Celu", {0}, {{"alpha", 0.5}}),
      smooth("Softplus", -3, 3),
      kinked("Softsign", {0}),
      kinked("HardSigmoid", {-2.5, 2.5}),
      kinked("HardSwish", {-3, 3}),
      smooth("Mish", -3, 3),
      smooth("Sin", -3, 3),
      smooth("Cos", -3, 3),
      smooth("Atan", -3, 3),
      smooth("Tan", -1, 1),
      smooth("Asin", -0.9, 0.9),
      smooth("Acos", -0.9, 0.9),
      smooth("Sinh", -2, 2),
      smooth("Cosh", -2, 2),
      smooth("Asinh", -2, 2),
      smooth("Acosh", 1.2, 3),
      smooth("Atanh", -0.8, 0.8),
      smooth("Identity", -1, 1),
      smooth("Scale", -1, 1, {{"factor", -2.5}}),
      kinked("Clip", {-1, 2}, {{"min", -1.0}, {"max", 2.0}}),
      kinked("Clip", {0.5}, {{"min", 0.5}}),
  };
  for (const char* op : {"Add", "Sub", "Mul", "Max", "Min"}) {
    cases.push_back({op, {drawn({2, 3, 4}), drawn({2, 3, 4})}, {}});
    cases.push_back({op, {drawn({3, 1}), drawn({2, 1, 4})}, {}});
    cases.push_back({op, {drawn({2, 4}), drawn({})}, {}});
  }
  cases.push_back({"Div", {drawn({2, 3}), drawn({3}, 0.5, 2)}, {}});
  cases.push_back({"Div", {drawn({3}), drawn({2, 1}, -2, -0.5)}, {}});
  cases.push_back({"Pow", {drawn({2, 3}, 0.5, 2), drawn({3}, -2, 2)}, {}});
  cases.push_back({"Pow", {drawn({2, 3}, -2, 2), fixed({}, 3, 3)}, {}});  // a negative base under a whole exponent
  cases.push_back({"Mod", {drawn({4}, -3, 3), drawn({4}, 0.6, 2)}, {{"fmod", kYes}}});
  cases.push_back({"Mod", {drawn({4}, -3, 3), drawn({4}, 0.6, 2)}, {}});
  for (const char* op : {"Floor", "Ceil", "Round", "Sign"})
    cases.push_back(kinked(op, {-3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5}));
  cases.push_back({"PRelu", {away_from({0}, {2, 3, 2}), drawn({3, 1})}, {}});
  cases.push_back({"Where", {truths({1, 0, 0, 1, 1, 0}, {2, 3}), drawn({2, 3}), drawn({3})}, {}});
  cases.push_back({"Where", {truths({1, 0, 1}, {3}), drawn({}), drawn({2, 1})}, {}});
  // through f32 a difference of 1e-5 keeps only few digits
  cases.push_back({"Cast", {drawn({2, 3})}, {{"to", std::string("f32")}}, 2e-2});
  return cases;
}

GradientCases matrix_cases() {
  GradientCases cases = {{"Det", {drawn({2, 3, 3})}, {}}, {"Det", {drawn({1, 1})}, {}}};
  for (const std::int64_t ta : {kNo, kYes}) {
    for (const std::int64_t tb : {kNo, kYes}) {
      const graph::Shape a = ta ? graph::Shape{4, 3} : graph::Shape{3, 4}, b = tb ? graph::Shape{5, 4} : graph::Shape{4, 5};
      const graph::Shape batch_a = ta ? graph::Shape{2, 1, 4, 3} : graph::Shape{2, 1, 3, 4},
                         batch_b = tb ? graph::Shape{3, 5, 4} : graph::Shape{3, 4, 5};
      const graph::Attributes flags = {{"trans_a", ta}, {"trans_b", tb}};
      cases.push_back({"MatMul", {drawn(a), drawn(b)}, flags});
      cases.push_back({"MatMul", {drawn(batch_a), drawn(batch_b)}, flags});
      cases.push_back({"MatMul", {drawn(batch_a), drawn(b)}, flags});  // one matrix for a batch
      cases.push_back({"MatMul", {drawn(a), drawn(batch_b)}, flags});
      cases.push_back({"Gemm", {drawn(a), drawn(b), drawn({5})}, {{"alpha", 0.5}, {"beta", -2.0}, {"trans_a", ta}, {"trans_b", tb}}});
    }
  }
  cases.push_back({"MatMul", {drawn({4}), drawn({4, 5})}, {}});
  cases.push_back({"MatMul", {drawn({3, 4}), drawn({4})}, {}});
  cases.push_back({"MatMul", {drawn({4}), drawn({4})}, {}});
  cases.push_back({"MatMul", {drawn({4}), drawn({2, 4, 3})}, {}});
  cases.push_back({"MatMul", {drawn({2, 3, 4}), drawn({4})}, {}});
  cases.push_back({"Gemm", {drawn({3, 4}), drawn({4, 5})}, {}});
  cases.push_back({"Gemm", {drawn({3, 4}), drawn({4, 5}), drawn({3, 1})}, {}});
  return cases;
}

GradientCases delta_rule_cases() {
  GradientCases cases;
  for (const std::int64_t flag : {kNo, kYes}) {
    cases.push_back({"TriangularSolve", {drawn({2, 4, 4}), drawn({2, 4, 3})}, {{"transposed", flag}}});
    // three chunks of two tokens, states of four features and five columns; one decay for all features, and one for each
    const graph::Attributes how = {{"reverse", flag}, {"sign", flag == kNo ? kYes : std::int64_t{-1}}};
    cases.push_back({"DeltaScan", {drawn({2, 3, 2, 4}), drawn({2, 3, 2, 4}), drawn({2, 3, 2, 5}), drawn({2, 3, 1, 1})}, how});
    cases.push_back({"DeltaScan", {drawn({3, 2, 4}), drawn({3, 2, 4}), drawn({3, 2, 5}), drawn({3, 4, 1}), drawn({3, 4, 5})}, how});
  }
  for (const std::int64_t iterations : {1, 3})
    cases.push_back({"Sinkhorn", {drawn({2, 3, 3}, 0.2, 2)}, {{"iterations", iterations}, {"epsilon", 0.01}}});
  return cases;
}

GradientCases reduction_cases() {
  GradientCases cases;
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    cases.push_back({op, {drawn({2, 3, 4})}, {}});
    cases.push_back({op, {drawn({2, 3, 4})}, {{"axes", Integers{1}}, {"keepdims", kNo}}});
    cases.push_back({op, {drawn({2, 3, 4})}, {{"axes", Integers{-1, 0}}, {"keepdims", kYes}}});
    cases.push_back({op, {drawn({2, 3})}, {{"axes", Integers{}}, {"keepdims", kNo}}});
  }
  cases.push_back({"ReduceSum", {drawn({2, 3, 4})}, {{"axes", Integers{0, 2}}, {"keepdims", kNo}, {"scale", 0.125}}});
  for (const std::int64_t exclusive : {kNo, kYes}) {
    for (const std::int64_t reverse : {kNo, kYes})
      cases.push_back({"CumSum", {drawn({2, 3, 2})}, {{"axis", std::int64_t{1}}, {"exclusive", exclusive}, {"reverse", reverse}}});
  }
  return cases;
}

GradientCases movement_cases() {
  return {
      {"Reshape", {drawn({2, 6})}, {{"shape", Integers{3, 4}}}},
      {"Transpose", {drawn({2, 3, 4})}, {{"perm", Integers{1, 2, 0}}}},
      {"Transpose", {drawn({2, 3})}, {}},
      {"Expand", {drawn({3, 1})}, {{"shape", Integers{2, 3, 4}}}},
      {"Expand", {drawn({2, 3})}, {{"shape", Integers{1, 1}}}},
      {"Slice", {drawn({4, 5})}, {{"starts", Integers{1}}, {"ends", Integers{-1}}, {"axes", Integers{1}}}},
      {"Slice",
       {drawn({4, 5})},
       {{"starts", Integers{-1, 0}}, {"ends", Integers{-100, 100}}, {"axes", Integers{0, 1}}, {"steps", Integers{-2, 3}}}},
      {"Split", {drawn({2, 6})}, {{"axis", std::int64_t{1}}, {"split", Integers{1, 2, 3}}}},
      {"Concat", {drawn({2, 1, 2}), drawn({2, 3, 2}), drawn({2, 2, 2})}, {{"axis", std::int64_t{-2}}}},
      {"Concat", {drawn({2, 1}), fixed({2, 3})}, {{"axis", std::int64_t{1}}}},
      {"Tile", {drawn({2, 3})}, {{"repeats", Integers{3, 2}}}},
      {"Roll", {drawn({2, 5, 3})}, {{"axis", std::int64_t{1}}, {"shift", std::int64_t{2}}}},
      {"Roll", {drawn({4, 3})}, {{"axis", std::int64_t{-2}}, {"shift", std::int64_t{-1}}}},
      {"RotaryEmbedding", {drawn({2, 3, 2, 4}), drawn({3, 1, 4}), drawn({3, 1, 4})}, {}},
      {"RotaryEmbedding", {drawn({3, 4}), drawn({3, 1}), fixed({4})}, {}},
      {"Trilu", {drawn({2, 4, 3})}, {{"upper", kNo}, {"k", std::int64_t{-1}}}},
      {"Trilu", {drawn({3, 4})}, {{"k", std::int64_t{1}}}},
  };
}

GradientCases gather_cases() {
  return {
      {"Gather", {drawn({5, 3}), indices({1, 4, 1, -5}, {2, 2})}, {}},
      {"Gather", {drawn({2, 5, 3}), indices({3, 3, 0}, {3})}, {{"axis", std::int64_t{1}}}},
      {"Gather", {drawn({2, 5}), indices({2}, {})}, {{"axis", std::int64_t{-1}}}},
      {"GatherElements", {drawn({3, 4}), indices({2, 0, -1, 2, 2, 1}, {2, 3})}, {}},
      {"GatherElements", {drawn({2, 5}), indices({4, 4, 0, 1}, {2, 2})}, {{"axis", std::int64_t{1}}}},
      {"GatherND", {drawn({3, 2, 4}), indices({2, 1, 0, 0, 2, 1}, {3, 2})}, {}},
      {"ScatterElements", {drawn({3, 4}), indices({2, 0, -2, 1, 2, 0}, {2, 3}), drawn({2, 3})}, {}},
      {"ScatterElements", {drawn({3, 2}), indices({0, 1, 2, 0}, {2, 2}), drawn({2, 2})}, {{"reduction", std::string("add")}}},
      {"ScatterElements",
       {drawn({2, 5}), indices({4, 4, 0, 1}, {2, 2}), drawn({2, 2}, 0.5, 2)},
       {{"axis", std::int64_t{1}}, {"reduction", std::string("mul")}}},
      {"ScatterElements", {drawn({4}), indices({1, 1, 3}, {3}), drawn({3})}, {{"reduction", std::string("max")}}},
      {"GatherND", {drawn({3, 2, 4}), indices({2, 0, 1, 1}, {4, 1})}, {}},
      {"ScatterND", {drawn({4, 2}), indices({2, 0}, {2, 1}), drawn({2, 2})}, {}},
      {"ScatterND", {drawn({4, 2}), indices({2, 2}, {2, 1}), drawn({2, 2})}, {{"reduction", std::string("add")}}},
      {"ScatterND", {drawn({4}), indices({1, 1}, {2, 1}), drawn({2})}, {{"reduction", std::string("min")}}},
  };
}

GradientCases selection_cases() {
  return {
      {"TopK", {drawn({3, 5})}, {{"k", std::int64_t{2}}}},
      {"TopK", {drawn({4, 2, 3})}, {{"axis", std::int64_t{0}}, {"k", std::int64_t{3}}, {"largest", std::int64_t{0}}}},
  };
}

GradientCases softmax_cases() {
  GradientCases cases;
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    cases.push_back({op, {drawn({2, 5}, -3, 3)}, {}});
    cases.push_back({op, {drawn({2, 3, 4}, -3, 3)}, {{"axis", std::int64_t{1}}}});
  }
  return cases;
}

}  // namespace rehearsal::exec
