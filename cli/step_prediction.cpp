#include "cli/step_prediction.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/framework.hpp"
#include "exec/bench/bench_machine.hpp"
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

costmodel::Interval step_on(const ModelOptions& model, const std::string& machine, const plan::Plan& plan, int threads) {
  return JobSetup(model, place_of_ranks(machine, plan.ranks(), threads)).predictor().closed(plan).step_seconds;
}

PlatformOptions place_of_ranks(const std::string& machine, int ranks, int threads) {
  PlatformOptions place;
  place.machine = machine;
  place.platform = machine.empty() ? kOrdinary : machine;
  place.framework = costmodel::own_framework().name;
  // The cores of a node, shared out among its ranks, are the threads of each.
  const auto& node = platforms::load(place.platform).nodes.front();
  if (node.device.kind == platforms::DeviceKind::Cpu)
    place.settings.emplace_back("node.host_cores", std::to_string(threads * std::min(ranks, node.devices)));
  return place;
}

OriginOfMeasurements origin_of(const costmodel::MachineContext& context, const std::string& gpu) {
  costmodel::MachineContext here;
  here.items = {{std::string(costmodel::kCpuItem), exec::bench::processor_name()}, {std::string(costmodel::kGpuItem), gpu}};
  const auto own = costmodel::identity_of(here), measured = costmodel::identity_of(context);
  return {costmodel::likeness(measured, own), "was measured on " + measured.text() + ", and this is " + own.text()};
}

std::string of_another_machine(const std::string& machine, const std::string& gpu) {
  if (!costmodel::holds_calibration(machine)) return {};
  const auto origin = origin_of(costmodel::read_calibration(machine).context, gpu);
  if (origin.likeness == costmodel::Likeness::Foreign) throw Refusal(origin.sentence);
  if (origin.likeness != costmodel::Likeness::Akin) return {};
  return "--machine " + machine + ": " + origin.sentence + ": what it predicts is of that machine; `rehearse calibrate` measures this one";
}

}  // namespace rehearsal::cli
