#pragma once
// Who computes what, when: the answer of a search, the input of a run. A Plan names dimensions, never numbers of one import.

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/choices.hpp"
#include "plan/context.hpp"
#include "plan/servers.hpp"

namespace rehearsal::plan {

/// Compact text: "dp=8,pp=2,micro_batch=1,schedule=1f1b". What is left out takes its neutral value, "auto" is searched.
struct Plan {
  int dp = 1, tp = 1, pp = 1, cp = 1;
  int ep = 1;                               ///< ranks of `dp` that share out experts; everything else has a copy on each of them
  std::array<int, 3> spatial{1, 1, 1};      ///< depth, height, width
  std::optional<std::int64_t> micro_batch;  ///< samples per pipeline slot of one replica; nullopt: the replica's whole batch
  std::string shares = "speed";             ///< of the batch: equal | speed | A:B:..., by replica (plan/batch_shares.hpp)
  std::string schedule = "1f1b";            ///< a row of schedule_table()
  int interleave = 1;
  int zero = 0;
  int zero_group = 0;  ///< ranks of `dp` over which `zero` shards; 0: all of them
  Recompute recompute;
  bool sequence_parallel = false;
  Fusion fuse = Fusion::Attention;
  AttentionForm attention = AttentionForm::Gather;
  Offload offload = Offload::None;
  Compression compression;
  std::int64_t exact_steps =
      0;  ///< first steps of a training in which all gradients are summed, whole: before `compression`, `local_steps`
  std::int64_t local_steps = 0;  ///< replicas train by themselves and meet every so many steps; 0: they sum gradients in every step
  OuterStep outer;               ///< what they do when they meet
  /// They meet one by one, at a center: meetings that one may be ahead of the slowest. nullopt: all meet at once.
  std::optional<std::int64_t> staleness;
  Servers servers;  ///< replicas among which the center is sharded
  Decompositions decompositions = Decompositions::Everywhere;
  std::string allreduce = "auto";  ///< a row of the all-reduce table, or "auto": the one whose closed form is least
  bool overlap = true;             ///< gradient all-reduce during the backward pass
  BatchStatistics bn = BatchStatistics::Batch;
  std::string order = "tp.cp.ep.dp.pp";  ///< innermost first
  /// Groups of nodes of a platform in the order in which ranks fill them (platforms/node_order.hpp). Those that are not named come behind,
  /// as the platform lists them.
  std::vector<std::string> fill;
  std::vector<std::string> cuts;  ///< pipeline: name of the first node of every stage but the first; empty: balanced by cost
  /// What `allreduce=auto` and gathers took, as "all-reduce:dp:25165824:ring": so that a run sums as it was predicted to. Messages that are
  /// not among them are chosen for.
  std::vector<std::string> algorithms;
  std::vector<std::string> searched;  ///< keys given as "auto"

  [[nodiscard]] int ranks() const { return dp * tp * pp * cp * spatial[0] * spatial[1] * spatial[2]; }
  /// Samples of a replica in a step of `batch`, where replicas have equal shares; at least one.
  [[nodiscard]] std::int64_t replica_batch(std::int64_t batch) const { return std::max<std::int64_t>(1, batch / dp); }
  /// Of them those of a pipeline slot.
  [[nodiscard]] std::int64_t slot_batch(std::int64_t batch) const { return micro_batch.value_or(replica_batch(batch)); }
  /// Ranks of `dp` that share out the experts of one copy of them: all of `ep`, where `ep` divides `dp`; else a part of it beside all of
  /// `cp`.
  [[nodiscard]] int expert_ranks() const { return dp % ep != 0 && ep % cp == 0 && dp % (ep / cp) == 0 ? ep / cp : std::gcd(dp, ep); }
  /// Are experts left whole, and spread over the ranks of tensor parallelism, too? So where `ep` is more than data and context parallelism
  /// have ranks for (Megatron-Core: expert_tensor_parallel_size of 1).
  [[nodiscard]] bool has_whole_experts() const {
    const int beside = ep / expert_ranks();
    return beside != 1 && beside != cp && (beside == tp || beside == tp * cp);
  }
  /// Ranks of `dp` over which `zero` shards: a number that divides those that have copies of everything.
  [[nodiscard]] int shard_ranks() const { return zero_group == 0 ? dp / expert_ranks() : std::gcd(dp / expert_ranks(), zero_group); }
  /// Are there several groups of replicas, each with a copy of what `zero` shards inside it?
  [[nodiscard]] bool has_shard_groups() const { return zero > 0 && shard_ranks() < dp / expert_ranks(); }
  /// Ranks of `dp` that have parts of the center.
  [[nodiscard]] int center_ranks() const { return servers.count(dp); }
  /// At a center, each when it comes there.
  [[nodiscard]] bool meets_one_by_one() const { return local_steps > 0 && staleness && dp > 1; }
  /// May weights of replicas differ behind a meeting?
  [[nodiscard]] bool meets_in_part() const { return meets_one_by_one() || (local_steps > 0 && outer.rule == OuterRule::Gossip); }
  friend bool operator==(const Plan&, const Plan&) = default;
};
/// Of Plan::staleness: no bound.
inline constexpr std::int64_t kAnyStaleness = std::int64_t{1} << 40;

/// Throws BadInput naming the key: unknown, doubled, without value, or out of range, and what would be right.
[[nodiscard]] Plan parse_plan(const std::string& text);
/// The keys that a text names which parse_plan() takes.
[[nodiscard]] std::vector<std::string_view> named_keys(const std::string& text);
/// Canonical compact text: neutral values left out except dp; parse_plan(to_text(p)) == p.
[[nodiscard]] std::string to_text(const Plan&);

struct PlanFile {
  Plan plan;
  PlanContext context;
};
/// Reads plan.json. Throws BadInput naming file and key.
[[nodiscard]] PlanFile read_plan_file(const std::string& path);
/// Writes atomically (temporary file, then rename). Throws EnvironmentFailure when the disk is full.
void write_plan_file(const std::string& path, const PlanFile&);

/// One thing that is wrong with a plan and what would mend it.
struct Violation {
  std::string key, problem, remedy;
};

}  // namespace rehearsal::plan
