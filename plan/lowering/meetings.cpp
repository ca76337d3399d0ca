// Replicas that train by themselves (Plan::local_steps): gradients of parameters are not summed over them, each replica updates with the
// mean over its own samples, and every few steps they meet.
//   average   the mean of all weights: local SGD (Stich, ICLR 2019; after some steps with sums: Lin et al., "Don't use large mini-batches,
//             use local SGD", ICLR 2020)
//   nesterov  weights go back to where they last were equal, and from there a step of SGD with Nesterov momentum along the mean of the
//             ways that the replicas went: DiLoCo (Douillard et al., "DiLoCo: distributed low-communication training of language
//             models", 2023)
//   elastic   a replica moves towards a center, and the center towards it: EASGD (Zhang, Choromanska, LeCun, "Deep learning with elastic
//             averaging SGD", NIPS 2015)
//   adasum    what both have in common of two ways is averaged, and what they have not is added, over pairs of replicas, then over pairs of
//             pairs (adaptive_sums.cpp)
//   gossip    the mean of the own weights and those of both neighbours on a ring: D-PSGD (Lian et al., "Can decentralized algorithms
//             outperform centralized algorithms?", NIPS 2017)
// With Plan::staleness replicas meet one by one: each adds the way that it went, divided by their number, to a center and takes what the
// center then is (Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013).
// States of optimizers stay each replica's own. Running statistics are averaged.

#include "plan/collectives/meetings.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

constexpr std::string_view kBlend = "LinearCombination", kOuterUpdate = "SgdUpdate";

}  // namespace

/// Along the mesh's axis of replicas; the number of axes where there is none.
std::size_t RoleBuilder::axis_of_replicas() const {
  const auto& axes = c_.program.axes;
  return static_cast<std::size_t>(std::ranges::find(axes, "dp", &MeshAxisInfo::name) - axes.begin());
}

bool RoleBuilder::replicas_part() const { return c_.plan.local_steps > 0 && axis_of_replicas() < c_.program.axes.size(); }

bool RoleBuilder::is_of_parameter(TensorId gradient) const {
  return std::ranges::any_of(c_.training.parameters, [&](const graph::TrainedParameter& p) { return p.gradient == gradient; });
}

/// The mean over a replica's own samples, from its part of the mean over all.
void RoleBuilder::scale_to_own(BufferIndex gradient, NodeId node, SumPlace place) {
  during_ = c_.plan.exact_steps > 0 ? During::Later : During::Training;
  emit_kernel_of(node, kBlend, {{"alpha", static_cast<double>(c_.plan.dp)}, {"beta", 0.0}}, {{gradient, gradient}, place.body, place.when},
                 {gradient});
  during_ = During::Training;
}

bool RoleBuilder::is_batch_statistic(TensorId t) const {
  return std::ranges::any_of(g_.nodes(), [&](const graph::Node& n) {
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k] == t && graph::schema(n).is_batch_statistic(k)) return true;
    return false;
  });
}

/// In place of a sum over replicas, what it were if all had the same: of statistics that each takes of its own samples, and, where they
/// wait for nobody, of a loss and of what it is divided by. Takes their axis out of `axes`.
void RoleBuilder::scale_to_all(BufferIndex sum, TensorId t, SumPlace place, std::vector<std::size_t>& axes) {
  const auto of_replicas = [&](std::size_t axis) { return c_.mesh_axis[axis] == place.mesh_axis; };
  const bool is_loss = c_.plan.staleness && graph::element_count(g_[t].type.shape) == 1 && is_float(g_[t].type.dtype);
  const bool is_own = is_loss || (c_.plan.bn == BatchStatistics::Local && is_batch_statistic(t));
  if (!is_own || place.reduction != graph::LabelKind::Sum || std::erase_if(axes, of_replicas) == 0) return;
  emit_kernel_of(g_[t].producer, kBlend, {{"alpha", static_cast<double>(c_.plan.dp)}, {"beta", 0.0}}, {{sum, sum}, place.body, place.when},
                 {sum});
}

/// In place of all sums of a gradient: over all axes but that of the replicas, and over these in the first steps.
void RoleBuilder::sum_within_replica(BufferIndex gradient, TensorId t, std::vector<std::size_t> axes, SumPlace place) {
  const auto replicas = axis_of_replicas();
  const auto of_replicas = [&](std::size_t axis) { return c_.mesh_axis[axis] == replicas; };
  const bool over_replicas = std::ranges::any_of(axes, of_replicas);
  std::erase_if(axes, of_replicas);
  for (const auto axis : joint_axes(axes)) all_reduce(gradient, t, {axis, place.body, place.when, place.reduction});
  if (!over_replicas) return;
  const auto& parameters = c_.training.parameters;
  scale_to_own(gradient, std::ranges::find(parameters, t, &graph::TrainedParameter::gradient)->update, place);
  if (c_.plan.exact_steps == 0) return;
  during_ = During::Exact;
  all_reduce(gradient, t, {replicas, place.body, place.when, place.reduction});
  during_ = During::Training;
}

namespace {

bool is_statistic(const Buffer& b, const graph::Graph& g) {
  if (b.lifetime != Lifetime::Persistent || b.part_of != kNoBuffer || b.tensor == TensorId::None || !is_float(b.dtype)) return false;
  return g[b.tensor].role == graph::TensorRole::State;
}

}  // namespace

/// What replicas have in common once they have met: trained parameters, and running statistics.
std::vector<RoleBuilder::Common> RoleBuilder::common_to_replicas() const {
  std::vector<Common> all;
  NodeId last = NodeId::None;
  for (const auto& p : c_.training.parameters) {
    const auto at = buffers_.find({p.value, -1, Format::Plain, false});
    if (p.update == NodeId::None || at == buffers_.end()) continue;
    all.push_back({at->second, p.update, true});
    last = p.update;
  }
  for (BufferIndex b = 0; b < role_.buffers.size() && last != NodeId::None; ++b)
    if (is_statistic(role_.buffers[b], g_)) all.push_back({b, last, false});
  for (const auto& one : all)
    if (const auto& buffer = role_.buffers[one.buffer]; buffer.dtype != DType::F32 && buffer.dtype != DType::F64)
      throw Refusal("plan: local_steps=" + std::to_string(c_.plan.local_steps) + ": " + buffer.name + " is " +
                    std::string(name(buffer.dtype)) + ", and replicas meet in f32 or f64; use --dtype f32, or local_steps=0");
  return all;
}

/// Weights as they were when replicas last met are those of any checkpoint, which is written behind a meeting; their momentum is not.
BufferIndex RoleBuilder::kept_beside(const Common& weights, const std::string& what, MemoryCategory category) {
  const auto& like = role_.buffers[weights.buffer];
  Buffer kept;
  kept.name = what + ":" + like.name;
  kept.dtype = like.dtype;
  kept.shapes = like.shapes;
  kept.bytes = like.bytes;
  kept.category = category;
  kept.common = true;
  kept.lifetime = Lifetime::Persistent;
  return new_buffer(std::move(kept), nullptr);
}

/// `a` becomes ca * a + cb * b. The node is that for whose sake it is done.
void RoleBuilder::blend(NodeId node, BufferIndex a, double ca, BufferIndex b, double cb) {
  emit_kernel_of(node, kBlend, {{"alpha", ca}, {"beta", cb}}, {{a, b}, meeting_, When::Always}, {a});
}

/// Between replicas, outside of the table of collectives (collectives/meetings.hpp).
void RoleBuilder::meet_by(std::string_view algorithm, CollectiveKind kind, BufferIndex buffer, MeetingPlace place) {
  all_reduce(buffer, place.tensor, {axis_of_replicas(), place.body, When::Always});
  auto& info = role_.collectives.back();
  info.kind = kind;
  info.algorithm = algorithm;
  info.center = place.vector;
}

/// Replicas that meet one by one may wait for each other nowhere else.
void RoleBuilder::refuse_other_meetings() const {
  for (const auto& body : role_.bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != InstructionKind::Collective || i.during != During::Training) continue;
      const auto& info = role_.collectives[static_cast<std::size_t>(i.collective)];
      if (info.axis == axis_of_replicas())
        throw Refusal("plan: staleness: replicas wait for each other in every step about '" +
                      (i.tensor == TensorId::None ? std::string("a message") : g_[i.tensor].name) +
                      "', which is of all samples of the batch; use staleness=none");
    }
}

/// What each vector is made of first, then messages of all: they go together, and nothing is computed between them.
void RoleBuilder::exchange_with_center(const std::vector<Common>& common, const std::vector<BufferIndex>& center, CollectiveKind kind,
                                       std::uint16_t body) {
  for (std::size_t n = 0; n < center.size(); ++n)
    meet_by(kServers, kind, center[n], {body, role_.buffers[common[n].buffer].tensor, static_cast<std::int32_t>(n)});
}

/// What is to be added to the center, in place of what was read of it.
void RoleBuilder::prepare_additions(const std::vector<Common>& common, const std::vector<BufferIndex>& center) {
  const double share = 1.0 / c_.plan.dp, pull = c_.plan.outer.pull * share;
  const bool elastic = c_.plan.outer.rule == OuterRule::Elastic;
  for (std::size_t n = 0; n < common.size(); ++n) {
    const double part = elastic ? pull : share;
    blend(common[n].node, center[n], -part, common[n].buffer, part);
    if (elastic) blend(common[n].node, common[n].buffer, 1, center[n], -1);  // what draws the center to the replica draws it to the center
  }
}

void RoleBuilder::meet_at_center(const std::vector<Common>& common) {
  refuse_other_meetings();
  std::vector<BufferIndex> center;  // as it was last seen
  for (const auto& one : common) center.push_back(kept_beside(one, "center", MemoryCategory::Parameters));
  const auto copy_all = [&](bool to_center, std::uint16_t body) {
    for (std::size_t n = 0; n < center.size(); ++n)
      to_center ? copy_into(common[n].buffer, center[n], body) : copy_into(center[n], common[n].buffer, body);
  };
  during_ = During::Partings;
  copy_all(true, prologue_);
  exchange_with_center(common, center, CollectiveKind::Broadcast, prologue_);
  during_ = During::Meetings;
  const bool elastic = c_.plan.outer.rule == OuterRule::Elastic;
  if (elastic) exchange_with_center(common, center, CollectiveKind::AllGather, meeting_);
  prepare_additions(common, center);
  exchange_with_center(common, center, CollectiveKind::ReduceScatter, meeting_);
  if (elastic) during_ = During::Consensus;
  exchange_with_center(common, center, CollectiveKind::AllGather, meeting_);
  copy_all(false, meeting_);
  during_ = During::Training;
}

void RoleBuilder::gossip(const std::vector<Common>& common) {
  const double share = 1.0 / (1 + neighbours_on_ring(c_.plan.dp));
  during_ = During::Meetings;
  for (const auto& one : common) {
    blend(one.node, one.buffer, share, one.buffer, 0);
    meet_by(kNeighbours, CollectiveKind::AllReduce, one.buffer, {meeting_, role_.buffers[one.buffer].tensor});
  }
  during_ = During::Consensus;
  for (const auto& one : common) average(one);
  during_ = During::Training;
}

void RoleBuilder::average(const Common& one) {
  blend(one.node, one.buffer, 1.0 / c_.plan.dp, one.buffer, 0);
  all_reduce(one.buffer, role_.buffers[one.buffer].tensor, {axis_of_replicas(), meeting_, When::Always});
}

/// One after the other: what follows the sum of one runs beside the sum of the next.
void RoleBuilder::meet() {
  if (!replicas_part()) return;
  const auto common = common_to_replicas();
  if (c_.plan.staleness) return meet_at_center(common);
  if (c_.plan.outer.rule == OuterRule::Gossip) return gossip(common);
  if (c_.plan.outer.rule == OuterRule::Adasum) return add_ways_adaptively(common);
  const double share = 1.0 / c_.plan.dp;
  std::vector<BufferIndex> before;
  for (const auto& one : common) {
    const bool steps_out = one.trained && c_.plan.outer.rule == OuterRule::Nesterov;
    before.push_back(steps_out ? kept_beside(one, "met", MemoryCategory::Parameters) : one.buffer);
    if (steps_out) during_ = During::Partings, copy_into(one.buffer, before.back(), prologue_);
    during_ = During::Meetings;
    // Its part of the mean, or of the mean way from where the replicas last met.
    emit_kernel_of(one.node, kBlend, {{"alpha", share}, {"beta", steps_out ? -share : 0.0}},
                   {{before.back(), one.buffer}, meeting_, When::Always}, {one.buffer});
    all_reduce(one.buffer, role_.buffers[one.buffer].tensor, {axis_of_replicas(), meeting_, When::Always});
  }
  for (std::size_t n = 0; n < common.size(); ++n) {
    const auto weights = common[n].buffer;
    if (before[n] == weights) continue;
    const auto momentum = kept_beside(common[n], "outer momentum", MemoryCategory::OptimizerState);
    emit_kernel_of(common[n].node, kOuterUpdate,
                   {{"lr", c_.plan.outer.rate}, {"momentum", c_.plan.outer.momentum}, {"nesterov", std::int64_t{1}}},
                   {{before[n], weights, kNoBuffer, momentum}, meeting_, When::Always}, {before[n], momentum});
    copy_into(before[n], weights, meeting_);
  }
  during_ = During::Training;
}

}  // namespace rehearsal::plan
