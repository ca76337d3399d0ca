#include "cli/chosen_kernels.hpp"

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "costmodel/calibration.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/timed_kernels.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::cli {
namespace {

constexpr double kSecondsBeforeTraining = 2;

}  // namespace

std::string place_of_choices(const std::string& machine) { return machine + ": calibration.choices"; }

costmodel::KernelChoices choices_for_here(const std::string& machine, std::vector<std::string>& warnings) {
  if (machine.empty() || !costmodel::holds_calibration(machine)) return {};
  auto choices = costmodel::read_calibration(machine).choices;
  const auto here = exec::bench::kernel_home();
  if (choices.empty() || choices.home == here) return choices;
  warnings.push_back("--machine " + machine + ": its kernels were chosen on " + choices.home.text() + ", and this is " + here.text() +
                     ": here they are chosen by the rules; `rehearse calibrate` measures them");
  return {};
}

void require_own_file(const std::string& machine) {
  const auto cpu = costmodel::read_calibration(machine).context.item(costmodel::kCpuItem), here = exec::bench::processor_name();
  if (cpu.empty() || cpu == here) return;
  throw BadInput(machine, "was measured on " + cpu + ", and this is " + here +
                              ": times of kernels here are kept in a file that `rehearse calibrate` writes here");
}

void keep_choices(const std::string& machine, const costmodel::KernelChoices& choices) {
  auto calibration = costmodel::read_calibration(machine);
  calibration.choices.take(choices);
  auto file = nlohmann::ordered_json::parse(platforms::read_json_file(machine).dump());
  file["calibration"] = nlohmann::ordered_json::parse(costmodel::to_json_text(calibration));
  write_file_atomically(machine, file.dump(1) + '\n');
}

std::string text_of_choices(const costmodel::KernelChoices& choices) {
  costmodel::Calibration only;
  only.choices = choices;
  return costmodel::to_json_text(only);
}

costmodel::KernelChoices choices_of_text(const std::string& text, const std::string& where) {
  return costmodel::calibration_from_json_text(text, where).choices;
}

void choose_kernels(const ChoosingKernels& how, const TrainingToChooseFor& job, exec::ComputeBackend& backend,
                    std::vector<std::string>& warnings) {
  const bool first = job.world.rank() == 0, kept = !how.machine.empty();
  if (kept) {
    if (first && how.measure) require_own_file(how.machine);
    const auto text = first ? text_of_choices(choices_for_here(how.machine, warnings)) : "";
    backend.choose(choices_of_text(job.world.broadcast(text), how.machine), place_of_choices(how.machine));
  }
  if (!how.measure) return;
  const auto nodes = exec::nodes_with_choice(job.graph, job.plan, backend, how.threads);
  Progress silent;
  const auto choices = exec::timed_choices(backend, nodes, {how.threads, kSecondsBeforeTraining, &job.world}, silent);
  backend.choose(choices, "--measure-kernels");
  if (kept && first) keep_choices(how.machine, choices);
  if (!kept && !choices.empty())
    warnings.push_back(
        "--measure-kernels: kernels are those that were quickest just now, and may be others in the next run; with --machine FILE they are "
        "kept there");
}

}  // namespace rehearsal::cli
