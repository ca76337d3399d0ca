#include "graph/ops/labels.hpp"

#include "base/error.hpp"

namespace rehearsal::graph {

TensorLabels aligned_labels(const Shape& shape, const Shape& full) {
  TensorLabels labels(shape.size());
  const std::size_t skipped = full.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && shape[d] == full[d + skipped]) labels[d] = whole(static_cast<int>(d + skipped), shape[d]);
  }
  return labels;
}

SplitRule elementwise_labels(const NodeView& node) {
  const Shape& full = node.output().shape;
  const auto labels_of = [&](const std::optional<TensorType>& type) { return type ? aligned_labels(type->shape, full) : TensorLabels{}; };
  SplitRule rule;
  for (const auto& type : node.inputs) rule.inputs.push_back(labels_of(type));
  for (const auto& type : node.outputs) rule.outputs.push_back(labels_of(type));
  rule.kinds.assign(full.size(), LabelKind::Parallel);
  return rule;
}

std::vector<TensorType> infer_same(const NodeView& node) {
  require_inputs(node, 1, node.inputs.size());
  return {node.input(0)};
}

std::vector<TensorType> infer_broadcast(const NodeView& node) {
  require_inputs(node, 1, node.inputs.size());
  require_all(node);
  TensorType result = node.input(0);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    require_same_type(node, 0, i);
    result.shape = broadcast(result.shape, node.input(i).shape);
  }
  return {result};
}

void require_inputs(const NodeView& node, std::size_t least, std::size_t most) {
  if (node.inputs.size() > most) {
    throw BadInput("has " + std::to_string(node.inputs.size()) + " operands, the operator takes at most " + std::to_string(most));
  }
  for (std::size_t i = 0; i < least; ++i) {
    if (!node.has_input(i))
      throw BadInput("operand " + std::to_string(i) + " is missing; the operator needs at least " + std::to_string(least));
  }
}

void require_all(const NodeView& node, std::size_t first) {
  for (std::size_t i = first; i < node.inputs.size(); ++i) {
    if (!node.has_input(i)) throw BadInput("operand " + std::to_string(i) + " is missing; it must be given");
  }
}

void require_same_type(const NodeView& node, std::size_t a, std::size_t b) {
  if (node.input(a).dtype == node.input(b).dtype) return;
  throw BadInput("operand " + std::to_string(b) + " is " + std::string(name(node.input(b).dtype)) + ", operand " + std::to_string(a) +
                 " is " + std::string(name(node.input(a).dtype)) + "; they must have one element type");
}

void require_float(const NodeView& node, std::size_t operand) {
  if (is_float(node.input(operand).dtype)) return;
  throw BadInput("operand " + std::to_string(operand) + " is " + std::string(name(node.input(operand).dtype)) +
                 ", it must be floating point");
}

void require_rank(const NodeView& node, std::size_t operand, std::size_t least, std::size_t most) {
  const Shape& shape = node.input(operand).shape;
  if (shape.size() >= least && shape.size() <= most) return;
  throw BadInput("operand " + std::to_string(operand) + " has shape " + to_text(shape) + ", it must have rank " + std::to_string(least) +
                 (most == least ? "" : " to " + std::to_string(most)));
}

void require_square_matrices(const NodeView& node, std::size_t operand) {
  require_float(node, operand);
  const Shape& shape = node.input(operand).shape;
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2])
    throw BadInput("operand " + std::to_string(operand) + " has shape " + to_text(shape) + ", its last two dimensions must be equal");
}

void require_step(const NodeView& node, std::size_t operand) {
  if (node.input(operand) != TensorType{DType::I64, {}})
    throw BadInput("operand " + std::to_string(operand) + " must be an int64 scalar, the number of the step from 1");
}

std::int64_t at_least_one(const Attributes& attributes, std::string_view name) {
  const auto value = attributes.integer(name, 1);
  if (value < 1) throw BadInput("attribute '" + std::string(name) + "' is " + std::to_string(value) + ", it must be at least 1");
  return value;
}

Bytes traffic(const NodeView& node) {
  Bytes sum;
  for (const auto& type : node.inputs) sum += type ? size_of(*type) : Bytes();
  for (const auto& type : node.outputs) sum += type ? size_of(*type) : Bytes();
  return sum;
}

Work elementwise_work(const NodeView& node, double flops_per_element) {
  return {Flops(flops_per_element * static_cast<double>(element_count(node.output().shape))), traffic(node)};
}

}  // namespace rehearsal::graph
