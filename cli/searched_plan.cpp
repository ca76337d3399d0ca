#include "cli/searched_plan.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "cli/best_plan.hpp"
#include "cli/platform_options.hpp"
#include "cli/step_prediction.hpp"
#include "plan/plan.hpp"
#include "platforms/catalog.hpp"

namespace rehearsal::cli {
namespace {

constexpr double kSecondsToSearch = 20;

/// Ordinary servers have no units for 16 bits: what is quick there in f32 stands for it.
ModelOptions searched_as(const RunOptions& o) {
  auto model = o.model;
  if (o.machine.empty() && size_of(element_type(model)) == 2) model.dtype = "f32", model.loss_scale.clear();
  return model;
}

/// The machine's file, if there is one, is of what computes here, and has a device for each rank.
void require_machine_for(const RunOptions& o, const exec::ComputeDevice& device, int ranks, const Terminal& terminal) {
  if (o.machine.empty()) return;
  const auto text = of_another_machine(o.machine, device.is_host() ? "" : device.name());
  if (!text.empty()) terminal.warn(text);
  const int devices = platforms::device_count(platforms::load(o.machine));
  if (ranks > devices)
    throw Refusal("--plan auto: " + std::to_string(ranks) + " ranks were started, and " + o.machine + " has " + std::to_string(devices) +
                  " devices: calibrate with as many ranks (mpirun -n " + std::to_string(ranks) + " rehearse calibrate), or give a plan");
}

plan::Plan found(const JobSetup& setup, int ranks, const Terminal& terminal) {
  const auto progress = terminal.progress("searching for a plan");
  try {
    return best_plan(setup, kSecondsToSearch, ranks, *progress);
  } catch (const Refusal&) {
    if (!progress->stop_requested()) throw;
    throw Error(ExitStatus::Interrupted, "interrupted while a plan was searched: nothing was trained");
  }
}

std::string found_by_first(const RunOptions& o, const exec::ComputeDevice& device, const exec::Communicator& world,
                           const Terminal& terminal) {
  const double begin = exec::now_seconds();
  require_machine_for(o, device, world.size(), terminal);
  auto place = place_of_ranks(o.machine, world.size(), exec::threads_per_rank(world));
  place.devices = world.size();
  const JobSetup setup(searched_as(o), place);
  for (const auto& warning : setup.warnings()) terminal.warn(warning);
  const auto plan = found(setup, world.size(), terminal);
  const auto milliseconds = std::to_string(std::llround(1e3 * (exec::now_seconds() - begin)));
  terminal.say(
      "plan " + plan::to_text(plan) + ": the quickest that was found for " + std::to_string(world.size()) +
      (world.size() == 1 ? " rank in " : " ranks in ") + milliseconds + " ms" +
      (o.machine.empty() ? ", on cores of an ordinary server; --machine FILE searches on this machine (rehearse calibrate -o FILE)" : ""));
  return plan::to_text(setup.to_write(plan));
}

}  // namespace

plan::Plan searched_plan(const RunOptions& o, const exec::ComputeDevice& device, exec::Communicator& world, const Terminal& terminal) {
  if (o.machine.empty() && !device.is_host())
    throw Refusal("--plan auto searches on the machine that --machine names, and this training runs on " + device.name() +
                  ": measure it with `rehearse calibrate -o FILE`, and give --machine FILE, or give a plan");
  return plan::parse_plan(world.broadcast(world.rank() == 0 ? found_by_first(o, device, world, terminal) : ""));
}

}  // namespace rehearsal::cli
