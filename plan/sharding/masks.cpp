#include "plan/sharding/masks.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;
using graph::Value;

namespace {

/// exp of what lies so far below a score that is seen is 0 in every type.
constexpr double kHidden = -1e30;
constexpr std::int64_t kMostPairs = std::int64_t{1} << 24;

/// What a mask says of row and key, from its right-aligned dimensions; others (heads) must agree.
class MaskReader {
 public:
  MaskReader(const Value& mask, std::size_t rank, std::int64_t row_dim) : shape_(mask.type.shape) {
    const auto missing = static_cast<std::int64_t>(rank) - static_cast<std::int64_t>(shape_.size());
    row_ = row_dim - missing;
    key_ = static_cast<std::int64_t>(shape_.size()) - 1;
  }
  /// Calls use(row, key, element) for every element; row or key -1: all of them.
  template <class Use>
  void each(const Use& use) const {
    std::int64_t keys_stride = 1, rows_stride = 1;
    for (std::size_t d = shape_.size(); d-- > 0;) {
      const auto at = static_cast<std::int64_t>(d);
      if (at > key_) keys_stride *= shape_[d];
      if (at > row_) rows_stride *= shape_[d];
    }
    const bool one_row = row_ < 0 || shape_[static_cast<std::size_t>(row_)] == 1;
    const bool one_key = key_ < 0 || shape_[static_cast<std::size_t>(key_)] == 1;
    for (std::int64_t i = 0; i < graph::element_count(shape_); ++i)
      use(one_row ? -1 : i / rows_stride % shape_[static_cast<std::size_t>(row_)],
          one_key ? -1 : i / keys_stride % shape_[static_cast<std::size_t>(key_)], i);
  }

 private:
  const graph::Shape& shape_;
  std::int64_t row_ = -1, key_ = -1;
};

}  // namespace

const Value* ConstantMasks::value_of(TensorId t) {
  const auto [at, fresh] = known_.try_emplace(t);
  if (!fresh) return at->second ? &*at->second : nullptr;
  const graph::Tensor& tensor = g_[t];
  if (graph::element_count(tensor.type.shape) > kMostPairs) return nullptr;
  if (tensor.role == graph::Role::Constant && tensor.contents.known()) {
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

/// Marks what a node in front of the softmax hides. False: what it adds or chooses is not known.
bool ConstantMasks::add_mask(const AttentionRing& ring, const RingNode& n, std::int64_t row_dim, std::vector<bool>& hidden) {
  const graph::Node& node = g_[n.node];
  const std::string_view op = graph::schema(node).name;
  const std::size_t rank = g_[node.outputs[0]].type.shape.size();
  const Value* other = nullptr;
  for (std::size_t i = 0; i < n.operands.size(); ++i) {
    if (n.operands[i].role == KeyRole::Inside) continue;
    other = value_of(node.inputs[i]);
    if (other == nullptr) return false;
  }
  if (op == "Cast" || op == "Identity") return true;
  // What is hidden already must stay as low as it is.
  if (std::find(hidden.begin(), hidden.end(), true) != hidden.end() && op != "Where" && op != "Add") return false;
  if (op == "Mul" || op == "Div" || op == "Scale") return true;
  if (op != "Where" && op != "Add") return false;
  const bool chooses = op == "Where";
  const bool inside_first = n.operands[chooses ? 1 : 0].role == KeyRole::Inside;
  if (chooses) {
    const Value* filling = value_of(node.inputs[inside_first ? 2 : 1]);
    const auto low = [&](double x) { return x <= kHidden; };
    bool all_low = true;
    for (std::int64_t i = 0; i < filling->count(); ++i) all_low = all_low && low(filling->real(i));
    if (!all_low) return true;
  }
  const Value* mask = chooses ? value_of(node.inputs[0]) : other;
  const std::int64_t rows = static_cast<std::int64_t>(hidden.size()) / ring.keys;
  std::vector<bool> seen(hidden.size(), false);
  MaskReader(*mask, rank, row_dim).each([&](std::int64_t row, std::int64_t key, std::int64_t i) {
    const bool shown = chooses ? (mask->integer(i) != 0) == inside_first : mask->real(i) > kHidden;
    if (!shown) return;
    for (std::int64_t r = row < 0 ? 0 : row; r < (row < 0 ? rows : row + 1); ++r)
      for (std::int64_t k = key < 0 ? 0 : key; k < (key < 0 ? ring.keys : key + 1); ++k)
        seen[static_cast<std::size_t>(r * ring.keys + k)] = true;
  });
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = hidden[i] || !seen[i];
  return true;
}

std::vector<bool> ConstantMasks::masked_blocks(const Sharding& s, const AttentionRing& ring) {
  const TensorId scores = g_[ring.softmax].inputs[0];
  const AxisLayout& split = s.layout(scores)[ring.axis];
  std::vector<std::int64_t> key{s.axes[ring.axis].size, ring.keys, split.dim, g_[scores].type.shape[static_cast<std::size_t>(split.dim)]};
  for (std::size_t n = 1; n < ring.forward.size() && ring.forward[n].node != ring.softmax; ++n) {
    const graph::Node& node = g_[ring.forward[n].node];
    key.push_back(static_cast<std::int64_t>(node.op));
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      key.push_back(ring.forward[n].operands[i].role == KeyRole::Inside ? -1 : static_cast<std::int64_t>(graph::index(node.inputs[i])));
  }
  const auto [at, fresh] = found_.try_emplace(std::move(key));
  if (fresh) at->second = read(s, ring);
  return at->second;
}

std::vector<bool> ConstantMasks::read(const Sharding& s, const AttentionRing& ring) {
  const TensorId scores = g_[ring.softmax].inputs[0];
  const AxisLayout& split = s.layout(scores)[ring.axis];
  const std::int64_t rows = g_[scores].type.shape[static_cast<std::size_t>(split.dim)];
  if (s.dims->of(scores)[static_cast<std::size_t>(split.dim)].size() != 1 || rows * ring.keys > kMostPairs) return {};
  std::vector<bool> hidden(static_cast<std::size_t>(rows * ring.keys), false);
  for (std::size_t n = 1; n < ring.forward.size() && ring.forward[n].node != ring.softmax; ++n)
    if (!add_mask(ring, ring.forward[n], split.dim, hidden)) return {};
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = hidden.begin() + r * ring.keys;
    if (std::all_of(row, row + ring.keys, [](bool h) { return h; })) return {};
  }
  const std::int64_t blocks = s.axes[ring.axis].size;
  std::vector<bool> masked(static_cast<std::size_t>(blocks * blocks), false);
  for (std::int64_t c = 0; c < blocks; ++c)
    for (std::int64_t b = 0; b < blocks; ++b) {
      const Range own = block(rows, blocks, c), keys = block(ring.keys, blocks, b);
      bool all = true;
      for (std::int64_t r = own.begin; r < own.end && all; ++r)
        for (std::int64_t k = keys.begin; k < keys.end && all; ++k) all = hidden[static_cast<std::size_t>(r * ring.keys + k)];
      masked[static_cast<std::size_t>(c * blocks + b)] = all;
    }
  return masked;
}

}  // namespace rehearsal::plan
