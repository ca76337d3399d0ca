#include "predict/free_keys.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/join.hpp"
#include "plan/batch_shares.hpp"
#include "plan/compressors.hpp"
#include "plan/plan_keys.hpp"
#include "plan/schedules/model_chunks.hpp"

namespace rehearsal::predict {
namespace {

using Plans = std::vector<plan::Plan>;

Plans micro_batches(Predictor& p, const plan::Plan& plan) {
  const auto samples = plan.replica_batch(p.batch());
  Plans plans;
  for (const int b : divisors(samples, samples)) {
    plans.push_back(plan);
    if (b < samples || plan.pp > 1) plans.back().micro_batch = b;  // the whole batch of a replica is written in one way
  }
  return plans;
}

Plans sequence_parallelism(Predictor& p, const plan::Plan& plan) {
  Plans plans{plan};
  if (plan.tp > 1 && p.limits().sequence > 1 && p.framework().has_key("sequence_parallel"))
    plans.emplace_back(plan).sequence_parallel = true;
  return plans;
}

Plans sharded_updates(Predictor& p, const plan::Plan& plan) {
  const bool shards = plan.dp * plan.cp > 1 && p.framework().has_key("zero");
  return with_each<&plan::Plan::zero>(plan, shards ? std::vector{0, 1, 2, 3} : std::vector{0});
}

/// Inside a node messages are cheap: besides all replicas those of one node, of two, of four, where a node has several.
Plans shard_groups(Predictor& p, const plan::Plan& plan) {
  Plans plans{plan};
  const int beside = plan.tp * plan.cp * plan.spatial[0] * plan.spatial[1] * plan.spatial[2];
  const int in_node = std::ranges::min(p.platform().nodes, {}, &platforms::NodeGroup::devices).devices / beside;
  if (plan.zero == 0 || plan.ep > 1 || in_node < 2 || !p.framework().has_key("zero_group")) return plans;
  for (int group = in_node; group < plan.dp; group *= 2)
    if (plan.dp % group == 0 && p.framework_for(plan).has("zero_group", std::to_string(group))) plans.emplace_back(plan).zero_group = group;
  return plans;
}

Plans forms_of_attention(Predictor& p, const plan::Plan& plan) {
  if (plan.cp == 1) return {plan};
  return with_each<&plan::Plan::attention>(plan, p.limits().attention_forms);
}

/// Where stages are next to each other, and where replicas are.
Plans orders(Predictor& p, const plan::Plan& plan) {
  Plans plans{plan};
  const auto& nodes = p.platform().nodes;
  const bool several = nodes.size() > 1 || plan.ranks() > nodes.front().devices;
  if (plan.pp > 1 && plan.dp > 1 && several) plans.emplace_back(plan).order = "tp.cp.ep.pp.dp";
  return plans;
}

/// Whichever devices they have, replicas do the same: where they are all ranks of all devices, their order is nobody's business.
bool has_equal_ranks_everywhere(const Predictor& p, const plan::Plan& plan) {
  const bool replicas_alone = plan.ranks() == plan.dp && plan.ep == 1 && !plan.has_shard_groups() && !plan::names_shares(plan);
  return replicas_alone && plan.dp == platforms::device_count(p.platform()) && !p.platform().device_limit && !p.platform().node_limit;
}

/// Orders that have the same nodes for the ranks of the plan are one.
Plans fillings(Predictor& p, const plan::Plan& plan) {
  if (has_equal_ranks_everywhere(p, plan)) return {plan};
  Plans plans;
  std::set<const platforms::Platform*> known;
  for (auto& one : with_each<&plan::Plan::fill>(plan, p.orders_of_nodes()))
    if (known.insert(&p.platform_for(one)).second) plans.push_back(std::move(one));
  return plans;
}

/// Of each stage under interleaved schedules: numbers that split the blocks evenly.
std::vector<int> chunk_counts(Predictor& p, const plan::Plan& plan) {
  if (!p.framework().has_key("interleave")) return {};
  if (plan.interleave > 1) return {plan.interleave};
  const auto blocks = p.limits().blocks;
  if (blocks <= 1) return {2, 4};
  auto counts = blocks % plan.pp == 0 ? divisors(blocks / plan.pp, blocks / plan.pp) : std::vector<int>{};
  std::erase(counts, 1);  // that is 1f1b
  return counts;
}

/// Schedules with a flush.
Plans schedules(Predictor& p, const plan::Plan& plan) {
  if (plan.pp == 1) return {plan};
  Plans plans;
  const auto count = static_cast<int>(plan.micro_batch ? plan.replica_batch(p.batch()) / *plan.micro_batch : 1);
  for (const auto& row : plan::schedule_table()) {
    if (row.asynchronous || !p.framework().has("schedule", row.name)) continue;
    if (row.placement == plan::ChunkPlacement::Both && !p.limits().two_copies) continue;
    for (const int v : row.chunks == 0 ? chunk_counts(p, plan) : std::vector{plan.interleave}) {
      auto one = plan;
      one.schedule = std::string(row.name);
      one.interleave = v;
      if (plan::schedule_violations(one, count).empty()) plans.push_back(std::move(one));
    }
  }
  return plans;
}
void reset_schedule(plan::Plan& plan) { reset_member<&plan::Plan::schedule>(plan), reset_member<&plan::Plan::interleave>(plan); }

/// A quarter, half and three quarters of the blocks of a part of the pipeline.
std::vector<plan::Recompute> some_blocks(Predictor& p, const plan::Plan& plan) {
  constexpr int kQuarters = 4;
  if (!p.limits().some_blocks) return {};
  const auto shape = plan::pipeline_shape(plan, 1);
  const auto parts = plan::parts(plan::schedule_of(plan).placement, shape);
  const auto blocks = static_cast<int>(p.limits().all_blocks / parts);
  std::vector<plan::Recompute> values;
  for (int n = 1; n < kQuarters; ++n)
    if (const int some = blocks * n / kQuarters; some > 0 && (values.empty() || values.back().blocks < some))
      values.push_back({plan::RecomputeRule::Full, 0, some});
  return values;
}

Plans recomputations(Predictor& p, const plan::Plan& plan) {
  auto values = p.limits().recompute;
  const auto some = some_blocks(p, plan);
  values.insert(std::ranges::find(values, plan::RecomputeRule::Full, &plan::Recompute::rule), some.begin(), some.end());
  std::erase_if(values, [&](const plan::Recompute& value) { return !p.framework().has("recompute", to_text(value)); });
  return with_each<&plan::Plan::recompute>(plan, values);
}

Plans overlaps(Predictor&, const plan::Plan& plan) { return with_each<&plan::Plan::overlap>(plan, std::array{true, false}); }

/// What each replica makes is what all would have made: only the time differs.
Plans decompositions(Predictor& p, const plan::Plan& plan) {
  if (!p.limits().decompositions || plan.dp / plan.expert_ranks() < 2) return {plan};
  return with_each<&plan::Plan::decompositions>(plan, std::array{plan::Decompositions::Everywhere, plan::Decompositions::Spread});
}

/// The named algorithm against the quickest for each message.
Plans choices_of_allreduce(Predictor&, const plan::Plan& plan) { return {plan}; }

Plans offloads(Predictor&, const plan::Plan& plan) {
  return with_each<&plan::Plan::offload>(plan, std::array{plan::Offload::None, plan::Offload::Optimizer, plan::Offload::Activations});
}

/// Those alone that lose no bit are proposed.
Plans compressions(Predictor&, const plan::Plan& plan) {
  return with_each<&plan::Plan::compression>(plan, std::array{plan::Compression{}, plan::Compression{plan::CompressionRule::Gist}});
}

/// Those of gradients, each with its usual setting; after so many steps where Adam's second moment is to settle first.
constexpr std::int64_t kUsualStepsToSettle = 100;
Plans compressions_of_gradients(Predictor&, const plan::Plan& plan) {
  std::vector<plan::Compression> all{plan::Compression{}};
  if (plan.dp > 1)
    for (const auto& row : plan::compressors()) {
      all.push_back({row.rule});
      all.back().setting = row.usual;
    }
  auto plans = with_each<&plan::Plan::compression>(plan, all);
  for (auto& p : plans)
    if (const auto* row = plan::compressor(p.compression.rule); row != nullptr && row->of_moments) p.exact_steps = kUsualStepsToSettle;
  return plans;
}

void reset_compression(plan::Plan& plan) {
  plan.compression = {};
  plan.exact_steps = 0;
}

/// Of replicas that train by themselves, as the papers that say what a plan does have tried them: rarely, one by one, or with neighbours.
Plans meetings(Predictor& p, const plan::Plan& plan) {
  Plans plans{plan};
  const bool parts = plan.dp > 1 && p.batch() % plan.dp == 0 && plan.zero == 0 && plan.ep == 1 && !plan.compression.of_sums() &&
                     !plan.compression.type_on_the_way();
  if (!parts) return plans;
  constexpr std::int64_t kFew = 10;
  struct Way {
    std::int64_t every;
    std::optional<std::int64_t> staleness;
    std::string_view outer;
  };
  for (const auto& way : {Way{kFew, {}, "average"}, Way{1, {}, "gossip"}, Way{1, 1, "average"}, Way{1, 4, "average"},
                          Way{kFew, 1, "average"}, Way{kFew, 1, "elastic"}}) {
    auto& one = plans.emplace_back(plan);
    one.local_steps = way.every;
    one.staleness = way.staleness;
    one.outer = plan::parse_outer_step(way.outer);
  }
  return plans;
}

void reset_meetings(plan::Plan& plan) {
  plan.local_steps = 0;
  plan.outer = {};
  plan.staleness.reset();
  plan.servers = {};
}

constexpr std::array kKeys{FreeKey{"micro_batch", micro_batches, reset_member<&plan::Plan::micro_batch>},
                           FreeKey{"sequence_parallel", sequence_parallelism, reset_member<&plan::Plan::sequence_parallel>},
                           FreeKey{"zero", sharded_updates, reset_member<&plan::Plan::zero>},
                           FreeKey{"zero_group", shard_groups, reset_member<&plan::Plan::zero_group>},
                           FreeKey{"attention", forms_of_attention, reset_member<&plan::Plan::attention>},
                           FreeKey{"order", orders, reset_member<&plan::Plan::order>},
                           FreeKey{"fill", fillings, reset_member<&plan::Plan::fill>},
                           FreeKey{"schedule", schedules, reset_schedule},
                           FreeKey{"recompute", recomputations, reset_member<&plan::Plan::recompute>},
                           FreeKey{"decompositions", decompositions, reset_member<&plan::Plan::decompositions>},
                           FreeKey{"overlap", overlaps, reset_member<&plan::Plan::overlap>, false},
                           FreeKey{"allreduce", choices_of_allreduce, reset_member<&plan::Plan::allreduce>, false},
                           FreeKey{"offload", offloads, reset_member<&plan::Plan::offload>, false},
                           FreeKey{"compression", compressions, reset_member<&plan::Plan::compression>, false},
                           FreeKey{"compression", compressions_of_gradients, reset_compression, false, "compression"},
                           FreeKey{"local_steps", meetings, reset_meetings, false, "async"}};

/// The keys in which two plans differ, as the second has them.
std::vector<std::pair<std::string, std::string>> differences(const Predictor& p, const plan::Plan& from, const plan::Plan& to) {
  std::vector<std::pair<std::string, std::string>> changes;
  for (const auto& row : plan::plan_keys())
    if (auto value = row.print(to); value != row.print(from))
      changes.emplace_back(row.key, !value.empty()      ? value
                                    : row.key == "fill" ? "listed"
                                                        : std::to_string(to.replica_batch(p.batch())));  // the whole batch of a replica
  return changes;
}

}  // namespace

std::span<const FreeKey> free_keys() { return kKeys; }

std::string ChangedPlan::text() const {
  return joined(changes, ",", [](const auto& c) { return c.first + "=" + c.second; });
}

std::vector<ChangedPlan> changed_plans(Predictor& predictor, const plan::Plan& plan) {
  std::vector<ChangedPlan> all;
  for (const auto& row : kKeys) {
    if (!row.allowed_by.empty()) continue;
    auto neutral = plan;
    row.reset(neutral);
    for (auto& other : row.values(predictor, neutral))
      if (auto changes = differences(predictor, plan, other); !changes.empty())
        all.push_back({std::move(other), row.key, std::move(changes)});
  }
  return all;
}

std::vector<std::string> changes_between(const Predictor& predictor, const plan::Plan& from, const plan::Plan& to) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : differences(predictor, from, to)) changes.push_back(key + "=" + value);
  return changes;
}

std::vector<int> divisors(std::int64_t n, std::int64_t most) {
  std::vector<int> all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(static_cast<int>(d));
  return all;
}

}  // namespace rehearsal::predict
