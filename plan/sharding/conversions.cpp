// Where a tensor is wanted in another layout than it lies in: one conversion per tensor and wanted layout.

#include <utility>

#include "plan/sharding/passes.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

std::string_view name(ConversionKind kind) {
  static constexpr std::string_view kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                                "slice",      "mask",           "halo",       "shift"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

ConversionKind kind_of(const AxisLayout& from, const AxisLayout& to) {
  if (from.partial()) return to.split() ? ConversionKind::ReduceScatter : ConversionKind::AllReduce;
  if (from.replicated()) return to.split() ? ConversionKind::Slice : ConversionKind::Mask;
  AxisLayout without_halo = to;
  without_halo.halo = 0;
  if (from == without_halo) return ConversionKind::Halo;
  return to.split() ? ConversionKind::AllToAll : ConversionKind::AllGather;
}

bool same_place(const AxisLayout& a, const AxisLayout& b) { return a.split() && b.split() && a.dim == b.dim && a.factor == b.factor; }

/// Orders the axes' parts of one conversion.
class StepOrder {
 public:
  StepOrder(const ShardingTask& task, Layout from, const Layout& to)
      : axes_(task.axes), atoms_(task.dims.atoms()), now_(std::move(from)), to_(to) {}

  std::vector<ConversionStep> steps() && {
    // Slices first: they make what is sent smaller. Sums over micro-batches before sums over ranks: one message a step.
    pass([&](std::size_t a) { return now_[a].replicated(); });
    pass([&](std::size_t a) { return now_[a].partial() && axes_[a].in_time; });
    pass([&](std::size_t a) { return now_[a].partial(); });
    for (std::size_t a = 0; a < axes_.size(); ++a) change(axes_.size() - 1 - a);
    pass([](std::size_t) { return true; });
    return std::move(steps_);
  }

 private:
  template <class When>
  void pass(const When& when) {
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (when(a)) change(a);
    }
  }

  void change(std::size_t a) {
    if (now_[a] == to_[a]) return;
    for (std::size_t b = axes_.size(); b-- > 0;) {
      if (b != a && is_in_the_way(b, a)) step(b, AxisLayout{});
    }
    step(a, to_[a]);
  }

  /// Axes nested inside this one hold blocks of its blocks, and two dimensions that share a place (what a sum of dimensions is made of, and
  /// the sum) cannot both be cut: such axes let go before this one changes, and are cut again afterwards.
  [[nodiscard]] bool is_in_the_way(std::size_t other, std::size_t a) const {
    const bool meet = same_place(now_[other], to_[a]);
    if (other > a && (meet || same_place(now_[other], now_[a]))) return true;
    return meet && atoms_.find(now_[other].atom) != atoms_.find(to_[a].atom);
  }

  void step(std::size_t a, const AxisLayout& to) {
    if (to.halo && now_[a].partial()) {  // sums first, each row once
      AxisLayout own = to;
      own.halo = 0;
      step(a, own);
    }
    steps_.push_back({a, kind_of(now_[a], to), now_[a], to});
    now_[a] = to;
  }

  const std::vector<MeshAxis>& axes_;
  const graph::Atoms& atoms_;
  Layout now_;
  const Layout& to_;
  std::vector<ConversionStep> steps_;
};

class ConversionList {
 public:
  ConversionList(const ShardingTask& task, Sharding& result) : task_(task), s_(result), of_tensor_(task.graph.tensors().size()) {}

  int need(TensorId t, const Layout& want, graph::Phase phase) {
    const Layout& have = s_.layout(t);
    if (have == want) return -1;
    for (const int known : of_tensor_[graph::index(t)]) {
      if (s_.conversions[static_cast<std::size_t>(known)].to == want) return known;
    }
    const auto added = static_cast<int>(s_.conversions.size());
    s_.conversions.push_back({t, have, want, StepOrder(task_, have, want).steps(), phase, {}});
    of_tensor_[graph::index(t)].push_back(added);
    return added;
  }

 private:
  const ShardingTask& task_;
  Sharding& s_;
  std::vector<std::vector<int>> of_tensor_;
};

}  // namespace

void find_conversions(const ShardingTask& task, Sharding& result) {
  const graph::Graph& g = task.graph;
  ConversionList list(task, result);
  result.fed_by.resize(g.nodes().size());
  for (std::size_t n = 0; n < g.nodes().size(); ++n) {
    const graph::Node& node = g.nodes()[n];
    result.fed_by[n].assign(node.inputs.size(), -1);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == TensorId::None) continue;
      const int conversion = list.need(node.inputs[i], result.wanted[n][i], node.phase);
      result.fed_by[n][i] = conversion;
      if (conversion >= 0) result.conversions[static_cast<std::size_t>(conversion)].consumers.push_back({static_cast<NodeId>(n), i});
    }
  }
  if (task.training.loss != TensorId::None) list.need(task.training.loss, Layout(task.axes.size()), graph::Phase::Forward);
  for (std::size_t t = 0; t < g.tensors().size(); ++t) {
    const TensorId storage = g.tensors()[t].stored_in;
    if (storage != TensorId::None) list.need(static_cast<TensorId>(t), result.layout(storage), graph::Phase::Update);
  }
}

}  // namespace rehearsal::plan
