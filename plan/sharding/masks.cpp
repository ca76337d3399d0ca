#include "plan/sharding/masks.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;
using graph::Value;

/// Which rows see any key, and any key of which block.
class ConstantMasks::Seen {
 public:
  Seen(std::int64_t rows, std::int64_t keys, std::int64_t blocks)
      : rows_(rows),
        keys_(keys),
        blocks_(blocks),
        row_(static_cast<std::size_t>(rows)),
        block_(static_cast<std::size_t>(blocks * blocks)) {}

  /// A pair; -1: all rows, or all keys.
  void see(std::int64_t row, std::int64_t key) {
    for (std::int64_t r = row < 0 ? 0 : row; r < (row < 0 ? rows_ : row + 1); ++r) {
      row_[static_cast<std::size_t>(r)] = true;
      for (std::int64_t b = key < 0 ? 0 : of(key, keys_); b < (key < 0 ? blocks_ : of(key, keys_) + 1); ++b) see_block(of(r, rows_), b);
    }
  }
  /// Nothing is hidden.
  [[nodiscard]] bool all() const { return hidden_pairs_ == 0; }
  void hide_one() { ++hidden_pairs_; }
  void see_row(std::int64_t r) { row_[static_cast<std::size_t>(r)] = true; }
  void see_block(std::int64_t coordinate, std::int64_t b) { block_[static_cast<std::size_t>(coordinate * blocks_ + b)] = true; }

  [[nodiscard]] bool all_rows() const {
    return std::all_of(row_.begin(), row_.end(), [](bool seen) { return seen; });
  }
  [[nodiscard]] bool all_blocks() const {
    return std::all_of(block_.begin(), block_.end(), [](bool seen) { return seen; });
  }
  [[nodiscard]] std::vector<bool> masked() const {
    auto masked = block_;
    masked.flip();
    return masked;
  }
  [[nodiscard]] Range own_rows(std::int64_t coordinate) const { return block(rows_, blocks_, coordinate); }
  [[nodiscard]] Range keys_of(std::int64_t b) const { return block(keys_, blocks_, b); }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] std::int64_t blocks() const { return blocks_; }

 private:
  /// The block to which an index belongs: those of block() begin at b n / blocks, rounded down.
  [[nodiscard]] std::int64_t of(std::int64_t index, std::int64_t count) const { return ((index + 1) * blocks_ - 1) / count; }

  std::int64_t rows_, keys_, blocks_;
  std::vector<bool> row_, block_;
  std::int64_t hidden_pairs_ = 0;
};

namespace {

/// exp of what lies so far below a score that is seen is 0 in every type.
constexpr double kHidden = -1e30;
constexpr std::int64_t kMostPairs = std::int64_t{1} << 24;

/// Where row and key stand in a tensor that is aligned with the scores from the right.
struct Aligned {
  const graph::Shape& shape;
  std::int64_t row, key;
  Aligned(const graph::Shape& s, std::size_t rank, std::int64_t row_dim)
      : shape(s),
        row(row_dim - static_cast<std::int64_t>(rank) + static_cast<std::int64_t>(s.size())),
        key(static_cast<std::int64_t>(s.size()) - 1) {}
  [[nodiscard]] std::int64_t size(std::int64_t dim) const { return dim < 0 ? 1 : shape[static_cast<std::size_t>(dim)]; }
  /// Index of an element along a dimension; -1 where it stands for all.
  [[nodiscard]] std::int64_t at(std::int64_t element, std::int64_t dim) const {
    if (size(dim) == 1) return -1;
    for (std::size_t d = shape.size(); static_cast<std::int64_t>(d) > dim + 1; --d) element /= shape[d - 1];
    return element % size(dim);
  }
};

/// Looks at every pair.
void see_pairs(const Value& mask, const Aligned& place, bool chooses, bool shown_where, auto& seen) {
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const bool shown = chooses ? (mask.integer(i) != 0) == shown_where : mask.real(i) > kHidden;
    if (shown)
      seen.see(place.at(i, place.row), place.at(i, place.key));
    else
      seen.hide_one();
  }
}

/// row's number < (or <=, >, >=) key's number: a block has such a pair where its extremes are one.
struct MaskComparison {
  bool less, equal;
  [[nodiscard]] bool holds(double row, double key) const { return row == key ? equal : (row < key) == less; }
};

std::optional<MaskComparison> comparison_of(std::string_view op, bool swapped, bool negated) {
  const bool less = op == "Less" || op == "LessOrEqual", equal = op == "LessOrEqual" || op == "GreaterOrEqual";
  if (!less && op != "Greater" && op != "GreaterOrEqual") return std::nullopt;
  return MaskComparison{(less != swapped) != negated, equal != negated};
}

double extreme(const Value& of, Range range, bool least) {
  double found = of.real(range.begin);
  for (std::int64_t i = range.begin + 1; i < range.end; ++i) found = least ? std::min(found, of.real(i)) : std::max(found, of.real(i));
  return found;
}

void see_compared(const Value& rows, const Value& keys, MaskComparison by, auto& seen) {
  const double best = extreme(keys, {0, seen.keys()}, !by.less);
  for (std::int64_t r = 0; r < seen.rows(); ++r)
    if (by.holds(rows.real(r), best)) seen.see_row(r);
  for (std::int64_t c = 0; c < seen.blocks(); ++c)
    for (std::int64_t b = 0; b < seen.blocks(); ++b)
      if (by.holds(extreme(rows, seen.own_rows(c), by.less), extreme(keys, seen.keys_of(b), !by.less))) seen.see_block(c, b);
}

/// One number for every row (or key), and nothing else.
bool counts(const Value& v, const Aligned& place, std::int64_t dim, std::int64_t size) {
  return v.count() == size && place.size(dim) == size;
}

bool all_low(const Value& filling) {
  for (std::int64_t i = 0; i < filling.count(); ++i)
    if (filling.real(i) > kHidden) return false;
  return true;
}

}  // namespace

const Value* ConstantMasks::value_of(TensorId t) {
  const auto [at, fresh] = known_.try_emplace(t);
  if (!fresh) return at->second ? &*at->second : nullptr;
  const graph::Tensor& tensor = g_[t];
  if (graph::element_count(tensor.type.shape) > kMostPairs) return nullptr;
  if (tensor.role == graph::TensorRole::Constant && tensor.contents.known()) {
    Value value{tensor.type, {}, {}};
    if (value.integral())
      value.integers = graph::read_integers(tensor.contents, tensor.type.shape);
    else
      value.reals = graph::read_reals(tensor.contents, tensor.type.shape, 0, 0);
    at->second = std::move(value);
    return &*at->second;
  }
  if (tensor.producer == NodeId::None || graph::schema(g_[tensor.producer]).evaluate == nullptr) return nullptr;
  const graph::Node& node = g_[tensor.producer];
  std::vector<const Value*> inputs;
  for (const TensorId i : node.inputs) {
    inputs.push_back(i == TensorId::None ? nullptr : value_of(i));
    if (i != TensorId::None && inputs.back() == nullptr) return nullptr;
  }
  const graph::NodeTypes types(g_, node);
  auto results = graph::schema(node).evaluate(types.view(), inputs);
  const auto which = static_cast<std::size_t>(std::find(node.outputs.begin(), node.outputs.end(), t) - node.outputs.begin());
  auto& found = known_[t];
  found = std::move(results[which]);
  return &*found;
}

/// What a choice between scores and what hides them lets rows see. False: it is not known.
bool ConstantMasks::see_chosen(const AttentionRing& ring, const RingNode& n, const View& view, Seen& seen) {
  const graph::Node& node = g_[n.node];
  const bool shown_where = n.operands[1].role == KeyRole::Inside;
  const std::size_t rank = g_[node.outputs[0]].type.shape.size();
  if (const Value* mask = value_of(node.inputs[0])) {
    see_pairs(*mask, {mask->type.shape, rank, view.row_dim}, true, shown_where, seen);
    return true;
  }
  const NodeId made = g_[node.inputs[0]].producer;
  if (made == NodeId::None || g_[made].inputs.size() != 2) return false;
  const Value *a = value_of(g_[made].inputs[0]), *b = value_of(g_[made].inputs[1]);
  if (a == nullptr || b == nullptr) return false;
  const Aligned of_a(a->type.shape, rank, view.row_dim), of_b(b->type.shape, rank, view.row_dim);
  const bool straight = counts(*a, of_a, of_a.row, view.rows) && counts(*b, of_b, of_b.key, ring.keys);
  const bool swapped = counts(*b, of_b, of_b.row, view.rows) && counts(*a, of_a, of_a.key, ring.keys);
  const auto by = comparison_of(graph::schema(g_[made]).name, swapped, !shown_where);
  if (!by || straight == swapped) return false;
  see_compared(straight ? *a : *b, straight ? *b : *a, *by, seen);
  return true;
}

/// What a node in front of the softmax hides. False: it is not known, or is no longer known.
bool ConstantMasks::look_through(const AttentionRing& ring, const RingNode& n, const View& view, Hidden& hidden) {
  const graph::Node& node = g_[n.node];
  const std::string_view op = graph::schema(node).name;
  if (graph::has(graph::schema(node).traits, graph::Trait::SameValues)) return true;
  // Others hide nothing, but what is hidden already may be seen again behind them.
  const bool chooses = graph::schema(node).in_attention == graph::AttentionPart::Choice;
  if (!chooses && op != "Add") return !hidden.any;
  const bool inside_first = n.operands[chooses ? 1 : 0].role == KeyRole::Inside;
  const std::size_t which = chooses ? (inside_first ? 2 : 1) : (inside_first ? 1 : 0);
  const Value* other = n.operands[which].role == KeyRole::Inside ? nullptr : value_of(node.inputs[which]);
  if (other == nullptr) return false;
  Seen seen(view.rows, ring.keys, view.blocks);
  if (chooses) {
    if (!all_low(*other)) return !hidden.any;
    if (!see_chosen(ring, n, view, seen)) return false;
  } else {
    see_pairs(*other, {other->type.shape, g_[node.outputs[0]].type.shape.size(), view.row_dim}, false, true, seen);
    if (seen.all()) return true;  // a bias
  }
  if (hidden.any || !seen.all_rows()) return false;  // of two masks together a row may see nothing
  hidden.any = true;
  if (!seen.all_blocks()) hidden.blocks = seen.masked();
  return true;
}

std::vector<bool> ConstantMasks::masked_blocks(const Sharding& s, const AttentionRing& ring) {
  const TensorId scores = g_[ring.softmax].inputs[0];
  const AxisLayout& split = s.layout(scores)[ring.axis];
  const View view{g_[scores].type.shape[static_cast<std::size_t>(split.dim)], s.axes[ring.axis].size, split.dim};
  if (s.dims->of(scores)[static_cast<std::size_t>(split.dim)].size() != 1) return {};
  std::vector<std::int64_t> key{view.blocks, ring.keys, view.row_dim, view.rows};
  for (std::size_t n = 1; n < ring.forward.size() && ring.forward[n].node != ring.softmax; ++n) {
    const graph::Node& node = g_[ring.forward[n].node];
    key.push_back(static_cast<std::int64_t>(node.op));
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      key.push_back(ring.forward[n].operands[i].role == KeyRole::Inside ? -1 : static_cast<std::int64_t>(graph::index(node.inputs[i])));
  }
  const auto [at, fresh] = found_.try_emplace(std::move(key));
  Hidden hidden;
  for (std::size_t n = 1; fresh && n < ring.forward.size() && ring.forward[n].node != ring.softmax; ++n) {
    if (look_through(ring, ring.forward[n], view, hidden)) continue;
    hidden.blocks.clear();
    break;
  }
  if (fresh) at->second = std::move(hidden.blocks);
  return at->second;
}

}  // namespace rehearsal::plan
