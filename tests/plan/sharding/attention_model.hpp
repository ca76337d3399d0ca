#pragma once
// Attention over a sequence with whatever a case does to its scores and weights, to see what lowering makes of it.

#include <functional>
#include <memory>

#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "plan/sharding/rule_book.hpp"

namespace rehearsal::plan::test {

/// Queries, keys and values of `rows` positions are products of one input; a case writes the result of attention from them.
class AttentionModel {
 public:
  explicit AttentionModel(std::int64_t rows) : rows_(rows), x_(layers_.input("x", {2, rows, 6})) {}

  [[nodiscard]] graph::zoo::Layers& layers() { return layers_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] graph::TensorId q() { return layers_.dense("q", x_, 6); }
  [[nodiscard]] graph::TensorId k() { return layers_.dense("k", x_, 6); }
  [[nodiscard]] graph::TensorId v() { return layers_.dense("v", x_, 6); }
  [[nodiscard]] graph::TensorId scores() { return layers_.matmul("scores", q(), layers_.transpose("turned", k(), {0, 2, 1})); }
  [[nodiscard]] graph::TensorId softmax(graph::TensorId scores, std::int64_t axis = -1) {
    return layers_.node("weights", "Softmax", {scores}, {{"axis", axis}});
  }
  [[nodiscard]] graph::TensorId mixed(graph::TensorId weights) { return layers_.matmul("mix", weights, v()); }
  [[nodiscard]] graph::TensorId node(const char* name, const char* op, std::vector<graph::TensorId> inputs,
                                     graph::Attributes attributes = {}) {
    return layers_.node(name, op, std::move(inputs), std::move(attributes));
  }
  [[nodiscard]] graph::TensorId number(const char* name, double value) { return layers_.constant(name, value); }
  [[nodiscard]] graph::TensorId reals(const char* name, graph::Shape shape, const std::function<double(std::int64_t)>& at) {
    graph::Value value{{DType::F32, std::move(shape)}, {}, {}};
    for (std::int64_t i = 0; i < value.count(); ++i) value.reals.push_back(at(i));
    return layers_.builder().add_constant(name, std::move(value));
  }
  /// Of every row and key.
  [[nodiscard]] graph::TensorId flags(const char* name, const std::function<bool(std::int64_t row, std::int64_t key)>& shown) {
    graph::Value value{{DType::Bool, {rows_, rows_}}, {}, {}};
    for (std::int64_t i = 0; i < rows_ * rows_; ++i) value.integers.push_back(shown(i / rows_, i % rows_) ? 1 : 0);
    return layers_.builder().add_constant(name, std::move(value));
  }

  [[nodiscard]] graph::TrainingGraph trained(graph::TensorId result) && {
    graph::TrainingOptions options;
    options.loss = "mse";
    auto model = std::move(layers_).finish(layers_.dense("last", result, 3), "y");
    return graph::build_training_graph(graph::with_initial_values(model), options);
  }

 private:
  graph::zoo::Layers layers_;
  std::int64_t rows_;
  graph::TensorId x_;
};

[[nodiscard]] inline Sharding sharded(const graph::TrainingGraph& t, const char* plan) {
  RuleBook rules;
  const auto dims = std::make_shared<const graph::LogicalDims>(t.graph);
  return shard(t, dims, sharding_axes(t, dims, parse_plan(plan), 1, rules));
}

}  // namespace rehearsal::plan::test
