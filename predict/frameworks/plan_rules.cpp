#include "predict/frameworks/plan_rules.hpp"

#include <array>

#include "base/join.hpp"
#include "plan/batch_shares.hpp"
#include "plan/plan_keys.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/violations.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using Violations = std::vector<plan::Violation>;

void dp(const PlanQuestion& q, Violations& v) {
  if (q.batch % q.plan.dp != 0)
    v.push_back({"dp", std::to_string(q.plan.dp) + " replicas do not divide a batch of " + std::to_string(q.batch),
                 "use a degree that divides it; " + q.profile.name + " gives every replica as many samples"});
}

void tp(const PlanQuestion& q, Violations& v) {
  if (q.plan.tp > 1 && !q.limits.weights)
    v.push_back({"tp", "the model has no product with weights whose dimensions could be split", "use tp=1"});
  else if (q.limits.heads > 0 && q.limits.heads % q.plan.tp != 0)
    v.push_back({"tp", std::to_string(q.plan.tp) + " ranks do not divide the " + std::to_string(q.limits.heads) + " heads of attention",
                 "use a degree that divides them; " + q.profile.name + " gives every rank whole heads"});
}

void cp(const PlanQuestion& q, Violations& v) {
  if (q.plan.cp > 1 && q.limits.sequence < q.plan.cp)
    v.push_back({"cp", q.limits.sequence > 1 ? "more ranks than the sequence has tokens" : "the model has no sequence", "use cp=1"});
  else if (q.plan.cp > 1 && q.limits.sequence % (std::int64_t{2} * q.plan.cp) != 0)  // an early and a late piece, since attention is causal
    v.push_back({"cp",
                 "every rank has two pieces of a sequence, and " + std::to_string(2 * q.plan.cp) + " do not divide " +
                     std::to_string(q.limits.sequence) + " tokens",
                 "use a degree twice which divides them"});
}

void ep(const PlanQuestion& q, Violations& v) {
  if (q.plan.ep == 1) return;
  if (q.limits.experts == 1)
    v.push_back({"ep", "the model has no experts", "use ep=1"});
  else if (q.limits.experts % q.plan.ep != 0)
    v.push_back({"ep", std::to_string(q.plan.ep) + " ranks do not divide " + std::to_string(q.limits.experts) + " experts",
                 "use a degree that divides them"});
  const int beside = q.plan.ep / q.plan.expert_ranks();
  const bool over_tp = q.plan.has_whole_experts(), over_replicas = beside == 1 || beside == q.plan.cp;
  if (over_replicas || (over_tp && q.profile.whole_experts)) return;
  const auto ranks =
      std::to_string(q.plan.ep) + " ranks are no part of dp=" + std::to_string(q.plan.dp) + ",cp=" + std::to_string(q.plan.cp);
  const std::string fix = "use a degree that divides dp, or one of its divisors times cp";
  if (q.profile.whole_experts)
    v.push_back({"ep", ranks + ",tp=" + std::to_string(q.plan.tp),
                 fix + ", or either times tp: experts are spread over replicas of everything else, or over all ranks of a stage"});
  else
    v.push_back({"ep", ranks + (over_tp ? ", and " + q.profile.name + " spreads experts over no ranks of tp" : ""),
                 fix + ": experts are spread over replicas of everything else"});
}

void zero_group(const PlanQuestion& q, Violations& v) {
  for (auto& violation : plan::shard_group_violations(q.plan)) v.push_back(std::move(violation));
}

void micro_batch(const PlanQuestion& q, Violations& v) {
  if (!q.plan.micro_batch || q.batch % q.plan.dp != 0) return;
  if (*q.plan.micro_batch > q.replica_batch() || q.replica_batch() % *q.plan.micro_batch != 0)
    v.push_back({"micro_batch",
                 std::to_string(*q.plan.micro_batch) + " samples do not divide the " + std::to_string(q.replica_batch()) + " of a replica",
                 "use a number that divides them"});
}

void shares(const PlanQuestion& q, Violations& v) {
  if (plan::has_uneven_shares(q.batch, q.plan))
    v.push_back({"shares", q.profile.name + " gives every replica as many samples", "leave it out, or use --framework rehearse"});
}

void schedule(const PlanQuestion& q, Violations& v) {
  for (auto& violation : plan::schedule_violations(q.plan, q.micro_batches())) v.push_back(std::move(violation));
  if (q.plan.pp == 1) return;
  const auto& row = plan::schedule_of(q.plan);
  if (row.asynchronous)
    v.push_back({"schedule", q.profile.name + " finishes all micro-batches before it updates weights", "use a schedule with a flush"});
  if (row.placement == plan::ChunkPlacement::Both)
    v.push_back({"schedule", q.profile.name + " keeps one copy of the model, and " + std::string(row.name) + " two", "use 1f1b"});
}

void recompute(const PlanQuestion& q, Violations& v) {
  if (q.plan.recompute.rule == plan::RecomputeRule::Budget)
    v.push_back({"recompute", to_text(q.plan.recompute) + " is for Rehearsal's own execution, which chooses tensors one by one",
                 "use none, selective, selective-op, full or full:N"});
  if (q.plan.recompute.rule == plan::RecomputeRule::FullExceptLast && !q.profile.checkpoints_stages)
    v.push_back(
        {"recompute", q.profile.name + " treats all micro-batches alike", "use full, or --framework gpipe, which spares the last one"});
  const auto blocks = q.plan.recompute.blocks;
  if (blocks == 0) return;
  const auto says = to_text(q.plan.recompute);
  if (q.profile.checkpoints_stages)
    v.push_back({"recompute", says + ": " + q.profile.name + " computes whole stages again", "use full"});
  else if (q.limits.all_blocks == 0 || (q.plan.pp > 1 && q.limits.stages != q.limits.blocks))  // cut between operators, not blocks
    v.push_back({"recompute", says + " counts equal blocks, and the model is not cut along any", "use full"});
  else if (blocks > q.limits.all_blocks)
    v.push_back({"recompute", says + ": the model has " + std::to_string(q.limits.all_blocks) + " equal blocks", "use full"});
}

void sequence_parallel(const PlanQuestion& q, Violations& v) {
  if (q.profile.experts_need_sequence_parallel && q.limits.experts > 1 && q.plan.tp > 1 && !q.plan.sequence_parallel)
    v.push_back({"sequence_parallel", q.profile.name + " refuses mixtures of experts under tp without it", "use sequence_parallel=on"});
}

void attention(const PlanQuestion& q, Violations& v) {
  if (q.plan.cp > 1 && q.plan.attention == plan::AttentionForm::AllToAll)
    v.push_back({"attention", "all-to-all over cp is for Rehearsal's own execution", "leave it out: keys and values go round a ring"});
}

void offload(const PlanQuestion& q, Violations& v) {
  if (q.plan.offload == plan::Offload::None) return;
  if (q.profile.checkpoints_stages && q.plan.offload == plan::Offload::Activations)
    v.push_back({"offload", q.profile.name + " computes whole stages again and has no activations to move", "leave it out"});
  for (const auto& nodes : q.platform.nodes) {
    const auto says = "platform " + q.platform.name + " does not say how quick ";
    if (nodes.device.kind == platforms::DeviceKind::Cpu)
      v.push_back({"offload", "the memory of " + nodes.device.name + " is the host's", "leave it out"});
    else if (!nodes.device.host_bandwidth)
      v.push_back({"offload", says + "the link of " + nodes.device.name + " to the host's memory is",
                   "add device.host_bandwidth (\"32 GB/s\") to its node"});
    else if (q.plan.offload == plan::Offload::Optimizer && !nodes.host_memory_bandwidth)
      v.push_back({"offload", says + "the memory of the host is that would update what stays there",
                   "add host_memory_bandwidth (\"400 GB/s\") to its node"});
  }
}

void compression(const PlanQuestion& q, Violations& v) {
  if (q.plan.compression != plan::Compression{} && !q.plan.compression.type_on_the_way())
    v.push_back({"compression", to_text(q.plan.compression) + " is for Rehearsal's own execution",
                 "use bf16 or f16, in which frameworks sum gradients as well, or use --framework rehearse"});
}

void bn(const PlanQuestion& q, Violations& v) {
  if (q.plan.bn == plan::BatchStatistics::Sync)
    v.push_back({"bn", q.profile.name + " takes statistics of each micro-batch", "use bn=local, or leave it out"});
}

constexpr std::array kRules{
    PlanKeyRule{"dp", dp},
    PlanKeyRule{"tp", tp},
    PlanKeyRule{"pp", nullptr},
    PlanKeyRule{"cp", cp},
    PlanKeyRule{"ep", ep},
    PlanKeyRule{"spatial", nullptr, "@ does not split images"},
    PlanKeyRule{"micro_batch", micro_batch},
    PlanKeyRule{"shares", shares},
    PlanKeyRule{"schedule", schedule},
    PlanKeyRule{"interleave", nullptr},  // with the schedule
    PlanKeyRule{"zero", nullptr},
    PlanKeyRule{"zero_group", zero_group},
    PlanKeyRule{"recompute", recompute},
    PlanKeyRule{"sequence_parallel", sequence_parallel},
    PlanKeyRule{"attention", attention},
    PlanKeyRule{"fuse", nullptr, "the profile @ says what becomes one kernel", "leave it out, or choose another --framework"},
    PlanKeyRule{"offload", offload},
    PlanKeyRule{"compression", compression},
    PlanKeyRule{"exact_steps", nullptr, "is for compressors of gradients of Rehearsal's own execution"},
    PlanKeyRule{"local_steps", nullptr, "is for Rehearsal's own execution"},
    PlanKeyRule{"outer", nullptr, "is for Rehearsal's own execution"},
    PlanKeyRule{"staleness", nullptr, "is for Rehearsal's own execution"},
    PlanKeyRule{"servers", nullptr, "is for Rehearsal's own execution"},
    PlanKeyRule{"decompositions", nullptr, "is for Rehearsal's own execution"},
    PlanKeyRule{"allreduce", nullptr, "the collective library of @ chooses the algorithm", "use allreduce=auto"},
    PlanKeyRule{"algorithms", nullptr, "the collective library of @ chooses them"},
    PlanKeyRule{"overlap", nullptr},
    PlanKeyRule{"bn", bn},
    PlanKeyRule{"order", nullptr},
    PlanKeyRule{"fill", nullptr},
    PlanKeyRule{"cuts", nullptr, "@ splits blocks evenly"}};

void ask(const PlanKeyRule& rule, const PlanQuestion& q, Violations& v) {
  if (rule.check != nullptr) return rule.check(q, v);
  if (rule.problem.empty() || !plan::is_set(*plan::find_plan_key(rule.key), q.plan)) return;
  std::string problem(rule.problem);
  if (const auto name = problem.find('@'); name != problem.npos) problem.replace(name, 1, q.profile.name);
  v.push_back({std::string(rule.key), problem, std::string(rule.remedy)});
}

/// Keys whose value is not the neutral one, of those that a profile does not have.
void add_missing_kinds(const PlanQuestion& q, Violations& v) {
  constexpr std::array<std::string_view, 7> kKinds{"tp", "pp", "cp", "ep", "zero", "interleave", "sequence_parallel"};
  for (const auto kind : kKinds)
    if (!q.profile.has_key(kind) && plan::is_set(*plan::find_plan_key(kind), q.plan))
      v.push_back({std::string(kind), q.profile.name + " does not have it", "leave it out, or choose another --framework"});
}

/// Whether some kind of models is usually run so on the device.
bool is_usual_on(const platforms::Device& device, const costmodel::FrameworkProfile& profile) {
  return std::ranges::any_of(profile.usual_on, [&](const auto& beginnings) { return costmodel::named_by(beginnings, device).has_value(); });
}

/// ", or --framework a, b": those that have the value beside the plan's other ones.
std::string others_with(const PlanQuestion& q, const std::string& key, const std::string& value) {
  std::string others;
  for (const auto& profile : costmodel::framework_profiles()) {
    const bool knows = profile.has_key(key) && (q.plan.pp == 1 || profile.has_key("pp"));
    const bool usual = is_usual_on(platforms::device_of(q.platform, 0), profile);
    const bool has = q.plan.pp > 1 ? profile.has_in_pipelines(key, value) : profile.has(key, value);
    if (knows && has && usual) others += (others.empty() ? "" : ", ") + profile.name;
  }
  return others.empty() ? "" : ", or --framework " + others;
}

/// Keys whose value is none of those that a profile has, and that no rule has refused before.
void add_missing_values(const PlanQuestion& q, Violations& v) {
  for (const auto& [key, known] : q.profile.values) {
    const bool schedules = key == "schedule";
    if ((schedules && q.plan.pp == 1) || std::ranges::find(v, key, &plan::Violation::key) != v.end()) continue;
    const auto value = schedules ? std::string(plan::schedule_of(q.plan).name) : plan::find_plan_key(key)->print(q.plan);
    if (!q.profile.has(key, value))
      v.push_back({key, q.profile.name + " does not have " + value, "use " + joined(known, " or ") + others_with(q, key, value)});
  }
  if (q.plan.pp == 1) return;
  for (const auto& [key, known] : q.profile.values_in_pipelines) {
    const auto value = plan::find_plan_key(key)->print(q.plan);
    if (q.profile.has(key, value) && !q.profile.has_in_pipelines(key, value))
      v.push_back({key, q.profile.name + " does not have " + value + " beside pp=" + std::to_string(q.plan.pp),
                   "use " + joined(known, " or ") + ", pp=1" + others_with(q, key, value)});
  }
}

}  // namespace

std::span<const PlanKeyRule> plan_key_rules() { return kRules; }

std::vector<plan::Violation> plan_violations(const PlanQuestion& q) {
  Violations violations;
  for (const auto& rule : kRules) ask(rule, q, violations);
  add_missing_kinds(q, violations);
  add_missing_values(q, violations);
  add_missing_devices(q.platform, q.plan, violations);
  return violations;
}

}  // namespace rehearsal::predict::frameworks
