#pragma once
#include <memory>

#include "predict/input/input.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// The same predictor, whose steps wait for their samples. Played steps do so instruction by instruction: InputPace.
/// Throws BadInput as check_input() does.
[[nodiscard]] std::unique_ptr<Predictor> with_input(std::unique_ptr<Predictor>, const InputQuestion&);

}  // namespace rehearsal::predict
