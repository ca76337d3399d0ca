#include "predict/kernel_pipeline.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::predict {
namespace {

class KernelPipeline {
 public:
  KernelPipeline(const plan::ScheduleRow& schedule, const plan::PipelineShape& shape, std::span<const PartPasses> parts)
      : schedule_(schedule), shape_(shape), parts_(parts), ends_(static_cast<std::size_t>(shape.stages)) {
    for (int s = 0; s < shape.stages; ++s) slots_.push_back(schedule.order(s, shape));
    next_.assign(slots_.size(), 0);
    forward_.assign(parts.size(), std::vector<double>(static_cast<std::size_t>(shape.micro_batches), kToCome));
    backward_ = forward_;
  }

  [[nodiscard]] std::vector<double> played() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < slots_.size(); ++s)
        for (; next_[s] < slots_[s].size() && run(s, slots_[s][next_[s]]); ++next_[s]) moved = true;
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) ensure(next_[s] == slots_[s].size(), "the slots of a schedule wait for each other");
    return std::move(ends_);
  }

 private:
  static constexpr double kToCome = -1;

  /// False while what it needs is still to come.
  bool run(std::size_t stage, const plan::PipelineSlot& slot) {
    const auto part = static_cast<std::size_t>(plan::part_of(schedule_.placement, shape_, static_cast<int>(stage), slot.chunk));
    const auto m = static_cast<std::size_t>(slot.micro_batch);
    const auto& passes = parts_[part];
    const bool weights = slot.part == plan::GradientPart::Weights;
    double ready = 0;
    if (!slot.backward)
      ready = part == 0 ? 0 : forward_[part - 1][m];
    else if (!weights)
      ready = part + 1 == parts_.size() ? forward_[part][m] : backward_[part + 1][m];
    if (ready == kToCome) return false;
    const double whole = slot.backward ? passes.backward : passes.forward;
    auto& end = ends_[stage];
    end = std::max(end, ready) + (slot.part == plan::GradientPart::Input ? 0 : whole);
    if (!weights) (slot.backward ? backward_ : forward_)[part][m] = end;
    return true;
  }

  const plan::ScheduleRow& schedule_;
  const plan::PipelineShape& shape_;
  std::span<const PartPasses> parts_;
  std::vector<std::vector<plan::PipelineSlot>> slots_;
  std::vector<std::size_t> next_;
  std::vector<double> ends_;
  std::vector<std::vector<double>> forward_, backward_;  ///< [part][micro-batch]: when its pass has ended
};

/// Of stages that have a chunk of either copy of the model, whatever they wait for.
std::vector<double> work_of_copies(const plan::ScheduleRow& schedule, const plan::PipelineShape& shape, std::span<const PartPasses> parts) {
  std::vector<double> work(static_cast<std::size_t>(shape.stages));
  for (int stage = 0; stage < shape.stages; ++stage)
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const auto& passes = parts[static_cast<std::size_t>(plan::part_of(schedule.placement, shape, stage, chunk))];
      const auto times = static_cast<double>(plan::micro_batches_of(schedule.placement, shape, chunk).size());
      work[static_cast<std::size_t>(stage)] += times * (passes.forward + passes.backward);
    }
  return work;
}

}  // namespace

std::vector<double> ends_of_kernels(const plan::ScheduleRow& schedule, const plan::PipelineShape& shape,
                                    std::span<const PartPasses> parts) {
  if (schedule.asynchronous) return {};
  if (schedule.placement == plan::ChunkPlacement::Both) return work_of_copies(schedule, shape, parts);
  return KernelPipeline(schedule, shape, parts).played();
}

}  // namespace rehearsal::predict
