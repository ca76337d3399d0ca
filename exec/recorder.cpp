#include "exec/recorder.hpp"

#include <cstring>

namespace rehearsal::exec {
namespace {

static_assert(std::is_trivially_copyable_v<predict::TimedInstruction>);

std::string bytes_of(const std::vector<predict::TimedInstruction>& played) {
  return {reinterpret_cast<const char*>(played.data()), played.size() * sizeof(predict::TimedInstruction)};
}

std::vector<predict::TimedInstruction> played_of(const std::string& bytes) {
  std::vector<predict::TimedInstruction> played(bytes.size() / sizeof(predict::TimedInstruction));
  std::memcpy(played.data(), bytes.data(), bytes.size());
  return played;
}

}  // namespace

Recorder::Recorder(const Training& training, int threads, std::int64_t first_step)
    : builder_(training.program, training.graph.graph, "measured", threads),
      world_(training.world),
      shift_(training.world.clock_offset().offset_seconds),
      first_(first_step) {}

void Recorder::add(const StepReport& report, const StepResult& result, bool warm_up) {
  if (report.step == first_) zero_ = world_.min(result.begin + shift_);
  const auto shift = shift_ - zero_;
  const double begin = world_.min(result.begin + shift), end = world_.max(result.end + shift);
  auto shifted = result.played;
  for (auto& p : shifted) p.begin += shift, p.end += shift;
  const auto all = world_.gather(bytes_of(shifted));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    builder_.add(static_cast<int>(rank), static_cast<int>(report.step - first_), played_of(all[rank]), 0.0);
  builder_.add_step({static_cast<std::int32_t>(report.step - first_), begin, end, report.loss, warm_up, report.staleness});
}

}  // namespace rehearsal::exec
