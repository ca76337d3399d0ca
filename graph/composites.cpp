#include "graph/composites.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

std::string suffixed(const std::string& name, const char* suffix) { return name.empty() ? "" : name + suffix; }

/// How many elements one of `statistics` statistics over x covers. Throws BadInput when x is not an image or has none.
std::int64_t elements_each(const GraphBuilder& builder, TensorId x, std::int64_t statistics, const std::string& name) {
  const Shape& shape = builder.type(x).shape;
  if (shape.size() < 2 || element_count(shape) == 0 || element_count(shape) % statistics != 0) {
    throw BadInput("node '" + name + "'",
                   "operand 0 has shape " + to_text(shape) + ", normalization needs [batch, channels, ...] without empty dimensions");
  }
  return element_count(shape) / statistics;
}

void add_running(GraphBuilder& builder, const BatchNorm& norm, TensorId sums, const Attributes& statistics, const std::string& name) {
  Attributes attributes = statistics;
  attributes.erase("epsilon");
  attributes.set("momentum", norm.momentum);
  GraphBuilder::NodeOptions options{suffixed(name, ".running"), Phase::Update, NodeId::None, {}};
  const std::vector<TensorId> updated =
      builder.add("BatchNormRunning", {sums, norm.running_mean, norm.running_var}, std::move(attributes), std::move(options));
  builder.set_stored_in(updated[0], norm.running_mean);
  builder.set_stored_in(updated[1], norm.running_var);
}

TensorId add_named(GraphBuilder& builder, std::string_view op, std::vector<TensorId> inputs, Attributes attributes,
                   const std::string& name) {
  return builder.add(op, std::move(inputs), std::move(attributes), GraphBuilder::NodeOptions{name, Phase::Forward, NodeId::None, {}})
      .front();
}

}  // namespace

TensorId add_batch_norm(GraphBuilder& builder, const BatchNorm& norm, const std::string& name) {
  const TensorId sums = add_named(builder, "BatchNormSums", {norm.x}, {}, suffixed(name, ".sums"));
  const std::int64_t count = elements_each(builder, norm.x, std::max<std::int64_t>(1, builder.type(norm.x).shape[1]), name);
  const Attributes attributes{{"epsilon", norm.epsilon}, {"count", count}};
  const TensorId result = add_named(builder, "BatchNormApply", {norm.x, sums, norm.scale, norm.bias}, attributes, name);
  if (norm.running_mean != TensorId::None && norm.running_var != TensorId::None) add_running(builder, norm, sums, attributes, name);
  return result;
}

TensorId add_group_norm(GraphBuilder& builder, const GroupNorm& norm, const std::string& name) {
  Attributes attributes{{"num_groups", norm.num_groups}};
  const TensorId sums = add_named(builder, "GroupNormSums", {norm.x}, attributes, suffixed(name, ".sums"));
  attributes.set("epsilon", norm.epsilon);
  attributes.set("count", elements_each(builder, norm.x, builder.type(norm.x).shape[0] * norm.num_groups, name));
  return add_named(builder, "GroupNormApply", {norm.x, sums, norm.scale, norm.bias}, std::move(attributes), name);
}

}  // namespace rehearsal::graph
