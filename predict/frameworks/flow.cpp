#include "predict/frameworks/flow.hpp"

#include <algorithm>
#include <set>

#include "graph/op_schema.hpp"
#include "graph/value.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using graph::CostFamily;
using graph::TensorId;

CostFamily family(const graph::Node& node) { return graph::schema(node).family; }
std::string_view op_name(const graph::Node& node) { return graph::schema(node).name; }
bool is_view(const graph::Node& node) { return family(node) == CostFamily::View || op_name(node) == "Reshape"; }
bool is_elementwise_or_cut(const graph::Node& node) {
  return family(node) == CostFamily::Elementwise || is_view(node) || op_name(node) == "Split";
}
bool is_product(const graph::Node& node) { return family(node) == CostFamily::MatMul; }

/// Sums that a normalization shares with the node that uses them: one operator to a framework, and one gradient.
bool is_statistic(const graph::Node& node) {
  const auto name = op_name(node);
  return name == "BatchNormSums" || name == "BatchNormRunning" || name == "GroupNormSums";
}

/// A mask of queries against keys that was known when the graph was made: a triangle, since what hides padding depends on the input.
bool is_stored_mask(const graph::Tensor& t) {
  const auto& shape = t.type.shape;
  return t.role == graph::TensorRole::Constant && t.type.dtype == DType::Bool && shape.size() >= 2 && shape.back() > 1 &&
         shape[shape.size() - 2] > 1;
}

std::vector<double> values_of(const graph::Tensor& t) {
  std::vector<double> values(static_cast<std::size_t>(graph::element_count(t.type.shape)));
  graph::read_into(t.contents, t.type.shape, DType::F64, {}, values.data());
  return values;
}

/// Scores with further columns beside them.
bool adds_columns(const graph::Node& node) {
  const auto axis = node.attributes.integer("axis", 0);
  return op_name(node) == "Concat" && axis == -1;
}

/// Keys that the last row of a stored mask lets through; 0: all of them.
double window_of_stored(const graph::Tensor& mask) {
  const auto keys = static_cast<std::ptrdiff_t>(mask.type.shape.back());
  const auto* bytes = std::get_if<graph::InlineBytes>(&mask.contents.source);
  std::ptrdiff_t seen = 0;
  if (bytes != nullptr && bytes->data->size() == static_cast<std::size_t>(graph::element_count(mask.type.shape))) {
    seen = keys - std::count(bytes->data->end() - keys, bytes->data->end(), std::byte{0});
  } else {
    const auto values = values_of(mask);
    seen = std::count(values.end() - keys, values.end(), 1.0);
  }
  return seen < keys ? static_cast<double>(seen) : 0;
}

bool is_comparison(std::string_view op) {
  return op == "GreaterOrEqual" || op == "LessOrEqual" || op == "Less" || op == "Greater" || op == "Trilu";
}

}  // namespace

namespace {

/// How many matrices the products have whose weight holds several.
std::set<std::int64_t> stacks_of_matrices(const graph::Graph& g) {
  std::set<std::int64_t> stacks;
  for (const auto& node : g.nodes()) {
    if (graph::schema(node).family != graph::CostFamily::MatMul || node.inputs.size() < 2) continue;
    const auto& weight = g[node.inputs[1]];
    if (graph::is_weight(weight.role) && weight.type.shape.size() > 2) stacks.insert(weight.type.shape.front());
  }
  return stacks;
}

}  // namespace

const graph::Node* router_of(const graph::Graph& g) {
  const auto stacks = stacks_of_matrices(g);
  const auto router = std::ranges::find_if(g.nodes(), [&](const graph::Node& n) {
    // Not an index that chooses tokens, by head or of all that there are.
    if (op_name(n) != "TopK") return false;
    const auto& among = g[n.inputs[0]].type.shape;
    return among.size() < 4 && !among.empty() && stacks.contains(among.back());
  });
  return router == g.nodes().end() ? nullptr : &*router;
}

bool of_experts(const graph::Graph& g, const graph::Node& product) {
  const auto& weight = g[product.inputs[1]].type.shape;
  const auto* router = weight.size() > 2 ? router_of(g) : nullptr;
  return router != nullptr && weight.front() == g[router->inputs[0]].type.shape.back();
}

bool is_sum(const graph::Node& node) { return op_name(node) == "Add"; }

bool is_linear(const graph::Node& node) {
  const auto name = op_name(node);
  return is_sum(node) || name == "Sub" || name == "Neg" || name == "Cast" || name == "Scale" || name == "Where";
}

bool multiplies(const graph::Node& node) { return op_name(node) == "Mul" || op_name(node) == "Div"; }

bool weight_product(const Flow& flow, const graph::Node& node) {
  return is_product(node) && node.inputs.size() >= 2 && flow.weight(node.inputs[1]) && flow.activation(node.inputs[0]);
}

Flow::Flow(const graph::Graph& g) : graph_(&g), marks_(g.tensors().size()), readers_(g.tensors().size()), consumers_(g.consumers()) {
  std::size_t forward = 0;
  while (forward < g.nodes().size() && g.nodes()[forward].phase == graph::Phase::Forward) ++forward;
  core_of_.assign(forward, -1);
  steps_of_.assign(forward, 0);
  in_cell_.assign(forward, false);
  between_experts_.assign(forward, false);
  of_adapter_.assign(forward, false);
  mark_origins();
  find_cores();
  find_recurrences();
  find_gates_of_experts();
  find_adapters();
  find_slots();
}

bool Flow::self_gate(const graph::Node& node) const {
  if (op_name(node) != "Sigmoid") return false;
  const auto& readers = consumers_[graph::index(node.outputs.front())];
  int products = 0;
  for (const auto reader : readers) {
    const auto& by = (*graph_)[reader];
    if (by.phase != graph::Phase::Forward) continue;
    const bool own = multiplies(by) && std::find(by.inputs.begin(), by.inputs.end(), node.inputs.front()) != by.inputs.end();
    if (!own) return false;
    ++products;
  }
  return products == 1;
}

const graph::Node* Flow::origin(TensorId t) const {
  while (t != TensorId::None && (*graph_)[t].producer != graph::NodeId::None) {
    const auto& node = (*graph_)[(*graph_)[t].producer];
    if (!is_view(node)) return &node;
    t = node.inputs.front();
  }
  return nullptr;
}

const graph::Node* Flow::only_reader(TensorId t) const {
  const graph::Node* only = nullptr;
  for (const auto reader : consumers_[graph::index(t)]) {
    const auto& node = (*graph_)[reader];
    if (node.phase != graph::Phase::Forward || is_statistic(node) || self_gate(node)) continue;
    const auto* behind = is_view(node) ? only_reader(node.outputs.front()) : &node;
    if (only != nullptr && behind != only) return nullptr;
    only = behind;
    if (only == nullptr) return nullptr;
  }
  return only;
}

void Flow::mark_origins() {
  for (std::size_t t = 0; t < marks_.size(); ++t) {
    const auto role = graph_->tensors()[t].role;
    if (role == graph::TensorRole::Input) marks_[t] |= kActivation;
    if (graph::is_weight(role)) marks_[t] |= kWeight;
    if (role == graph::TensorRole::Parameter) marks_[t] |= kGradient;
  }
  for (std::size_t n = 0; n < core_of_.size(); ++n) {
    const auto& node = graph_->nodes()[n];
    has_convolution_ |= family(node) == CostFamily::Convolution;
    has_dropout_ |= op_name(node) == "Dropout";
    has_frozen_ |=
        std::ranges::any_of(node.inputs, [&](TensorId t) { return t != TensorId::None && (*graph_)[t].role == graph::TensorRole::Frozen; });
    bool activation = false, gradient = false, weight = true;
    for (const auto t : node.inputs) {
      activation |= this->activation(t);
      gradient |= this->gradient(t);
      if (t != TensorId::None) weight = weight && this->weight(t);
    }
    for (const auto t : node.outputs) {
      if (t == TensorId::None) continue;
      if (activation) set(t, kActivation);
      if (gradient && is_float((*graph_)[t].type.dtype)) set(t, kGradient);
      if (weight && !activation && !node.inputs.empty()) set(t, kWeight);
    }
  }
  for (std::size_t t = marks_.size(); t-- > 0;)
    for (const auto reader : consumers_[t]) {
      const auto& node = (*graph_)[reader];
      if (node.phase != graph::Phase::Forward || is_statistic(node) || self_gate(node)) continue;
      // A view's readers are readers of what it shows.
      readers_[t] += is_view(node) && !node.outputs.empty() ? std::max(1, readers(node.outputs.front())) : 1;
    }
}

void Flow::find_cores() {
  for (std::size_t n = 0; n < core_of_.size(); ++n)
    if (op_name(graph_->nodes()[n]) == "Softmax") follow_core(n);
}

/// How many have a score that is at least the last one of the best, as an index chooses the tokens that a query sees, or blocks of them;
/// 0: another condition.
double Flow::best_of(const graph::Node& condition) const {
  const auto* node = &condition;
  double tokens = 1;  // of a block
  while (op_name(*node) == "Expand" || op_name(*node) == "Split") {
    const auto from = node->inputs[0];
    if (op_name(*node) == "Expand")
      tokens *= static_cast<double>(graph::element_count((*graph_)[node->outputs[0]].type.shape)) /
                static_cast<double>(graph::element_count((*graph_)[from].type.shape));
    node = origin(from);
    if (node == nullptr) return 0;
  }
  if (op_name(*node) != "GreaterOrEqual") return 0;
  const auto* last = origin(node->inputs[1]);
  const auto* best = last != nullptr && op_name(*last) == "ReduceMin" ? origin(last->inputs[0]) : nullptr;
  return best != nullptr && op_name(*best) == "TopK" ? tokens * static_cast<double>(best->attributes.integer("k", 0)) : 0;
}

/// Keys of several kinds, each under a mask of its own; all of those of which nothing else is known.
double Flow::window_of_parts(const graph::Node& concatenation) {
  double sum = 0;
  for (const auto part : concatenation.inputs) {
    const double own = window_of(part);
    sum += own > 0 ? own : static_cast<double>((*graph_)[part].type.shape.back());
  }
  return sum;
}

/// Keys that the last query sees through a mask; 0: all of them, or it is not known. A mask too large to be stored is made of conditions,
/// of which key > query - window is one; the first of its numbers are 0 and -window.
double Flow::window_of(TensorId mask) {
  if (mask == TensorId::None) return 0;
  const auto& stored = (*graph_)[mask];
  if (is_stored_mask(stored) && stored.contents.known()) {
    const auto [known, fresh] = windows_.try_emplace(mask, 0.0);  // all blocks share a mask, which may be large
    if (fresh) known->second = window_of_stored(stored);
    return known->second;
  }
  const auto* made = origin(mask);
  while (made != nullptr && op_name(*made) == "Expand") made = origin(made->inputs[0]);
  if (made != nullptr && op_name(*made) == "Concat") return window_of_parts(*made);
  if (made == nullptr || op_name(*made) != "And") return 0;
  for (const auto condition : made->inputs) {
    const auto* comparison = origin(condition);
    if (comparison == nullptr) continue;
    if (const double chosen = best_of(*comparison); chosen > 0) return chosen;
    if (op_name(*comparison) != "Greater") continue;
    const auto &key = (*graph_)[comparison->inputs[0]], &last = (*graph_)[comparison->inputs[1]];
    if (key.contents.known() && last.contents.known()) return values_of(key).front() - values_of(last).front();
  }
  return 0;
}

/// Does a mask compare positions: is it stored, made of conditions, or of such masks side by side?
bool Flow::is_triangle(TensorId mask) const {
  if (mask == TensorId::None) return false;
  if (is_stored_mask((*graph_)[mask])) return true;
  const auto* made = origin(mask);
  if (made == nullptr || is_comparison(op_name(*made))) return made != nullptr;
  const bool of_masks = op_name(*made) == "Concat" || op_name(*made) == "Expand";
  return std::ranges::any_of(made->inputs, [&](TensorId part) {
    return of_masks ? is_triangle(part) : origin(part) != nullptr && is_comparison(op_name(*origin(part)));
  });
}

/// From a softmax back to the product that made its scores, and on to the product that uses its weights.
void Flow::follow_core(std::size_t softmax) {
  AttentionCore core{0, softmax, 0, false, 0, 0};
  std::vector<std::size_t> members{softmax};
  const auto number = [&](const graph::Node* node) { return static_cast<std::size_t>(node - graph_->nodes().data()); };
  const auto* node = &graph_->nodes()[softmax];
  for (;;) {
    const graph::Node* next = nullptr;
    for (const auto t : node->inputs) {
      const auto* from = origin(t);
      const bool mask = t != TensorId::None && ((*graph_)[t].type.dtype == DType::Bool || !activation(t));
      if (mask && op_name(*node) == "Where") core.window = std::max(core.window, window_of(t));
      core.causal |= mask && is_triangle(t);
      if (!mask && from != nullptr && (next == nullptr || is_product(*from))) next = from;
    }
    if (next == nullptr) return;
    node = next;
    members.push_back(number(node));
    if (is_product(*node)) break;
    if (adds_columns(*node)) continue;  // sinks: scores that no key has
    if (family(*node) != CostFamily::Elementwise) return;
    ++core.elementwise;
  }
  if (weight_product(*this, *node) || node->inputs.size() < 2) return;
  core.first_product = members.back();
  node = &graph_->nodes()[softmax];
  while (!is_product(*node)) {
    const auto& readers = consumers_[graph::index(node->outputs.front())];
    if (readers.empty() || (*graph_)[readers.front()].phase != graph::Phase::Forward) return;
    node = &(*graph_)[readers.front()];
    if (!is_product(*node) && family(*node) != CostFamily::Elementwise && !is_view(*node) && op_name(*node) != "Dropout" &&
        op_name(*node) != "Split")
      return;
    members.push_back(number(node));
  }
  core.second_product = members.back();
  for (const auto m : members) core_of_[m] = static_cast<int>(cores_.size());
  cores_.push_back(core);
}

namespace {
constexpr std::size_t kAnywhere = ~std::size_t{0};
}

/// Forward nodes that made an operand of a node, or that read its results.
std::vector<std::size_t> Flow::neighbours(std::size_t node, bool backwards) const {
  const auto& at = graph_->nodes()[node];
  std::vector<std::size_t> result;
  if (backwards) {
    for (const auto t : at.inputs)
      if (t != TensorId::None && activation(t) && (*graph_)[t].producer != graph::NodeId::None)
        result.push_back(graph::index((*graph_)[t].producer));
    return result;
  }
  for (const auto t : at.outputs)
    for (const auto reader : consumers_[graph::index(t)])
      if ((*graph_)[reader].phase == graph::Phase::Forward) result.push_back(graph::index(reader));
  return result;
}

/// Marks what is reached from a product through element-wise operators and cuts alone, if `target` is among it. Whether it is.
bool Flow::mark_cell(std::size_t product, std::size_t target, bool backwards) {
  std::vector<std::size_t> open{product};
  std::set<std::size_t> seen{product};
  bool met = target == kAnywhere;
  while (!open.empty()) {
    const auto at = open.back();
    open.pop_back();
    for (const auto n : neighbours(at, backwards)) {
      const auto& other = graph_->nodes()[n];
      met |= n == target;
      const bool inside = is_elementwise_or_cut(other);
      if (inside && seen.insert(n).second) open.push_back(n);
    }
  }
  seen.erase(product);
  if (met)
    for (const auto n : seen) in_cell_[n] = true;
  return met;
}

void Flow::find_recurrences() {
  for (std::size_t t = 0; t < marks_.size(); ++t) {
    if (!graph::is_weight(graph_->tensors()[t].role) || consumers_[t].size() < 2) continue;
    std::vector<std::size_t> products;
    for (const auto reader : consumers_[t]) {
      const auto& node = (*graph_)[reader];
      if (node.phase == graph::Phase::Forward && weight_product(*this, node) && graph::index(node.inputs[1]) == t)
        products.push_back(graph::index(reader));
    }
    std::sort(products.begin(), products.end());
    if (products.size() < 2 || !mark_cell(products[1], products[0], true)) continue;
    recurrent_ = true;
    for (std::size_t i = 0; i < products.size(); ++i) {
      steps_of_[products[i]] = static_cast<int>(products.size());
      mark_cell(products[i], kAnywhere, true);
      mark_cell(products[i], kAnywhere, false);
    }
  }
}

/// From every product of experts back through element-wise operators and cuts: where all that is met are other products of experts.
void Flow::find_gates_of_experts() {
  if (router_of(*graph_) == nullptr) return;
  const auto of_expert = [&](std::size_t n) {
    const auto& node = graph_->nodes()[n];
    return weight_product(*this, node) && of_experts(*graph_, node);
  };
  for (std::size_t product = 0; product < between_experts_.size(); ++product) {
    if (!of_expert(product)) continue;
    std::vector<std::size_t> open{product};
    std::set<std::size_t> between;
    bool of_experts_alone = true;
    while (!open.empty() && of_experts_alone) {
      const auto sources = neighbours(open.back(), true);
      open.pop_back();
      of_experts_alone = !sources.empty();
      for (const auto n : sources) {
        const bool inside = is_elementwise_or_cut(graph_->nodes()[n]);
        if (inside && between.insert(n).second) open.push_back(n);
        of_experts_alone = of_experts_alone && (inside || of_expert(n));
      }
    }
    if (!of_experts_alone) continue;
    for (const auto n : between) between_experts_[n] = true;
  }
}

/// The product with weights that made a tensor, maybe scaled, converted or beside a stored bias since; nullptr: none did.
const graph::Node* Flow::scaled_product(TensorId t) const {
  const auto* from = origin(t);
  const auto stored = [&](TensorId operand) { return !activation(operand) && !gradient(operand); };
  while (from != nullptr && (multiplies(*from) || is_linear(*from))) {
    const auto& inputs = from->inputs;
    const auto scaled = std::ranges::find_if(inputs, [&](TensorId operand) { return activation(operand); });
    if (scaled == inputs.end() || std::ranges::count_if(inputs, stored) + 1 != std::ssize(inputs)) return nullptr;
    from = origin(*scaled);
  }
  return from != nullptr && weight_product(*this, *from) ? from : nullptr;
}

/// y = x W + scale (x A) B, of which W is not trained and A and B are.
void Flow::find_adapters() {
  if (!has_frozen_) return;
  const auto trained = [&](const graph::Node* product) { return product != nullptr && gradient(product->inputs[1]); };
  const auto mark = [&](const graph::Node& product) { of_adapter_[static_cast<std::size_t>(&product - graph_->nodes().data())] = true; };
  for (std::size_t n = 0; n < of_adapter_.size(); ++n) {
    const auto& sum = graph_->nodes()[n];
    if (!is_sum(sum)) continue;
    for (const std::size_t side : {0, 1}) {
      const auto* outer = scaled_product(sum.inputs[side]);
      const auto* frozen = scaled_product(sum.inputs[1 - side]);
      if (!trained(outer) || frozen == nullptr || trained(frozen)) continue;
      const auto* inner = scaled_product(outer->inputs[0]);
      if (trained(inner)) mark(*inner), mark(*outer);
    }
  }
}

/// From what experts multiply through all that changes neither how many rows there are nor what is in them; a row for tokens that no expert
/// takes may come and go.
void Flow::find_slots() {
  constexpr std::int64_t kRowsAround = 8;
  slots_.assign(graph_->tensors().size(), false);
  if (router_of(*graph_) == nullptr) return;
  std::vector<TensorId> open;
  const auto mark = [&](TensorId t, std::int64_t like) {
    if (t == TensorId::None || !activation(t) || slots_[graph::index(t)]) return;
    const auto own = graph::element_count((*graph_)[t].type.shape);
    if (std::abs(own - like) > std::min(own, like) / kRowsAround) return;
    slots_[graph::index(t)] = true;
    open.push_back(t);
  };
  const auto passes_on = [](const graph::Node& node) {
    const auto family = graph::schema(node).family;
    return family == graph::CostFamily::View || family == graph::CostFamily::Movement || family == graph::CostFamily::Elementwise;
  };
  for (std::size_t n = 0; n < core_of_.size(); ++n) {
    const auto& node = graph_->nodes()[n];
    if (!weight_product(*this, node) || !of_experts(*graph_, node)) continue;
    for (const auto t : {node.inputs.front(), node.outputs.front()}) mark(t, graph::element_count((*graph_)[t].type.shape));
  }
  while (!open.empty()) {
    const auto t = open.back();
    open.pop_back();
    const auto elements = graph::element_count((*graph_)[t].type.shape);
    const auto from = (*graph_)[t].producer;
    if (from != graph::NodeId::None && passes_on((*graph_)[from]))
      for (const auto operand : (*graph_)[from].inputs) mark(operand, elements);
    for (const auto reader : consumers_[graph::index(t)])
      if (graph::index(reader) < core_of_.size() && passes_on((*graph_)[reader]))
        for (const auto result : (*graph_)[reader].outputs) mark(result, elements);
  }
}

bool Flow::read_between_experts(TensorId t) const {
  const auto& readers = consumers_[graph::index(t)];
  const auto forward = [&](graph::NodeId n) { return graph::index(n) < between_experts_.size(); };
  return std::ranges::any_of(readers, forward) &&
         std::ranges::all_of(readers, [&](graph::NodeId n) { return !forward(n) || between_experts_[graph::index(n)]; });
}

}  // namespace rehearsal::predict::frameworks
