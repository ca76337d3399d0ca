#include "predict/predictor.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "predict/free_keys.hpp"

namespace rehearsal::predict {

PlayableStep Predictor::priced(plan::Program) {
  throw Refusal("a stored Program is Rehearsal's own execution; --framework " + framework().name +
                " runs its own kernels: give the model and a plan");
}

plan::Plan widest_replicas(Predictor& predictor) {
  plan::Plan plan;
  const auto devices = platforms::device_count(predictor.platform());
  plan.dp = static_cast<int>(std::min<std::int64_t>(devices, predictor.batch()));
  if (!predictor.violations(plan).empty())  // a framework gives every replica as many samples
    plan.dp = divisors(predictor.batch(), devices).back();
  return plan;
}

plan::Plan default_plan(Predictor& predictor) {
  auto plan = widest_replicas(predictor);
  auto assessment = predictor.closed(plan);
  std::int64_t micro_batch = (predictor.batch() + plan.dp - 1) / plan.dp;
  while (!assessment.fits() && micro_batch > 1) {
    micro_batch /= 2;
    while (micro_batch > 1 && predictor.batch() / plan.dp % micro_batch != 0) --micro_batch;
    plan.micro_batch = micro_batch;
    try {
      assessment = predictor.closed(plan);
    } catch (const Refusal& refusal) {
      throw Refusal("data parallelism over " + std::to_string(plan.dp) + " devices " + shortage(assessment) +
                    ", and smaller micro-batches cannot be used: " + refusal.what());
    }
  }
  if (!assessment.fits())
    throw Refusal("data parallelism over " + std::to_string(plan.dp) + " devices " + shortage(assessment) +
                  ", even with micro-batches of one sample; try `rehearse search`");
  return plan;
}

}  // namespace rehearsal::predict
