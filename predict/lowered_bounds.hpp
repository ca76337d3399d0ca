#pragma once
// What no step of our own execution falls below, found without lowering every plan: plans that split the layers alike run the same kernels,
// however many replicas and stages they have, whatever is sharded, recomputed or in which order stages work.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "predict/assessment.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict {

class LoweredBounds {
 public:
  explicit LoweredBounds(const Workload& job) : job_(job) {}

  /// No time is known of plans with uneven micro-batches. On several kinds of devices the quickest and the largest count, and no time is
  /// known of plans whose shares follow speed.
  [[nodiscard]] Outlook outlook(const plan::Plan&);

 private:
  /// A micro-batch on its way through all layers, on one of the ranks that share out their tensors.
  struct PassCost {
    Seconds kernels;           ///< forward and backward, on the quickest kind of device
    double working_bytes = 0;  ///< what the passes read and what stays from step to step: weights, constants
    double update_bytes = 0;   ///< what only updates use: optimizer state, weights in f32 beside those of 16 bits
    [[nodiscard]] double bytes(const plan::Plan&) const;  ///< on the fullest stage at least
  };

  [[nodiscard]] const std::optional<PassCost>& pass_of(const plan::Plan&, std::int64_t samples);
  [[nodiscard]] std::optional<PassCost> lowered_pass(const plan::Plan& split, const std::vector<RankDevice>&) const;
  [[nodiscard]] PassCost measured(const plan::Program&, const std::vector<RankDevice>&) const;

  const Workload& job_;
  std::map<std::string, std::optional<PassCost>> known_;  ///< by how layers are split, and threads; nothing: cannot be lowered alone
};

}  // namespace rehearsal::predict
