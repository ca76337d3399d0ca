#pragma once
// A predictor of a platform with several groups of nodes. Each plan is answered by a predictor that knows no other groups than those which
// the plan uses, in the order in which it fills them (Plan::fill): what idle devices are changes nothing.

#include <functional>
#include <memory>
#include <string_view>

#include "platforms/node_order.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// Of these groups of the platform, which `part` has and no others. `part` outlives the predictor. Throws Refusal where it has devices that
/// cannot compute what is asked.
using MakePredictor = std::function<std::unique_ptr<Predictor>(const platforms::Platform& part, const platforms::NodeOrder& groups)>;

/// `platform` must outlive it. Throws Refusal as `make` does where it has no group of nodes that plans can use.
[[nodiscard]] std::unique_ptr<Predictor> placed_predictor(const platforms::Platform& platform, MakePredictor make);

/// Throws Refusal where a device has no peak for it.
void require_peaks(const platforms::Platform&, std::string_view arithmetic);

}  // namespace rehearsal::predict
