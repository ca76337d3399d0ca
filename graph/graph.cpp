#include "graph/graph.hpp"

#include "base/hash.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

void add_ids(Hasher& hasher, const std::vector<TensorId>& ids) {
  hasher.add(static_cast<std::int64_t>(ids.size()));
  for (const TensorId t : ids) hasher.add(static_cast<std::int64_t>(t));
}

}  // namespace

std::optional<double> number_of(const Tensor& tensor) {
  if (tensor.role != TensorRole::Constant || !tensor.contents.known() || element_count(tensor.type.shape) != 1) return std::nullopt;
  return read_reals(tensor.contents, tensor.type.shape, 0, 0).front();
}

TensorId Graph::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? TensorId::None : found->second;
}

std::vector<std::vector<NodeId>> Graph::consumers() const {
  std::vector<std::vector<NodeId>> readers(tensors_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const TensorId t : nodes_[n].inputs) {
      if (t != TensorId::None) readers[index(t)].push_back(static_cast<NodeId>(n));
    }
  }
  return readers;
}

std::string Graph::hash() const {
  Hasher hasher;
  for (const Tensor& tensor : tensors_) {
    hasher.add(tensor.name).add(name(tensor.type.dtype)).add(static_cast<std::int64_t>(tensor.role));
    for (const std::int64_t d : tensor.type.shape) hasher.add(d);
    hasher.add(static_cast<std::int64_t>(tensor.stored_in));
  }
  for (const Node& node : nodes_) {
    hasher.add(schema(node).name).add(static_cast<std::int64_t>(node.phase));
    if (node.phase != Phase::Update) hasher.add(node.attributes.to_text());
    add_ids(hasher, node.inputs);
    add_ids(hasher, node.outputs);
  }
  add_ids(hasher, inputs_);
  add_ids(hasher, outputs_);
  return hasher.text();
}

}  // namespace rehearsal::graph
