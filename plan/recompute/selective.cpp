// Results that cheap operators make from kept ones.

#include <algorithm>

#include "graph/op_schema.hpp"
#include "plan/recompute/recompute.hpp"
#include "plan/schedules/stages.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

/// A result that is worth dropping.
struct Candidate {
  std::vector<TensorId> dropped;  ///< and what is recomputed on the way to it
  double saves = 0;               ///< bytes, less what must be kept for its sake
  double costs = 0;               ///< of making it again, in the units of roofline_cost()
};

class Selection {
 public:
  explicit Selection(const ForwardResults& results)
      : results_(results),
        g_(results.graph()),
        level_(g_.tensors().size(), 0),
        kept_(g_.tensors().size(), false),
        dropped_(g_.tensors().size(), false) {
    for (std::size_t t = 0; t < kept_.size(); ++t) kept_[t] = results_.is_saved(static_cast<TensorId>(t));
    for (std::size_t n = 0; n < g_.nodes().size() && g_.nodes()[n].phase == graph::Phase::Forward; ++n)
      if (!results_.is_view(static_cast<NodeId>(n))) visit(static_cast<NodeId>(n));
  }

  /// Those that save most for their time first.
  [[nodiscard]] std::vector<Candidate> take() && {
    for (Candidate& c : candidates_) std::erase_if(c.dropped, [&](TensorId t) { return kept_[graph::index(t)]; });
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.saves * b.costs > b.saves * a.costs; });
    return std::move(candidates_);
  }

 private:
  /// Products with weights; those of two results only where they make less than they read (attention scores make more).
  [[nodiscard]] bool is_dear(NodeId n) const {
    const auto family = graph::schema(g_[n]).family;
    if (family != graph::CostFamily::MatMul && family != graph::CostFamily::Convolution) return false;
    double read = 0, made = 0;
    for (const TensorId t : g_[n].inputs) {
      if (t == TensorId::None) continue;
      if (!results_.from_samples(t)) return true;
      read += static_cast<double>(results_.bytes(results_.root(t)));
    }
    for (const TensorId t : g_[n].outputs)
      if (t != TensorId::None) made += static_cast<double>(results_.bytes(t));
    return made < read;
  }

  void visit(NodeId n) {
    int level = is_dear(n) ? 1 : 0, deepest = 0;
    for (const TensorId t : results_.operands(n)) deepest = std::max(deepest, level_[graph::index(t)]);
    level += deepest;
    for (const TensorId t : g_[n].outputs) {
      if (t == TensorId::None) continue;
      level_[graph::index(t)] = level;
      if (results_.is_saved(t) && results_.can_drop(t) && !is_dear(n)) weigh(t);
    }
  }

  /// What making a tensor again takes.
  struct Making {
    std::vector<TensorId> kept;  ///< results to keep that would not be kept otherwise
    std::vector<NodeId> nodes;
    bool possible = true;
  };

  void weigh(TensorId t) {
    Making making;
    expand(t, making);
    double saves = static_cast<double>(results_.bytes(t)), costs = 0;
    for (const TensorId k : making.kept) saves -= static_cast<double>(results_.bytes(k));
    if (!making.possible || saves <= 0) return;
    std::vector<TensorId> dropped{t};
    for (const NodeId n : making.nodes) {
      costs += roofline_cost(g_, n);
      for (const TensorId o : g_[n].outputs)
        if (o != TensorId::None && results_.can_drop(o) && !results_.is_saved(o)) dropped.push_back(o);
    }
    for (const TensorId k : making.kept) kept_[graph::index(k)] = true;
    kept_[graph::index(t)] = false;
    dropped_[graph::index(t)] = true;
    candidates_.push_back({std::move(dropped), saves, costs});
  }

  void expand(TensorId t, Making& making) const {
    const int level = level_[graph::index(t)];
    std::vector<NodeId> open{g_[t].producer};
    while (!open.empty() && making.possible) {
      const NodeId n = open.back();
      open.pop_back();
      if (std::find(making.nodes.begin(), making.nodes.end(), n) != making.nodes.end()) continue;
      making.nodes.push_back(n);
      for (const TensorId u : results_.operands(n)) {
        const auto i = graph::index(u);
        if (kept_[i] || g_[u].producer == NodeId::None) continue;
        if (dropped_[i] && level_[i] != level) making.possible = false;
        const bool again = dropped_[i] || (level_[i] == level && results_.can_drop(u) && !is_dear(g_[u].producer));
        if (again)
          open.push_back(g_[u].producer);
        else if (std::find(making.kept.begin(), making.kept.end(), u) == making.kept.end())
          making.kept.push_back(u);
      }
    }
  }

  const ForwardResults& results_;
  const graph::Graph& g_;
  std::vector<int> level_;            ///< dear products on the longest way to a tensor
  std::vector<bool> kept_, dropped_;  ///< by root
  std::vector<Candidate> candidates_;
};

}  // namespace

Recomputation selective_recomputation(const ForwardResults& results, std::size_t count) {
  const auto candidates = Selection(results).take();
  std::vector<bool> dropped(results.graph().tensors().size(), false);
  for (std::size_t i = 0; i < std::min(count, candidates.size()); ++i)
    for (const TensorId t : candidates[i].dropped) dropped[graph::index(t)] = true;
  return {results.with_views(std::move(dropped))};
}

Recomputation selective_recomputation(const ForwardResults& results) {
  return selective_recomputation(results, results.graph().tensors().size());
}

std::size_t selective_count(const ForwardResults& results) { return Selection(results).take().size(); }

}  // namespace rehearsal::plan
