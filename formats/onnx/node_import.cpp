#include "formats/onnx/node_import.hpp"

#include <algorithm>

#include "formats/onnx/importer.hpp"
#include "formats/onnx/notes.hpp"

namespace rehearsal::formats {

using graph::TensorId;

namespace {

std::string display_name(const onnx::NodeProto& node) {
  return !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
}

}  // namespace

NodeImport::NodeImport(Importer& importer, const onnx::NodeProto& node, std::int64_t version)
    : importer_(importer),
      node_(node),
      version_(version),
      name_(display_name(node)),
      outputs_(static_cast<std::size_t>(node.output_size())) {}

const std::string& NodeImport::op() const { return node_.op_type(); }
bool NodeImport::training() const { return importer_.options_.training_form; }

bool NodeImport::traced() const {
  return importer_.file_.model.producer_name() == "pytorch" && importer_.declarations_.parameters().empty();
}
graph::GraphBuilder& NodeImport::builder() const { return importer_.builder_; }
void NodeImport::warn(const std::string& sentence) const { importer_.warn(described(node_) + ": " + sentence); }
void NodeImport::fail(const std::string& what) const { throw BadInput(described(node_), what); }

void NodeImport::unsupported(const std::string& what) const {
  throw UnsupportedOperator(described(node_), what + " (domain '" + (node_.domain().empty() ? "ai.onnx" : node_.domain()) + "', opset " +
                                                  std::to_string(version_) + ")");
}

// Operands

TensorId NodeImport::input(std::size_t i) const {
  if (!has(i)) fail("operand " + std::to_string(i) + " is missing");
  const auto* t = std::get_if<TensorId>(&inputs_[i]);
  if (!t) fail("operand " + std::to_string(i) + " is a sequence, it must be a tensor");
  return *t;
}

std::vector<TensorId> NodeImport::inputs() const {
  std::vector<TensorId> all;
  for (std::size_t i = 0; i < inputs_.size(); ++i) all.push_back(input_or_none(i));
  return all;
}

const std::vector<TensorId>& NodeImport::sequence(std::size_t i) const {
  const auto* parts = i < inputs_.size() ? std::get_if<std::vector<TensorId>>(&inputs_[i]) : nullptr;
  if (!parts) fail("operand " + std::to_string(i) + " must be a sequence");
  return *parts;
}

graph::TensorType NodeImport::type(std::size_t i) const { return builder().type(input(i)); }
graph::Shape NodeImport::shape(std::size_t i) const { return builder()[input(i)].type.shape; }
const graph::Value* NodeImport::value(std::size_t i) const { return builder().value(input(i)); }

const graph::Value& NodeImport::known(std::size_t i, std::string_view what) const {
  return known_tensor(input(i), "operand " + std::to_string(i) + " ('" + builder()[input(i)].name + "') gives " + std::string(what));
}

const graph::Value& NodeImport::known_tensor(TensorId t, std::string_view what) const {
  const graph::Value* values = builder().value(t);
  if (!values) {
    throw DependsOnData(builder()[t].name,
                        described(node_) + ": " + std::string(what) + ", so it must follow from shapes and constants; it depends on data");
  }
  return *values;
}

std::vector<std::int64_t> NodeImport::known_integers(std::size_t i, std::string_view what) const {
  const graph::Value& values = known(i, what);
  std::vector<std::int64_t> integers;
  for (std::int64_t k = 0; k < values.count(); ++k) integers.push_back(values.integer(k));
  return integers;
}

std::int64_t NodeImport::known_integer(std::size_t i, std::string_view what) const {
  const auto values = known_integers(i, what);
  if (values.size() != 1)
    fail("operand " + std::to_string(i) + " gives " + std::string(what) + ", so it must have one element; it has " +
         std::to_string(values.size()));
  return values[0];
}

double NodeImport::known_number(std::size_t i, std::string_view what) const {
  const graph::Value& values = known(i, what);
  if (values.count() != 1)
    fail("operand " + std::to_string(i) + " gives " + std::string(what) + ", so it must have one element; it has " +
         std::to_string(values.count()));
  return values.real(0);
}

// Attributes

const onnx::AttributeProto* NodeImport::attribute(std::string_view key) const {
  for (const auto& a : node_.attribute()) {
    if (a.name() == key) return &a;
  }
  return nullptr;
}

std::int64_t NodeImport::integer(std::string_view key, std::int64_t otherwise) const {
  const auto* a = attribute(key);
  return a ? a->i() : otherwise;
}

double NodeImport::number(std::string_view key, double otherwise) const {
  const auto* a = attribute(key);
  return a ? static_cast<double>(a->f()) : otherwise;
}

std::string NodeImport::text(std::string_view key, std::string_view otherwise) const {
  const auto* a = attribute(key);
  return a ? a->s() : std::string(otherwise);
}

std::vector<std::int64_t> NodeImport::integers(std::string_view key) const {
  const auto* a = attribute(key);
  return a ? std::vector<std::int64_t>(a->ints().begin(), a->ints().end()) : std::vector<std::int64_t>{};
}

std::vector<double> NodeImport::numbers(std::string_view key) const {
  const auto* a = attribute(key);
  return a ? std::vector<double>(a->floats().begin(), a->floats().end()) : std::vector<double>{};
}

std::vector<std::string> NodeImport::texts(std::string_view key) const {
  const auto* a = attribute(key);
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end()) : std::vector<std::string>{};
}

std::optional<graph::Value> NodeImport::tensor(std::string_view key) const {
  const auto* a = attribute(key);
  if (!a || !a->has_t()) return std::nullopt;
  const StoredTensor stored = stored_tensor(importer_.file_, a->t(), name_);
  if (!stored.contents.known()) fail("attribute " + std::string(key) + " is a tensor without numbers");
  return value_of(stored);
}

std::vector<std::int64_t> NodeImport::integers_from(std::string_view key, std::size_t i) const {
  if (has_attribute(key)) return integers(key);
  return has(i) ? known_integers(i, std::string("its ") + std::string(key)) : std::vector<std::int64_t>{};
}

// Results

std::size_t NodeImport::output_count() const { return outputs_.size(); }
bool NodeImport::wants(std::size_t i) const { return i < outputs_.size() && !output_name(i).empty(); }
bool NodeImport::reads(std::size_t i) const {
  if (!wants(i)) return false;
  const auto& usage = importer_.scope_->usage;
  const auto use = usage.find(output_name(i));
  return (use != usage.end() && use->second != 0) || importer_.is_output(output_name(i));
}
const std::string& NodeImport::output_name(std::size_t i) const { return node_.output(static_cast<int>(i)); }

std::vector<TensorId> NodeImport::emit_all(std::string_view row, std::vector<TensorId> operands, graph::Attributes attributes) {
  if (!graph::find_op(row)) unsupported("it needs the operator " + std::string(row) + ", which is not supported");
  graph::GraphBuilder::NodeOptions options;
  options.name = importer_.scope_->prefix + (name_.empty() ? op() : name_);
  return builder().add(row, std::move(operands), std::move(attributes), std::move(options));
}

TensorId NodeImport::emit(std::string_view row, std::vector<TensorId> operands, graph::Attributes attributes) {
  return emit_all(row, std::move(operands), std::move(attributes)).front();
}

TensorId NodeImport::constant(graph::Value value) {
  return builder().add_constant(builder().fresh_name(importer_.scope_->prefix + name_ + "/constant"), std::move(value));
}

TensorId NodeImport::reshape(TensorId t, graph::Shape shape) { return emit("Reshape", {t}, {{"shape", std::move(shape)}}); }

bool NodeImport::stands_for(std::string_view target) const { return source_function(node_).starts_with(target); }
std::vector<std::string> NodeImport::source_arguments() const { return formats::source_arguments(node_); }

/// torch.export merges without Identity, and lists what it merged; TorchScript gives the results of operators names of their own.
bool NodeImport::is_separate(std::size_t output) const {
  const std::string& name = output_name(output);
  const bool is_result = name.starts_with('/') && name.find("_output_") != std::string::npos;
  if (importer_.scope_ != &importer_.main_) return !is_result;
  return !is_result && importer_.declarations_.kind(name) != DeclaredKind::Unlisted;
}

TensorId NodeImport::copy_of_stored(TensorId t, std::size_t output) {
  Importer::Scope& scope = *importer_.scope_;
  return importer_.copy_of_stored(t, scope.prefix + output_name(output),
                                  importer_.candidate(output_name(output), builder().type(t), scope));
}

TensorId NodeImport::state(std::size_t i, std::string_view suffix) {
  if (!has(i)) return TensorId::None;
  TensorId t = input(i);
  const graph::Tensor tensor = builder()[t];
  if (tensor.producer != graph::NodeId::None) return TensorId::None;
  if (tensor.role != graph::TensorRole::State || importer_.running_.contains(t)) {
    const std::string name = builder().fresh_name(importer_.scope_->prefix + name_ + std::string(suffix));
    if (tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::State) {
      warn("'" + tensor.name + "' serves as running statistics and elsewhere: the statistics get a copy of their own, '" + name + "'");
    }
    t = builder().add_stored(name, tensor.type, graph::TensorRole::State, tensor.contents);
  }
  importer_.running_.insert(t);
  return t;
}

void NodeImport::declare(std::size_t i, const graph::TensorType& type) {
  if (importer_.scope_ == &importer_.main_) importer_.result_.tensors[output_name(i)] = type;
}

void NodeImport::set_stored(std::size_t i, std::string_view key) {
  const auto* a = attribute(key);
  if (!a || !a->has_t()) fail("attribute " + std::string(key) + " must be a tensor");
  const StoredTensor stored = stored_tensor(importer_.file_, a->t(), output_name(i));
  if (!stored.missing.empty()) fail("the file " + stored.missing + " with its values does not exist");
  const auto facts = importer_.candidate(output_name(i), stored.type, *importer_.scope_);
  const bool weight = stands_for_weight(stored.type) && !facts.traced;
  const auto role = weight ? role_of_stored(facts, stored.contents) : graph::TensorRole::Constant;
  set(i, importer_.add_stored(importer_.scope_->prefix + output_name(i), stored, role));
}

bool NodeImport::stands_for_weight(const graph::TensorType& type) const {
  const std::string shape_name = node_.input_size() > 0 ? node_.input(0) : "";
  return is_generated_weight(importer_.candidate(output_name(0), type, *importer_.scope_), shape_name);
}

void NodeImport::set_weight(std::size_t i, const graph::TensorType& type, const graph::Contents& contents) {
  const auto facts = importer_.candidate(output_name(i), type, *importer_.scope_);
  set(i, importer_.add_stored(importer_.scope_->prefix + output_name(i), {type, contents, {}}, role_of_stored(facts, contents)));
}

void NodeImport::mark_noise(TensorId t) { importer_.noise_.insert(t); }
bool NodeImport::is_noise(std::size_t i) const {
  return has(i) && std::holds_alternative<TensorId>(inputs_[i]) && importer_.noise_.contains(input(i));
}

std::int64_t NodeImport::next_stream() { return static_cast<std::int64_t>(importer_.streams_++); }

std::vector<Meaning> NodeImport::run_body(std::string_view key, const std::vector<Meaning>& arguments, BodyMemory& memory) {
  const auto* a = attribute(key);
  if (!a || !a->has_g()) fail("attribute " + std::string(key) + " must be a graph");
  Importer::Scope* const scope = importer_.scope_;
  auto results = importer_.run_graph(a->g(), *scope, arguments, memory);
  importer_.scope_ = scope;
  return results;
}

}  // namespace rehearsal::formats
