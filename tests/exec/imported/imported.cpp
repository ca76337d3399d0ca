// Operators that the importer writes as others: values by hand, gradients against finite differences.

#include <cmath>

#include "exec/conformance.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::exec {
namespace {

using formats::testing::ModelBuilder;
using formats::testing::set;
using graph::Shape;
using graph::Value;
using Reals = std::vector<double>;

void set_text(onnx::NodeProto& node, const std::string& key, const std::string& value) {
  auto& a = *node.add_attribute();
  a.set_name(key);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
}

const std::string kNothing;  ///< of a comparison in which nothing differs

/// One node whose operands are fed, in the newest opset.
class OneNode {
 public:
  OneNode(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs = {"y"}) {
    node_ = &model_.node(op, inputs, outputs);
    for (const auto& name : outputs) model_.output(name);
  }
  OneNode& feed(const std::string& name, const Shape& shape, Reals values) {
    std::vector<std::string> dims;
    for (const std::int64_t d : shape) dims.push_back(std::to_string(d));
    model_.input(name, dims);
    fed_.push_back({name, Value::of_reals(std::move(values), shape)});
    return *this;
  }
  OneNode& integers(const std::string& name, const std::vector<std::int64_t>& values) {
    model_.integers(name, values);
    return *this;
  }
  template <class T>
  OneNode& with(const std::string& key, const T& value) {
    if constexpr (std::is_convertible_v<T, std::string>)
      set_text(*node_, key, value);
    else
      set(*node_, key, value);
    return *this;
  }
  ModelBuilder& model() { return model_; }

  /// Empty when the result is as expected.
  std::string differs(const std::string& output, const Shape& shape, Reals expected) {
    return forward_difference(model_.import().graph, fed_, {{output, Value::of_reals(std::move(expected), shape)}}, {1e-6, 1e-6})
        .value_or("");
  }
  /// Empty when the gradient agrees with finite differences.
  std::string gradient_differs() {
    const GradientCheck check = check_gradient(model_.import().graph, fed_);
    return check.verdict == GradientVerdict::Agrees ? "" : "gradient: " + check.reason;
  }

 private:
  ModelBuilder model_{28};
  onnx::NodeProto* node_ = nullptr;
  std::vector<Fed> fed_;
};

/// Two queries of 0, which look at both keys alike, and values 3 and 5.
OneNode two_queries(const std::vector<std::string>& inputs = {"q", "k", "v"}) {
  OneNode n("Attention", inputs);
  n.feed("q", {1, 1, 2, 1}, {0, 0}).feed("k", {1, 1, 2, 1}, {1, 2}).feed("v", {1, 1, 2, 1}, {3, 5});
  return n;
}

}  // namespace

TEST_CASE("attention sees what masks, causality and windows leave") {
  const Shape result{1, 1, 2, 1};
  CHECK(two_queries().differs("y", result, {4, 4}) == kNothing);
  CHECK(two_queries().with("is_causal", std::int64_t{1}).differs("y", result, {3, 4}) == kNothing);
  CHECK(two_queries().with("left_window_size", std::int64_t{0}).differs("y", result, {4, 5}) == kNothing);
  CHECK(two_queries().with("right_window_size", std::int64_t{0}).differs("y", result, {3, 4}) == kNothing);
  const double hidden = -std::numeric_limits<double>::infinity();
  // a query without keys gets zeros, and nothing that is not a number spreads from it
  OneNode masked = two_queries({"q", "k", "v", "mask"});
  masked.feed("mask", {2, 2}, {hidden, hidden, hidden, 0});
  CHECK(masked.differs("y", result, {0, 5}) == kNothing);
  // a mask that is shorter than the keys hides the rest
  OneNode shorter("Attention", {"q", "k", "v", "mask"});
  shorter.feed("q", {1, 1, 1, 1}, {0}).feed("k", {1, 1, 3, 1}, {1, 2, 3}).feed("v", {1, 1, 3, 1}, {3, 5, 9}).feed("mask", {1, 2}, {0, 0});
  CHECK(shorter.differs("y", {1, 1, 1, 1}, {4}) == kNothing);
}

TEST_CASE("a row that is hidden whole stops its gradient instead of spoiling it") {
  ModelBuilder m(17);
  const double hidden = -std::numeric_limits<double>::infinity();
  m.input("x", {"2", "2"}).input("mask", {"2", "2"}).floats("zero", {}, {0}).output("y");
  m.node("Add", {"x", "mask"}, {"s"});
  set(m.node("Softmax", {"s"}, {"p"}), "axis", std::int64_t{-1});
  m.node("IsNaN", {"p"}, {"n"});
  m.node("Where", {"n", "zero", "p"}, {"y"});
  const std::vector<Fed> fed{{"x", Value::of_reals({1, 2, 3, 4}, {2, 2})}, {"mask", Value::of_reals({hidden, hidden, 0, 0}, {2, 2})}};
  const auto check = check_gradient(m.import().graph, fed);
  CHECK(check.reason == kNothing);
  CHECK(check.verdict == GradientVerdict::Agrees);
}

TEST_CASE("attention with a cache, a cap on its scores, and shared keys") {
  OneNode cached("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "present"});
  cached.feed("q", {1, 1, 1, 1}, {0}).feed("k", {1, 1, 1, 1}, {1}).feed("v", {1, 1, 1, 1}, {6});
  cached.feed("pk", {1, 1, 2, 1}, {7, 8}).feed("pv", {1, 1, 2, 1}, {0, 3}).with("is_causal", std::int64_t{1});
  CHECK(cached.differs("y", {1, 1, 1, 1}, {3}) == kNothing);  // the query stands behind both cached keys: (0 + 3 + 6) / 3
  CHECK(cached.differs("present", {1, 1, 3, 1}, {7, 8, 1}) == kNothing);
  OneNode capped("Attention", {"q", "k", "v"});
  capped.feed("q", {1, 2, 1, 1}, {1, 0}).feed("k", {1, 1, 2, 1}, {0, 1000}).feed("v", {1, 1, 2, 1}, {0, 1});
  capped.with("softcap", static_cast<float>(std::log(3.0))).with("scale", 1.0F);
  CHECK(capped.differs("y", {1, 2, 1, 1}, {0.75, 0.5}) == kNothing);  // log 3 tanh(..) = log 3: e^log 3 / (1 + 3); both heads share keys
  OneNode smooth("Attention", {"q", "k", "v", "m"});
  smooth.feed("q", {1, 2, 2, 2}, {.1, -.3, .5, .2, .4, .9, -.6, .3}).feed("k", {1, 1, 2, 2}, {.3, .8, -.4, .1});
  smooth.feed("v", {1, 1, 2, 1}, {.7, -.2}).feed("m", {2, 2}, {.1, .2, .3, .4}).with("softcap", 2.0F).with("is_causal", std::int64_t{1});
  CHECK(smooth.gradient_differs() == kNothing);
}

TEST_CASE("states that travel along a sequence") {
  const auto memory = [](const char* rule, const std::vector<std::string>& inputs = {"q", "k", "v"}) {
    OneNode n("LinearAttention", inputs, {"y", "s"});
    n.feed("q", {1, 2, 1}, {1, 1}).feed("k", {1, 2, 1}, {1, 1}).feed("v", {1, 2, 1}, {1, 2}).with("update_rule", rule);
    n.with("q_num_heads", std::int64_t{1}).with("kv_num_heads", std::int64_t{1}).with("scale", 1.0F);
    return n;
  };
  CHECK(memory("linear").differs("y", {1, 2, 1}, {1, 3}) == kNothing);  // sums of values
  const double half = std::log(0.5);
  OneNode gated = memory("gated", {"q", "k", "v", "", "g"});
  gated.feed("g", {1, 2, 1}, {half, half});
  CHECK(gated.differs("y", {1, 2, 1}, {1, 2.5}) == kNothing);  // 1 / 2 + 2
  CHECK(gated.gradient_differs() == kNothing);
  OneNode delta = memory("delta", {"q", "k", "v", "", "", "b"});
  delta.feed("b", {1, 2, 1}, {1, 0.5});
  CHECK(delta.differs("y", {1, 2, 1}, {1, 1.5}) == kNothing);  // 1 + (2 - 1) / 2
  CHECK(delta.differs("s", {1, 1, 1, 1}, {1.5}) == kNothing);
  CHECK(delta.gradient_differs() == kNothing);

  OneNode convolution("CausalConvWithState", {"x", "w"}, {"y", "s"});
  convolution.feed("x", {1, 1, 3}, {1, 2, 3}).feed("w", {1, 1, 2}, {1, 10});
  CHECK(convolution.differs("y", {1, 1, 3}, {10, 21, 32}) == kNothing);  // the element before, and ten times this one
  CHECK(convolution.differs("s", {1, 1, 1}, {3}) == kNothing);

  OneNode cache("TensorScatter", {"past", "update", "at"});
  cache.feed("past", {1, 4, 1}, {0, 0, 0, 0}).feed("update", {1, 2, 1}, {7, 8}).integers("at", {3}).with("mode", "circular");
  CHECK(cache.differs("y", {1, 4, 1}, {8, 0, 0, 7}) == kNothing);
  CHECK(cache.gradient_differs() == kNothing);
}

TEST_CASE("products, norms and pools") {
  OneNode product("CumProd", {"x", "axis"});
  product.feed("x", {3}, {2, 3, 4}).integers("axis", {0});
  CHECK(product.differs("y", {3}, {2, 6, 24}) == kNothing);
  OneNode with_zero("CumProd", {"x", "axis"});
  with_zero.feed("x", {3}, {2, 0, 4}).integers("axis", {0}).with("exclusive", std::int64_t{1}).with("reverse", std::int64_t{1});
  CHECK(with_zero.differs("y", {3}, {0, 4, 1}) == kNothing);
  CHECK(with_zero.gradient_differs() == kNothing);
  OneNode norm("LpNormalization", {"x"});
  norm.feed("x", {2, 2}, {3, 4, 0, 0});
  CHECK(norm.differs("y", {2, 2}, {0.6, 0.8, 0, 0}) == kNothing);  // a row without length stays
  OneNode pool("LpPool", {"x"});
  pool.feed("x", {1, 1, 4}, {3, 4, 0, 2}).with("kernel_shape", std::vector<std::int64_t>{2}).with("strides", std::vector<std::int64_t>{2});
  CHECK(pool.differs("y", {1, 1, 2}, {5, 2}) == kNothing);
  CHECK(pool.gradient_differs() == kNothing);
  CHECK(OneNode("GlobalLpPool", {"x"}).feed("x", {1, 1, 2}, {3, -4}).with("p", std::int64_t{1}).differs("y", {1, 1, 1}, {7}) == kNothing);
  OneNode gate("SwiGLU", {"a", "b"});
  gate.feed("a", {2}, {0, std::log(3.0)}).feed("b", {2}, {9, 4});
  CHECK(gate.differs("y", {2}, {0, 3 * std::log(3.0)}) == kNothing);  // sigmoid(log 3) = 3 / 4
}

TEST_CASE("places in images") {
  CHECK(OneNode("CenterCropPad", {"x", "s"}).feed("x", {4}, {1, 2, 3, 4}).integers("s", {2}).differs("y", {2}, {2, 3}) == kNothing);
  CHECK(OneNode("CenterCropPad", {"x", "s"}).feed("x", {2}, {1, 2}).integers("s", {5}).differs("y", {5}, {0, 1, 2, 0, 0}) == kNothing);
  OneNode grid("AffineGrid", {"t", "s"});
  grid.feed("t", {1, 2, 3}, {1, 0, 0, 0, 1, 0}).integers("s", {1, 1, 2, 2}).with("align_corners", std::int64_t{1});
  CHECK(grid.differs("y", {1, 2, 2, 2}, {-1, -1, 1, -1, -1, 1, 1, 1}) == kNothing);
  // half a pixel down: means of rows, the last row of which lies outside
  OneNode moved("DeformConv", {"x", "w", "o"});
  moved.feed("x", {1, 1, 2, 2}, {1, 2, 3, 4}).feed("w", {1, 1, 1, 1}, {2}).feed("o", {1, 2, 2, 2}, {.5, .5, .5, .5, 0, 0, 0, 0});
  CHECK(moved.differs("y", {1, 1, 2, 2}, {4, 6, 3, 4}) == kNothing);
  // the middle of a cube of 0 .. 7 is its mean
  OneNode middle("GridSample", {"x", "g"});
  middle.feed("x", {1, 1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}).feed("g", {1, 1, 1, 1, 3}, {0, 0, 0}).with("mode", "linear");
  CHECK(middle.differs("y", {1, 1, 1, 1, 1}, {3.5}) == kNothing);
  CHECK(middle.gradient_differs() == kNothing);
  // a spectrum of ones is an impulse; the mirrored half is not written
  OneNode impulse("DFT", {"x", "", "axis"});
  impulse.feed("x", {1, 3, 2}, {1, 0, 1, 0, 1, 0}).integers("axis", {1}).with("inverse", std::int64_t{1}).with("onesided", std::int64_t{1});
  CHECK(impulse.differs("y", {1, 4, 1}, {1, 0, 0, 0}) == kNothing);
  CHECK(impulse.gradient_differs() == kNothing);
}

TEST_CASE("normalizations may be scaled by numbers that vary along dimensions in front") {
  // rows (3, 4) and (1, 0) over their root mean squares 5 / sqrt 2 and 1 / sqrt 2, times 1 and 2 in the first row, 3 and 4 in the second
  const double root = std::sqrt(2);
  OneNode rms("RMSNormalization", {"x", "w"});
  rms.feed("x", {2, 2}, {3, 4, 1, 0}).feed("w", {2, 2}, {1, 2, 3, 4}).with("epsilon", 0.0F);
  CHECK(rms.differs("y", {2, 2}, {0.6 * root, 1.6 * root, 3 * root, 0}) == kNothing);
  CHECK(rms.gradient_differs() == kNothing);
  // means 3.5 and 0.5, deviations 0.5: -1 and 1 in the first row, 1 and -1 in the second
  OneNode layer("LayerNormalization", {"x", "w", "b"});
  layer.feed("x", {2, 2}, {3, 4, 1, 0}).feed("w", {2, 1}, {2, 3}).feed("b", {2}, {10, 20}).with("epsilon", 0.0F);
  CHECK(layer.differs("y", {2, 2}, {8, 22, 13, 17}) == kNothing);
}

TEST_CASE("gradients pass through the rounding of quantization and stop where the model detaches") {
  using Names = std::vector<std::string>;
  const auto trained = [](ModelBuilder& model) {
    graph::TrainingOptions options;
    options.loss = "y";
    const auto training = graph::build_training_graph(model.import().graph, options);
    Names names;
    for (const auto& p : training.parameters) names.push_back(training.graph[p.value].name);
    return names;
  };
  ModelBuilder quantized(17);
  quantized.input("x", {"2"}).output("y").floats("w.weight", {2}, {1, 2}).floats("scale", {}, {0.1F});
  quantized.node("Mul", {"x", "w.weight"}, {"p"});
  quantized.node("QuantizeLinear", {"p", "scale"}, {"q"});
  quantized.node("DequantizeLinear", {"q", "scale"}, {"d"});
  set(quantized.node("ReduceSum", {"d"}, {"y"}), "keepdims", std::int64_t{0});
  CHECK(trained(quantized) == Names{"w.weight"});

  ModelBuilder detached(18);
  detached.input("x", {"2"}).output("y").floats("a", {2}, {1, 2}).floats("b", {2}, {1, 2});
  detached.node("Mul", {"x", "a"}, {"p"});
  detached.node("Mul", {"x", "b"}, {"r"});
  auto& detach = detached.node("Identity", {"p"}, {"s"});
  auto& note = *detach.add_metadata_props();
  note.set_key("pkg.torch.onnx.class_hierarchy");
  note.set_value("['Model', 'aten.detach.default']");
  detached.node("Mul", {"s", "r"}, {"m"});
  set(detached.node("ReduceSum", {"m"}, {"y"}), "keepdims", std::int64_t{0});
  CHECK(trained(detached) == Names{"b"});
}

}  // namespace rehearsal::exec
