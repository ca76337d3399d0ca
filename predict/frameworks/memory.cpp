#include "predict/frameworks/memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "predict/frameworks/groups.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using C = costmodel::Coefficient;

constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
constexpr double kGatheredCopies = 2;  // layers whose gathered parameters are there at once under ZeRO-3: at work, and the next one
constexpr double kSelectiveOpShare = 0.4, kSelectiveOpRest = 0.3;
constexpr double kLogitBytes32 = 12;
constexpr double kLogitBytesFused = 8;  // 2, an fp32 copy that becomes its gradient in place, and that in 16 bits
constexpr double kBlocksUnderWay = 2;   // one at work, and one on its way to the host or back
constexpr double kMoments = 8;          // bytes of two fp32 values, which profiles count among the optimizer's state

bool is_fp16(const costmodel::Precision& p) {
  return p.arithmetic == costmodel::Arithmetic::Half && p.element_bytes == 2 && !p.brain && !p.autocast;
}

/// Of a parameter from step to step, gradients aside; the optimizer's without the numbers that it keeps.
costmodel::StateBytes kept_bytes(const FrameworkJob& job, const costmodel::Precision& precision) {
  if (job.recipe.optimizer == "none") return {precision.element_bytes * 1.0, precision.element_bytes * 1.0, 0};
  if (precision.element_bytes == 4) return {4, 4, 0};
  if (job.profile.pure_16bit && !precision.autocast) return {2, 2, 0};
  auto s = job.profile.state;
  s.optimizer -= kMoments;
  return s;
}

/// Of a number that the optimizer keeps.
double number_bytes(const FrameworkJob& job, const costmodel::Precision& precision) {
  return precision.element_bytes != 4 && job.profile.pure_16bit && !precision.autocast ? 2 : 4;
}

costmodel::StateBytes state_bytes(const FrameworkJob& job, const costmodel::Precision& precision) {
  auto s = kept_bytes(job, precision);
  // fp16 gradients are summed as they are, and become fp32 when the update begins: 20 bytes a parameter under Megatron-LM's distributed
  // optimizer where bf16 needs 18 (docs of Megatron-Core, "Distributed optimizer").
  if (const double narrow = job.profile.gradient_bytes_fp16; job.recipe.optimizer != "none" && is_fp16(precision) && narrow < s.gradients) {
    s.gradients = narrow;
    s.optimizer += 4;
  }
  return s;
}

/// What a part has gathered over tp besides its own share, where that waits for the gradients of the weights it is multiplied with.
double gathered_inputs(const Part& part, const FrameworkJob& job) {
  if (!job.profile.keeps_gathered_inputs || job.recipe.tensor_overlap.value_or(job.profile.tensor_overlap)) return 0;
  double bytes = 0;
  for (const auto& step : part.forward)
    if (step.exchange && step.exchange->axis == ExchangeAxis::Tensor && step.exchange->kind == costmodel::CollectiveKind::AllGather)
      bytes += step.exchange->bytes;
  return bytes * (1 - 1.0 / job.plan.tp);
}

PassBytes kept_by_pass(const Part& part, Recomputed recompute, const FrameworkJob& job, bool image) {
  const double others = part.kept.others, attention = part.kept.attention;
  const double whole = gathered_inputs(part, job);
  const double input = std::min(part.boundary_bytes, part.kept.all());  // its predecessor's result, which its kernels keep anyway
  const bool again = recompute == Recomputed::AsPlanned && (part.repeated || image);
  switch (again ? job.recomputed() : plan::RecomputeRule::None) {
    case plan::RecomputeRule::Full:
    case plan::RecomputeRule::FullExceptLast:
      return {input, part.kept.all() + whole - input};
    case plan::RecomputeRule::SelectiveOps:
      return {others * kSelectiveOpShare, others * kSelectiveOpRest + whole};  // collectives are done again
    case plan::RecomputeRule::Selective:
      return {others + whole, attention};
    case plan::RecomputeRule::None:
    case plan::RecomputeRule::Budget:  // refused by plan_rules.cpp
      break;
  }
  return {others + attention + whole, 0};
}

}  // namespace

double offloaded_share(const FrameworkJob& job, const ModelParts& model) {
  if (job.plan.offload != plan::Offload::Activations) return 0;
  if (job.recipe.offloaded_blocks == 0) return 1;
  double blocks = 0;
  for (const auto& part : model.parts)
    if (part.repeated) blocks += part.repeats;
  return blocks > 0 ? std::min(1.0, job.recipe.offloaded_blocks / blocks) : 0;
}

PassBytes pass_bytes(const Part& part, Recomputed recompute, const FrameworkJob& job, const ModelParts& model) {
  auto bytes = kept_by_pass(part, recompute, job, model.image);
  if (!part.repeated) return bytes;
  bytes.offloaded = bytes.each * offloaded_share(job, model);
  bytes.each -= bytes.offloaded;
  if (bytes.offloaded > 0) bytes.under_way = kBlocksUnderWay * (bytes.each + bytes.offloaded);
  return bytes;
}

namespace {

class StageMemory {
 public:
  StageMemory(const StagedStep& step, int stage)
      : step_(step),
        job_(step.job),
        model_(step.lanes.front().timers.front()->model()),
        stage_(stage),
        precision_(step.job.precision_on(step.lanes.front().devices.groups[static_cast<std::size_t>(stage)])) {}

  [[nodiscard]] RankMemory memory() const {
    RankMemory m;
    m.stage = stage_;
    m.segments_grow = of_blackwell();
    add_states(m);
    const auto keeps = kept();
    m.host += keeps.offloaded * passes();
    const double kept_at_once = keeps.each * passes() + keeps.under_way;
    for_moments(m, [&](const RankMemory::Moment& moment) {
      m.activations = std::max(m.activations, moment.activations);
      m.apart = std::max(m.apart, moment.at_work > 0 ? std::max(moment.activations, kept_at_once + moment.at_work) : kept_at_once);
      if (moment.all() > m.passing.all()) m.passing = moment;
    });
    m.apart += logits() + m.update;
    const RankMemory::Moment updating{m.gradients, m.update, 0};
    m.fullest = updating.all() > m.passing.all() ? updating : m.passing;
    return m;
  }

  /// The fullest moment of the passes is as full as it is all the time that they take: what is at work makes up for what has gone.
  [[nodiscard]] plan::MemoryOutline outline() const {
    const auto m = memory();
    const double early = gradients_wait() ? m.gradients : 0, each = kept().each;
    const auto whole = [](double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); };
    return {whole(m.states() - m.gradients + early), whole(each / step_.shape.chunks), whole(m.passing.all() - early - each * passes()),
            whole(m.gradients - early + m.update)};
  }

 private:
  template <class Visit>
  void for_pieces(const Visit& visit) const {
    for (int own = 0; own < step_.shape.chunks; ++own)
      for (const auto& piece : step_.chunks[step_.chunk_of(stage_, own)]) visit(model_.parts[piece.part], piece);
  }

  /// Of a stage with so many repetitions: what other stages have, too.
  [[nodiscard]] static Weights copied_weights(const Part& part, int count) {
    return part.shared_weights + (1 - static_cast<double>(count) / part.repeats) * part.common_weights;
  }

  void add_states(RankMemory& m) const {
    const auto bytes = state_bytes(job_, precision_);
    const bool gathers = gathers_every_pass(job_);
    const double replicas = sharding_ranks(job_.plan);
    // fp32 values that are sharded with the optimizer, beside a gathered copy in the type of the computation.
    const bool copies = job_.profile.gathers_in_computing_type && job_.plan.zero > 0 && replicas > 1;
    const auto add = [&](const Weights& weights, double ranks, bool of_block) {
      const double trained = weights.trained;
      // Embeddings and what makes the logits are stored as they are where they are not trained.
      const double frozen_bytes = of_block ? this->frozen_bytes(bytes.weights) : bytes.weights;
      const double kept = copies ? std::min(bytes.weights, precision_.element_bytes + bytes.weights / ranks) : bytes.weights;
      m.weights += gathers ? (trained * bytes.weights + (weights.all - trained) * frozen_bytes) / ranks
                           : trained * kept + (weights.all - trained) * frozen_bytes;
      m.update += job_.profile.update_copies * trained * bytes.gradients / (job_.plan.zero >= 2 ? ranks : 1);
      if (!job_.recipe.update_in_backward) m.gradients += trained * bytes.gradients / (keeps_whole_gradients(job_) ? 1 : ranks);
      const double optimizer =
          (trained * bytes.optimizer + weights.state * number_bytes(job_, precision_)) / (job_.plan.zero >= 1 ? ranks : 1);
      (job_.plan.offload == plan::Offload::Optimizer ? m.host : m.optimizer) += optimizer;
    };
    for_pieces([&](const Part& part, const Piece& piece) {
      const int count = piece.count;
      const auto rest = count * (part.weights - part.expert_weights) + (job_.plan.pp > 1 ? copied_weights(part, count) : Weights{});
      add(rest, replicas, part.repeated);
      add(count * part.expert_weights, expert_copies(job_.plan), part.repeated);
      const double ranks = keeps_whole_gradients(job_) ? 1 : replicas;
      if (job_.recipe.update_in_backward) m.gradients = std::max(m.gradients, part.weights.trained * bytes.gradients / ranks);
    });
    if (gathers) m.gathered = job_.recipe.keeps_gathered ? gathered_once() : gathered_all_along();
  }

  /// Of a part's weights those that are gathered at all: not experts that every rank has whole as its own.
  [[nodiscard]] Weights sharded(const Part& part, const Weights& weights) const {
    return expert_copies(job_.plan) == 1 ? weights - part.expert_weights : weights;
  }

  /// Bytes of what is gathered, as it is stored where it is not trained.
  [[nodiscard]] double whole_bytes(const Part& part, const Weights& weights) const {
    const double as_others = precision_.element_bytes;
    return gathered_bytes(job_, precision_, part.repeated) * weights.trained +
           (part.repeated ? frozen_bytes(as_others) : as_others) * (weights.all - weights.trained);
  }

  [[nodiscard]] double gathered_once() const {
    double bytes = 0;
    for_pieces([&](const Part& part, const Piece& piece) { bytes += piece.count * whole_bytes(part, sharded(part, part.weights)); });
    return bytes;
  }

  /// Blocks that are gathered one by one.
  [[nodiscard]] bool gathers_blocks() const { return gathers_every_pass(job_) && !job_.recipe.keeps_gathered && unit_of_rest() > 0; }

  /// Of what is not a block, elements, where blocks are gathered one by one: embeddings, logits and norms belong to the unit around all
  /// blocks, which FSDP gathers first and frees last (PyTorch: the root is not resharded after its forward pass).
  [[nodiscard]] double unit_of_rest() const {
    double rest = 0;
    bool blocks = false;
    for_pieces([&](const Part& part, const Piece& piece) {
      blocks = blocks || part.repeated;
      if (!part.repeated) rest += piece.count * part.weights.all;
    });
    return blocks && !model_.image && job_.profile.gathers_layerwise ? rest : 0;
  }

  [[nodiscard]] double gathered_all_along() const {
    if (const double rest = unit_of_rest(); rest > 0) return precision_.element_bytes * rest;
    double largest = 0;
    for_pieces([&](const Part& part, const Piece&) {
      largest = std::max(largest, gathered_bytes(job_, precision_, part.repeated) * unit_of(part));
    });
    return kGatheredCopies * largest;
  }

  /// Weights that are gathered at once, elements: ZeRO of DeepSpeed gathers module by module.
  [[nodiscard]] double unit_of(const Part& part) const {
    if (job_.profile.gathers_layerwise) return sharded(part, part.read_weights()).all;
    double largest = 0;
    for (const auto& weights : part.weights_of_node) largest = std::max(largest, weights.all);
    return largest;
  }

  /// While a block is at work: its own parameters and those of the next one, as they are stored where they are not trained.
  [[nodiscard]] double gathered_for(const Part& part, double blocks_left) const {
    if (!part.repeated || !gathers_blocks()) return 0;
    return std::min(kGatheredCopies, blocks_left) * whole_bytes(part, sharded(part, part.read_weights()));
  }

  /// Of a weight of a block that is not trained.
  [[nodiscard]] double frozen_bytes(double as_others) const {
    if (job_.recipe.frozen_bytes > 0) return job_.recipe.frozen_bytes;
    return precision_.quantised() && job_.profile.keeps_quantised_weights ? 1 : as_others;
  }

  [[nodiscard]] bool checkpoints_stages() const {
    const auto rule = job_.recomputed();
    return job_.profile.checkpoints_stages && (rule == plan::RecomputeRule::Full || rule == plan::RecomputeRule::FullExceptLast);
  }

  /// A stage that is recomputed as a whole: every micro-batch keeps its input, the one at work all that its backward pass needs (Huang et
  /// al. 2019, section 2.3). Of the last micro-batch that is there from its forward pass on, and the same bytes: its backward pass is the
  /// first one, behind which others are computed again where it was (torchgpipe's "except_last", which therefore saves time alone).
  [[nodiscard]] PassBytes checkpointed_stage() const {
    double kept = 0, boundary = 0, parts = 0;
    for_pieces([&](const Part& part, const Piece& piece) {
      kept += part.kept.all() * piece.count;
      boundary += part.boundary_bytes * piece.count;
      parts += piece.count;
    });
    return {boundary / std::max(1.0, parts), kept, 0};
  }

  /// Of all chunks together, what is at work aside.
  [[nodiscard]] PassBytes kept() const {
    if (checkpoints_stages()) return checkpointed_stage();
    PassBytes all;
    for_pieces([&](const Part& part, const Piece& piece) {
      const auto bytes = pass_bytes(part, piece.recompute, job_, model_);
      all.each += bytes.each * piece.count;
      all.offloaded += bytes.offloaded * piece.count;
      all.under_way = std::max(all.under_way, bytes.under_way);
    });
    return all;
  }

  /// Gradients of an earlier micro-batch, or of an earlier step, are there when the backward pass begins.
  [[nodiscard]] bool gradients_wait() const {
    const auto& p = job_.plan;
    const bool buckets = job_.profile.coordination == costmodel::Coordination::Ddp && p.zero == 0 && p.dp * p.cp > 1;
    return job_.profile.gradient_buffers || buckets || job_.recipe.update_in_backward || p.pp > 1 || step_.shape.micro_batches > 1;
  }

  /// The loss, and the first and last two repetitions of every part as the backward pass of one micro-batch comes to them: kept activations
  /// go, gradients of weights come.
  template <class Visit>
  void for_moments(const RankMemory& m, const Visit& visit) const {
    const double early = gradients_wait() ? m.gradients : 0;
    const auto all = kept();
    const double most = all.each * passes() + all.under_way;
    visit(RankMemory::Moment{early, most + logits(), 0});
    if (checkpoints_stages()) return visit(RankMemory::Moment{early, most + all.at_work, all.at_work});
    double trained = 0, left = 0;  // blocks that the backward pass has still to come to
    for_pieces([&](const Part& part, const Piece& piece) {
      trained += part.weights.trained * piece.count;
      left += part.repeated ? piece.count : 0;
    });
    const double gradient = trained > 0 ? (m.gradients - early) / trained : 0;
    for (int turn = 0; turn < step_.shape.chunks; ++turn) {
      RankMemory::Moment now{early, most, 0};
      const auto& chunk = step_.chunks[step_.chunk_of(stage_, turn)];
      for (auto piece = chunk.rbegin(); piece != chunk.rend(); ++piece) {
        const auto& part = model_.parts[piece->part];
        const auto bytes = pass_bytes(part, piece->recompute, job_, model_);
        const double own = bytes.at_work + part.widest_gradients + gradients_on_their_way(part);
        for (const double blocks : {std::max(0.0, piece->count - 2.0), std::min(1.0, piece->count - 1.0), 1.0}) {
          const double at_work = own + gathered_for(part, left);
          visit(RankMemory::Moment{now.gradients, now.activations + at_work, at_work});
          left -= part.repeated ? blocks : 0;
          now.activations -= blocks * (bytes.each - held_until_the_end(part));
          now.gradients += blocks * part.weights.trained * gradient;
        }
      }
    }
  }

  /// Of a block whose backward pass is over: to know when it may shard weights again that have no gradient, FSDP1 hooks the gradients of
  /// what the block reads (PyTorch: _register_post_backward_reshard_only_hook), and readings of four models (Mistral, Llama-3-8B,
  /// Llama-2-70B, Mixtral) have both tensors of every block until the backward pass ends.
  [[nodiscard]] double held_until_the_end(const Part& part) const {
    const bool frozen = part.weights.trained > 0 && part.weights.trained < part.weights.all;
    return part.repeated && frozen && job_.profile.holds_inputs_of_frozen && gathers_every_pass(job_) ? 2 * part.boundary_bytes : 0;
  }

  /// Those of the part at work are whole before they are scattered over the ranks that keep them.
  [[nodiscard]] double gradients_on_their_way(const Part& part) const {
    return keeps_whole_gradients(job_) ? 0 : precision_.element_bytes * part.weights.trained;
  }

  /// Through all chunks, that the schedule holds when it holds most.
  [[nodiscard]] double passes() const {
    if (checkpoints_stages()) return step_.shape.micro_batches;
    return step_.held[static_cast<std::size_t>(stage_)] / static_cast<double>(step_.shape.chunks);
  }

  /// The loss computes with the result of one micro-batch in fp32; a chunked one never has all of it.
  [[nodiscard]] double logits() const {
    const bool last = step_.stage_of(step_.chunks.size() - 1) == stage_;
    if (!last || model_.image || job_.recipe.chunked_loss) return 0;
    if (of_blackwell() && job_.profile.elementwise_fusion == 2 && precision_.element_bytes == 2) return kLogitBytesFused * model_.logits;
    const double narrow =
        job_.recipe.fused_kernels ? std::min(kLogitBytesFused, job_.profile.logit_bytes_16bit) : job_.profile.logit_bytes_16bit;
    return model_.logits * (precision_.element_bytes == 2 ? narrow : kLogitBytes32);
  }

  /// Whether the framework's releases for this device do what older ones do not.
  [[nodiscard]] bool of_blackwell() const {
    const auto& device = job_.device(step_.lanes.front().devices.groups[static_cast<std::size_t>(stage_)]);
    return job_.profile.newer_on_blackwell && device.generation.starts_with("blackwell");
  }

  const StagedStep& step_;
  const FrameworkJob& job_;
  const ModelParts& model_;
  int stage_;
  costmodel::Precision precision_;
};

}  // namespace

double capacity_of(const StagedStep& step, int stage) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& lane : step.lanes)
    least = std::min(least, step.job.device(lane.devices.groups[static_cast<std::size_t>(stage)]).memory.value.value());
  return least;
}

RankMemory memory_of_stage(const StagedStep& step, int stage) { return StageMemory(step, stage).memory(); }

RankMemory memory_of(const StagedStep& step) {
  RankMemory fullest;
  double most = 0;
  for (int stage = 0; stage < step.shape.stages; ++stage) {
    const auto own = memory_of_stage(step, stage);
    if (const double share = own.all() / capacity_of(step, stage); share > most) most = share, fullest = own;
  }
  return fullest;
}

plan::MemoryOutline outline_of(const StagedStep& step, int stage) { return StageMemory(step, stage).outline(); }

Bytes checkpoint_bytes(const FrameworkJob& job, const Weights& weights) {
  const auto precision = job.precision_on(0);
  const auto bytes = kept_bytes(job, precision);
  return Bytes(weights.trained * (bytes.weights + bytes.optimizer) + weights.state * number_bytes(job, precision));
}

MemoryReading device_memory(const RankMemory& m, const costmodel::FrameworkProfile& profile, const costmodel::Constants& c,
                            double capacity) {
  constexpr C kFactors[] = {C::MemoryFactorDeepspeed, C::MemoryFactorPytorch, C::MemoryFactorStatic};
  constexpr C kReserves[] = {C::MemoryReserveDeepspeed, C::MemoryReservePytorch, C::MemoryReserveStatic};
  const auto allocator = static_cast<std::size_t>(profile.allocator);
  const double factor = c[kFactors[allocator]], reserve = c[kReserves[allocator]] * kGibi;
  if (profile.allocator != costmodel::AllocatorKind::Pytorch) return {m.all() * factor + reserve, m.all() * factor + reserve};
  const double needed = m.all() + reserve;
  if (m.segments_grow) return {needed, needed};
  const double held = m.weights + m.optimizer + m.gathered + m.gradients + m.apart;
  return {std::clamp(held * factor + reserve, needed, std::max(needed, kMemoryInUse * capacity)), needed};
}

std::vector<std::int64_t> by_category(const RankMemory& m, std::int64_t reported) {
  using Category = plan::MemoryCategory;
  const auto whole = static_cast<double>(reported), missing = m.all() - whole;
  const double activations = missing > 0 ? std::max(0.0, m.fullest.activations - missing) : m.fullest.activations;
  const double tensors = m.all() - m.fullest.activations + activations, share = tensors > whole ? whole / tensors : 1;
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(Category::Count), 0);
  const auto of = [&](Category category) -> std::int64_t& { return bytes[static_cast<std::size_t>(category)]; };
  const auto set = [&](Category category, double tensor_bytes) { of(category) = static_cast<std::int64_t>(tensor_bytes * share); };
  set(Category::Parameters, m.weights);
  set(Category::Gradients, m.fullest.gradients);
  set(Category::OptimizerState, m.optimizer);
  set(Category::Activations, activations);
  set(Category::Communication, m.gathered);
  const auto rest = reported - std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  (missing > 0 ? *std::ranges::max_element(bytes) : of(Category::Workspace)) += rest;  // of what is missing, what rounding left
  return bytes;
}

}  // namespace rehearsal::predict::frameworks
