// What torch.export notes of a call and its operator does not say: rows of embeddings that take no gradient, smoothed labels, targets that
// are probabilities.

#include "formats/onnx/notes.hpp"

#include <cmath>

#include "exec/conformance.hpp"
#include "graph/gradient.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::exec {
namespace {

using formats::testing::ModelBuilder;
using formats::testing::set;
using graph::Shape;
using graph::Value;
using Reals = std::vector<double>;
using Names = std::vector<std::string>;

const std::string kNothing;  ///< of a comparison in which nothing differs

/// Empty when the gradient of `y` with respect to the input `of` is as expected.
std::string gradient_differs(ModelBuilder& model, const std::string& of, const std::vector<Fed>& fed, const Value& expected) {
  graph::GraphBuilder builder(model.import().graph);
  std::vector<graph::Untrainable> blocked;
  const std::vector<graph::TensorId> wanted{builder.so_far().find(of)};
  const auto gradients = graph::differentiate(builder, builder.so_far().find("y"), wanted, blocked);
  const std::string name = builder[gradients[0]].name;
  builder.set_outputs({gradients[0]});
  return forward_difference(std::move(builder).build(), fed, {{name, expected}}, {1e-6, 1e-6}).value_or("");
}

/// The sum of what rows 1, 2, 0, 2 of a table hold, which `arguments` call an embedding.
ModelBuilder embedding(const Names& arguments) {
  ModelBuilder m(18);
  m.input("w", {"3", "2"}).integers("ids", {1, 2, 0, 2}).output("y");
  formats::set_source_call(m.node("Gather", {"w", "ids"}, {"e"}), "aten.embedding.default", arguments);
  set(m.node("ReduceSum", {"e"}, {"y"}), "keepdims", std::int64_t{0});
  return m;
}

/// Cross-entropy of two samples with three classes, which `arguments` call so.
ModelBuilder cross_entropy(const Names& arguments, const Names& operands = {"x", "t"}) {
  ModelBuilder m(18);
  m.input("x", {"2", "3"}).output("y");
  formats::set_source_call(m.node("SoftmaxCrossEntropyLoss", operands, {"y"}), "aten.cross_entropy_loss.default", arguments);
  return m;
}

const Fed kScores{"x", Value::of_reals({0, std::log(2), 0, 0, 0, std::log(6)}, {2, 3})};  // softmax 1/4, 1/2, 1/4 and 1/8, 1/8, 3/4

std::string loss_differs(ModelBuilder& model, double expected, const std::vector<Fed>& fed = {kScores}) {
  return forward_difference(model.import().graph, fed, {{"y", Value::of_reals({expected}, {})}}, {1e-6, 1e-6}).value_or("");
}

}  // namespace

TEST_CASE("the row of an embedding that is padding takes no gradient") {
  const std::vector<Fed> fed{{"w", Value::of_reals({1, 2, 3, 4, 5, 6}, {3, 2})}};
  ModelBuilder padded = embedding({"%w", "%ids", "2"}), none = embedding({"%w", "%ids"}), cut_off = embedding({"%w", "[%ids", "2"});
  // by how often a row is picked: once, once, twice
  CHECK(gradient_differs(padded, "w", fed, Value::of_reals({1, 1, 1, 1, 0, 0}, {3, 2})) == kNothing);
  CHECK(gradient_differs(none, "w", fed, Value::of_reals({1, 1, 1, 1, 2, 2}, {3, 2})) == kNothing);
  CHECK(gradient_differs(cut_off, "w", fed, Value::of_reals({1, 1, 1, 1, 2, 2}, {3, 2})) == kNothing);
  ModelBuilder scaled = embedding({"%w", "%ids", "-1", "True"});
  const auto model = scaled.import();
  REQUIRE(model.warnings.size() == 1);
  CHECK(model.warnings[0].find("scale_grad_by_freq") != std::string::npos);
}

TEST_CASE("labels are smoothed where the model's call says so") {
  // -log p of the labels 1 and 2: log 2 and log 4/3; over all classes: (2 log 4 + log 2) / 3 and (2 log 8 + log 4/3) / 3
  const double labels = (std::log(2) + std::log(4.0 / 3)) / 2;
  const double all = (2 * std::log(4) + std::log(2) + 2 * std::log(8) + std::log(4.0 / 3)) / 6;
  ModelBuilder smoothed = cross_entropy({"%x", "%t", "None", "1", "-100", "0.1"}), plain = cross_entropy({"%x", "%t"});
  for (ModelBuilder* m : {&smoothed, &plain}) m->integers("t", {1, 2});
  CHECK(loss_differs(smoothed, 0.9 * labels + 0.1 * all) == kNothing);
  CHECK(loss_differs(plain, labels) == kNothing);

  // with weights 1, 2, 4 of the classes and every sample's loss for itself, the second one being ignored
  ModelBuilder each = cross_entropy({"%x", "%t", "%w", "0", "2", "0.1"}, {"x", "t", "w"});
  each.integers("t", {1, 2}).floats("w", {3}, {1, 2, 4});
  set(*each.graph().mutable_node(0), "ignore_index", std::int64_t{2});
  auto& reduction = *each.graph().mutable_node(0)->add_attribute();
  reduction.set_name("reduction");
  reduction.set_type(onnx::AttributeProto::STRING);
  reduction.set_s("none");
  const double first = 0.9 * 2 * std::log(2) + 0.1 * (1 * std::log(4) + 2 * std::log(2) + 4 * std::log(4)) / 3;
  CHECK(forward_difference(each.import().graph, {kScores}, {{"y", Value::of_reals({first, 0}, {2})}}, {1e-6, 1e-6}).value_or("") ==
        kNothing);
}

TEST_CASE("probabilities may be the target of a cross-entropy") {
  const std::vector<Fed> fed{kScores, {"t", Value::of_reals({0.5, 0.5, 0, 0, 0, 1}, {2, 3})}};
  ModelBuilder soft = cross_entropy({"%x", "%t", "None", "1"});
  soft.input("t", {"2", "3"});
  // (log 4 + log 2) / 2 and log 4/3, their mean
  CHECK(loss_differs(soft, ((std::log(4) + std::log(2)) / 2 + std::log(4.0 / 3)) / 2, fed) == kNothing);
  CHECK(check_gradient(soft.import().graph, fed).verdict == GradientVerdict::Agrees);
}

}  // namespace rehearsal::exec
