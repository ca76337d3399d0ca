#include "traces/composition.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "plan/collectives/algorithm_rows.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/collectives/meetings.hpp"
#include "plan/lowering/lowering.hpp"
#include "predict/group_links.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

/// What the closed forms need to know about the ranks of a trace.
class Links {
 public:
  Links(const Trace& trace, const platforms::Platform& platform, const costmodel::CostModel& model)
      : platform_(platform), fabric_(platform), model_(model) {
    const auto plan = plan::parse_plan(trace.plan);
    mesh_.plan = plan;
    mesh_.ranks = plan.ranks();
    mesh_.axes = plan::with_joint_axes(plan::mesh_of(plan));
    if (mesh_.ranks > platforms::device_count(platform))
      throw BadInput("plan " + trace.plan + " of the trace", "is for " + std::to_string(mesh_.ranks) + " ranks; platform " + platform.name +
                                                                 " has " + std::to_string(platforms::device_count(platform)));
  }

  [[nodiscard]] int stage(int rank) const {
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a)
      if (mesh_.axes[a].name == "pp") return plan::coordinate(mesh_, rank, a);
    return 0;
  }
  /// Of a replica's share of the batch.
  [[nodiscard]] int micro_batches(std::int64_t batch) const {
    const auto share = (batch + mesh_.plan.dp - 1) / mesh_.plan.dp;
    return mesh_.plan.micro_batch ? static_cast<int>((share + *mesh_.plan.micro_batch - 1) / *mesh_.plan.micro_batch) : 1;
  }

  [[nodiscard]] double seconds(const EventKind& kind, int rank) const {
    const Bytes size(static_cast<double>(kind.message_bytes));
    if (kind.identity.kind == plan::InstructionKind::Receive) return 0;  // the other side's Send has it
    if (kind.identity.kind == plan::InstructionKind::Send) {
      const auto path = fabric_.path(rank, rank + 1 < mesh_.ranks ? rank + 1 : rank - 1);
      return (path.latency + size / path.bandwidth).value();
    }
    const auto links = predict::GroupLinks(mesh_, platform_, fabric_, model_).of({axis_of(kind), rank});
    if (kind.kernel.implementation == plan::kExchange) return exchange_seconds(kind, links);
    if (const auto* row = plan::meeting_row(kind.kernel.implementation))
      return row
          ->closed_form(kind_named(kind.kernel.op), kind.message_ranks, size, links,
                        plan::meeting_terms(kind.kernel.implementation, mesh_.plan))
          .value();
    return row_of(kind).closed_form(kind.message_ranks, size, links).value();
  }

 private:
  static plan::CollectiveKind kind_named(std::string_view text) {
    for (int k = 0; k < plan::kCollectiveKinds; ++k)
      if (const auto kind = static_cast<plan::CollectiveKind>(k); plan::name(kind) == text) return kind;
    throw BadInput("trace", "a collective of kind '" + std::string(text) + "' is unknown");
  }

  [[nodiscard]] std::size_t axis_of(const EventKind& kind) const {
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a)
      if (mesh_.axes[a].size == kind.message_ranks) return a;
    throw BadInput("trace", "collective " + kind.name + " of " + std::to_string(kind.message_ranks) + " ranks fits no axis of plan " +
                                plan::to_text(mesh_.plan));
  }

  /// The message of a trace is what is sent and what is received, one behind the other. Halos go to the neighbours, the rest to every rank.
  static double exchange_seconds(const EventKind& kind, const plan::CollectiveLinks& links) {
    const bool to_neighbours = kind.kernel.op == plan::name(plan::CollectiveKind::Halo);
    const int messages = to_neighbours ? std::min(2, kind.message_ranks - 1) : kind.message_ranks - 1;
    const Bytes each(static_cast<double>(kind.message_bytes) / 2 / messages);
    return messages * plan::message_time(links, links.ranks_per_node == 1, each).value();
  }

  static const plan::CollectiveRow& row_of(const EventKind& kind) {
    for (const auto& row : plan::collective_table())
      if (row.name == kind.kernel.implementation && plan::name(row.kind) == kind.kernel.op) return row;
    throw BadInput("trace", "collective " + kind.kernel.op + " by " + kind.kernel.implementation + " is unknown");
  }

  const platforms::Platform& platform_;
  platforms::Fabric fabric_;
  const costmodel::CostModel& model_;
  plan::Program mesh_;
};

/// Seconds of one event of every kind; messages are marked by their place.
std::vector<double> seconds_of_kinds(const RankTrace& rank, const Links& links, const costmodel::CostModel& model) {
  std::vector<double> seconds;
  for (const auto& kind : rank.kinds) {
    if (communicates(kind))
      seconds.push_back(links.seconds(kind, rank.rank));
    else
      seconds.push_back(kind.identity.kind == plan::InstructionKind::Report ? 0.0 : model.kernel(kind.kernel).seconds.value());
  }
  return seconds;
}

}  // namespace

Composition compose(const Trace& trace, const platforms::Platform& platform, const costmodel::CostModel& model) {
  const Links links(trace, platform, model);
  const auto step = counted_steps(trace).front().step;
  const double micro_batches = links.micro_batches(trace.batch);
  Composition worst;
  int worst_stage = 0;
  std::map<int, double> one_micro_batch;  // seconds by stage, of its slowest replica
  for (const auto& rank : trace.ranks) {
    const auto seconds = seconds_of_kinds(rank, links, model);
    Composition own;
    double in_loop = 0;
    for (const auto& e : rank.events) {
      if (e.step != step) continue;
      const auto& kind = rank.kinds[e.kind];
      (communicates(kind) ? own.communication : own.kernels) += seconds[e.kind];
      if (!communicates(kind) && plan::per_micro_batch(kind.identity.body)) in_loop += seconds[e.kind];
    }
    const int stage = links.stage(rank.rank);
    auto& of_stage = one_micro_batch[stage];
    of_stage = std::max(of_stage, in_loop / micro_batches);
    if (own.uncomposed(model) > worst.uncomposed(model)) worst = own, worst_stage = stage;
  }
  for (const auto& [stage, seconds] : one_micro_batch)
    if (stage != worst_stage) worst.bubble += seconds;
  return worst;
}

}  // namespace rehearsal::traces
