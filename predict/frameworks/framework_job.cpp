#include "predict/frameworks/framework_job.hpp"

namespace rehearsal::predict::frameworks {

using costmodel::LaunchMode;

plan::RecomputeRule FrameworkJob::recomputed() const {
  const bool last_alone = plan.recompute.rule == plan::RecomputeRule::FullExceptLast && micro_batches == 1;
  return last_alone ? plan::RecomputeRule::None : plan.recompute.rule;
}

int elementwise_fusion(const FrameworkJob& job) { return job.recipe.fused_kernels ? 2 : job.profile.elementwise_fusion; }

namespace {

bool captures_experts(const FrameworkJob& job) {
  const auto precision = job.precision_on(0);
  return job.profile.captures_experts && precision.arithmetic == costmodel::Arithmetic::Fp8 &&
         precision.scaling == costmodel::Scaling::Micro;
}

}  // namespace

StepCapture capture_of(const FrameworkJob& job, bool experts) {
  const auto& recipe = job.recipe;
  const auto usual = job.profile.launch;
  const bool captured = recipe.captured.value_or(usual == LaunchMode::Captured || (experts && captures_experts(job)));
  const auto arithmetic = job.precision_on(0).arithmetic;
  const bool narrow = arithmetic == costmodel::Arithmetic::Fp8 || arithmetic == costmodel::Arithmetic::Fp4;
  const bool other_recipe = job.profile.captures_experts && experts && narrow && !captured && !recipe.captured;
  const bool whole = captured && experts && captures_experts(job);
  return {captured                        ? LaunchMode::Captured
          : usual == LaunchMode::Captured ? LaunchMode::Eager
                                          : usual,
          recipe.fused_experts.value_or(whole), recipe.expert_overlap.value_or(whole), other_recipe};
}

}  // namespace rehearsal::predict::frameworks
