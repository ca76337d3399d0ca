#include <unordered_map>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

struct Table {
  std::vector<OpSchema> rows;
  std::unordered_map<std::string_view, OpIndex> by_name;

  Table() {
    for (const auto family : kOpFamilies) {
      for (const OpSchema& row : family()) {
        ensure(by_name.emplace(row.name, static_cast<OpIndex>(rows.size())).second, "two rows of the operator table have one name");
        rows.push_back(row);
      }
    }
  }
};

const Table& table() {
  static const Table kTable;
  return kTable;
}

std::vector<std::optional<TensorType>> types_of(const Graph& graph, const std::vector<TensorId>& ids) {
  std::vector<std::optional<TensorType>> types;
  types.reserve(ids.size());
  for (const TensorId t : ids) types.push_back(t == TensorId::None ? std::nullopt : std::optional(graph[t].type));
  return types;
}

}  // namespace

std::span<const OpSchema> op_table() { return table().rows; }

std::optional<OpIndex> find_op(std::string_view name) {
  const auto found = table().by_name.find(name);
  return found == table().by_name.end() ? std::nullopt : std::optional(found->second);
}

OpIndex op(std::string_view name) {
  const auto found = find_op(name);
  if (!found) throw InternalError("the operator table has no row '" + std::string(name) + "'");
  return *found;
}

Work work_of(const OpSchema& schema, const NodeView& node) {
  if (schema.work) return schema.work(node);
  return {Flops(0), has(schema.traits, Trait::View) ? Bytes(0) : traffic(node)};
}

NodeTypes::NodeTypes(const Graph& graph, const Node& node)
    : inputs_(types_of(graph, node.inputs)), outputs_(types_of(graph, node.outputs)), attributes_(node.attributes) {}

double flops_of(const Graph& graph, const Node& node) { return work_of(schema(node), NodeTypes(graph, node).view()).flops.value(); }

double flops_of(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += flops_of(graph, node);
  return flops;
}

}  // namespace rehearsal::graph
