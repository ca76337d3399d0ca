#include "predict/frameworks/staged_step.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "plan/schedules/model_chunks.hpp"

namespace rehearsal::predict::frameworks {
namespace {

double whole_seconds(const StepTimer& timer) {
  double sum = 0;
  for (std::size_t p = 0; p < timer.parts().size(); ++p)
    sum += timer.model().parts[p].repeats * (timer.parts()[p].forward.queue.device + timer.parts()[p].whole_backward.device);
  return sum;
}

/// Time of a chunk's slowest device over that of the quickest one.
std::vector<double> slowness_of(const StagedStep& step) {
  std::vector<double> slowness(step.stage_of_chunk.size(), 0);
  double quickest = 0, seconds = 0;
  const StepTimer* known = nullptr;  // most stages are alike
  for (const auto& lane : step.lanes)
    for (std::size_t c = 0; c < slowness.size(); ++c) {
      const StepTimer* timer = lane.timers[static_cast<std::size_t>(step.stage_of_chunk[c])];
      if (timer != known) known = timer, seconds = whole_seconds(*timer);
      slowness[c] = std::max(slowness[c], seconds);
      quickest = quickest == 0 ? seconds : std::min(quickest, seconds);
    }
  for (auto& s : slowness) s = quickest > 0 ? s / quickest : 1;
  return slowness;
}

void check_schedule(const FrameworkJob& job, const plan::ScheduleRow& row, const plan::PipelineShape& shape) {
  const auto refuse = [&](const std::string& why) { throw Refusal("plan: schedule=" + job.plan.schedule + ": " + why); };
  if (row.asynchronous) refuse(job.profile.name + " finishes all micro-batches before it updates its weights");
  if (row.placement == plan::ChunkPlacement::Both) refuse(job.profile.name + " keeps one copy of the model");
  if (row.refusal != nullptr)
    if (const auto why = row.refusal(shape); !why.empty()) refuse(why);
}

}  // namespace

Timers::Timers(const FrameworkJob& job, const NodeLinks& links, const costmodel::Constants& c, const PartsOn& parts_on) {
  for (auto& [place, groups] : groups_by_place(job.platform, job.plan)) {
    RanksAlike ranks{place.kind, std::move(groups)};
    auto known = std::ranges::find(owned_, ranks, &decltype(owned_)::value_type::first);
    if (known == owned_.end()) {
      auto timer = std::make_unique<const StepTimer>(parts_on(place.kind), job, links, c, ranks);
      known = owned_.insert(owned_.end(), {std::move(ranks), std::move(timer)});
    }
    places_[place] = known->second.get();
  }
}

double StagedStep::send_seconds(StagePlace from, int to, double bytes) const {
  double seconds = 0;
  for (const auto& lane : lanes) {
    const auto stage = static_cast<std::size_t>(from.stage);
    if (lane.devices.groups[stage] != from.kind) continue;
    seconds = std::max(seconds, lane.timers[stage]->send(bytes, *lane.timers[static_cast<std::size_t>(to)]));
  }
  return seconds;
}

double StagedStep::boundary_bytes(std::size_t chunk) const {
  const auto& last = lanes.front().timers.front()->model().parts[chunks[chunk].back().part];
  // Ranks that have the same activations send a part each, and put them together on the other side (Narayanan et al., SC 2021).
  return last.boundary_bytes / (job.plan.sequence_parallel ? 1 : job.plan.tp);
}

StagedStep Stager::staged(const FrameworkJob& job, const Timers& timers) {
  StagedStep step{job, &plan::schedule_of(job.plan), plan::pipeline_shape(job.plan, job.micro_batches), {}, {}, {}, {}};
  check_schedule(job, *step.schedule, step.shape);
  for (auto& devices : device_groups_of_stages(job.platform, job.plan)) {
    ReplicaKind lane{std::move(devices), {}};
    for (std::size_t s = 0; s < lane.devices.groups.size(); ++s)
      lane.timers.push_back(&timers.of({static_cast<int>(s), lane.devices.groups[s]}));
    step.lanes.push_back(std::move(lane));
  }
  step.stage_of_chunk.resize(static_cast<std::size_t>(plan::parts(step.schedule->placement, step.shape)));
  for (int stage = 0; stage < step.shape.stages; ++stage)
    for (int own = 0; own < step.shape.chunks; ++own) step.stage_of_chunk[step.chunk_of(stage, own)] = stage;
  const int blocks = job.plan.recompute.blocks;
  auto& chunks = cuts_[&timers][{step.schedule->placement, step.shape.stages, step.shape.chunks, blocks}];
  if (chunks.empty()) {
    const auto& timer = *step.lanes.front().timers.front();
    chunks = cut_into_chunks(timer, slowness_of(step));
    if (blocks > 0)
      for (auto& chunk : chunks) chunk = recomputing_first(blocks, chunk, timer.model());
  }
  step.chunks = chunks;
  auto& held = held_[{step.schedule, step.shape.stages, step.shape.chunks, step.shape.micro_batches}];
  for (int stage = static_cast<int>(held.size()); stage < step.shape.stages; ++stage)
    held.push_back(step.schedule->activations(stage, step.shape));
  step.held = held;
  return step;
}

void Stager::forget(const Timers& timers) { cuts_.erase(&timers); }

std::vector<double> gradient_buckets(const StepTimer& timer, const Chunk& chunk, double capacity) {
  std::vector<double> buckets;
  BucketFiller bucket(capacity);
  const auto fill = [&](const PartTime& part) {
    for (const auto& ready : part.ready)
      if (const auto full = bucket.add(ready.elements)) buckets.push_back(*full);
  };
  for (auto piece = chunk.rbegin(); piece != chunk.rend(); ++piece)
    for (int r = 0; r < piece->count; ++r) fill(timer.time_of(piece->part, piece->recompute));
  if (const auto rest = bucket.rest()) buckets.push_back(*rest);
  return buckets;
}

double bucket_elements(const FrameworkJob& job, const costmodel::Precision& precision) {
  return job.profile.gradient_overlap ? job.profile.bucket_bytes / gradient_bytes(job, precision) : 1e300;
}

}  // namespace rehearsal::predict::frameworks
