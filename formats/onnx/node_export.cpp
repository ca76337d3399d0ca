#include "formats/onnx/node_export.hpp"

#include "base/error.hpp"
#include "formats/onnx/notes.hpp"

namespace rehearsal::formats {

std::vector<std::int64_t> NodeExport::free_shape(graph::TensorId t) const {
  auto shape = file_.graph[t].type.shape;
  if (file_.other_batch == nullptr) return shape;
  const auto other = file_.other_batch->find(file_.graph[t].name);
  if (other == graph::TensorId::None) return shape;
  const auto& there = (*file_.other_batch)[other].type.shape;
  int free = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != there[d]) shape[d] = -1, ++free;
  if (free > 1) refuse("two dimensions of its shape hold the batch; write it for a fixed batch");
  return shape;
}

NodeExport& NodeExport::add(std::string_view op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  last_ = file_.model.mutable_graph()->add_node();
  last_->set_op_type(std::string(op));
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  for (const std::string& name : inputs) last_->add_input(name);
  for (const std::string& name : outputs) last_->add_output(name);
  if (!outputs.empty() && outputs[0] == output()) last_->set_name(node_.name);
  return *this;
}

std::string NodeExport::add1(std::string_view op, std::vector<std::string> inputs) {
  std::string result = node_.name + "/" + std::string(op) + "_" + std::to_string(++file_.names);
  add(op, std::move(inputs), {result});
  last_->set_name(result);
  return result;
}

onnx::AttributeProto& NodeExport::attribute(std::string_view key, onnx::AttributeProto::AttributeType type) {
  auto& attribute = *last_->add_attribute();
  attribute.set_name(std::string(key));
  attribute.set_type(type);
  return attribute;
}

NodeExport& NodeExport::set_source_function(std::string_view target) {
  rehearsal::formats::set_source_function(*last_, target);
  return *this;
}

NodeExport& NodeExport::set_source_call(std::string_view target, const std::vector<std::string>& arguments) {
  rehearsal::formats::set_source_call(*last_, target, arguments);
  return *this;
}

NodeExport& NodeExport::set(std::string_view key, std::int64_t value) {
  attribute(key, onnx::AttributeProto::INT).set_i(value);
  return *this;
}
NodeExport& NodeExport::set(std::string_view key, double value) {
  attribute(key, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(value));
  return *this;
}
NodeExport& NodeExport::set(std::string_view key, const std::string& value) {
  attribute(key, onnx::AttributeProto::STRING).set_s(value);
  return *this;
}
NodeExport& NodeExport::set(std::string_view key, const std::vector<std::int64_t>& values) {
  auto& list = attribute(key, onnx::AttributeProto::INTS);
  for (const std::int64_t v : values) list.add_ints(v);
  return *this;
}

NodeExport& NodeExport::copy(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const graph::AttributeValue* value = node_.attributes.find(key);
    if (!value) continue;
    if (const auto* i = std::get_if<std::int64_t>(value)) set(key, *i);
    if (const auto* f = std::get_if<double>(value)) set(key, *f);
    if (const auto* s = std::get_if<std::string>(value)) set(key, *s);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) set(key, *list);
  }
  return *this;
}

std::string NodeExport::initializer(const graph::Value& value) {
  auto& tensor = *file_.model.mutable_graph()->add_initializer();
  tensor.set_name(node_.name + "/constant_" + std::to_string(++file_.names));
  tensor.set_data_type(row(value.type.dtype).onnx_code);
  for (const std::int64_t d : value.type.shape) tensor.add_dims(d);
  const graph::Contents contents = graph::contents_of(value);
  const auto& bytes = *std::get<graph::InlineBytes>(contents.source).data;
  tensor.set_raw_data(bytes.data(), bytes.size());
  return tensor.name();
}

std::string NodeExport::integers(const std::vector<std::int64_t>& values) { return initializer(graph::Value::vector(values)); }
std::string NodeExport::integer(std::int64_t value) { return initializer(graph::Value::of_integers({value}, {})); }
std::string NodeExport::scalar(double value, DType type) { return initializer(graph::Value::scalar(value, type)); }

void NodeExport::need_opset(std::int64_t version) { file_.opset = std::max(file_.opset, version); }

void NodeExport::refuse(const std::string& why) const { throw Refusal("node '" + node_.name + "' (" + std::string(op()) + "): " + why); }

}  // namespace rehearsal::formats
