// What a dimension is, from how operators use it, not from names or kinds of models.

#include <algorithm>
#include <array>
#include <map>

#include "graph/dims/dims.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

/// In this order: a dimension with several uses has the first one's name.
enum class DimUse : std::uint8_t {
  Batch,
  Experts,
  Vocabulary,
  Heads,
  Sequence,
  Hidden,
  Width,
  Height,
  Depth,
  Channels,
  HeadFeatures,
  FeedForward,
  Classes,
  Features,
  None
};
constexpr std::array<std::string_view, 15> kNames{"batch",         "experts",      "vocabulary", "heads",    "sequence",
                                                  "hidden",        "width",        "height",     "depth",    "channels",
                                                  "head-features", "feed-forward", "classes",    "features", ""};
constexpr std::array<DimUse, 3> kRolesImageAxes{DimUse::Width, DimUse::Height, DimUse::Depth};  // from the innermost
constexpr int kLongestChain = 8;  ///< elementwise operators between scores and their softmax

/// A product with a stored matrix: which dimensions it contracts and which it makes.
struct WeightProduct {
  std::vector<AtomId> contracted, made;
  bool of_experts = false;  ///< one matrix per expert
};

class RoleFinder {
 public:
  RoleFinder(const Graph& graph, const LogicalDims& dims) : graph_(graph), dims_(dims), roles_(dims.atoms().count(), DimUse::None) {}

  std::vector<DimUse> find() && {
    for (const AtomId a : dims_.batch()) give(a, DimUse::Batch);
    for (std::size_t n = 0; n < graph_.nodes().size() && graph_.nodes()[n].phase == Phase::Forward; ++n) look_at(static_cast<NodeId>(n));
    name_features();
    name_words();
    return std::move(roles_);
  }

 private:
  void give(AtomId a, DimUse role) {
    DimUse& mine = roles_[static_cast<std::size_t>(dims_.atoms().find(a))];
    mine = std::min(mine, role);
  }
  void give(const Factors& dimension, DimUse role) {
    for (const AtomId leaf : dimension)
      for (const AtomId a : dims_.atoms().splits_of(leaf)) give(a, role);  // the leaf is among them
  }
  [[nodiscard]] DimUse role(AtomId a) const { return roles_[static_cast<std::size_t>(dims_.atoms().find(a))]; }

  void look_at(NodeId id) {
    const Node& node = graph_[id];
    const OpSchema& row = schema(node);
    if (row.family == CostFamily::Convolution || row.family == CostFamily::Pooling) look_at_image(id);
    if (row.name == "Gather") look_at_table(id);
    if (row.in_attention == AttentionPart::Softmax) look_at_softmax(id);
    if (row.name == "CrossEntropySum") give(axis_of(id, 0, 1), DimUse::Classes);
    if (row.name == "TopK" && !is_image(dims_.of_operand(id, 0))) give(axis_of(id, 0, -1), DimUse::Experts);
    if (row.name == "LayerNormalization" || row.name == "RMSNormalization") give(dims_.of_operand(id, 0).back(), DimUse::Hidden);
    if (row.name == "BatchNormSums") give(dims_.of_operand(id, 0)[1], DimUse::Channels);
    if (row.family == CostFamily::MatMul) look_at_product(id);
  }

  [[nodiscard]] const Factors& axis_of(NodeId id, std::size_t operand, std::int64_t otherwise) const {
    const TensorDims& dims = dims_.of_operand(id, operand);
    return dims[static_cast<std::size_t>(normalize_axis(graph_[id].attributes.integer("axis", otherwise), dims.size()))];
  }
  [[nodiscard]] static bool is_image(const TensorDims& dims) { return dims.size() >= 4; }

  void look_at_image(NodeId id) {
    for (const TensorDims* dims : {&dims_.of_operand(id, 0), &dims_.of(graph_[id].outputs[0])}) {
      if (dims->size() < 3) continue;
      give((*dims)[1], DimUse::Channels);
      for (std::size_t d = 2; d < dims->size(); ++d)
        if (const std::size_t from_end = dims->size() - 1 - d; from_end < kRolesImageAxes.size())
          give((*dims)[d], kRolesImageAxes[from_end]);
    }
  }

  /// Rows of a table by what the model is fed: tokens.
  void look_at_table(NodeId id) {
    const Node& node = graph_[id];
    const Tensor& table = graph_[node.inputs[0]];
    const Tensor& indices = graph_[node.inputs[1]];
    if (!is_weight(table.role) || table.type.shape.size() != 2 || indices.role == TensorRole::Constant) return;
    const TensorDims& rows = dims_.of_operand(id, 0);
    give(rows[0], DimUse::Vocabulary);
    give(rows[1], DimUse::Hidden);
    const TensorDims& places = dims_.of_operand(id, 1);
    for (std::size_t d = 1; d < places.size(); ++d) give(places[d], DimUse::Sequence);
  }

  /// Scores of attention are the product of two computed tensors, scaled and masked: [batch, heads..., queries, keys].
  void look_at_softmax(NodeId id) {
    TensorId x = graph_[id].inputs[0];
    for (int step = 0; step < kLongestChain; ++step) {
      if (graph_[x].producer == NodeId::None) return;
      const NodeId from = graph_[x].producer;
      const Node& node = graph_[from];
      if (schema(node).in_attention == AttentionPart::Product) return look_at_scores(from);
      if (!has(schema(node).traits, Trait::Elementwise) && !has(schema(node).traits, Trait::View)) return;
      x = largest_operand(node);
    }
  }
  [[nodiscard]] TensorId largest_operand(const Node& node) const {
    TensorId largest = node.inputs[0];
    for (const TensorId t : node.inputs)
      if (t != TensorId::None && graph_[t].type.dtype != DType::Bool &&
          (graph_[largest].type.dtype == DType::Bool || element_count(graph_[t].type.shape) > element_count(graph_[largest].type.shape)))
        largest = t;
    return largest;
  }
  void look_at_scores(NodeId id) {
    const Node& node = graph_[id];
    const TensorDims& scores = dims_.of(node.outputs[0]);
    if (scores.size() < 3 || weight_operand(node) >= 0) return;
    give(scores[scores.size() - 1], DimUse::Sequence);
    give(scores[scores.size() - 2], DimUse::Sequence);
    for (std::size_t d = 0; d + 2 < scores.size(); ++d) give(scores[d], DimUse::Heads);
    for (const IterDim& way : dims_.iteration(id))
      if (way.reduces()) give(way.atom, DimUse::HeadFeatures);
  }

  /// A product with softmax's weights gives the features of a head.
  void look_at_attention_output(NodeId id) {
    TensorId x = graph_[id].inputs[0];
    for (int step = 0; step < kLongestChain && graph_[x].producer != NodeId::None; ++step) {
      const Node& node = graph_[graph_[x].producer];
      if (schema(node).in_attention == AttentionPart::Softmax) return give(dims_.of(graph_[id].outputs[0]).back(), DimUse::HeadFeatures);
      if (!has(schema(node).traits, Trait::Elementwise) && !has(schema(node).traits, Trait::View)) return;
      x = largest_operand(node);
    }
  }

  /// The operand of a product that is stored, as it is or transposed; -1: none.
  [[nodiscard]] int weight_operand(const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size() && i < 2; ++i) {
      const Tensor* t = &graph_[node.inputs[i]];
      if (t->producer != NodeId::None && schema(graph_[t->producer]).name == "Transpose") t = &graph_[graph_[t->producer].inputs[0]];
      if (is_weight(t->role)) return static_cast<int>(i);
    }
    return -1;
  }

  void look_at_product(NodeId id) {
    const int weight = weight_operand(graph_[id]);
    if (weight < 0) return look_at_attention_output(id);
    const auto operand = static_cast<std::size_t>(weight);
    const TensorDims& matrix = dims_.of_operand(id, operand);
    for (std::size_t d = 0; d + 2 < matrix.size(); ++d) give(matrix[d], DimUse::Experts);
    WeightProduct product;
    product.of_experts = matrix.size() > 2;
    for (const IterDim& way : dims_.iteration(id))
      if (const OperandDim* place = way.input(operand); place != nullptr && static_cast<std::size_t>(place->dim) + 2 >= matrix.size())
        (way.reduces() ? product.contracted : product.made).push_back(dims_.atoms().find(way.atom));
    products_.push_back(std::move(product));
  }

  /// What a product makes from the hidden width and another one contracts is the feed-forward width.
  void name_features() {
    std::map<AtomId, bool> contracted;
    for (const WeightProduct& p : products_)
      for (const AtomId a : p.contracted) contracted[a] = true;
    for (const WeightProduct& p : products_) {
      const bool from_hidden =
          p.of_experts || std::any_of(p.contracted.begin(), p.contracted.end(), [&](AtomId a) { return role(a) == DimUse::Hidden; });
      for (const AtomId a : p.made) give(a, from_hidden && contracted.contains(a) ? DimUse::FeedForward : DimUse::Features);
      for (const AtomId a : p.contracted) give(a, DimUse::Features);
    }
  }

  /// Classes that are as many as the tokens which the model is fed are the next token.
  void name_words() {
    const auto size = [&](std::size_t a) { return dims_.atoms().size(static_cast<AtomId>(a)); };
    std::vector<std::int64_t> vocabularies;
    for (std::size_t a = 0; a < roles_.size(); ++a)
      if (roles_[a] == DimUse::Vocabulary) vocabularies.push_back(size(a));
    for (std::size_t a = 0; a < roles_.size(); ++a)
      if (roles_[a] == DimUse::Classes && std::ranges::find(vocabularies, size(a)) != vocabularies.end()) roles_[a] = DimUse::Vocabulary;
  }

  const Graph& graph_;
  const LogicalDims& dims_;
  std::vector<DimUse> roles_;
  std::vector<WeightProduct> products_;
};

}  // namespace

std::vector<std::string_view> roles_of(const Graph& graph, const LogicalDims& dims) {
  std::vector<std::string_view> names;
  for (const DimUse role : RoleFinder(graph, dims).find()) names.push_back(kNames[static_cast<std::size_t>(role)]);
  return names;
}

std::vector<DimGroup> group_dims(const Graph& graph, const LogicalDims& dims) {
  const auto roles = roles_of(graph, dims);
  std::map<std::string_view, std::vector<std::int64_t>> sizes;
  const auto reports = report_dims(graph, dims);
  const auto role_of = [&](const DimReport& d) { return roles[static_cast<std::size_t>(dims.atoms().find(d.atom))]; };
  for (const DimReport& d : reports) {
    auto& known = sizes[role_of(d)];
    if (std::find(known.begin(), known.end(), d.size) == known.end()) known.push_back(d.size);
  }
  std::vector<DimGroup> groups;
  std::map<std::string, std::size_t, std::less<>> places;
  for (const DimReport& d : reports) {
    const std::string_view role = role_of(d);
    std::string name = role.empty() ? d.name : std::string(role);
    if (!role.empty() && sizes[role].size() > 1) name += ":" + std::to_string(d.size);
    const auto [place, is_new] = places.try_emplace(name, groups.size());
    if (is_new) groups.push_back({std::move(name), d.size, d.splittable, {}, {}});
    DimGroup& group = groups[place->second];
    group.members.push_back(d.name);
    group.blocked_by.insert(group.blocked_by.end(), d.blocked_by.begin(), d.blocked_by.end());
  }
  return groups;
}

std::vector<AtomId> with_role(const Graph& graph, const LogicalDims& dims, std::string_view name) {
  const auto colon = name.find(':');
  const std::string_view role = name.substr(0, colon);
  const auto roles = roles_of(graph, dims);
  std::vector<AtomId> found;
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const auto a = static_cast<AtomId>(i);
    if (roles[i] != role || role.empty() || dims.atoms().find(a) != a) continue;
    if (colon != std::string_view::npos && std::to_string(dims.atoms().size(a)) != name.substr(colon + 1)) continue;
    found.push_back(a);
  }
  return found;
}

}  // namespace rehearsal::graph
