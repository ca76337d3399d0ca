#include "tests/graph/ops/rows.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "tests/catch.hpp"

namespace rehearsal::graph {
namespace {

std::vector<std::optional<TensorType>> f32(const std::vector<std::optional<Shape>>& shapes) {
  std::vector<std::optional<TensorType>> types;
  for (const auto& shape : shapes) types.push_back(shape ? std::optional(TensorType{DType::F32, *shape}) : std::nullopt);
  return types;
}

}  // namespace

RowOn::RowOn(const std::string& name, const std::vector<std::optional<Shape>>& shapes, Attributes attributes)
    : RowOn(name, f32(shapes), std::move(attributes)) {}

RowOn::RowOn(const std::string& name, std::vector<std::optional<TensorType>> inputs, Attributes attributes)
    : schema_(op_table()[op(name)]), attributes_(std::move(attributes)), inputs_(std::move(inputs)) {
  for (auto& type : schema_.infer({inputs_, {}, attributes_})) outputs_.emplace_back(std::move(type));
}

std::string text_of(const TensorLabels& labels) {
  std::string text;
  for (const DimLabels& dim : labels) {
    std::string factors;
    for (const LabelFactor& factor : dim) factors += (factors.empty() ? "" : ".") + std::to_string(factor.label);
    text += (text.empty() ? "" : " ") + (factors.empty() ? "-" : factors);
  }
  return text;
}

std::string text_of(const std::vector<LabelKind>& kinds) {
  std::string text;
  for (const LabelKind kind : kinds) text += "PSMmLWO"[static_cast<std::size_t>(kind)];
  return text;
}

std::string refusal(const std::string& name, const std::vector<std::optional<Shape>>& shapes, Attributes attributes) {
  try {
    const RowOn row(name, shapes, std::move(attributes));
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

bool says(const std::string& message, const std::vector<std::string>& parts) {
  UNSCOPED_INFO(message);
  return std::all_of(parts.begin(), parts.end(), [&](const std::string& part) { return message.find(part) != std::string::npos; });
}

}  // namespace rehearsal::graph
