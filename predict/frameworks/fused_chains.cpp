// Element-wise operators that share a kernel where a framework fuses chains, as compilers do: it reads what they read together and writes
// what others need; what one hands to the next stays in registers.

#include <algorithm>

#include "predict/frameworks/node_rows.hpp"

namespace rehearsal::predict::frameworks {

using graph::CostFamily;
using graph::TensorId;

bool is_free(const graph::Node& node) {
  const auto name = graph::schema(node).name;
  return name == "Split" || name == "Slice" || name == "Range" || name == "ConstantOfShape" || name == "Expand";
}

namespace {

/// Does a derivative read the operands again? `activations`: operands that depend on the input.
bool reads_operands_again(const graph::Node& node, std::ptrdiff_t activations) {
  if (multiplies(node)) return activations > 1;
  return !is_linear(node) && graph::schema(node).family != CostFamily::Movement;
}

}  // namespace

bool RowCollector::is_bias(const graph::Node& node) const {
  const auto operands = operands_of(node);
  const auto* before = operands.empty() ? nullptr : flow().origin(operands.front());
  return is_sum(node) && operands.size() == 1 && before != nullptr && graph::is_product(graph::schema(*before).family);
}

bool RowCollector::adds_whole(const graph::Node& node) const {
  const auto operands = operands_of(node);
  return operands.size() >= 2 &&
         graph::element_count(graph()[operands[1]].type.shape) == graph::element_count(graph()[node.outputs[0]].type.shape);
}

/// A sum with what passed a block by: its operands are not both links of the same chain.
bool RowCollector::is_residual(const graph::Node& node) const {
  if (!is_sum(node) || !adds_whole(node)) return false;
  const auto operands = operands_of(node);
  return fusion() < 2 || !std::ranges::all_of(operands, [&](TensorId t) {
           const auto* from = flow().origin(t);
           return from != nullptr && graph::schema(*from).family == CostFamily::Elementwise && flow().readers(t) == 1;
         });
}

bool RowCollector::may_share_kernel(const graph::Node& node) const {
  const auto number = static_cast<std::size_t>(&node - graph().nodes().data());
  const auto family = graph::schema(node).family;
  if (family == CostFamily::Movement) return !is_free(node);
  return family == CostFamily::Elementwise && !image_tensor(node.outputs[0]) && flow().core_of(number) < 0 && !flow().in_cell(number) &&
         !is_bias(node) && !is_residual(node);
}

/// Part of the kernel of the one operator that reads its result.
bool RowCollector::is_absorbed(const graph::Node& node) const {
  if (fusion() < 2 || !may_share_kernel(node)) return false;
  const auto* reader = flow().only_reader(node.outputs[0]);
  if (reader == nullptr || !may_share_kernel(*reader)) return false;
  return graph::schema(*reader).family == CostFamily::Elementwise || graph::schema(*reader).name == "Concat";
}

/// `value_needed`: by a derivative further on, which computes it again.
void RowCollector::find_sources(const graph::Node& node, bool value_needed, Sources& sources) const {
  const bool needed = value_needed || reads_operands_again(node, std::ranges::count_if(node.inputs, [&](TensorId t) {
                                                             return t != TensorId::None && flow().activation(t);
                                                           }));
  for (const auto t : operands_of(node)) {
    const auto* from = flow().origin(t);
    if (from != nullptr && is_absorbed(*from))
      find_sources(*from, needed, sources);
    else
      sources[t] = sources[t] || needed;
  }
}

/// A kernel of this operator and those that it absorbs. Back it reads the gradient and what derivatives need, and writes the gradients.
void RowCollector::chain(const graph::Node& node) {
  Sources sources;
  find_sources(node, false, sources);
  const auto y = node.outputs[0];
  double forward = s_.bytes(y), backward = s_.bytes(y);
  for (const auto& [t, needed] : sources) {
    forward += s_.bytes(t);
    backward += (needed ? s_.bytes(t) : 0) + (flow().gradient(t) ? s_.bytes(t) : 0);
  }
  bytes({forward, 1}, {flow().gradient(y) ? backward : 0, 1});
}

}  // namespace rehearsal::predict::frameworks
