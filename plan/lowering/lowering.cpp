#include "plan/lowering/lowering.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "base/checking.hpp"
#include "base/join.hpp"
#include "plan/batch_shares.hpp"
#include "plan/compressors.hpp"
#include "plan/lowering/algorithms.hpp"
#include "plan/lowering/known_shardings.hpp"
#include "plan/lowering/meeting_rules.hpp"
#include "plan/lowering/role_passes.hpp"
#include "plan/lowering/spread_decompositions.hpp"
#include "plan/lowering/stage_work.hpp"
#include "plan/memory/check_messages.hpp"
#include "plan/plan_keys.hpp"
#include "plan/sharding/classes.hpp"
#include "plan/sharding/fusion.hpp"

namespace rehearsal::plan {

using graph::NodeId;

namespace {

std::int64_t largest_replica(std::int64_t batch, const Plan& plan) { return std::ranges::max(samples_of_replicas(batch, plan)); }

int most_micro_batches(std::int64_t batch, const Plan& plan) { return std::ranges::max(micro_batches_of_replicas(batch, plan)); }

std::string sentence(const std::vector<Violation>& violations) {
  return joined(violations, "; ", [](const Violation& v) { return v.key + ": " + v.problem + " (" + v.remedy + ")"; });
}

std::size_t axis_named(const std::vector<MeshAxisInfo>& axes, std::string_view name) {
  const auto at = std::find_if(axes.begin(), axes.end(), [&](const MeshAxisInfo& a) { return a.name == name; });
  return static_cast<std::size_t>(at - axes.begin());
}

/// Keys of the plan that change nothing because the axis they belong to has one coordinate.
void warn_about_idle_keys(const graph::TrainingGraph& training, Program& program) {
  const Plan& plan = program.plan;
  for (auto& warning : keys_without_effect(plan, plan.dp / plan.ep)) program.warnings.push_back(std::move(warning));
  if (plan.compression.rule == CompressionRule::GistF16 || plan.compression.rule == CompressionRule::GistBF16)
    program.warnings.push_back("compression=" + to_text(plan.compression) +
                               " rounds results between the forward and the backward pass: other mathematics than without it");
  if (plan.zero == 1 && plan.dp > 1 && !keeps_state(training))
    program.warnings.push_back("zero=1 is without effect: " + training.optimizer.name +
                               " keeps no state of a parameter that could be sharded");
}

std::string which_softmax(const NoRing& n, const graph::Graph& g) { return "attention of " + g[n.softmax].name + ": " + n.reason; }

/// Attention with fewer heads than there are ranks to exchange the sequence for them.
void warn_about_heads(const Sharding& sharding, const graph::Graph& g, Program& program) {
  if (program.plan.attention != AttentionForm::AllToAll || program.plan.cp == 1) return;
  const auto axis = static_cast<std::size_t>(std::ranges::find(sharding.axes, "cp", &MeshAxis::name) - sharding.axes.begin());
  const auto heads = sharding.dims->named("heads");
  const auto counts_heads = [&](const graph::IterDim& way) { return std::ranges::find(heads, way.atom) != heads.end(); };
  for (std::size_t n = 0; n < g.nodes().size() && g.nodes()[n].phase == graph::Phase::Forward; ++n) {
    const auto id = static_cast<NodeId>(n);
    if (graph::schema(g[id]).in_attention != graph::AttentionPart::Softmax) continue;
    const auto* way = sharding.choice(id, axis);
    if (std::ranges::none_of(sharding.dims->iteration(id), counts_heads) || (way != nullptr && counts_heads(*way))) continue;
    return program.warnings.push_back("attention=all-to-all: keys and values are gathered for attention of " + g[id].name +
                                      ": it has too few heads for cp=" + std::to_string(program.plan.cp));
  }
}

/// Attention that has another form than the plan asks for.
void check_attention(const Sharding& sharding, const graph::Graph& g, Program& program) {
  warn_about_heads(sharding, g, program);
  if (program.plan.attention != AttentionForm::Ring || program.plan.cp == 1) return;
  if (sharding.rings.empty())
    throw Refusal(
        "plan: cp=" + std::to_string(program.plan.cp) + ",attention=ring: " +
        (sharding.no_rings.empty() ? "the model has no attention that would gather keys" : which_softmax(sharding.no_rings.front(), g)));
  for (const NoRing& n : sharding.no_rings)
    program.warnings.push_back("attention=ring: keys and values are gathered for " + which_softmax(n, g));
}

/// On one stage, in one pass.
bool run_together(const Pipeline& pipeline, const Sharding& sharding, NodeId a, NodeId b) {
  const auto same = [&](const auto& of) { return of[graph::index(a)] == of[graph::index(b)]; };
  return same(pipeline.part_of_node) && same(sharding.parts) && (pipeline.can_wait.empty() || same(pipeline.can_wait));
}

/// A ring is one piece: all of its nodes run on one stage, in one pass.
void check_stages_of_rings(const LoweringContext& context) {
  const auto& g = context.training.graph;
  for (const AttentionRing& ring : context.sharding.rings)
    for (const auto* nodes : {&ring.forward, &ring.backward})
      for (const RingNode& n : *nodes) {
        const auto first = nodes->front().node;
        if (!run_together(context.pipeline, context.sharding, n.node, first))
          throw Refusal("plan: attention=ring: a pipeline stage ends between " + g[first].name + " and " + g[n.node].name +
                        ", which work on the same blocks of keys; use other cuts, another schedule or attention=gather");
      }
}

void warn_about_stashes(const LoweringContext& context, Program& program) {
  const auto& plan = context.plan;
  if ((plan.offload != Offload::Activations && !plan.compression.of_results()) || !context.stashing.in_order.empty()) return;
  program.warnings.push_back(
      (plan.compression.of_results() ? "compression=" + to_text(plan.compression) : "offload=" + std::string(name(plan.offload))) +
      " is without effect: the backward pass reads no result that could wait for it in this way");
}

/// What the roles send tells whether there was anything to send in fewer bits.
void warn_about_narrow_sums(const LoweringContext& context, Program& program) {
  const auto narrow = context.plan.compression.type_on_the_way();
  if (!narrow) return;
  const auto sends_narrowly = [&](const Role& role) {
    return std::ranges::any_of(role.buffers, [&](const Buffer& b) {
      return b.dtype == *narrow && b.category == MemoryCategory::Communication && b.name.ends_with(":" + to_text(context.plan.compression));
    });
  };
  const bool used = std::ranges::any_of(program.roles, sends_narrowly);
  program.warnings.push_back("compression=" + to_text(context.plan.compression) +
                             (used ? ": gradients are rounded to 16 bits on their way between ranks, which is different mathematics; what "
                                     "ranks have and what the update reads keeps its type"
                                   : " is without effect: no rank sends gradients of more than 16 bits"));
}

/// What training loses, where gradients are compressed.
void warn_about_compressors(Program& program) {
  const auto* row = compressor(program.plan.compression.rule);
  if (row == nullptr) return;
  const bool used = std::ranges::any_of(program.roles, [](const Role& role) {
    return std::ranges::any_of(role.bodies, [](const Body& body) {
      return std::ranges::any_of(body.instructions, [](const Instruction& i) { return i.kind == InstructionKind::Compress; });
    });
  });
  const auto text = "compression=" + to_text(program.plan.compression);
  if (!used) return program.warnings.push_back(text + " is without effect: no gradient is summed between ranks");
  const auto after = program.plan.exact_steps;
  program.warnings.push_back(text + ": different mathematics: " + std::string(row->caveat) + " (" + std::string(row->source) + ")" +
                             (after > 0 ? "; before step " + std::to_string(after + 1) +
                                              " gradients travel whole, and a step takes what it takes with compression=none"
                                        : ""));
}

void warn_about_sums(const LoweringContext& context, Program& program) {
  warn_about_meetings(program);
  warn_about_narrow_sums(context, program);
  warn_about_compressors(program);
}

/// Algorithms for messages that this plan does not send: it was made for another batch or model.
void warn_about_algorithms(Program& program) {
  if (program.plan.algorithms.empty()) return;
  const auto sent = algorithms_of(program);
  const auto& named = program.plan.algorithms;
  const auto idle = std::ranges::count_if(named, [&](const std::string& one) { return !std::ranges::binary_search(sent, one); });
  if (idle > 0)
    program.warnings.push_back("algorithms: " + std::to_string(idle) + " of " + std::to_string(named.size()) +
                               " are for messages that this plan does not send");
}

void warn_about_statistics(const graph::Graph& g, Program& program) {
  const Plan& plan = program.plan;
  if (plan.bn == BatchStatistics::Batch) return;
  const bool normalizes =
      std::any_of(g.nodes().begin(), g.nodes().end(), [](const graph::Node& n) { return graph::schema(n).is_batch_statistic(1); });
  const std::int64_t groups = std::int64_t{program.micro_batches} * (plan.bn == BatchStatistics::Local ? plan.dp : 1);
  if (!normalizes || groups == 1) {
    program.warnings.push_back("bn=" + std::string(name(plan.bn)) + " is without effect: " +
                               (normalizes ? "there is one group of samples" : "the model has no batch normalization"));
    return;
  }
  program.warnings.push_back("bn=" + std::string(name(plan.bn)) + ": batch normalization takes the statistics of each of " +
                             std::to_string(groups) +
                             " parts of the batch by itself, which is different mathematics from those of the whole batch; running " +
                             "statistics are still those of the whole batch");
}

void warn_about_replicas(const Sharding& sharding, const graph::Graph& g, Program& program) {
  for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
    const auto& use = sharding.use[a];
    if (sharding.axes[a].in_time) continue;  // what micro-batches do not share out runs once, before them or behind them
    if (use.flops_total <= 0 || use.flops_replicated < 0.01 * use.flops_total) continue;
    std::string warning = std::to_string(std::lround(100 * use.flops_replicated / use.flops_total)) +
                          " % of the FLOPs are computed by every coordinate of " + sharding.axes[a].name;
    if (!use.replicas.empty()) warning += ", for example by " + g[use.replicas.front().node].name + ": " + use.replicas.front().reason;
    program.warnings.push_back(std::move(warning));
  }
}

void build_roles(LoweringContext& context, Program& program) {
  const BlockClasses classes(context.sharding);
  using Part = std::pair<int, std::vector<std::int64_t>>;  // of the model: a stage, and sizes of blocks
  std::map<Part, std::map<int, std::uint32_t>> known;      // by device
  const auto pipeline = axis_named(program.axes, "pp");
  for (int rank = 0; rank < program.ranks; ++rank) {
    const int stage = pipeline < program.axes.size() ? coordinate(program, rank, pipeline) : 0;
    const int device = context.options.device_of ? context.options.device_of(rank) : 0;
    auto& on_devices = known[{stage, classes.of(position(program, rank, 0))}];
    const auto next = static_cast<std::uint32_t>(program.roles.size());
    const auto first = on_devices.empty() ? next : on_devices.begin()->second;
    const auto [at, fresh] = on_devices.try_emplace(device, next);
    // On another device ranks do the same, and only take another time for it. Who listens hears of every role.
    if (fresh && first < next && !context.options.after_pass)
      program.roles.push_back(Role(program.roles[first]));
    else if (fresh)
      program.roles.push_back(build_role(context, stage, rank, Watched::Yes));
    program.role_of.push_back(at->second);
  }
}

void set_recomputation(LoweringContext& context, const Recomputation& recomputation, const ForwardResults& results) {
  context.recomputation = recomputation;
  context.stashing = stashing_of(context.plan, results, context.sharding, recomputation);
  context.stashed_after.clear();
  if (context.stashing.in_order.empty()) return;
  auto& dropped = context.recomputation.dropped;
  dropped.resize(context.training.graph.tensors().size(), false);
  for (const auto t : context.stashing.in_order) {
    dropped[graph::index(t)] = true;
    const auto last = results.last_readers()[graph::index(t)];
    context.stashed_after[std::max(last, context.training.graph[t].producer)].push_back(t);
  }
  dropped = results.with_views(std::move(dropped));
}

/// Of the first rank of a stage, which has the largest blocks.
std::int64_t arena_bytes(LoweringContext& context, int stage, const Recomputation& recomputation, const ForwardResults& results) {
  set_recomputation(context, recomputation, results);
  const auto& program = context.program;
  const auto pipeline = axis_named(program.axes, "pp");
  const int rank = pipeline < program.axes.size() ? stage * program.axes[pipeline].stride : 0;
  return build_role(context, stage, rank, Watched::No).memory.arena_bytes;
}

Recomputation recomputation_of(LoweringContext& context, const ForwardResults& results) {
  const auto& wanted = context.plan.recompute;
  switch (wanted.rule) {
    case RecomputeRule::None:
      return {};
    case RecomputeRule::Full:
      return wanted.blocks > 0 ? block_recomputation(results, wanted.blocks) : full_recomputation(results, context.pipeline);
    case RecomputeRule::Selective:
      return selective_recomputation(results);
    case RecomputeRule::Budget:
      return budgeted_recomputation(results, context.pipeline, wanted.budget,
                                    [&](int stage, const Recomputation& r) { return arena_bytes(context, stage, r, results); });
    default:
      throw Refusal("plan: recompute=" + to_text(wanted) +
                    " is what other frameworks do; use none, selective, full, full:N, or the bytes that a rank may use");
  }
}

/// What the backward pass does not find where the forward pass left it.
void set_kept_results(LoweringContext& context) {
  const auto& plan = context.plan;
  if (plan.recompute.rule == RecomputeRule::None && plan.offload != Offload::Activations && !plan.compression.of_results()) return;
  const ForwardResults results(context.training, context.sharding, context.pipeline.part_of_node);
  set_recomputation(context, recomputation_of(context, results), results);
}

}  // namespace

std::vector<MeshAxisInfo> mesh_of(const Plan& plan) {
  const int shards = plan.has_shard_groups() ? plan.shard_ranks() : 1;
  struct Part {
    std::string_view word;  // of the order
    std::string_view axis;
    int size;
  };
  const std::array parts{Part{"dp", "shard", shards},
                         Part{"dp", "dp", plan.dp / plan.expert_ranks() / shards},
                         Part{"pp", "pp", plan.pp},
                         Part{"tp", "tp", plan.tp},
                         Part{"cp", "cp", plan.cp},
                         Part{"ep", "ep", plan.expert_ranks()},
                         Part{"spatial", "width", plan.spatial[2]},
                         Part{"spatial", "height", plan.spatial[1]},
                         Part{"spatial", "depth", plan.spatial[0]}};
  // Neighbours of an image exchange halos many times a step: where the order does not say otherwise they are the nearest ranks.
  const std::string order = plan.order.find("spatial") == std::string::npos ? "spatial." + plan.order : plan.order;
  std::vector<MeshAxisInfo> axes;
  int stride = 1;
  for (const auto& word : split(order, '.'))
    for (const auto& part : parts) {
      if (part.word != word || (part.size == 1 && part.axis != "dp")) continue;
      axes.push_back({std::string(part.axis), part.size, stride});
      stride *= part.size;
    }
  return axes;
}

std::vector<MeshAxisInfo> with_joint_axes(std::vector<MeshAxisInfo> axes) {
  const std::size_t single = axes.size();
  for (std::size_t first = 0; first < single; ++first) {
    MeshAxisInfo joint = axes[first];
    for (std::size_t next = first + 1; next < single && axes[first].name != "pp" && axes[next].name != "pp"; ++next) {
      joint.name += "." + axes[next].name;
      joint.size *= axes[next].size;
      if (joint.size > axes[first].size && axes[next].size > 1 && axes[first].size > 1) axes.push_back(joint);
    }
  }
  return axes;
}

namespace {

void check_shares(const graph::TrainingGraph& training, const Plan& p, std::vector<Violation>& violations) {
  if (!names_shares(p)) return;
  const auto shares = shares_in(p.shares).size();
  if (shares != static_cast<std::size_t>(p.dp))
    violations.push_back({"shares",
                          "names " + std::to_string(shares) + " replicas, and dp=" + std::to_string(p.dp) + " has " + std::to_string(p.dp),
                          "name a share for each, as in 3:1 for dp=2"});
  else if (const auto least = std::ranges::min(samples_of_replicas(training.batch, p)); least == 0)
    violations.push_back({"shares", "a replica would have none of the " + std::to_string(training.batch) + " samples",
                          "use shares that differ less, a larger batch or a smaller dp"});
  else if (p.ep > 1 && has_uneven_shares(training.batch, p))
    violations.push_back({"shares", "the ranks of ep must send each other equally many samples", "use shares=equal, or ep=1"});
  else if (p.has_shard_groups() && has_uneven_shares(training.batch, p))
    violations.push_back({"shares", "zero_group=" + std::to_string(p.zero_group) + " needs replicas with equally many samples",
                          "use shares=equal, or zero_group=all"});
  else if (schedule_of(p).asynchronous && has_uneven_shares(training.batch, p))
    violations.push_back(
        {"shares", "with schedule=" + p.schedule + " steps follow each other without a flush, at one pace", "use shares=equal"});
}

void check_micro_batches(const graph::TrainingGraph& training, const Plan& p, std::vector<Violation>& violations) {
  const auto largest = largest_replica(training.batch, p);
  const auto parts = std::int64_t{p.dp} * most_micro_batches(training.batch, p);
  if (p.micro_batch && *p.micro_batch > largest)
    violations.push_back(
        {"micro_batch", std::to_string(*p.micro_batch) + " samples, but a replica has " + std::to_string(largest), "use at most that"});
  else if (!has_uneven_shares(training.batch, p) && training.batch / p.dp < most_micro_batches(training.batch, p))
    violations.push_back({"micro_batch", "the smallest replica has fewer samples than there are micro-batches",
                          "use a larger micro_batch or a batch that dp divides"});
  else if (p.ep > 1 && p.micro_batch && training.batch % parts != 0)
    violations.push_back(
        {"micro_batch", "the ranks of ep share the samples of a micro-batch, which must be equal shares",
         "use a batch that dp=" + std::to_string(p.dp) + " divides, and a micro_batch that divides the batch of a replica"});
  if (p.bn != BatchStatistics::Batch && ((p.micro_batch && training.batch % parts != 0) || has_uneven_shares(training.batch, p)))
    violations.push_back({"bn", std::string(name(p.bn)) + " takes statistics of each micro-batch, and they would be of two sizes",
                          "use shares=equal, and a micro_batch and a batch of which every replica has a whole number"});
}

/// Compressors take a rank's whole gradient, and what they leave is decoded once.
void check_compressor(const Plan& p, std::vector<Violation>& violations) {
  const auto* row = compressor(p.compression.rule);
  if (row == nullptr && p.exact_steps > 0 && p.local_steps == 0)
    violations.push_back({"exact_steps", "is for a compressor of gradients or local_steps, and the plan has neither",
                          "use exact_steps=0, or compression=powersgd"});
  if (row == nullptr) return;
  const auto text = to_text(p.compression);
  if (row->of_moments && p.exact_steps == 0)
    violations.push_back({"exact_steps",
                          text + " freezes the second moment at the first compressed step; without steps before that it is 0",
                          "use as many steps as it takes to settle: exact_steps=100"});
  const auto refuse = [&](bool holds, const std::string& key, const std::string& problem) {
    if (holds)
      violations.push_back({"compression", text + " takes whole gradients, and " + problem, "use " + key + ", or compression=none"});
  };
  refuse(p.zero > 0, "zero=0", "zero=" + std::to_string(p.zero) + " sums parts of them");
  refuse(p.tp > 1, "tp=1", "ranks of tp have parts of them");
  refuse(p.cp > 1, "cp=1", "cp sums them once more");
  refuse(p.ep > 1, "ep=1", "ranks of ep have those of other experts");
  refuse(p.spatial != std::array<int, 3>{1, 1, 1}, "spatial=1x1x1", "spatial sums them once more");
  if (schedule_of(p).placement == ChunkPlacement::Both)
    violations.push_back({"compression",
                          text + " takes whole gradients, and with schedule=" + p.schedule + " two ranks have halves of them",
                          "use another schedule, or compression=none"});
}

void check_decompositions(const graph::TrainingGraph& training, const Plan& p, std::vector<Violation>& violations) {
  if (p.decompositions == Decompositions::Everywhere) return;
  const auto refuse = [&](bool holds, const std::string& problem) {
    if (holds) violations.push_back({"decompositions", "spread " + problem, "use decompositions=everywhere"});
  };
  refuse(!decomposes(training.graph), "shares out what shampoo, soap and kfac decompose, and this optimizer decomposes nothing");
  refuse(p.dp / p.expert_ranks() < 2, "shares it out among replicas, of which there is one");
  refuse(p.local_steps > 0, "wants the same matrices on all replicas, and with local_steps each has its own");
}

}  // namespace

std::vector<Violation> validate(const graph::TrainingGraph& training, const Plan& plan) {
  std::vector<Violation> violations;
  const auto& p = plan;
  check_shares(training, p, violations);
  if (!violations.empty()) return violations;
  for (auto& violation : schedule_violations(p, most_micro_batches(training.batch, p))) violations.push_back(std::move(violation));
  if (training.batch < p.dp)
    violations.push_back({"dp", std::to_string(p.dp) + " replicas of a batch of " + std::to_string(training.batch),
                          "use at most dp=" + std::to_string(training.batch) + " or a larger batch"});
  else
    check_micro_batches(training, p, violations);
  if (p.dp % p.ep != 0)
    violations.push_back({"ep", std::to_string(p.ep) + " ranks do not divide the " + std::to_string(p.dp) + " of dp",
                          "use a degree that divides dp: experts are shared out among replicas of everything else"});
  for (auto& violation : shard_group_violations(p)) violations.push_back(std::move(violation));
  if (p.offload == Offload::Activations && p.compression.of_results())
    violations.push_back({"compression", "has nothing left to compress beside offload=activations", "leave one of them out"});
  check_compressor(p, violations);
  check_meetings(training, p, violations);
  check_decompositions(training, p, violations);
  if (!p.searched.empty())
    violations.push_back({p.searched.front(), "is left to a search", "run `rehearse search` first, or give a value"});
  return violations;
}

namespace {

/// Replicas of several numbers of micro-batches can meet once a step, not once a micro-batch.
void refuse_uneven_meetings(const Program& program) {
  const auto replicas = axis_named(program.axes, "dp");
  const auto of_replicas = [&](std::size_t axis) { return ("." + program.axes[axis].name + ".").find(".dp.") != std::string::npos; };
  for (const Role& role : program.roles) {
    if (replicas == program.axes.size() || micro_batches_of(program, role) == program.micro_batches) continue;
    for (const Body& body : role.bodies)
      for (const Instruction& i : body.instructions) {
        const bool meets = i.kind == InstructionKind::Collective && per_micro_batch(body.kind) &&
                           of_replicas(role.collectives[static_cast<std::size_t>(i.collective)].axis);
        if (meets && (i.when == When::Always || i.when == When::AllButLastMicroBatch))
          throw UnevenShares("plan: shares: replicas have from " + std::to_string(micro_batches_of(program, role)) + " to " +
                             std::to_string(program.micro_batches) + " micro-batches, and zero=" + std::to_string(program.plan.zero) +
                             " lets them exchange something in each; use shares=equal or a smaller zero, or leave micro_batch out");
      }
  }
}

/// Where stages end within attention that is fused, it stays several nodes.
std::shared_ptr<const Sharding> cut_at_stages(const graph::Graph& g, std::shared_ptr<const Sharding> whole, const Pipeline& pipeline) {
  const auto together = [&](NodeId a, NodeId b) { return run_together(pipeline, *whole, a, b); };
  if (!has_parts_apart(*whole, together)) return whole;
  auto cut = std::make_shared<Sharding>(*whole);
  split_apart(g, *cut, together);
  return cut;
}

}  // namespace

Program lower(const graph::TrainingGraph& training, const Plan& plan, const Backend& backend, const LoweringOptions& options) {
  if (const auto violations = validate(training, plan); !violations.empty()) throw Refusal("plan: " + sentence(violations));
  Program program;
  const auto rules = options.rules ? options.rules : std::make_shared<RuleBook>();
  if (rules->model_hash.empty()) rules->model_hash = training.hash();
  program.model_hash = rules->model_hash;
  program.plan = plan;
  if (!training.parameters.empty()) program.dtype = training.graph[training.parameters.front().value].type.dtype;
  program.batch = training.batch;
  program.ranks = plan.ranks();
  program.micro_batches = most_micro_batches(training.batch, plan);
  program.axes = with_joint_axes(mesh_of(plan));

  const auto dims = options.dims ? options.dims : std::make_shared<const graph::LogicalDims>(training.graph);
  const auto axes = sharding_axes(training, dims, plan, program.micro_batches, *rules);
  const bool fuses = plan.fuse == Fusion::Attention && backend.fuses_attention();
  program.sharding = sharded(training, dims, {axes, fuses, nullptr}, *rules);
  check_attention(*program.sharding, training.graph, program);
  warn_about_replicas(*program.sharding, training.graph, program);
  warn_about_idle_keys(training, program);
  warn_about_statistics(training.graph, program);
  if (auto sentence = other_mathematics(plan); !sentence.empty()) program.warnings.push_back(std::move(sentence));
  auto stages = cut_into_parts(training, *program.sharding, program, options);
  const auto pipeline = pipeline_of(training, plan, program.micro_batches, stages);
  program.sharding = cut_at_stages(training.graph, program.sharding, pipeline);
  const auto& sharding = *program.sharding;

  LoweringContext context{training,    plan, backend, options, sharding, stages, pipeline, program, training.graph.consumers(),
                          axes.size(), {},   {},      {},      {},       {},     {},       {}};
  const auto time = std::find_if(axes.begin(), axes.end(), [](const MeshAxis& a) { return a.in_time; });
  context.time_axis = static_cast<std::size_t>(time - axes.begin());
  for (const auto& axis : axes) context.mesh_axis.push_back(axis_named(program.axes, axis.name));
  for (std::size_t a = 0; options.links && a < program.axes.size(); ++a) context.links.push_back(options.links(program, a));
  check_stages_of_rings(context);
  if (pipeline.schedule->asynchronous) context.of_weights = nodes_of_weights(training, sharding);
  set_kept_results(context);
  warn_about_stashes(context, program);
  build_roles(context, program);
  refuse_uneven_meetings(program);
  warn_about_sums(context, program);
  warn_about_algorithms(program);
  if (options.check_messages || checks_every_pass()) check_messages(program);
  return program;
}

}  // namespace rehearsal::plan
