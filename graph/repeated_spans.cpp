#include "graph/repeated_spans.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <variant>

#include "base/hash.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

// Blocks of several kinds in turn are long: two of DeepSeek-V4 have 431 nodes, four of Qwen3-Next 441.
constexpr std::size_t kLongestPeriod = 500, kShortestPeriod = 3;

/// By tensor: masks are large, and all blocks share one.
using Conditions = std::map<TensorId, std::uint64_t>;

/// Which mask it is: blocks with a window and blocks without one differ in nothing else.
std::uint64_t condition_hash(const Graph& g, TensorId t, Conditions& known) {
  const auto [entry, fresh] = known.try_emplace(t);
  if (!fresh) return entry->second;
  const auto& condition = g[t];
  Hasher hash;
  if (condition.producer != NodeId::None) hash.add(g[condition.producer].op);
  if (const auto* bytes = std::get_if<InlineBytes>(&condition.contents.source))
    hash.add(std::string_view(reinterpret_cast<const char*>(bytes->data->data()), bytes->data->size()));
  return entry->second = hash.value();
}

/// What makes two nodes cost the same: operator, attributes, types and which operands are parameters, frozen or not.
std::uint64_t signature(const Graph& g, const Node& node, Conditions& conditions) {
  Hasher hash;
  hash.add(node.op);
  for (const auto& [key, value] : node.attributes.items()) {
    if (key == "stream") continue;  // which random numbers a dropout draws
    Attributes one;
    one.set(key, value);
    hash.add(one.to_text());
  }
  const auto add = [&](TensorId t) {
    if (t == TensorId::None) return;
    const auto role = g[t].role == TensorRole::Frozen ? TensorRole::Parameter : g[t].role;
    hash.add(static_cast<std::int64_t>(role)).add(static_cast<std::int64_t>(g[t].type.dtype));
    for (const auto size : g[t].type.shape) hash.add(size);
    hash.add(std::int64_t{-1});
    if (g[t].type.dtype == DType::Bool) hash.add(condition_hash(g, t, conditions));
  };
  for (const auto t : node.inputs) add(t);
  for (const auto t : node.outputs) add(t);
  return hash.value();
}

bool reads_frozen(const Graph& g, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](TensorId t) { return t != TensorId::None && g[t].role == TensorRole::Frozen; });
}

/// Cuts a chain between repetitions of which other nodes read frozen weights.
void add_runs(const std::vector<bool>& frozen, Span chain, std::vector<Span>& spans) {
  const auto begin = frozen.begin() + static_cast<std::ptrdiff_t>(chain.first);
  const auto length = static_cast<std::ptrdiff_t>(chain.length);
  for (int repetition = 0; repetition < chain.repeats; ++repetition) {
    const auto own = begin + repetition * length;
    if (repetition > 0 && std::equal(own, own + length, own - length))
      ++spans.back().repeats;
    else
      spans.push_back({chain.first + static_cast<std::size_t>(repetition) * chain.length, chain.length, 1, chain.recurrence,
                       chain.recurrence ? 1 : chain.repeats});
  }
}

/// Length of the run from `at` in which signatures repeat after `period` nodes.
std::size_t repeated(const std::vector<std::uint64_t>& s, std::size_t at, std::size_t period) {
  std::size_t length = 0;
  while (at + period + length < s.size() && s[at + length] == s[at + period + length]) ++length;
  return length;
}

/// The period that covers most nodes from `at` on, as a span; length 0: nothing repeats here.
Span best_period(const std::vector<std::uint64_t>& s, std::size_t at) {
  Span best;
  std::size_t covered = 0;
  for (std::size_t period = kShortestPeriod; period <= kLongestPeriod && at + 2 * period <= s.size(); ++period) {
    const auto times = 1 + repeated(s, at, period) / period;
    if (times < 2 || times * period <= covered) continue;
    best = {at, period, static_cast<int>(times)};
    covered = times * period;
  }
  return best;
}

bool reads_weights(const Graph& g, const Span& span) {
  for (std::size_t n = span.first; n < span.first + span.length; ++n)
    for (const auto t : g.nodes()[n].inputs)
      if (t != TensorId::None && is_weight(g[t].role)) return true;
  return false;
}

/// Whether one repetition reads the weights that another one reads, and reads some.
bool same_weights(const Graph& g, const Span& span, int one, int other) {
  bool any = false;
  for (std::size_t offset = 0; offset < span.length; ++offset) {
    const auto node = [&](int repetition) -> const Node& {
      return g.nodes()[span.first + static_cast<std::size_t>(repetition) * span.length + offset];
    };
    const auto &of_one = node(one).inputs, &of_other = node(other).inputs;
    for (std::size_t i = 0; i < of_one.size(); ++i) {
      if (of_one[i] == TensorId::None || !is_weight(g[of_one[i]].role)) continue;
      if (i >= of_other.size() || of_one[i] != of_other[i]) return false;
      any = true;
    }
  }
  return any;
}

/// Blocks with an attention of their own that share weights (Lan et al. 2020) are layers of a network, not steps through a sequence.
bool attends(const Graph& g, const Span& span) {
  for (std::size_t offset = 0; offset < span.length; ++offset)
    if (schema(g.nodes()[span.first + offset]).name == "Softmax") return true;
  return false;
}

/// Ends a recurrence where the next one begins: both directions of a layer may follow each other.
void mark_recurrence(const Graph& g, Span& span) {
  if (span.repeats < 2 || !same_weights(g, span, 0, 1) || attends(g, span)) return;
  span.recurrence = true;
  int steps = 2;
  while (steps < span.repeats && same_weights(g, span, 0, steps)) ++steps;
  span.repeats = steps;
}

}  // namespace

std::vector<Span> repeated_spans(const Graph& g) {
  std::vector<std::uint64_t> s;
  std::vector<bool> frozen;
  Conditions conditions;
  for (const auto& node : g.nodes()) {
    if (node.phase != Phase::Forward) break;
    s.push_back(signature(g, node, conditions));
    frozen.push_back(reads_frozen(g, node));
  }
  std::vector<Span> spans;
  std::size_t loose = 0;  // nodes since the last span
  const auto flush = [&](std::size_t end) {
    if (loose < end) spans.push_back({loose, end - loose, 1});
  };
  for (std::size_t at = 0; at < s.size();) {
    auto span = best_period(s, at);
    if (span.length == 0 || !reads_weights(g, span)) {
      at += std::max<std::size_t>(1, span.length * static_cast<std::size_t>(span.repeats));
      continue;
    }
    mark_recurrence(g, span);
    flush(at);
    add_runs(frozen, span, spans);
    at += span.length * static_cast<std::size_t>(span.repeats);
    loose = at;
  }
  flush(s.size());
  return spans;
}

}  // namespace rehearsal::graph
