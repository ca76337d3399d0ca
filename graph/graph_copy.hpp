#pragma once
// A graph that is written anew, node by node, with something else in the place of some.

#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph {

class GraphCopy {
 protected:
  explicit GraphCopy(const Graph& original) : original_(original), copies_(original.tensors().size(), TensorId::None) {}

  /// What stands for a tensor of the original.
  [[nodiscard]] TensorId copied(TensorId t) const { return t == TensorId::None ? t : copies_[index(t)]; }
  [[nodiscard]] std::vector<TensorId> copied(std::vector<TensorId> all) const {
    for (TensorId& t : all) t = copied(t);
    return all;
  }
  void put(TensorId original, TensorId copy) { copies_[index(original)] = copy; }

  /// `type_of`: of the copy of a tensor.
  void copy_inputs(const auto& type_of) {
    for (const TensorId t : original_.inputs()) put(t, builder_.add_input(original_[t].name, type_of(t)));
  }
  void copy_inputs() {
    copy_inputs([&](TensorId t) { return original_[t].type; });
  }
  /// Calls copy(t, tensor) for what no node makes and nobody feeds, and puts what it returns in its place.
  void copy_stored(const auto& copy) {
    for (std::size_t i = 0; i < original_.tensors().size(); ++i)
      if (const Tensor& tensor = original_.tensors()[i]; tensor.producer == NodeId::None && tensor.role != TensorRole::Input)
        copies_[i] = copy(static_cast<TensorId>(i), tensor);
  }
  void copy_stored() {
    copy_stored([&](TensorId, const Tensor& t) { return builder_.add_stored(t.name, t.type, t.role, t.contents); });
  }
  /// The name, the phase and the results' names of a node.
  [[nodiscard]] GraphBuilder::NodeOptions options_of(const Node& node) const {
    GraphBuilder::NodeOptions options;
    options.name = node.name;
    options.phase = node.phase;
    for (const TensorId t : node.outputs) options.output_names.push_back(t == TensorId::None ? "" : original_[t].name);
    return options;
  }
  /// Puts results in the place of a node's.
  void put_results(const Node& node, const std::vector<TensorId>& results) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != TensorId::None) put(node.outputs[i], results[i]);
  }
  /// Once all nodes are written: what overwrites stored tensors does so in the copy.
  void copy_updates() {
    for (std::size_t i = 0; i < original_.tensors().size(); ++i)
      if (const TensorId storage = original_.tensors()[i].stored_in; storage != TensorId::None)
        builder_.set_stored_in(copies_[i], copied(storage));
  }
  [[nodiscard]] Graph finish() {
    builder_.set_outputs(copied(original_.outputs()));
    return std::move(builder_).build();
  }

  const Graph& original_;
  GraphBuilder builder_;

 private:
  std::vector<TensorId> copies_;
};

}  // namespace rehearsal::graph
