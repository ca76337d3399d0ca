// Recomputation by budget: a ladder from none to everything, climbed as far as a stage needs.

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "plan/recompute/recompute.hpp"

namespace rehearsal::plan {
namespace {

/// Ever more recomputation: of selective's results one after the other, then full's segments in their place.
class Ladder {
 public:
  Ladder(const ForwardResults& results, const Pipeline& pipeline)
      : results_(results), pipeline_(pipeline), selective_(selective_count(results)), segments_(segment_count(results, pipeline)) {}

  [[nodiscard]] std::size_t top() const { return selective_ + segments_; }

  [[nodiscard]] Recomputation at(std::size_t rung) const {
    auto chosen = selective_recomputation(results_, std::min(rung, selective_));
    return rung <= selective_ ? chosen : with_full_segments(std::move(chosen), rung - selective_, results_, pipeline_);
  }

 private:
  const ForwardResults& results_;
  const Pipeline& pipeline_;
  std::size_t selective_, segments_;
};

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes(static_cast<double>(bytes))); }

/// The lowest rung that fits, supposing that the arena shrinks from rung to rung.
std::size_t lowest_fit(std::size_t top, const std::function<bool(std::size_t)>& fits) {
  std::size_t low = 0, high = top;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace

Recomputation budgeted_recomputation(const ForwardResults& results, const Pipeline& pipeline, std::int64_t budget,
                                     const std::function<std::int64_t(int stage, const Recomputation&)>& arena) {
  const Ladder ladder(results, pipeline);
  Recomputation whole{std::vector<bool>(results.graph().tensors().size(), false)};
  for (int stage = 0; stage < pipeline.shape.stages; ++stage) {
    const auto rung = lowest_fit(ladder.top(), [&](std::size_t r) { return arena(stage, ladder.at(r)) <= budget; });
    const auto chosen = ladder.at(rung);
    if (const auto needed = arena(stage, chosen); needed > budget)
      throw Refusal("plan: recompute=" + bytes_text(budget) + ": stage " + std::to_string(stage) + " needs " + bytes_text(needed) +
                    " with everything recomputed, " + bytes_text(needed - budget) + " more");
    for (std::size_t t = 0; t < whole.dropped.size(); ++t) {
      const auto producer = results.graph()[results.root(static_cast<graph::TensorId>(t))].producer;
      if (!chosen.dropped[t] || producer == graph::NodeId::None) continue;
      if (pipeline.places[static_cast<std::size_t>(results.part(producer))].stage == stage) whole.dropped[t] = true;
    }
  }
  return whole;
}

}  // namespace rehearsal::plan
