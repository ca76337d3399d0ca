#include "formats/onnx/importer.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "formats/onnx/import_row.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;
using graph::TensorRole;

constexpr int kDeepestScope = 32;
constexpr std::size_t kLongestExpansion = 8;    ///< nodes that are listed by name
constexpr std::size_t kMostInlined = 1U << 20;  ///< nodes of function bodies: a bound for functions that call each other

OpsetVersions versions_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  OpsetVersions versions;
  for (const auto& set : imports) versions[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  return versions;
}

/// A node that stands for a stored tensor.
bool is_stored_node(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && node.input_size() == 0 && node.output_size() == 1;
}

}  // namespace

Importer::Importer(const ModelFile& file, const ImportOptions& options, ImportWatcher* watcher)
    : file_(file), options_(options), watcher_(watcher), declarations_(file.model), opsets_(versions_of(file.model.opset_import())) {
  for (const auto& function : file.model.functions()) {
    functions_[function_key(function.domain(), function.name())] = &function;
    function_opsets_[&function] = versions_of(function.opset_import());
  }
  main_.opsets = &opsets_;
}

/// What inputs and initializers stand for follows from who reads them.
void Importer::prepare() {
  if (!nodes_.empty()) return;
  const onnx::GraphProto& graph = file_.model.graph();
  nodes_ = in_topological_order(graph.node(), file_.path);
  main_.usage = usage_of(nodes_, functions_);
  for (const auto& tensor : graph.initializer()) {
    if (!main_.initializers.emplace(tensor.name(), &tensor).second)
      throw BadInput(file_.path, "two initializers have the name '" + tensor.name() + "'");
  }
  const auto& listed = declarations_.parameters();
  stores_all_listed_ =
      std::all_of(listed.begin(), listed.end(), [&](const std::string& name) { return main_.initializers.contains(name); });
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.output()) {
      if (!produced_.insert(name).second && !name.empty()) throw BadInput(file_.path, "tensor '" + name + "' is produced twice");
      if (main_.initializers.contains(name))
        throw BadInput(file_.path, described(node) + " produces '" + name + "', which is an initializer too; names must be unique");
    }
  }
}

void Importer::import_nodes() { run_nodes(nodes_, main_); }

ImportedModel Importer::finish() && {
  record_declared();
  warn_of_missing();
  std::vector<std::string> nodes;
  if (options_.after_pass)
    for (const auto& node : builder_.so_far().nodes()) nodes.push_back(node.name);
  graph::Renumbering numbers;
  result_.graph = std::move(builder_).build(&numbers);
  for (std::size_t n = 0; n < nodes.size(); ++n)
    if (numbers.nodes[n] == graph::NodeId::None) note("dropped", nodes[n], "no output needs it");
  return std::move(result_);
}

// What was done

void Importer::note(std::string_view what, std::string name, std::string detail) {
  if (options_.after_pass) changes_.push_back({what, std::move(name), std::move(detail)});
}

/// What became of a node of the file, where it is not one node of the graph.
void Importer::note_node(const onnx::NodeProto& node, const Scope& scope, std::size_t first_node, std::size_t first_tensor) {
  if (!options_.after_pass || node.output_size() == 0) return;
  const std::string called = scope.prefix + (node.name().empty() ? node.output(0) : node.name());
  const auto& nodes = builder_.so_far().nodes();
  if (nodes.size() == first_node) {
    const auto result = scope.meanings.find(node.output(0));
    const auto* t = result == scope.meanings.end() ? nullptr : std::get_if<TensorId>(&result->second);
    if (is_stored_node(node) || !t) return;
    if (graph::index(*t) >= first_tensor) return note("folded", called, node.op_type() + ", its result is known");
    return note("passed over", called, node.op_type() + ", its result is '" + builder_[*t].name + "'");
  }
  if (nodes.size() == first_node + 1) return;
  std::vector<std::string_view> operators;
  for (std::size_t n = first_node; n < nodes.size(); ++n) operators.push_back(graph::schema(nodes[n]).name);
  const bool many = operators.size() > kLongestExpansion;
  note("expanded", called, node.op_type() + " as " + (many ? std::to_string(operators.size()) + " nodes" : joined(operators)));
}

// Inputs and outputs

void Importer::add_inputs() {
  for (const auto& info : file_.model.graph().input()) {
    if (main_.initializers.contains(info.name())) continue;  // IR 3 lists initializers as inputs too
    if (const auto given = options_.given.find(info.name()); given != options_.given.end()) {
      add_given(given->first, given->second);
      continue;
    }
    if (produced_.contains(info.name())) throw BadInput("input '" + info.name() + "'", "a node produces it too; names must be unique");
    if (!info.type().has_tensor_type())
      throw BadInput("input '" + info.name() + "'", "is no tensor; sequences, maps and optionals cannot be fed");
    graph::TensorType type = bound_type(info);
    const bool data = is_data_input(info), rows = watcher_ && data && has_written_batch(info);
    if (rows) type.shape[0] = watcher_->batch();
    const TensorId t =
        data ? builder_.add_input(info.name(), type)
             : builder_.add_stored(info.name(), type, role_of_stored(candidate(info.name(), type, main_), {}), {type.dtype, {}});
    if (rows) watcher_->note_input(t, type.shape);
    if (!main_.meanings.emplace(info.name(), t).second) throw BadInput("input '" + info.name() + "'", "is listed twice");
  }
}

void Importer::add_given(const std::string& name, const GivenInput& given) {
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < given.types.size(); ++i) {
    const std::string part = given.sequence ? part_name(name, i) : name;
    parts.push_back(given.known.empty() ? builder_.add_input(part, given.types[i]) : builder_.add_constant(part, given.known[i]));
  }
  Meaning meaning;
  if (given.sequence) {
    meaning = std::move(parts);
  } else if (!given.absent) {
    meaning = parts.at(0);
  }
  main_.meanings[name] = std::move(meaning);
}

/// The tensor under the name that the file gives an output.
TensorId Importer::output_tensor(TensorId t, const std::string& name) {
  // An alias (Identity of an input, a folded constant) becomes a node, so that the output can be found by its name.
  if (builder_[t].name == name && builder_[t].producer != graph::NodeId::None) return t;
  if (builder_.find(name) != TensorId::None && builder_[t].role == TensorRole::Constant) builder_.rename(t, name + "/constant");
  const TensorId other = builder_.find(name);  // a part of the node that makes the output
  if (other != TensorId::None && other != t && builder_[other].producer != graph::NodeId::None) builder_.rename(other, name + "/part");
  graph::GraphBuilder::NodeOptions options;
  options.name = name;
  const graph::TensorType type = builder_.type(t);
  const TensorId alias = builder_.find(name) == t ? t : builder_.add("Reshape", {t}, {{"shape", type.shape}}, options).front();
  if (alias != t) builder_.rename(alias, name);
  return alias;
}

void Importer::add_outputs() {
  std::vector<TensorId> outputs;
  for (const auto& info : file_.model.graph().output()) {
    const auto produced = main_.meanings.find(info.name());
    if (produced == main_.meanings.end() && produced_.contains(info.name())) continue;  // running statistics: state, no output
    const Meaning meaning = look_up(info.name(), main_);
    if (const auto* parts = std::get_if<std::vector<TensorId>>(&meaning); parts && !options_.given.empty()) {
      result_.sequence_outputs[info.name()] = parts->size();
      for (std::size_t i = 0; i < parts->size(); ++i) outputs.push_back(output_tensor((*parts)[i], part_name(info.name(), i)));
      continue;
    }
    const auto* t = std::get_if<TensorId>(&meaning);
    if (!t) {
      if (std::holds_alternative<std::monostate>(meaning) && options_.collect_unknown) continue;
      throw BadInput("output '" + info.name() + "'", "is a sequence; outputs must be tensors");
    }
    outputs.push_back(output_tensor(*t, info.name()));
  }
  if (outputs.empty() && !options_.collect_unknown && result_.sequence_outputs.empty()) throw BadInput("the graph", "has no outputs");
  builder_.set_outputs(std::move(outputs));
}

void Importer::record_declared() {
  const auto& model = file_.model;
  for (const auto& entry : model.metadata_props()) result_.metadata[entry.key()] = entry.value();
  for (const auto& entry : model.graph().metadata_props()) result_.metadata[entry.key()] = entry.value();
  result_.producer = model.producer_name() + (model.producer_version().empty() ? "" : " " + model.producer_version());
  result_.opset = version_of("", main_);
  for (const auto& node : model.graph().node()) ++result_.operators[node.op_type()];
  for (const auto& [name, meaning] : main_.meanings) {
    if (const auto* t = std::get_if<TensorId>(&meaning)) {
      const auto grown = watcher_ ? watcher_->grown(*t) : std::nullopt;
      result_.tensors[name] = grown ? *grown : builder_.type(*t);
    }
    if (std::holds_alternative<std::monostate>(meaning) && !result_.tensors.contains(name)) result_.unresolved.push_back(name);
  }
  for (const auto& [name, tensor] : main_.initializers) {
    if (result_.tensors.contains(name)) continue;
    const auto type = dtype_from_onnx(tensor->data_type());
    if (type) result_.tensors[name] = {*type, {tensor->dims().begin(), tensor->dims().end()}};
  }
  std::sort(result_.unresolved.begin(), result_.unresolved.end());
}

// Nodes

void Importer::run_nodes(const NodeList& nodes, Scope& scope) {
  for (const onnx::NodeProto* node : nodes) run_node(*node, scope);
}

void Importer::run_node(const onnx::NodeProto& node, Scope& scope) {
  if (node.output_size() == 0) return;  // nothing can come of it
  try {
    if (reads_unknown(node, scope)) return skip(node, scope, "");
    const auto function = functions_.find(function_key(node.domain(), node.op_type()));
    if (function != functions_.end()) return call(node, *function->second, scope);
    import_row(node, scope);
  } catch (const UnsupportedOperator& error) {
    if (!options_.collect_unknown) throw;
    skip(node, scope, error.what());
  } catch (const DependsOnData& error) {
    if (!options_.collect_unknown) throw;
    skip(node, scope, error.what());
  } catch (const BadInput&) {
    // behind an unknown operator the declared shapes may be wrong: the fault is named already
    if (!options_.collect_unknown || result_.unknown.empty()) throw;
    skip(node, scope, "");
  }
}

void Importer::import_row(const onnx::NodeProto& node, Scope& scope) {
  const std::int64_t version = version_of(node.domain(), scope);
  NodeImport view(*this, node, version);
  Scope* const previous = std::exchange(scope_, &scope);
  const ImportRow* row = find_import_row(node.domain(), node.op_type(), version);
  if (!row) view.unsupported("this operator is not supported");
  for (const std::string& name : node.input()) view.inputs_.push_back(name.empty() ? Meaning{} : look_up(name, scope));
  const std::size_t first_new = builder_.so_far().tensors().size(), first_node = builder_.node_count();
  const std::size_t visit = watcher_ ? watcher_->before(view, node) : 0;
  row->import(view);
  if (watcher_) watcher_->after(visit, view);
  scope_ = previous;
  for (int i = 0; i < node.output_size(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (node.output(i).empty()) continue;
    if (std::holds_alternative<std::monostate>(view.outputs_[k])) {
      if (const auto use = scope.usage.find(node.output(i)); use != scope.usage.end() && use->second != 0)
        view.unsupported("its result " + std::to_string(i) + " is read, and is not supported");
      continue;
    }
    bind_result(node.output(i), std::move(view.outputs_[k]), first_new, scope);
  }
  note_node(node, scope, first_node, first_new);
}

void Importer::bind_result(const std::string& name, Meaning meaning, std::size_t first_new, Scope& scope) {
  if (const auto* t = std::get_if<TensorId>(&meaning); t && graph::index(*t) >= first_new) {
    const std::string full = scope.prefix + name;
    const TensorId part = builder_.find(full);  // of a node that became several, the first takes the name
    if (part != *t && part != TensorId::None && graph::index(part) >= first_new) builder_.rename(part, full + "/part");
    if (builder_[*t].name != full) builder_.rename(*t, full);
  }
  scope.meanings[name] = std::move(meaning);
}

bool Importer::reads_unknown(const onnx::NodeProto& node, Scope& scope) {
  if (!options_.collect_unknown) return false;
  const auto& names = node.input();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return !name.empty() && std::holds_alternative<std::monostate>(look_up(name, scope));
  });
}

/// Results of a node that cannot be imported: of the type that the file declares, or unknown.
void Importer::skip(const onnx::NodeProto& node, Scope& scope, const std::string& reason) {
  scope_ = nullptr;
  const std::string called = !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  note("left out", scope.prefix + called, reason.empty() ? "it reads what such a node makes" : reason);
  if (!reason.empty()) {
    result_.unknown.push_back(
        {scope.prefix + called, node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type(), reason});
  }
  for (const std::string& name : node.output()) {
    if (name.empty()) continue;
    scope.meanings[name] = Meaning{};
    const auto* info = &scope == &main_ ? declarations_.value_info(name) : nullptr;
    if (!info || !info->type().tensor_type().has_shape() || watcher_) continue;  // declared with the batch of the file
    try {
      const graph::TensorType type = bound_type(*info);
      scope.meanings[name] = builder_.add_stored(builder_.fresh_name(name), type, TensorRole::Constant, {type.dtype, {}});
    } catch (const BadInput&) {
      continue;  // a declaration in symbols that are not bound says nothing
    }
  }
}

void Importer::call(const onnx::NodeProto& node, const onnx::FunctionProto& function, Scope& scope) {
  inlined_ += static_cast<std::size_t>(function.node_size());
  if (scope.depth >= kDeepestScope || inlined_ > kMostInlined) throw BadInput(described(node), "its functions call each other too deeply");
  Scope inner;
  inner.depth = scope.depth + 1;
  inner.opsets = &function_opsets_[&function];
  inner.prefix = scope.prefix + (node.name().empty() ? node.op_type() + "_" + std::to_string(++calls_) : node.name()) + "/";
  for (int i = 0; i < function.input_size(); ++i) {
    inner.meanings[function.input(i)] = i < node.input_size() && !node.input(i).empty() ? look_up(node.input(i), scope) : Meaning{};
  }
  // attributes of the call stand in for the references to them in the body
  google::protobuf::RepeatedPtrField<onnx::NodeProto> body = function.node();
  for (auto& inside : body) {
    for (int a = inside.attribute_size() - 1; a >= 0; --a) {
      auto& attribute = *inside.mutable_attribute(a);
      if (attribute.ref_attr_name().empty()) continue;
      const auto same = [&](const onnx::AttributeProto& given) { return given.name() == attribute.ref_attr_name(); };
      const auto given = std::find_if(node.attribute().begin(), node.attribute().end(), same);
      const auto otherwise = std::find_if(function.attribute_proto().begin(), function.attribute_proto().end(), same);
      const bool found = given != node.attribute().end() || otherwise != function.attribute_proto().end();
      const std::string name = attribute.name();
      if (found) {
        attribute = given != node.attribute().end() ? *given : *otherwise;
        attribute.set_name(name);
      } else {
        inside.mutable_attribute()->DeleteSubrange(a, 1);
      }
    }
  }
  const NodeList nodes = in_topological_order(body, described(node));
  inner.usage = usage_of(nodes, functions_);
  run_nodes(nodes, inner);
  for (int i = 0; i < std::min(node.output_size(), function.output_size()); ++i) {
    if (!node.output(i).empty()) bind_result(node.output(i), look_up(function.output(i), inner), 0, scope);
  }
  note("inlined", inner.prefix.substr(0, inner.prefix.size() - 1),
       "a call of " + function.name() + ", " + std::to_string(nodes.size()) + " nodes");
}

std::vector<Meaning> Importer::run_graph(const onnx::GraphProto& body, Scope& scope, const std::vector<Meaning>& arguments,
                                         BodyMemory& memory) {
  if (scope.depth >= kDeepestScope) throw BadInput("the graph '" + body.name() + "'", "is nested too deeply");
  inlined_ += static_cast<std::size_t>(body.node_size());
  if (inlined_ > kMostInlined) throw BadInput("the graph '" + body.name() + "'", "runs too often to be unrolled");
  Scope inner;
  inner.depth = scope.depth + 1;
  inner.outer = &scope;
  inner.opsets = scope.opsets;
  inner.prefix = scope.prefix;
  inner.meanings = memory;
  for (int i = 0; i < std::min(body.input_size(), static_cast<int>(arguments.size())); ++i)
    inner.meanings[body.input(i).name()] = arguments[static_cast<std::size_t>(i)];
  for (const auto& tensor : body.initializer()) inner.initializers[tensor.name()] = &tensor;
  NodeList nodes = in_topological_order(body.node(), "the graph '" + body.name() + "'");
  inner.usage = usage_of(nodes, functions_);
  std::erase_if(nodes, [&](const onnx::NodeProto* node) { return is_stored_node(*node) && memory.contains(node->output(0)); });
  run_nodes(nodes, inner);
  remember(body, inner, memory);
  std::vector<Meaning> results;
  for (const auto& output : body.output()) results.push_back(look_up(output.name(), inner));
  return results;
}

/// What a body stores is one tensor however often it runs: weights of a loop are shared.
void Importer::remember(const onnx::GraphProto& body, const Scope& inner, BodyMemory& memory) {
  const auto keep = [&](const std::string& name) {
    if (const auto found = inner.meanings.find(name); found != inner.meanings.end()) memory[name] = found->second;
  };
  for (const auto& tensor : body.initializer()) keep(tensor.name());
  for (const auto& node : body.node()) {
    if (is_stored_node(node)) keep(node.output(0));
  }
}

// Names

std::int64_t Importer::version_of(const std::string& domain, const Scope& scope) const {
  const auto found = scope.opsets->find(domain == "ai.onnx" ? "" : domain);
  return found == scope.opsets->end() ? 1 : found->second;
}

FileTensor Importer::candidate(const std::string& name, const graph::TensorType& type, const Scope& scope) const {
  const auto usage = scope.usage.find(name);
  const DeclaredKind declared = &scope == &main_ ? declarations_.kind(name) : DeclaredKind::Unknown;
  return {.name = name,
          .type = type,
          .usage = usage == scope.usage.end() ? 0U : usage->second,
          .declared = declared,
          .all_listed = stores_all_listed_,
          .traced = &scope == &main_ && file_.model.producer_name() == "pytorch" && declarations_.parameters().empty(),
          .left_out = &scope == &main_ && declarations_.left_out(name)};
}

Meaning Importer::look_up(const std::string& name, Scope& scope) {
  const auto found = scope.meanings.find(name);
  if (found != scope.meanings.end()) return found->second;
  const auto initializer = scope.initializers.find(name);
  if (initializer != scope.initializers.end()) return scope.meanings[name] = add_initializer(name, *initializer->second, scope);
  if (scope.outer) return look_up(name, *scope.outer);
  return scope.meanings[name] = dangling(name, scope);
}

/// A name that nothing produces: with export_params=False the weights are only declared.
Meaning Importer::dangling(const std::string& name, Scope& scope) {
  const auto* info = &scope == &main_ ? declarations_.value_info(name) : nullptr;
  if (!info || !info->type().tensor_type().has_shape())
    throw BadInput("tensor '" + name + "'",
                   "is read, but no node produces it, and the file neither stores it nor declares its shape" +
                       std::string(declarations_.parameters().contains(name)
                                       ? ": export with keep_initializers_as_inputs=True when leaving out the weights"
                                       : ""));
  const graph::TensorType type = bound_type(*info);
  if (!is_float(type.dtype)) {
    warn("tensor '" + name + "' is declared, but its values are missing: export with optimize=False when exporting without parameters");
    return builder_.add_stored(name, type, TensorRole::Constant, {type.dtype, {}});
  }
  return builder_.add_stored(name, type, role_of_stored(candidate(name, type, scope), {}), {type.dtype, {}});
}

TensorId Importer::add_initializer(const std::string& name, const onnx::TensorProto& tensor, const Scope& scope) {
  const StoredTensor stored = stored_tensor(file_, tensor, name);
  if (!stored.missing.empty()) {
    if (!options_.allow_missing_weights)
      throw BadInput(stored.missing, "this file with the values of tensor '" + name + "' does not exist");
    missing_[stored.missing].push_back(name);
  }
  return add_stored(scope.prefix + name, stored, role_of_stored(candidate(name, stored.type, scope), stored.contents));
}

TensorId Importer::add_stored(const std::string& name, const StoredTensor& stored, TensorRole role) {
  const std::string fresh = builder_.fresh_name(name);
  const bool readable =
      role == TensorRole::Constant && stored.contents.known() && graph::element_count(stored.type.shape) <= graph::kLargestFolded;
  if (readable && stored.type.dtype != DType::String) return builder_.add_constant(fresh, value_of(stored));
  return builder_.add_stored(fresh, stored.type, role, stored.contents);
}

TensorId Importer::copy_of_stored(TensorId t, const std::string& name, const FileTensor& candidate) {
  const graph::Tensor original = builder_[t];
  const StoredTensor stored{original.type, original.contents, {}};
  return add_stored(name, stored, role_of_stored(candidate, original.contents));
}

bool Importer::is_output(const std::string& name) const {
  const auto& outputs = file_.model.graph().output();
  return std::any_of(outputs.begin(), outputs.end(), [&](const onnx::ValueInfoProto& info) { return info.name() == name; });
}

void Importer::warn(const std::string& sentence) { result_.warnings.push_back(sentence); }

void Importer::warn_of_missing() {
  for (const auto& [path, tensors] : missing_) {
    warn(path + " does not exist: the values of " + std::to_string(tensors.size()) + " tensors ('" + tensors.front() +
         "', ...) are not known");
  }
}

}  // namespace rehearsal::formats
