#pragma once
// A row of the operator table on given operand shapes.

#include <optional>
#include <string>
#include <vector>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

class RowOn {
 public:
  /// f32 operands; results are inferred.
  RowOn(const std::string& name, const std::vector<std::optional<Shape>>& shapes, Attributes attributes = {});
  RowOn(const std::string& name, std::vector<std::optional<TensorType>> inputs, Attributes attributes = {});
  RowOn(const RowOn&) = delete;

  [[nodiscard]] const Shape& shape(std::size_t i = 0) const { return outputs_[i]->shape; }
  [[nodiscard]] SplitRule labels() const { return schema_.labels({inputs_, outputs_, attributes_}); }
  [[nodiscard]] Work work() const { return work_of(schema_, {inputs_, outputs_, attributes_}); }

 private:
  const OpSchema& schema_;
  Attributes attributes_;
  std::vector<std::optional<TensorType>> inputs_, outputs_;
};

/// The labels of a tensor as text: dimensions separated by spaces, "-" without label, "0" or "1.2" (outer.inner) with.
std::string text_of(const TensorLabels& labels);
/// One letter per label: P(arallel) S(um) M(ax) m(in) W(indow) O(paque).
std::string text_of(const std::vector<LabelKind>& kinds);
/// The message with which inference refuses the operands; "" when it does not.
std::string refusal(const std::string& name, const std::vector<std::optional<Shape>>& shapes, Attributes attributes = {});
/// True when the message has all parts.
bool says(const std::string& message, const std::vector<std::string>& parts);

}  // namespace rehearsal::graph
