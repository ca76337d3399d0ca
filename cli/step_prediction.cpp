#include "cli/step_prediction.hpp"

#include "base/error.hpp"
#include "cli/platform_options.hpp"
#include "platforms/catalog.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::cli {
namespace {

constexpr const char *kOrdinary = "xeon-2s-10gbe", *kPeak = "f32";

}  // namespace

double ordinary_step_seconds(const plan::Program& program, const graph::TrainingGraph& training, int threads) try {
  const auto platform = platforms::with_devices(platforms::load(kOrdinary), program.ranks);
  const costmodel::CostModel model(platforms::device_of(platform, 0), {}, kPeak);
  const auto costs = predict::cost_of(program, training, model, threads);
  return predict::closed_form_evaluator()->evaluate({program, costs, platform, model}).step.value();
} catch (const Error&) {
  return 0;  // more ranks than such servers have: a step that was measured will say
}

costmodel::Interval step_on(const ModelOptions& model, const std::string& machine, const plan::Plan& plan) {
  PlatformOptions options;
  options.platform = options.machine = machine;
  options.framework = "rehearse";
  return JobSetup(model, options).predictor().closed(plan).step_seconds;
}

}  // namespace rehearsal::cli
