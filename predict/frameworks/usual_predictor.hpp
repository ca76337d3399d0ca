#pragma once
// Answers where no framework is named: every plan as it is usually run on the devices that it uses. Decoders whose parameters are sharded
// are usually run with another framework than others, newer devices with another one than older ones. A plan has one answer, whatever
// command asks for it, and beside whatever other plans.

#include <map>
#include <memory>

#include "predict/predictor.hpp"

namespace rehearsal::predict::frameworks {

using PredictorsByFramework = std::map<const costmodel::FrameworkProfile*, std::unique_ptr<Predictor>>;

/// `predictors`: of one model on one platform, under the frameworks that are usual for it there (usual_frameworks()). framework() is
/// `asked`, which also answers for what is usually run under none of them.
[[nodiscard]] std::unique_ptr<Predictor> usual_predictor(PredictorsByFramework predictors, const costmodel::FrameworkProfile& asked);

}  // namespace rehearsal::predict::frameworks
