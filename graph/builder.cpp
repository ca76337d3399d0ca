#include "graph/builder.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

/// When a graph is continued, constants up to this size are read back so that they can take part in folding.
constexpr std::int64_t kLargestReread = std::int64_t{1} << 16;

bool is_small_constant(const Tensor& tensor) {
  const bool in_memory =
      std::holds_alternative<InlineBytes>(tensor.contents.source) || std::holds_alternative<Fill>(tensor.contents.source);
  return tensor.role == TensorRole::Constant && in_memory && element_count(tensor.type.shape) <= kLargestReread;
}

Value value_of(const Tensor& tensor) {
  Value value{tensor.type, {}, {}};
  if (value.integral()) {
    value.integers = read_integers(tensor.contents, tensor.type.shape);
  } else {
    value.reals = read_reals(tensor.contents, tensor.type.shape, 0, 0);
  }
  return value;
}

/// `base`, or `base` with the first number that makes it unlike every key of `taken`.
template <class IsTaken>
std::string unused_name(std::string_view base, std::size_t& last, const IsTaken& is_taken) {
  std::string name(base);
  while (is_taken(name)) name = std::string(base) + "_" + std::to_string(++last);
  return name;
}

constexpr std::array kRoleOfPhase = {TensorRole::Activation, TensorRole::Gradient, TensorRole::Gradient};

}  // namespace

GraphBuilder::GraphBuilder(const Graph& start) : graph_(start) {
  for (std::size_t t = 0; t < graph_.tensors_.size(); ++t) {
    if (is_small_constant(graph_.tensors_[t])) values_.emplace(static_cast<TensorId>(t), value_of(graph_.tensors_[t]));
  }
  for (const Node& node : graph_.nodes_) node_names_.insert(node.name);
}

TensorId GraphBuilder::add_tensor(Tensor tensor) {
  if (tensor.name.empty()) throw BadInput("a tensor has no name");
  (void)element_count(tensor.type.shape);  // throws when it overflows
  const auto id = static_cast<TensorId>(graph_.tensors_.size());
  if (!graph_.by_name_.emplace(tensor.name, id).second) throw BadInput("tensor '" + tensor.name + "'", "two tensors have this name");
  graph_.tensors_.push_back(std::move(tensor));
  return id;
}

TensorId GraphBuilder::add_input(std::string name, TensorType type) {
  const TensorId t = add_tensor({std::move(name), std::move(type), TensorRole::Input, NodeId::None, {}, TensorId::None});
  graph_.inputs_.push_back(t);
  return t;
}

TensorId GraphBuilder::add_stored(std::string name, TensorType type, TensorRole role, Contents contents) {
  return add_tensor({std::move(name), std::move(type), role, NodeId::None, std::move(contents), TensorId::None});
}

TensorId GraphBuilder::add_constant(std::string name, Value value) {
  constexpr std::int64_t kKept = 1 << 14;  // elements; of longer ones, which are rarely asked for, the stored bytes are enough
  const TensorId t = add_stored(std::move(name), value.type, TensorRole::Constant, contents_of(value));
  if (value.count() <= kKept)
    values_.emplace(t, std::move(value));
  else
    stored_values_.insert(t);
  return t;
}

std::vector<std::optional<TensorType>> GraphBuilder::types_of(const std::vector<TensorId>& ids) const {
  std::vector<std::optional<TensorType>> types;
  types.reserve(ids.size());
  for (const TensorId t : ids) types.push_back(t == TensorId::None ? std::nullopt : std::optional(type(t)));
  return types;
}

std::vector<TensorId> GraphBuilder::add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes) {
  return add(op, std::move(inputs), std::move(attributes), NodeOptions{});
}

std::vector<TensorId> GraphBuilder::add(std::string_view op_name, std::vector<TensorId> inputs, Attributes attributes,
                                        NodeOptions options) {
  Node node{op(op_name), {}, options.phase, options.forward, std::move(inputs), {}, std::move(attributes)};
  const OpSchema& row = schema(node);
  node.name = fresh_node_name(options.name.empty() ? op_name : options.name);
  const auto input_types = types_of(node.inputs);
  try {
    const std::vector<TensorType> types = row.infer({input_types, {}, node.attributes});
    if (options.output_names.size() > types.size()) {
      throw BadInput("names " + std::to_string(options.output_names.size()) + " results, the operator has " + std::to_string(types.size()));
    }
    const std::vector<std::optional<TensorType>> output_types(types.begin(), types.end());
    auto values = fold(row, {input_types, output_types, node.attributes}, node.inputs);
    if (!values && has(row.traits, Trait::DataDependent))
      throw BadInput("the shape of its result depends on values that are not known before the run");
    node.outputs = store_results(node, types, options, values ? &*values : nullptr);
    if (!values && options.behind != NodeId::None) behind_[graph_.nodes_.size()] = index(options.behind);
    if (!values) graph_.nodes_.push_back(node);
  } catch (const BadInput& error) {
    throw BadInput("node '" + node.name + "' (" + std::string(op_name) + ")", error.what());
  }
  return std::move(node.outputs);
}

std::optional<std::vector<Value>> GraphBuilder::fold(const OpSchema& row, const NodeView& node, const std::vector<TensorId>& inputs) const {
  if (!row.evaluate) return std::nullopt;
  const auto is_known = [&](TensorId t) { return t == TensorId::None || values_.contains(t) || stored_values_.contains(t); };
  if (!std::ranges::all_of(inputs, is_known)) return std::nullopt;
  const auto too_large = [](const auto& type) { return type && element_count(type->shape) > kLargestFolded; };
  if (std::any_of(node.outputs.begin(), node.outputs.end(), too_large)) return std::nullopt;
  std::vector<const Value*> known;
  for (const TensorId t : inputs) known.push_back(t == TensorId::None ? nullptr : value(t));
  return row.evaluate(node, known);
}

std::vector<TensorId> GraphBuilder::store_results(const Node& node, const std::vector<TensorType>& types, const NodeOptions& options,
                                                  std::vector<Value>* values) {
  const auto& names = options.output_names;
  const auto producer = values ? NodeId::None : static_cast<NodeId>(graph_.nodes_.size());
  std::vector<TensorId> outputs;
  for (std::size_t i = 0; i < (names.empty() ? types.size() : names.size()); ++i) {
    if (!names.empty() && names[i].empty()) {
      outputs.push_back(TensorId::None);
      continue;
    }
    std::string tensor_name = names.empty() ? fresh_name(types.size() == 1 ? node.name : node.name + "." + std::to_string(i)) : names[i];
    outputs.push_back(
        values ? add_constant(std::move(tensor_name), std::move((*values)[i]))
               : add_tensor(
                     {std::move(tensor_name), types[i], kRoleOfPhase[static_cast<std::size_t>(node.phase)], producer, {}, TensorId::None}));
  }
  return outputs;
}

const Value* GraphBuilder::value(TensorId t) const {
  if (const auto found = values_.find(t); found != values_.end()) return &found->second;
  return stored_values_.contains(t) ? &values_.emplace(t, value_of((*this)[t])).first->second : nullptr;
}

std::string GraphBuilder::fresh_name(std::string_view base) {
  return unused_name(base, tensor_numbers_[std::string(base)], [&](const std::string& name) { return graph_.by_name_.contains(name); });
}

std::string GraphBuilder::fresh_node_name(std::string_view base) {
  std::string name =
      unused_name(base, node_numbers_[std::string(base)], [&](const std::string& candidate) { return node_names_.contains(candidate); });
  node_names_.insert(name);
  return name;
}

void GraphBuilder::set_stored_in(TensorId updated, TensorId storage) {
  ensure(type(updated) == type(storage), "an updated tensor must have the type of the tensor it overwrites");
  graph_.tensors_[index(updated)].stored_in = storage;
  set_role(updated, TensorRole::Updated);
}

void GraphBuilder::rename(TensorId t, std::string_view base) {
  std::string& name = graph_.tensors_[index(t)].name;
  graph_.by_name_.erase(name);
  name = fresh_name(base);
  graph_.by_name_.emplace(name, t);
}

void GraphBuilder::replace_uses(TensorId t, TensorId other) {
  ensure(type(t) == type(other), "a tensor is only replaced by one of its type");
  for (Node& node : graph_.nodes_) std::replace(node.inputs.begin(), node.inputs.end(), t, other);
}

void GraphBuilder::keep_all() {
  for (std::size_t t = 0; t < graph_.tensors_.size(); ++t) keep(static_cast<TensorId>(t));
}

namespace {

/// What of a graph build() keeps. A result that nobody reads stays with its node: most kernels compute it anyway.
struct Live {
  std::vector<bool> tensors, nodes;

  explicit Live(const Graph& graph) : tensors(graph.tensors().size()), nodes(graph.nodes().size()) {}

  void mark(const Graph& graph, std::vector<TensorId> wanted) {
    while (!wanted.empty()) {
      const TensorId t = wanted.back();
      wanted.pop_back();
      if (t == TensorId::None || tensors[index(t)]) continue;
      tensors[index(t)] = true;
      wanted.push_back(graph[t].stored_in);
      const NodeId producer = graph[t].producer;
      if (producer == NodeId::None || nodes[index(producer)]) continue;
      nodes[index(producer)] = true;
      for (const TensorId result : graph[producer].outputs) {
        if (result != TensorId::None) tensors[index(result)] = true;
      }
      wanted.insert(wanted.end(), graph[producer].inputs.begin(), graph[producer].inputs.end());
    }
  }
};

/// Old number -> new number; None for what is dropped.
template <class Id>
std::vector<Id> renumbered(const std::vector<std::size_t>& order, std::size_t count) {
  std::vector<Id> numbers(count, Id::None);
  for (std::size_t next = 0; next < order.size(); ++next) numbers[order[next]] = static_cast<Id>(next);
  return numbers;
}

std::vector<std::size_t> kept_indices(const std::vector<bool>& live) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (live[i]) order.push_back(i);
  }
  return order;
}

}  // namespace

Graph GraphBuilder::build(Renumbering* renumbering) && {
  Live live(graph_);
  std::vector<TensorId> wanted = kept_;
  wanted.insert(wanted.end(), graph_.outputs_.begin(), graph_.outputs_.end());
  wanted.insert(wanted.end(), graph_.inputs_.begin(), graph_.inputs_.end());
  for (std::size_t t = 0; t < graph_.tensors_.size(); ++t) {
    if (graph_.tensors_[t].stored_in != TensorId::None) wanted.push_back(static_cast<TensorId>(t));
  }
  live.mark(graph_, std::move(wanted));
  std::vector<std::size_t> nodes = kept_indices(live.nodes);
  const auto place = [&](std::size_t n) {
    const auto at = behind_.find(n);
    return std::pair(graph_.nodes_[n].phase, at == behind_.end() ? n : at->second);
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  const std::vector<std::size_t> tensors = kept_indices(live.tensors);
  Renumbering numbers{renumbered<TensorId>(tensors, graph_.tensors_.size()), renumbered<NodeId>(nodes, graph_.nodes_.size())};
  Graph result = rearranged(tensors, nodes, numbers);
  if (renumbering) *renumbering = std::move(numbers);
  return result;
}

Graph GraphBuilder::rearranged(const std::vector<std::size_t>& tensors, const std::vector<std::size_t>& nodes, const Renumbering& numbers) {
  Graph result;
  for (const std::size_t t : tensors) {
    Tensor& tensor = result.tensors_.emplace_back(std::move(graph_.tensors_[t]));
    tensor.producer = numbers(tensor.producer);
    tensor.stored_in = numbers(tensor.stored_in);
    result.by_name_.emplace(tensor.name, numbers.tensors[t]);
  }
  for (const std::size_t n : nodes) {
    Node& node = result.nodes_.emplace_back(std::move(graph_.nodes_[n]));
    node.forward = numbers(node.forward);
    for (TensorId& t : node.inputs) t = numbers(t);
    for (TensorId& t : node.outputs) t = numbers(t);
  }
  for (const TensorId t : graph_.inputs_) result.inputs_.push_back(numbers(t));
  for (const TensorId t : graph_.outputs_) result.outputs_.push_back(numbers(t));
  return result;
}

}  // namespace rehearsal::graph
