#include "predict/frameworks/closed_step.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "predict/frameworks/rank_clock.hpp"
#include "predict/playing.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::LaunchQueue;

/// Exchanges within the passes of a part over one micro-batch, of which a share is computed again.
double exchanges_of(const PartTime& part, double recomputed) {
  return part.forward.exchanges + part.backward.exchanges + recomputed * part.again.exchanges;
}

/// Passes of one chunk on one stage.
struct ChunkTime {
  LaunchQueue forward, backward, input_gradients, weight_gradients;
  LaunchQueue last_backward;  ///< of the last micro-batch
  double accumulate = 0, cast = 0;
};

/// One kind of replica.
class ReplicaPlayer {
 public:
  ReplicaPlayer(const StagedStep& step, const ReplicaKind& lane, int micro_batches)
      : step_(step), lane_(lane), job_(step.job), shape_(step.shape), micro_batches_(micro_batches) {
    shape_.micro_batches = micro_batches;
    const auto stages = static_cast<std::size_t>(shape_.stages);
    for (std::size_t s = 0; s < stages; ++s) {
      clocks_.emplace_back(timer(s).interference(), timer(s).host_progressed());
      slots_.push_back(step.schedule->order(static_cast<int>(s), shape_));
      next_.push_back(0);
    }
    for (std::size_t c = 0; c < step.chunks.size(); ++c) chunks_.push_back(time_of(c));
    forward_.assign(step.chunks.size(), std::vector<HandedOver>(static_cast<std::size_t>(micro_batches)));
    backward_ = forward_;
    gathered_.assign(step.chunks.size(), {});
  }

  /// Ends of all stages, before their updates.
  void play() {
    for (std::size_t s = 0; s < clocks_.size(); ++s) gather_parameters(s);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < clocks_.size(); ++s) moved = advance(s) || moved;
    }
    for (std::size_t s = 0; s < clocks_.size(); ++s) ensure(next_[s] == slots_[s].size(), "the slots of a schedule wait for each other");
  }

  /// Every stage with its update: when it ends, and what it waited for.
  [[nodiscard]] std::vector<StepTime> ends() {
    for (const auto& clock : clocks_) leads_.push_back(clock.device() - clock.host());
    for (std::size_t s = 0; s < clocks_.size(); ++s)
      if (has_replicas(job_) && !overlaps(job_) && !gathers_every_pass(job_)) reduce_apart(s);
    for (auto& clock : clocks_) clock.wait_for_messages(clock.messages());
    add_tied_embedding();
    std::vector<StepTime> stages;
    for (std::size_t s = 0; s < clocks_.size(); ++s) stages.push_back(ended(s));
    return stages;
  }

 private:
  [[nodiscard]] const StepTimer& timer(std::size_t stage) const { return *lane_.timers[stage]; }
  [[nodiscard]] const StepTimer& timer_of_chunk(std::size_t c) const { return timer(static_cast<std::size_t>(step_.stage_of(c))); }

  [[nodiscard]] ChunkTime time_of(std::size_t c) const {
    ChunkTime t;
    const auto& timer = timer_of_chunk(c);
    for (const auto& piece : step_.chunks[c]) {
      const auto& part = timer.time_of(piece.part, piece.recompute);
      t.forward = t.forward.then(part.forward.queue.repeated(piece.count));
      t.backward = part.whole_backward.repeated(piece.count).then(t.backward);
      t.last_backward = backward_of(part, true).repeated(piece.count).then(t.last_backward);
      t.input_gradients = part.input_gradients.repeated(piece.count).then(t.input_gradients);
      t.weight_gradients = part.weight_gradients.repeated(piece.count).then(t.weight_gradients);
    }
    const auto weights = weights_of(timer.model(), step_.chunks[c]);
    t.cast = timer.cast(weights.all);
    t.accumulate = timer.accumulation(weights.trained);
    const LaunchQueue cast{0, t.cast, t.cast}, accumulate{0, t.accumulate, t.accumulate};
    t.forward = cast.then(t.forward);
    t.backward = t.backward.then(accumulate);
    t.last_backward = t.last_backward.then(accumulate);
    t.weight_gradients = t.weight_gradients.then(accumulate);
    return t;
  }

  [[nodiscard]] bool gathers_once() const { return job_.plan.zero > 0 && has_replicas(job_) && !gathers_every_pass(job_); }

  /// Updated parameters come back during the first forward pass where the framework overlaps them.
  void gather_parameters(std::size_t stage) {
    if (!gathers_once() || !overlaps(job_)) return;
    const auto& timer = this->timer(stage);
    for (int own = 0; own < shape_.chunks; ++own) {
      const auto c = step_.chunk_of(static_cast<int>(stage), own);
      BucketFiller bucket(bucket_elements(job_, job_.precision_on(lane_.devices.groups[stage])));
      auto& ends = gathered_[c];
      std::size_t waiting = 0;
      const auto gather = [&](double elements) {
        const double end = clocks_[stage].start(timer.parameter_gather(elements));
        for (; waiting > 0; --waiting) ends.push_back(end);
      };
      for (const auto& piece : step_.chunks[c])
        for (int r = 0; r < piece.count; ++r) {
          ++waiting;
          if (const auto full = bucket.add(timer.model().parts[piece.part].weights.trained)) gather(*full);
        }
      if (const auto rest = bucket.rest()) gather(*rest);
      for (; waiting > 0; --waiting) ends.push_back(0);
    }
  }

  bool advance(std::size_t stage) {
    bool moved = false;
    for (; next_[stage] < slots_[stage].size(); ++next_[stage], moved = true)
      if (!play(stage, slots_[stage][next_[stage]])) return moved;
    return moved;
  }

  bool play(std::size_t stage, const plan::PipelineSlot& slot) {
    const auto c = step_.chunk_of(static_cast<int>(stage), slot.chunk);
    const auto m = static_cast<std::size_t>(slot.micro_batch);
    if (!slot.backward) return play_forward(stage, c, m);
    if (slot.part != plan::GradientPart::Weights) return play_backward(stage, c, m, slot.part == plan::GradientPart::Input);
    run_weights(stage, c, m);
    return true;
  }

  bool play_forward(std::size_t stage, std::size_t c, std::size_t m) {
    auto& clock = clocks_[stage];
    if (c > 0) {
      if (forward_[c - 1][m].arrived == HandedOver::kUnknown) return false;
      if (step_.stage_of(c - 1) != step_.stage_of(c)) clock.wait_for_stage(forward_[c - 1][m]);
    }
    if (gathers_every_pass(job_))
      run_gathered(stage, c, Pass::Forward);
    else if (m == 0 && !gathered_[c].empty())
      run_as_gathered(stage, c);
    else
      clock.run(chunks_[c].forward);
    if (c + 1 < step_.chunks.size()) forward_[c][m] = handed_over(stage, c, step_.stage_of(c + 1));
    return true;
  }

  bool play_backward(std::size_t stage, std::size_t c, std::size_t m, bool inputs_alone) {
    auto& clock = clocks_[stage];
    if (c + 1 < step_.chunks.size()) {
      if (backward_[c + 1][m].arrived == HandedOver::kUnknown) return false;
      if (step_.stage_of(c + 1) != step_.stage_of(c)) clock.wait_for_stage(backward_[c + 1][m]);
    }
    if (inputs_alone)
      clock.run(chunks_[c].input_gradients);
    else if (gathers_every_pass(job_))
      run_gathered(stage, c, last(m) ? Pass::LastBackward : Pass::Backward);
    else if (reduces_beside(c, m))
      run_and_reduce(stage, c, m, false);
    else
      run_backward(stage, c, m);
    if (c > 0) backward_[c][m] = handed_over(stage, c - 1, step_.stage_of(c - 1));
    return true;
  }

  void run_backward(std::size_t stage, std::size_t c, std::size_t m) {
    clocks_[stage].run(last(m) ? chunks_[c].last_backward : chunks_[c].backward);
    sum_behind(stage, c, m);
  }

  void run_weights(std::size_t stage, std::size_t c, std::size_t m) {
    if (reduces_beside(c, m)) return run_and_reduce(stage, c, m, true);
    clocks_[stage].run(chunks_[c].weight_gradients);
    sum_behind(stage, c, m);
  }

  /// Sums of a micro-batch's gradients behind its backward pass; those of the last one, where nothing runs beside, wait for the update.
  void sum_behind(std::size_t stage, std::size_t c, std::size_t m) {
    if (reduces(m)) return start_sums(stage, c, last(m));
    if (last(m) || !scatters_every_micro_batch(job_)) return;
    start_sums(stage, c, false);
    clocks_[stage].wait_for_messages(clocks_[stage].messages());
  }

  [[nodiscard]] bool last(std::size_t m) const { return m + 1 == static_cast<std::size_t>(micro_batches_); }
  [[nodiscard]] bool spares_last() const { return job_.recomputed() == plan::RecomputeRule::FullExceptLast; }
  [[nodiscard]] const LaunchQueue& backward_of(const PartTime& part, bool last) const {
    return last && spares_last() ? part.backward.queue : part.whole_backward;
  }
  [[nodiscard]] bool reduces(std::size_t m) const {
    return has_replicas(job_) && overlaps(job_) && (last(m) || scatters_every_micro_batch(job_));
  }
  [[nodiscard]] bool reduces_beside(std::size_t c, std::size_t m) const { return reduces(m) && !step_.sums_in_bubble(c); }
  /// Groups of replicas that shard by themselves add up their parts once, behind the last micro-batch.
  [[nodiscard]] static double sum_seconds(const StepTimer& timer, double elements, bool last) {
    return timer.reduction(elements) - (last ? 0 : timer.sum_of_copies(elements));
  }

  /// What lies between two chunks, in either direction.
  HandedOver handed_over(std::size_t stage, std::size_t boundary, int to) {
    auto& clock = clocks_[stage];
    if (to == static_cast<int>(stage)) return {clock.device(), clock.device()};
    const double seconds = timer(stage).send(step_.boundary_bytes(boundary), timer(static_cast<std::size_t>(to))),
                 arrived = clock.send(seconds);
    return {arrived - seconds, arrived};
  }

  /// A backward pass beside which buckets of gradients are summed as they become full.
  void run_and_reduce(std::size_t stage, std::size_t c, std::size_t m, bool weights_alone) {
    auto& clock = clocks_[stage];
    const auto& timer = this->timer(stage);
    const bool again = spares_last() && !last(m);  // segments are of a pass that keeps what it needs
    BucketFiller bucket(bucket_elements(job_, job_.precision_on(lane_.devices.groups[stage])));
    for (auto piece = step_.chunks[c].rbegin(); piece != step_.chunks[c].rend(); ++piece) {
      const auto& part = timer.time_of(piece->part, piece->recompute);
      for (int r = 0; r < piece->count; ++r) {
        if (again && !weights_alone) clock.run(part.again.queue);
        for (const auto& segment : weights_alone ? part.weight_segments : part.segments) {
          clock.run(segment.queue);
          if (segment.elements <= 0) continue;
          if (const auto full = bucket.add(segment.elements)) clock.start(sum_seconds(timer, *full, last(m)));
        }
      }
    }
    clock.run({0, chunks_[c].accumulate, chunks_[c].accumulate});
    if (const auto rest = bucket.rest()) clock.start(sum_seconds(timer, *rest, last(m)));
  }

  /// Sums of a chunk's gradients, one after the other from now on.
  void start_sums(std::size_t stage, std::size_t c, bool last) {
    const auto& timer = this->timer(stage);
    const double capacity = bucket_elements(job_, job_.precision_on(lane_.devices.groups[stage]));
    for (const double bucket : gradient_buckets(timer, step_.chunks[c], capacity)) clocks_[stage].start(sum_seconds(timer, bucket, last));
  }

  /// All gradients of a stage, after its last backward pass.
  void reduce_apart(std::size_t stage) {
    for (int own = shape_.chunks - 1; own >= 0; --own) start_sums(stage, step_.chunk_of(static_cast<int>(stage), own), true);
  }

  /// Every unit waits for the bucket of parameters that it is in.
  void run_as_gathered(std::size_t stage, std::size_t c) {
    auto& clock = clocks_[stage];
    clock.run({0, chunks_[c].cast, chunks_[c].cast});
    std::size_t unit = 0;
    for (const auto& piece : step_.chunks[c])
      for (int r = 0; r < piece.count; ++r) {
        const auto& forward = timer(stage).time_of(piece.part, piece.recompute).forward;
        if (!forward.steps.empty()) clock.wait_for_messages(gathered_[c][unit]);
        clock.run(forward.queue);
        ++unit;
      }
  }

  enum class Pass : std::uint8_t { Forward, Backward, LastBackward };

  /// Parameters are gathered a unit ahead of the computation, gradients scattered behind it (Zhao et al., PyTorch FSDP, VLDB 2023).
  void run_gathered(std::size_t stage, std::size_t c, Pass pass) {
    const bool backward = pass != Pass::Forward;
    std::vector<const PartTime*> units;
    for (const auto& piece : step_.chunks[c])
      for (int r = 0; r < piece.count; ++r) units.push_back(&timer(stage).time_of(piece.part, piece.recompute));
    if (backward) std::reverse(units.begin(), units.end());
    auto& clock = clocks_[stage];
    const bool ahead = job_.profile.gathers_layerwise && overlaps(job_), gathers = !backward || !job_.recipe.keeps_gathered;
    double ready = gathers && !units.empty() ? clock.start(units.front()->gather) : 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
      clock.wait_for_messages(ready);
      if (ahead && gathers && u + 1 < units.size()) ready = clock.start(units[u + 1]->gather);
      clock.run(backward ? backward_of(*units[u], pass == Pass::LastBackward) : units[u]->forward.queue);
      if (backward) clock.start(units[u]->scatter);
      if (!ahead) clock.wait_for_messages(clock.messages());
      if (!ahead && gathers && u + 1 < units.size()) ready = clock.start(units[u + 1]->gather);
    }
  }

  /// First and last stage add up the gradients of the embedding that both have.
  void add_tied_embedding() {
    const double bytes = timer(0).tied_embedding_bytes();
    if (bytes <= 0) return;
    const double both = std::max(clocks_.front().device(), clocks_.back().device());
    for (auto* clock : {&clocks_.front(), &clocks_.back()})
      clock->wait_for_stage({both, both + timer(0).send(bytes, timer(clocks_.size() - 1))});
  }

  [[nodiscard]] StepTime ended(std::size_t stage) {
    const auto& timer = this->timer(stage);
    auto& clock = clocks_[stage];
    Weights weights;
    double tensors = 0, exchanges = 0;
    const double recomputed = job_.recomputed_share(micro_batches_);
    for (int own = 0; own < shape_.chunks; ++own) {
      const auto& chunk = step_.chunks[step_.chunk_of(static_cast<int>(stage), own)];
      weights += weights_of(timer.model(), chunk);
      tensors += trained_tensors_of(timer.model(), chunk);
      for (const auto& piece : chunk)
        exchanges += micro_batches_ * piece.count * exchanges_of(timer.time_of(piece.part, piece.recompute), recomputed);
    }
    StepTime t;
    t.stage = static_cast<int>(stage);
    t.host_lead = leads_[stage];
    t.optimizer = timer.update(weights, tensors);
    t.coordination = timer.coordination();
    t.bubble = clock.bubble();
    t.exposed = clock.exposed();
    t.handovers = clock.handovers();
    t.busy = clock.busy() - exchanges + t.optimizer;
    t.seconds = clock.device() + t.optimizer + t.coordination;
    if (gathers_once() && !overlaps(job_)) {
      const double gather = timer.parameter_gather(weights.trained);
      t.exposed += gather;
      t.seconds += gather;
    }
    t.exposed += t.coordination;
    return t;
  }

  const StagedStep& step_;
  const ReplicaKind& lane_;
  const FrameworkJob& job_;
  plan::PipelineShape shape_;
  int micro_batches_;
  std::vector<RankClock> clocks_;
  std::vector<double> leads_;  ///< by stage: how long before the device the host is through with its passes
  std::vector<std::vector<plan::PipelineSlot>> slots_;
  std::vector<std::size_t> next_;
  std::vector<ChunkTime> chunks_;
  std::vector<std::vector<HandedOver>> forward_, backward_;  ///< [chunk][micro-batch]
  std::vector<std::vector<double>> gathered_;                ///< [chunk][unit]: when its parameters are there; empty: they are
};

std::vector<StepTime> played(const StagedStep& step, const ReplicaKind& lane, int micro_batches) {
  ReplicaPlayer player(step, lane, micro_batches);
  player.play();
  return player.ends();
}

constexpr double StepTime::*kGrowing[] = {&StepTime::seconds,   &StepTime::bubble, &StepTime::exposed,
                                          &StepTime::handovers, &StepTime::busy,   &StepTime::host_lead};

/// A step so many micro-batches long and what a further round, one micro-batch for every stage, adds to it.
struct GrowingStep {
  std::vector<StepTime> times, next;

  [[nodiscard]] double more(std::size_t stage, double StepTime::*part) const { return next[stage].*part - times[stage].*part; }
};

/// Whether a further round adds as much to every part as the last one did, and takes nothing away: waiting that grows less is that of a
/// pipeline which is not filled yet.
bool grows_evenly(const GrowingStep& last, const GrowingStep& next) {
  constexpr double kSame = 1e-6;
  for (std::size_t s = 0; s < last.times.size(); ++s)
    for (const auto part : kGrowing)
      if ((part != &StepTime::host_lead && next.more(s, part) < -kSame * next.more(s, &StepTime::seconds)) ||
          std::fabs(next.more(s, part) - last.more(s, part)) > kSame * next.more(s, &StepTime::seconds))
        return false;
  return true;
}

/// Once a pipeline is filled, every round takes equally longer, until a host that is ahead, because the device waited for parameters at
/// first, has nothing left of its lead. Where stages have several chunks of unlike length, filling takes more rounds: as many as it takes
/// until two rounds in a row are alike.
std::vector<StepTime> stage_times(const StagedStep& step, const ReplicaKind& lane) {
  constexpr int kRounds = 3, kWorthWhile = 2;
  const int stages = step.shape.stages, m = step.shape.micro_batches;
  for (int rounds = kRounds; m > (rounds + kWorthWhile) * stages; rounds *= 2) {
    const int few = rounds * stages + m % stages;
    GrowingStep grown{played(step, lane, few), played(step, lane, few + stages)};
    if (step.shape.chunks > 1 && !grows_evenly(grown, {grown.next, played(step, lane, few + 2 * stages)})) continue;
    auto times = grown.times;
    for (std::size_t s = 0; s < times.size(); ++s)
      for (const auto part : kGrowing) times[s].*part += (static_cast<double>(m - few) / stages) * grown.more(s, part);
    for (auto& t : times) t.seconds += std::max(0.0, -t.host_lead);
    return times;
  }
  return played(step, lane, m);
}

/// The step of the stage that the others wait for: its own time, and what it waits after that until all have ended.
StepTime limiting_time(const std::vector<StepTime>& times) {
  std::vector<RankEnd> ends;
  for (const auto& t : times) ends.push_back({t.stage, t.seconds, t.seconds - t.bubble, t.busy});
  const auto end = step_end(ends);
  auto own = times[end.limiting];
  own.imbalance = end.imbalance;
  own.bubble += end.seconds - own.seconds;
  own.seconds = end.seconds;
  return own;
}

}  // namespace

std::vector<ActiveSeconds> active_seconds(const StagedStep& step, const ReplicaKind& lane) {
  const double recomputed = step.job.recomputed_share(step.shape.micro_batches);
  std::vector<ActiveSeconds> stages(static_cast<std::size_t>(step.shape.stages));
  for (std::size_t c = 0; c < step.chunks.size(); ++c) {
    const auto s = static_cast<std::size_t>(step.stage_of(c));
    auto& stage = stages[s];
    for (const auto& piece : step.chunks[c]) {
      const auto& part = lane.timers[s]->time_of(piece.part, piece.recompute);
      const double n = static_cast<double>(piece.count) * step.shape.micro_batches;
      const double again = part.forward.kernels > 0 ? recomputed * part.again.kernels / part.forward.kernels : 0;
      stage.matrix += n * (part.forward.matrix * (1 + again) + part.backward.matrix);
      stage.memory += n * (part.forward.memory * (1 + again) + part.backward.memory);
    }
  }
  return stages;
}

std::vector<DeviceWork> work_of_devices(const StagedStep& step) {
  std::map<std::size_t, DeviceWork> found;
  for (const auto& lane : step.lanes) {
    const auto busy = active_seconds(step, lane);
    for (std::size_t s = 0; s < busy.size(); ++s) {
      auto& work = found[lane.devices.groups[s]];
      work.ranks += lane.devices.ranks;
      work.busy.matrix += lane.devices.ranks * busy[s].matrix;
      work.busy.memory += lane.devices.ranks * busy[s].memory;
    }
  }
  std::vector<DeviceWork> devices;
  for (const auto& [group, work] : found)
    devices.push_back({group, work.ranks, {work.busy.matrix / work.ranks, work.busy.memory / work.ranks}});
  return devices;
}

void add_contents(const StagedStep& step, StepTime& t) {
  const auto& lane = *std::ranges::find(step.lanes, t.first_rank, [](const ReplicaKind& l) { return l.devices.first_rank; });
  const double m = step.shape.micro_batches, recomputed = step.job.recomputed_share(step.shape.micro_batches), stages = step.shape.stages;
  for (std::size_t c = 0; c < step.chunks.size(); ++c)
    for (const auto& piece : step.chunks[c]) {
      const auto& part = lane.timers[static_cast<std::size_t>(step.stage_of(c))]->time_of(piece.part, piece.recompute);
      const double n = piece.count;
      t.forward += n * part.forward.queue.device / stages;
      t.backward += n * (part.again.queue.device + part.backward.queue.device) / stages;
      if (step.stage_of(c) != t.stage) continue;
      t.recompute += n * m * recomputed * part.again.kernels;
      t.exchanges += n * m * exchanges_of(part, recomputed);
    }
  t.exposed += t.exchanges;
  ActiveSeconds busy;
  for (const auto& stage : active_seconds(step, lane)) busy = {busy.matrix + stage.matrix / stages, busy.memory + stage.memory / stages};
  const auto shares = busy.of(t.seconds);
  t.matrix_share = shares.matrix;
  t.memory_share = shares.memory;
}

StepTime closed_step(const StagedStep& step) {
  constexpr double kHalos = 40, kHaloSeconds = 30e-6;  // of one step where a sample is shared out among ranks
  StepTime worst;
  double busy = 0, ranks = 0;
  for (const auto& lane : step.lanes) {
    const auto times = stage_times(step, lane);
    for (const auto& t : times) busy += lane.devices.ranks * t.busy, ranks += lane.devices.ranks;
    if (auto own = limiting_time(times); own.seconds > worst.seconds) worst = own, worst.first_rank = lane.devices.first_rank;
  }
  // Replicas on other devices wait, too.
  if (step.lanes.size() > 1) worst.imbalance = std::max(0.0, worst.busy - busy / ranks);
  if (step.job.micro_batch < 1 && step.lanes.front().timers.front()->model().image) {
    worst.seconds += kHalos * kHaloSeconds;
    worst.exposed += kHalos * kHaloSeconds;
  }
  add_contents(step, worst);
  return worst;
}

}  // namespace rehearsal::predict::frameworks
