// Cases of the losses.

#include "graph/losses.hpp"
#include "tests/exec/gradients.hpp"

namespace rehearsal::exec {
namespace {

/// Scores, labels and weights as the losses of a training graph are built: with the total over all classes as a node of its own.
std::vector<graph::TensorId> with_total(graph::GraphBuilder& builder, const std::vector<graph::TensorId>& operands,
                                        const graph::Attributes& attributes) {
  const auto axis = static_cast<int>(attributes.integer("axis", 1));
  return {add_cross_entropy(builder, {.scores = operands[0],
                                      .target = operands[1],
                                      .class_weights = operands[2],
                                      .axis = axis,
                                      .label_smoothing = attributes.number("label_smoothing", 0)})};
}

}  // namespace

GradientCases loss_cases() {
  const std::int64_t ignored = -100, last = -1, yes = 1;
  GradientCases cases = {
      {"CrossEntropySum", {drawn({3, 4}, -2, 2), indices({0, 3, 1}, {3})}, {}},
      {"CrossEntropySum", {drawn({2, 3, 2}, -2, 2), indices({0, 2, ignored, 1}, {2, 2}), fixed({3}, 0.5, 2)}, {{"ignore_index", ignored}}},
      {"CrossEntropySum", {drawn({3, 4}, -2, 2), indices({0, 3, ignored}, {3}), drawn({4}, 0.5, 2)}, {{"ignore_index", ignored}}},
      {"CrossEntropyWeight", {indices({0, 2, ignored, 2}, {4}), drawn({3}, 0.5, 2)}, {{"ignore_index", ignored}}},
      {"CrossEntropySum", {drawn({2, 3, 4}, -2, 2), indices({0, 3, 1, 2, 2, 0}, {2, 3})}, {{"axis", last}}},
      {"CrossEntropySum", {drawn({3, 5}, -2, 2), indices({0, ignored, 4}, {3}), absent()}, {}, 1e-6, with_total},
      {"CrossEntropySum",
       {drawn({2, 3, 4}, -2, 2), indices({0, 3, 1, 2, 2, 0}, {2, 3}), fixed({4}, 0.5, 2)},
       {{"axis", std::int64_t{2}}},
       1e-6,
       with_total},
      {"CrossEntropySum",
       {drawn({2, 3, 2}, -2, 2), indices({0, 2, ignored, 1}, {2, 2}), fixed({3}, 0.5, 2)},
       {{"label_smoothing", 0.1}},
       1e-6,
       with_total},
      {"CrossEntropySum", {drawn({3, 4}, -2, 0), indices({0, 3, 1}, {3})}, {{"log_probabilities", yes}}},
      {"HuberSum", {drawn({4, 5}, -2, 2), fixed({4, 5}, 3, 4)}, {{"delta", 3.5}}},  // differences on both sides of delta
      {"BceWithLogitsSum", {drawn({2, 5}, -3, 3), fixed({2, 5}, 0, 1)}, {}},
      {"KlDivergenceSum", {drawn({2, 5}, -3, 0), fixed({2, 5}, 0.1, 1)}, {}},
      {"SquaredErrorSum", {drawn({2, 5}), fixed({2, 5})}, {}},
      {"AbsoluteErrorSum", {drawn({2, 5}, -1, 0), fixed({2, 5}, 0.1, 1)}, {}},
  };
  return cases;
}

}  // namespace rehearsal::exec
