#pragma once
#include "predict/frameworks/folded_model.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/frameworks/model_part.hpp"

namespace rehearsal::predict::frameworks {

[[nodiscard]] Degrees degrees_of(const FrameworkJob&);
/// What one rank on a group of nodes does for one micro-batch, by parts of the folded model. Holds no fitted constant. Throws Refusal
/// naming the degree of the plan that no operator can use.
[[nodiscard]] ModelParts parts_of(const FoldedModel&, const FrameworkJob&, std::size_t group);

}  // namespace rehearsal::predict::frameworks
