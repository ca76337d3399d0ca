// What is recognized computes what its parts do: values and gradients, in f64.

#include "graph/patterns/patterns.hpp"

#include <cmath>
#include <functional>

#include "exec/play/interpreter.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec {
namespace {

using graph::GraphBuilder;
using graph::Shape;
using graph::TensorId;

class Model {
 public:
  /// A parameter of numbers between -1 and 1 that repeat nowhere: sin of 1, 2, 3 ...
  TensorId parameter(const std::string& name, const Shape& shape) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < graph::element_count(shape); ++i) values.push_back(std::sin(++drawn_));
    parameters_.push_back(name);
    return builder_.add_stored(name, {DType::F64, shape}, graph::TensorRole::Parameter,
                               graph::contents_of(graph::Value::of_reals(std::move(values), shape, DType::F64)));
  }
  TensorId number(double value) {
    return builder_.add_constant("c" + std::to_string(++constants_), graph::Value::scalar(value, DType::F64));
  }
  TensorId add(const char* op, std::vector<TensorId> inputs, graph::Attributes attributes = {}) {
    return builder_.add(op, std::move(inputs), std::move(attributes), {}).front();
  }
  /// The mean over the last axis.
  TensorId mean(TensorId x) {
    const auto last = static_cast<std::int64_t>(builder_.type(x).shape.size()) - 1;
    const double scale = 1.0 / static_cast<double>(builder_.type(x).shape.back());
    return add("ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{last}}, {"keepdims", std::int64_t{1}}, {"scale", scale}});
  }
  TensorId slice(TensorId x, std::int64_t axis, std::int64_t start, std::int64_t end) {
    using Integers = std::vector<std::int64_t>;
    return add("Slice", {x}, {{"starts", Integers{start}}, {"ends", Integers{end}}, {"axes", Integers{axis}}, {"steps", Integers{1}}});
  }
  std::vector<TensorId> split(TensorId x, std::int64_t axis, std::vector<std::int64_t> sizes) {
    return builder_.add("Split", {x}, {{"axis", axis}, {"split", std::move(sizes)}}, {});
  }
  /// loss = sum of y * weights, so that every element of y has a gradient of its own.
  graph::Graph with_loss(TensorId y) {
    const TensorId weights = parameter("weights", builder_.type(y).shape);
    const TensorId product = add("Mul", {y, weights});
    std::vector<std::int64_t> axes;
    for (std::size_t d = 0; d < builder_.type(y).shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
    GraphBuilder::NodeOptions options;
    options.output_names = {"loss"};
    builder_.set_outputs({builder_.add("ReduceSum", {product}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}, options).front()});
    return std::move(builder_).build();
  }
  [[nodiscard]] const std::vector<std::string>& parameters() const { return parameters_; }

 private:
  GraphBuilder builder_;
  std::vector<std::string> parameters_;
  double drawn_ = 0;
  int constants_ = 0;
};

struct Result {
  double loss = 0;
  std::vector<std::vector<double>> after_step;  ///< parameters after a step of SGD with rate 1: what they were less their gradients
};

Result trained(const graph::Graph& graph, const std::vector<std::string>& parameters) {
  graph::TrainingOptions options;
  options.loss = "loss";
  options.optimizer = {"sgd", {{"lr", 1}}};
  const auto training = graph::build_training_graph(graph, options);
  Interpreter interpreter(training.graph);
  interpreter.run(0);
  Result result;
  result.loss = interpreter.get_reals(training.graph.find("loss")).at(0);
  for (const auto& name : parameters) result.after_step.push_back(interpreter.get_reals(training.graph.find(name)));
  return result;
}

bool has_node(const graph::Graph& graph, std::string_view op) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const graph::Node& n) { return graph::schema(n).name == op; });
}

std::map<std::string, std::int64_t> count(const graph::RecognizedGraph& recognized) {
  std::map<std::string, std::int64_t> times;
  for (const auto& found : recognized.found) ++times[std::string(found.pattern)];
  return times;
}

/// The pattern is found once, and the graph with it computes and learns what the graph without it does.
graph::Graph check_equal(const std::string& pattern, const std::function<TensorId(Model&)>& write) {
  Model model;
  const TensorId y = write(model);
  const graph::Graph written = model.with_loss(y);
  const auto recognized = graph::with_recognized_operators(written);
  INFO(pattern);
  CHECK(count(recognized) == std::map<std::string, std::int64_t>{{pattern, 1}});
  const Result a = trained(written, model.parameters()), b = trained(recognized.graph, model.parameters());
  CHECK(b.loss == Approx(a.loss).epsilon(1e-13));
  for (std::size_t p = 0; p < a.after_step.size(); ++p) {
    INFO(model.parameters()[p]);
    REQUIRE(a.after_step[p].size() == b.after_step[p].size());
    for (std::size_t i = 0; i < a.after_step[p].size(); ++i)
      CHECK(b.after_step[p][i] == Approx(a.after_step[p][i]).epsilon(1e-11).margin(1e-12));
  }
  return recognized.graph;
}

std::map<std::string, std::int64_t> counted(const std::function<TensorId(Model&)>& write) {
  Model model;
  const TensorId y = write(model);
  return count(graph::with_recognized_operators(model.with_loss(y)));
}

/// (x - mean) / sqrt(mean of its square + epsilon)
TensorId normalized(Model& m, TensorId x, bool reciprocal) {
  const TensorId centered = m.add("Sub", {x, m.mean(x)});
  const TensorId variance = m.mean(m.add("Mul", {centered, centered}));
  const TensorId root = m.add("Sqrt", {m.add("Add", {variance, m.number(1e-3)})});
  return reciprocal ? m.add("Mul", {centered, m.add("Reciprocal", {root})}) : m.add("Div", {centered, root});
}

TensorId rotary(Model& m, bool negated, const Shape& table = {3, 4}, bool split = false) {
  const TensorId x = m.parameter("x", {2, 3, 4}), cos = m.parameter("cos", table), sin = m.parameter("sin", table);
  const auto parts = split ? m.split(x, 2, {2, 2}) : std::vector{m.slice(x, 2, 0, 2), m.slice(x, 2, 2, 4)};
  const TensorId first = parts[0], second = parts[1];
  const TensorId turned = m.add("Concat", {negated ? m.add("Neg", {second}) : second, first}, {{"axis", std::int64_t{2}}});
  return m.add("Add", {m.add("Mul", {x, cos}), m.add("Mul", {turned, sin})});
}

TensorId attention(Model& m, const char* weighting) {
  const TensorId q = m.parameter("q", {2, 3, 4}), k = m.parameter("k", {2, 4, 3}), v = m.parameter("v", {2, 3, 4});
  const TensorId scores = m.add("Mul", {m.add("MatMul", {q, k}), m.number(0.5)});
  const bool softmax = std::string_view(weighting) == "Softmax";
  const TensorId weights = softmax ? m.add(weighting, {scores}, {{"axis", std::int64_t{2}}}) : m.add(weighting, {scores});
  return m.add("MatMul", {weights, v});
}

TensorId joined_slices(Model& m, std::int64_t head_end, std::int64_t tail_start, std::int64_t tail_end, std::int64_t axis = 0) {
  const TensorId x = m.parameter("x", {5, 2});
  return m.add("Concat", {m.slice(x, 0, tail_start, tail_end), m.slice(x, 0, 0, head_end)}, {{"axis", axis}});
}

}  // namespace

TEST_CASE("a recognized LayerNormalization computes and learns what its parts do") {
  for (const bool reciprocal : {false, true}) {
    const auto plain = check_equal("LayerNormalization", [&](Model& m) { return normalized(m, m.parameter("x", {2, 3, 5}), reciprocal); });
    CHECK(has_node(plain, "LayerNormalization"));
    CHECK_FALSE(has_node(plain, "Sqrt"));
    check_equal("LayerNormalization", [&](Model& m) {
      const TensorId scaled = m.add("Mul", {normalized(m, m.parameter("x", {2, 3, 5}), reciprocal), m.parameter("gain", {5})});
      return m.add("Add", {scaled, m.parameter("bias", {5})});
    });
  }
}

TEST_CASE("Keras writes a LayerNormalization with the gain in the root's inverse") {
  const auto keras = [](bool gain, bool bias, bool same) {
    return [=](Model& m) {
      const TensorId x = m.parameter("x", {2, 3, 5}), mean = m.mean(x);
      const TensorId centered = m.add("Sub", {x, mean});
      const TensorId variance = m.mean(m.add("Mul", {centered, centered}));
      TensorId scale = m.add("Reciprocal", {m.add("Sqrt", {m.add("Add", {variance, m.number(1e-3)})})});
      if (gain) scale = m.add("Mul", {scale, m.parameter("gain", {1, 1, 5})});
      TensorId shift = m.add("Mul", {m.add("Neg", {same ? mean : m.mean(m.parameter("other", {2, 3, 5}))}), scale});
      if (bias) shift = m.add("Add", {shift, m.parameter("bias", {1, 1, 5})});
      return m.add("Add", {m.add("Mul", {x, scale}), shift});
    };
  };
  for (const bool gain : {false, true}) CHECK(has_node(check_equal("LayerNormalization", keras(gain, false, true)), "LayerNormalization"));
  check_equal("LayerNormalization", keras(true, true, true));
  CHECK(counted(keras(true, true, false)).empty());
}

TEST_CASE("the variance may be the mean of squares less the square of the mean") {
  const auto flax = [](bool bounded, bool same) {
    return [=](Model& m) {
      const TensorId x = m.parameter("x", {2, 3, 5}), mean = m.mean(x);
      const TensorId squares = m.mean(m.add("Mul", {x, x})), other = same ? mean : m.mean(m.parameter("z", {2, 3, 5}));
      const TensorId variance = m.add("Sub", {squares, m.add("Mul", {other, other})});
      const TensorId kept = bounded ? m.add("Max", {variance, m.number(0)}) : variance;
      return m.add("Div", {m.add("Sub", {x, mean}), m.add("Sqrt", {m.add("Add", {kept, m.number(1e-3)})})});
    };
  };
  CHECK(has_node(check_equal("LayerNormalization", flax(true, true)), "LayerNormalization"));
  check_equal("LayerNormalization", flax(false, true));
  CHECK(counted(flax(false, false)).empty());  // the square of another mean
}

TEST_CASE("a recognized RMSNormalization computes and learns what its parts do") {
  const auto fused = check_equal("RMSNormalization", [](Model& m) {
    const TensorId x = m.parameter("x", {2, 3, 5});
    const TensorId root = m.add("Sqrt", {m.add("Add", {m.mean(m.add("Mul", {x, x})), m.number(1e-3)})});
    return m.add("Mul", {m.add("Mul", {x, m.add("Reciprocal", {root})}), m.parameter("gain", {5})});
  });
  CHECK(has_node(fused, "RMSNormalization"));
}

TEST_CASE("a recognized Gelu computes and learns what its parts do") {
  const auto exact = check_equal("Gelu", [](Model& m) {
    const TensorId x = m.parameter("x", {3, 5});
    const TensorId erf = m.add("Erf", {m.add("Div", {x, m.number(std::sqrt(2.0))})});
    return m.add("Mul", {m.add("Mul", {x, m.add("Add", {erf, m.number(1)})}), m.number(0.5)});
  });
  CHECK(has_node(exact, "Gelu"));
  const auto complementary = [](double scale) {  // of -x, as Keras writes it
    return [=](Model& m) {
      const TensorId x = m.parameter("x", {3, 5});
      const TensorId erf = m.add("Erf", {m.add("Mul", {m.add("Neg", {x}), m.number(scale)})});
      return m.add("Mul", {m.add("Mul", {x, m.number(0.5)}), m.add("Sub", {m.number(1), erf})});
    };
  };
  check_equal("Gelu", complementary(std::sqrt(0.5)));
  CHECK(counted(complementary(-std::sqrt(0.5))).empty());
  check_equal("Gelu", [](Model& m) {
    const TensorId x = m.parameter("x", {3, 5});
    const TensorId cube = m.add("Mul", {x, m.add("Mul", {x, x})});
    const TensorId sum = m.add("Add", {x, m.add("Mul", {cube, m.number(0.044715)})});
    const TensorId tanh = m.add("Tanh", {m.add("Mul", {sum, m.number(std::sqrt(2 / 3.14159265358979323846))})});
    return m.add("Mul", {m.add("Mul", {x, m.number(0.5)}), m.add("Add", {tanh, m.number(1)})});
  });
}

TEST_CASE("a recognized rotary embedding computes and learns what its parts do") {
  const auto fused = check_equal("rotary embedding", [](Model& m) { return rotary(m, true); });
  CHECK(has_node(fused, "RotaryEmbedding"));
  CHECK_FALSE(has_node(fused, "Concat"));
  check_equal("rotary embedding", [](Model& m) { return rotary(m, true, /*table=*/{4}, /*split=*/true); });
}

TEST_CASE("a recognized cyclic shift computes and learns what its parts do") {
  const auto fused = check_equal("roll", [](Model& m) { return joined_slices(m, 2, 2, 5); });
  CHECK(has_node(fused, "Roll"));
  CHECK_FALSE(has_node(fused, "Slice"));
  check_equal("roll", [](Model& m) { return joined_slices(m, 2, -3, 5, -2); });  // counted from the end
}

TEST_CASE("products read a weight as it is stored, in place of its transpose") {
  using Integers = std::vector<std::int64_t>;
  const auto transposed = [](Model& m, const char* name, Shape stored, const Integers& perm = {1, 0}) {
    return m.add("Transpose", {m.parameter(name, stored)}, {{"perm", perm}});
  };
  const graph::Attributes second{{"trans_b", std::int64_t{1}}};
  const auto check = [&](const std::function<TensorId(Model&)>& write) {
    const auto graph = check_equal("transposed weight", write);
    CHECK_FALSE(has_node(graph, "Transpose"));
  };
  check([&](Model& m) { return m.add("MatMul", {m.parameter("x", {2, 3, 4}), transposed(m, "w", {5, 4})}); });
  check([&](Model& m) { return m.add("MatMul", {transposed(m, "w", {4, 5}), m.parameter("x", {4, 3})}); });
  check([&](Model& m) { return m.add("MatMul", {m.parameter("x", {3, 4}), transposed(m, "w", {4, 5})}, second); });  // turned twice
  check([&](Model& m) { return m.add("MatMul", {m.parameter("x", {2, 3, 4}), transposed(m, "w", {2, 5, 4}, {0, 2, 1})}); });
  check([&](Model& m) { return m.add("MatMul", {transposed(m, "v", {4, 3}), transposed(m, "w", {5, 4})}); });
  check([&](Model& m) { return m.add("Gemm", {m.parameter("x", {3, 4}), transposed(m, "w", {5, 4}), m.parameter("bias", {5})}); });
}

TEST_CASE("a transposed weight that others read, too, stays for them") {
  const auto graph = check_equal("transposed weight", [](Model& m) {
    const TensorId turned = m.add("Transpose", {m.parameter("w", {3, 3})}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    return m.add("Add", {m.add("MatMul", {m.parameter("x", {3, 3}), turned}), turned});
  });
  CHECK(has_node(graph, "Transpose"));
}

TEST_CASE("attention is found and stays what it is") {
  check_equal("attention", [](Model& m) { return attention(m, "Softmax"); });
}

TEST_CASE("what only looks like a pattern is not counted") {
  CHECK(counted([](Model& m) { return attention(m, "Sigmoid"); }).empty());
  CHECK(!counted([](Model& m) { return rotary(m, false); }).contains("rotary embedding"));  // halves exchanged, none negated: a roll
  // rows 1..2 before rows 0..2: as long as the tensor, but row 1 and 2 twice
  CHECK(counted([](Model& m) { return joined_slices(m, 3, 1, 3); }).empty());
  // a mean of squares of something else than what is divided
  CHECK(counted([](Model& m) {
          const TensorId x = m.parameter("x", {2, 5}), z = m.parameter("z", {2, 5});
          const TensorId root = m.add("Sqrt", {m.add("Add", {m.mean(m.add("Mul", {z, z})), m.number(1e-3)})});
          return m.add("Div", {x, root});
        }).empty());
  // what is computed is transposed, and dimensions that are not the last two change places
  CHECK(counted([](Model& m) {
          const TensorId turned =
              m.add("Transpose", {m.add("Relu", {m.parameter("w", {5, 4})})}, {{"perm", std::vector<std::int64_t>{1, 0}}});
          return m.add("MatMul", {m.parameter("x", {3, 4}), turned});
        }).empty());
  CHECK(counted([](Model& m) {
          const TensorId turned = m.add("Transpose", {m.parameter("w", {4, 2, 5})}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
          return m.add("MatMul", {m.parameter("x", {2, 3, 4}), turned});
        }).empty());
  // 0.6 instead of 0.5
  CHECK(counted([](Model& m) {
          const TensorId x = m.parameter("x", {3, 5});
          const TensorId erf = m.add("Erf", {m.add("Div", {x, m.number(std::sqrt(2.0))})});
          return m.add("Mul", {m.add("Mul", {x, m.add("Add", {erf, m.number(1)})}), m.number(0.6)});
        }).empty());
}

}  // namespace rehearsal::exec
