#include "predict/frameworks/framework_program.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/lowering/lowering.hpp"
#include "predict/frameworks/groups.hpp"
#include "predict/frameworks/memory.hpp"
#include "predict/frameworks/priced_role.hpp"
#include "predict/frameworks/program_axes.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::CollectiveKind;
using plan::BodyKind;
using plan::Dependency;
using plan::Instruction;
using plan::InstructionKind;
using plan::Stream;
using plan::When;

/// Replicas that have a stage there have the same timer.
const StepTimer& timer_at(const StagedStep& step, StagePlace place) {
  const auto stage = static_cast<std::size_t>(place.stage);
  return *std::ranges::find_if(step.lanes, [&](const ReplicaKind& l) { return l.devices.groups[stage] == place.kind; })->timers[stage];
}

/// Builds what ranks of one stage on one kind of device do.
class RoleWriter : private PricedRole {
 public:
  RoleWriter(const StagedStep& step, const FoldedModel& model, const plan::Program& program, StagePlace place)
      : PricedRole(step.job.profile.name),
        step_(step),
        job_(step.job),
        model_(model),
        axes_(job_, program),
        place_(place),
        timer_(timer_at(step, place)),
        gradient_bytes_(gradient_bytes(job_, job_.precision_on(place.kind))),
        bucket_elements_(bucket_elements(job_, job_.precision_on(place.kind))) {
    role_.stage = stage_ = place.stage;
    role_.outline = outline_of(step, place.stage);
    role_.variant_samples = {static_cast<std::int64_t>(std::max(1.0, job_.micro_batch))};
    role_.variant_of.assign(static_cast<std::size_t>(step.shape.micro_batches), 0);
  }

  void write() {
    prologue_ = open(BodyKind::Prologue, 0);
    for (int own = 0; own < step_.shape.chunks; ++own) {
      forward_.push_back(open(BodyKind::Forward, own));
      backward_.push_back(open(BodyKind::Backward, own));
      if (step_.schedule->splits_backward) weights_.push_back(open(BodyKind::Backward, own));
    }
    update_ = open(BodyKind::Update, 0);
    for (int own = 0; own < step_.shape.chunks; ++own) write_chunk(own);
    write_update();
    write_slots();
  }

  using PricedRole::take_costs;
  using PricedRole::take_role;

 private:
  /// A repetition of a part.
  struct Unit {
    std::size_t part;
    int repetition;
    Recomputed recompute;
  };
  [[nodiscard]] static std::vector<Unit> units_of(const Chunk& chunk) {
    std::vector<Unit> units;
    for (const auto& piece : chunk)
      for (int r = piece.first; r < piece.first + piece.count; ++r) units.push_back({piece.part, r, piece.recompute});
    return units;
  }
  [[nodiscard]] const Part& part_of(const Unit& unit) const { return timer_.model().parts[unit.part]; }
  [[nodiscard]] const PartTime& time_of(const Unit& unit) const { return timer_.time_of(unit.part, unit.recompute); }

  [[nodiscard]] graph::NodeId node(const Unit& unit, std::uint32_t offset) const {
    const auto& span = model_.spans()[part_of(unit).span];
    const auto repetition = static_cast<std::size_t>(part_of(unit).first_repetition + unit.repetition);
    return static_cast<graph::NodeId>(span.first + repetition * span.length + offset);
  }
  [[nodiscard]] bool spares_last() const { return job_.recomputed() == plan::RecomputeRule::FullExceptLast; }
  [[nodiscard]] bool gathers_once() const { return job_.plan.zero > 0 && has_replicas(job_) && !gathers_every_pass(job_); }

  // ---- passes

  /// One step of a pass. Backward passes name the forward nodes that they differentiate.
  Dependency write_step(std::uint16_t body, const TimedStep& timed, const PassStep& step, graph::NodeId id, bool again) {
    Instruction i;
    if (step.exchange)
      i = collective_instruction(step.exchange->kind, axes_.of(step.exchange->axis), step.exchange->bytes, Stream::Compute);
    i.node = id;
    i.phase = role_.bodies[body].kind == BodyKind::Backward && !again ? graph::Phase::Backward : graph::Phase::Forward;
    i.again = again;
    if (again && spares_last()) i.when = When::AllButLastMicroBatch;
    if (!step.exchange) i.kernel = kernel(graph::schema(model_.whole()[id]).name);
    i.after = std::exchange(waits_for_, {});
    last_node_ = id;
    last_ = emit(body, std::move(i), timed.queue);
    return *last_;
  }

  /// What kernels wait for of activations that are on their way to the host or back.
  void write_transfer(std::uint16_t body, const Unit& unit, InstructionKind kind, double seconds) {
    if (seconds <= 0) return;
    Instruction i;
    i.kind = kind;
    i.stream = Stream::Host;
    i.inputs = i.outputs = {bytes_buffer(pass_bytes(part_of(unit), unit.recompute, job_, timer_.model()).offloaded)};
    i.phase = kind == InstructionKind::Stash ? graph::Phase::Forward : graph::Phase::Backward;
    i.after = std::exchange(waits_for_, {});
    if (last_) i.after.push_back(*last_);
    last_ = emit(body, std::move(i), alone(seconds));
    waits_for_.push_back(*last_);
  }

  void write_pass(std::uint16_t body, const Unit& unit, bool again) {
    const auto& steps = part_of(unit);
    const auto& pass = again ? time_of(unit).again : time_of(unit).forward;
    for (const auto& timed : pass.steps) {
      if (timed.source == kHostTransfer) {
        write_transfer(body, unit, again ? InstructionKind::Restore : InstructionKind::Stash, timed.queue.device);
        continue;
      }
      write_step(body, timed, steps.forward[timed.source], node(unit, steps.forward[timed.source].node), again);
    }
  }

  /// Which gradients a body computes.
  enum class Gradients : std::uint8_t { All, OfInputs, OfWeights };

  void write_backward(std::uint16_t body, const Unit& unit, Gradients which, BucketFiller* bucket) {
    const auto& steps = part_of(unit);
    const auto& time = time_of(unit);
    if (which != Gradients::OfWeights) {
      const auto awaited = waits_for_;
      write_pass(body, unit, true);
      if (spares_last()) waits_for_ = awaited;  // of the last micro-batch the gradients' kernels are the first that wait
    }
    auto ready = time.ready.begin();
    for (std::size_t s = 0; s <= time.backward.steps.size(); ++s) {
      for (; ready != time.ready.end() && ready->steps == s; ++ready)
        if (bucket != nullptr)
          if (const auto full = bucket->add(ready->elements)) reduce(body, *full);
      if (s == time.backward.steps.size()) break;
      const auto& timed = time.backward.steps[s];
      if (which != Gradients::All && timed.weight_gradient != (which == Gradients::OfWeights)) continue;
      const auto& step = steps.backward[timed.source];
      write_step(body, timed, step, node(unit, step.node), false);
    }
  }

  struct GradientSum {
    double elements = 0, seconds = 0, of_copies = 0;
    When copies = When::Always;  ///< of those, when the gradients of every micro-batch are summed
    bool of_experts = false;     ///< that ranks share out: over those that have copies of them
  };
  [[nodiscard]] GradientSum gradient_sum(double elements) const {
    return {elements, timer_.reduction(elements), timer_.sum_of_copies(elements)};
  }

  /// `like` says when. Where gradients are sharded inside groups of replicas, the groups sum their parts afterwards.
  Dependency emit_sum(std::uint16_t body, const GradientSum& sum, const Instruction& like) {
    const auto emitted = [&](CollectiveKind kind, std::uint8_t axis, double elements, double seconds) {
      auto i = collective_instruction(kind, axis, elements * gradient_bytes_, like.stream);
      i.phase = like.phase, i.when = like.when, i.node = like.node, i.after = like.after;
      return emit(body, std::move(i), alone(seconds));
    };
    const bool whole = sums_whole_gradients(job_);
    const auto shards = sum.of_experts ? axes_.expert_copies() : axes_.shards();
    const auto place = emitted(whole ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter, whole ? axes_.replicas() : shards,
                               sum.elements, sum.seconds - sum.of_copies);
    if (sum.of_copies <= 0) return place;
    const auto copied = emitted(CollectiveKind::AllReduce, axes_.copies(), sum.elements / sharding_ranks(job_.plan), sum.of_copies);
    auto& instruction = role_.bodies[body].instructions[copied.instruction];
    if (instruction.when == When::Always) instruction.when = sum.copies;
    return copied;
  }

  [[nodiscard]] std::vector<Dependency> after_last() const { return last_ ? std::vector{*last_} : std::vector<Dependency>(); }
  [[nodiscard]] Instruction beside_backward() const {
    Instruction like;
    like.stream = Stream::Collective;
    like.phase = graph::Phase::Backward;
    like.node = last_node_;
    like.after = after_last();
    return like;
  }

  void reduce(std::uint16_t body, double elements) {
    auto like = beside_backward();
    like.when = scatters_every_micro_batch(job_) ? When::Always : When::LastMicroBatch;
    auto sum = gradient_sum(elements);
    sum.copies = When::LastMicroBatch;
    reductions_.push_back(emit_sum(body, sum, like));
  }

  void write_chunk(int own) {
    const auto chunk = step_.chunk_of(stage_, own);
    const auto weights = weights_of(timer_.model(), step_.chunks[chunk]);
    write_forward_chunk(own, chunk, timer_.cast(weights.all));
    write_backward_chunk(own, chunk, timer_.accumulation(weights.trained));
  }

  void write_extra(std::uint16_t body, std::string_view what, double seconds) {
    if (seconds <= 0) return;
    Instruction i;
    i.kernel = kernel(what);
    i.phase = role_.bodies[body].kind == BodyKind::Backward ? graph::Phase::Backward : graph::Phase::Forward;
    i.after = std::exchange(waits_for_, {});
    last_ = emit(body, std::move(i), alone(seconds));
  }

  /// What a chunk gets from its neighbour, if that is on another stage.
  void receive_from(std::uint16_t body, std::size_t other, std::uint32_t channel, double bytes) {
    if (step_.stage_of(other) == stage_) return;
    waits_for_.push_back(emit(body, message(InstructionKind::Receive, step_.stage_of(other), channel, bytes), alone(0)));
  }
  void send_to(std::uint16_t body, std::size_t other, std::uint32_t channel, double bytes) {
    if (step_.stage_of(other) == stage_) return;
    auto i = message(InstructionKind::Send, step_.stage_of(other), channel, bytes);
    i.after = std::exchange(waits_for_, {});  // a chunk without a kernel hands on what it got
    if (last_) i.after.push_back(*last_);
    emit(body, std::move(i), alone(step_.send_seconds(place_, step_.stage_of(other), bytes)));
  }

  void write_forward_chunk(int own, std::size_t chunk, double cast) {
    const auto body = forward_[static_cast<std::size_t>(own)];
    last_.reset();
    if (chunk > 0) receive_from(body, chunk - 1, static_cast<std::uint32_t>(2 * chunk), step_.boundary_bytes(chunk - 1));
    write_extra(body, "cast", cast);
    if (gathers_every_pass(job_))
      write_gathered(body, step_.chunks[chunk], false);
    else
      write_with_parameters(body, step_.chunks[chunk]);
    last_of_forward_ = last_;
    if (chunk + 1 < step_.chunks.size()) send_to(body, chunk + 1, static_cast<std::uint32_t>(2 * chunk + 2), step_.boundary_bytes(chunk));
  }

  /// Units wait for the bucket of updated parameters that they are in, where these come back during the first forward pass.
  void write_with_parameters(std::uint16_t body, const Chunk& chunk) {
    std::vector<std::optional<Dependency>> gathered;
    if (gathers_once() && overlaps(job_)) gathered = write_parameter_gathers(chunk);
    const auto units = units_of(chunk);
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (u < gathered.size() && gathered[u]) waits_for_.push_back(*gathered[u]);
      write_pass(body, units[u], false);
    }
  }

  std::vector<std::optional<Dependency>> write_parameter_gathers(const Chunk& chunk) {
    std::vector<std::optional<Dependency>> places;
    BucketFiller bucket(bucket_elements_);
    std::size_t waiting = 0;
    auto unit_node = graph::NodeId::None;
    const auto gather = [&](double elements) {
      auto i = collective_instruction(CollectiveKind::AllGather, axes_.shards(), elements * timer_.gathered_bytes(), Stream::Collective);
      i.node = unit_node;
      const auto place = emit(prologue_, std::move(i), alone(timer_.parameter_gather(elements)));
      for (; waiting > 0; --waiting) places.emplace_back(place);
    };
    for (const auto& unit : units_of(chunk)) {
      ++waiting;
      unit_node = node(unit, 0);
      if (const auto full = bucket.add(part_of(unit).weights.trained)) gather(*full);
    }
    if (const auto rest = bucket.rest()) gather(*rest);
    return places;
  }

  void write_backward_chunk(int own, std::size_t chunk, double accumulate) {
    const auto body = backward_[static_cast<std::size_t>(own)];
    const bool splits = step_.schedule->splits_backward;
    last_.reset();
    if (chunk + 1 < step_.chunks.size())
      receive_from(body, chunk + 1, static_cast<std::uint32_t>(2 * chunk + 3), step_.boundary_bytes(chunk));
    if (gathers_every_pass(job_))
      write_gathered(body, step_.chunks[chunk], true);
    else
      write_reduced(body, chunk, splits ? Gradients::OfInputs : Gradients::All, splits ? 0 : accumulate);
    if (chunk > 0) send_to(body, chunk - 1, static_cast<std::uint32_t>(2 * chunk + 1), step_.boundary_bytes(chunk - 1));
    if (splits) write_reduced(weights_[static_cast<std::size_t>(own)], chunk, Gradients::OfWeights, accumulate);
  }

  void write_reduced(std::uint16_t body, std::size_t chunk, Gradients which, double accumulate) {
    const bool reduces = which != Gradients::OfInputs && has_replicas(job_) && overlaps(job_), behind = step_.sums_in_bubble(chunk);
    const auto& pieces = step_.chunks[chunk];
    BucketFiller bucket(bucket_elements_);
    auto units = units_of(pieces);
    std::ranges::reverse(units);
    for (const auto& unit : units) write_backward(body, unit, which, reduces && !behind ? &bucket : nullptr);
    write_extra(body, "accumulate", accumulate);
    if (const auto rest = bucket.rest()) reduce(body, *rest);
    if (which != Gradients::OfInputs && scatters_every_micro_batch(job_) && !overlaps(job_)) scatter_apart(body, pieces);
    if (reduces && behind)
      for (const double sum : gradient_buckets(timer_, pieces, bucket_elements_)) reduce(body, sum);
  }

  /// Sums of all micro-batches but the last, whose sums are those of the update, with nothing beside them.
  void scatter_apart(std::uint16_t body, const Chunk& pieces) {
    auto like = beside_backward();
    like.stream = Stream::Compute;
    like.when = When::AllButLastMicroBatch;
    for (const double elements : gradient_buckets(timer_, pieces, bucket_elements_)) {
      auto sum = gradient_sum(elements);
      sum.seconds -= std::exchange(sum.of_copies, 0);
      emit_sum(body, sum, like);
    }
  }

  /// Parameters are gathered a unit ahead of the computation, gradients scattered behind it.
  void write_gathered(std::uint16_t body, const Chunk& chunk, bool backward) {
    auto units = units_of(chunk);
    if (backward) std::ranges::reverse(units);
    const bool ahead = job_.profile.gathers_layerwise && overlaps(job_), gathers = !backward || !job_.recipe.keeps_gathered;
    const auto gather = [&](const Unit& unit, std::optional<Dependency> after) {
      const auto& time = time_of(unit);
      const auto emitted = [&](std::uint8_t axis, double bytes, double seconds) {
        auto i = collective_instruction(CollectiveKind::AllGather, axis, bytes, Stream::Collective);
        if (after) i.after = {*after};
        i.node = node(unit, 0);
        return emit(body, std::move(i), alone(seconds));
      };
      const auto place = emitted(axes_.shards(), time.gather_bytes, time.gather - time.experts.gather);
      if (time.experts.gather <= 0) return place;
      after = place;
      return emitted(axes_.expert_copies(), time.experts.gather_bytes, time.experts.gather);
    };
    std::optional<Dependency> ready;
    if (gathers && !units.empty()) ready = gather(units.front(), backward ? last_of_forward_ : std::nullopt);
    for (std::size_t u = 0; u < units.size(); ++u) {
      if (ready) waits_for_.push_back(*ready);
      const auto before = last_;
      if (ahead && gathers && u + 1 < units.size()) ready = gather(units[u + 1], u > 0 ? before : std::nullopt);
      if (backward)
        write_backward(body, units[u], Gradients::All, nullptr);
      else
        write_pass(body, units[u], false);
      if (backward) ready = scatter(body, units[u], ready, ahead);
      if (!ahead && gathers && u + 1 < units.size()) ready = gather(units[u + 1], last_);
    }
  }

  std::optional<Dependency> scatter(std::uint16_t body, const Unit& unit, std::optional<Dependency> ready, bool ahead) {
    const auto& time = time_of(unit);
    const auto& experts = time.experts;
    auto like = beside_backward();
    auto place =
        emit_sum(body, {part_of(unit).weights.trained - experts.gradients, time.scatter - experts.scatter, time.sum_of_copies}, like);
    if (experts.scatter > 0) {
      like.after = {place};
      place = emit_sum(body, {.elements = experts.gradients, .seconds = experts.scatter, .of_experts = true}, like);
    }
    reductions_.push_back(place);
    return ahead ? ready : std::optional(place);
  }

  // ---- the end of a step

  /// All gradients of a stage, where they do not travel beside the backward pass.
  void write_reductions_apart() {
    for (int own = step_.shape.chunks - 1; own >= 0; --own)
      for (const double bucket : gradient_buckets(timer_, step_.chunks[step_.chunk_of(stage_, own)], bucket_elements_))
        reductions_.push_back(emit_sum(update_, gradient_sum(bucket), Instruction{}));
  }

  void write_update() {
    if (has_replicas(job_) && !overlaps(job_) && !gathers_every_pass(job_)) write_reductions_apart();
    Weights weights;
    double tensors = 0;
    for (int own = 0; own < step_.shape.chunks; ++own) {
      const auto& chunk = step_.chunks[step_.chunk_of(stage_, own)];
      weights += weights_of(timer_.model(), chunk);
      tensors += trained_tensors_of(timer_.model(), chunk);
    }
    Instruction update;
    update.phase = graph::Phase::Update;
    update.kernel = kernel("update");
    update.after = reductions_;
    exchange_tied_embedding(update.after);
    emit(update_, std::move(update), alone(timer_.update(weights, tensors)));
    if (gathers_once() && !overlaps(job_))
      emit(update_,
           collective_instruction(CollectiveKind::AllGather, axes_.shards(), weights.trained * timer_.gathered_bytes(), Stream::Compute),
           alone(timer_.parameter_gather(weights.trained)));
    if (const double seconds = timer_.coordination(); seconds > 0)
      emit(update_, collective_instruction(CollectiveKind::Broadcast, axes_.replicas(), 1, Stream::Compute), alone(seconds));
  }

  /// First and last stage add up the gradients of the embedding that both have. The sum begins when both are there: each tells the other,
  /// as soon as its own gradients are summed, and sends what it has when the other has told it.
  void exchange_tied_embedding(std::vector<Dependency>& awaited) {
    const double bytes = timer_.tied_embedding_bytes();
    const int last = step_.shape.stages - 1;
    if (bytes <= 0 || (stage_ != 0 && stage_ != last)) return;
    const int other = stage_ == 0 ? last : 0;
    const auto here = static_cast<std::uint32_t>(2 * step_.chunks.size() + 2), data = here + 1;
    constexpr double kWord = 1;  // bytes
    auto arrived = message(InstructionKind::Send, other, here, kWord);
    arrived.stream = Stream::Compute;  // behind all kernels
    arrived.after = reductions_;
    const auto self = emit(update_, std::move(arrived), alone(0));
    const auto both = emit(update_, message(InstructionKind::Receive, other, here, kWord), alone(0));
    auto send = message(InstructionKind::Send, other, data, bytes);
    send.after = {self, both};
    emit(update_, std::move(send), alone(step_.send_seconds(place_, other, bytes)));
    awaited.push_back(emit(update_, message(InstructionKind::Receive, other, data, bytes), alone(0)));
  }

  void write_slots() {
    role_.slots.push_back({prologue_, 0});
    for (const auto& slot : step_.schedule->order(stage_, step_.shape)) {
      const auto own = static_cast<std::size_t>(slot.chunk);
      const auto& bodies = !slot.backward ? forward_ : slot.part == plan::GradientPart::Weights ? weights_ : backward_;
      role_.slots.push_back({bodies[own], slot.micro_batch});
    }
    role_.slots.push_back({update_, 0});
  }

  const StagedStep& step_;
  const FrameworkJob& job_;
  const FoldedModel& model_;
  ProgramAxes axes_;
  StagePlace place_;
  const StepTimer& timer_;
  double gradient_bytes_, bucket_elements_;
  std::uint16_t prologue_ = 0, update_ = 0;
  std::vector<std::uint16_t> forward_, backward_, weights_;  ///< by own chunk
  std::optional<Dependency> last_, last_of_forward_;         ///< kernels
  graph::NodeId last_node_ = graph::NodeId::None;
  std::vector<Dependency> waits_for_;  ///< what the next kernel needs from another stream
  std::vector<Dependency> reductions_;
};

}  // namespace

PricedProgram program_of(const StagedStep& step, const FoldedModel& model) {
  const auto& job = step.job;
  PricedProgram priced;
  auto& program = priced.program;
  program.plan = job.plan;
  program.batch = static_cast<std::int64_t>(job.batch);
  program.ranks = job.plan.ranks();
  program.micro_batches = step.shape.micro_batches;
  program.axes = plan::with_joint_axes(plan::mesh_of(job.plan));
  const auto pipeline = std::find_if(program.axes.begin(), program.axes.end(), [](const auto& axis) { return axis.name == "pp"; });
  priced.costs.with_messages = true;
  priced.costs.interference = step.lanes.front().timers.front()->interference();
  std::map<StagePlace, std::uint32_t> roles;
  for (int rank = 0; rank < program.ranks; ++rank) {
    const StagePlace place{pipeline == program.axes.end() ? 0 : rank / pipeline->stride % pipeline->size,
                           static_cast<std::size_t>(platforms::place(job.platform, rank).group)};
    const auto [at, fresh] = roles.try_emplace(place, static_cast<std::uint32_t>(program.roles.size()));
    if (fresh) {
      RoleWriter writer(step, model, program, place);
      writer.write();
      program.roles.push_back(writer.take_role());
      priced.costs.roles.push_back(writer.take_costs());
    }
    program.role_of.push_back(at->second);
  }
  return priced;
}

}  // namespace rehearsal::predict::frameworks
