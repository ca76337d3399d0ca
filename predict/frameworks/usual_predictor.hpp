#pragma once
// Answers where no framework is named: every plan of a decoder as it is usually run. Decoders whose parameters are sharded are usually run
// with another framework than others, and a plan has one answer, whatever command asks for it, and beside whatever other plans.

#include <memory>

#include "predict/predictor.hpp"

namespace rehearsal::predict::frameworks {

/// `sharded` answers for plans that shard parameters (is_sharded()), `others` for all others; both are of one model on one platform.
/// framework() is that of `asked`.
[[nodiscard]] std::unique_ptr<Predictor> usual_predictor(std::unique_ptr<Predictor> others, std::unique_ptr<Predictor> sharded,
                                                         const plan::Plan& asked);

}  // namespace rehearsal::predict::frameworks
