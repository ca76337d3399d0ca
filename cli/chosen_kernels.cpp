#include "cli/chosen_kernels.hpp"

#include <cmath>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/step_prediction.hpp"
#include "costmodel/calibration.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/calibrate.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/timed_kernels.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::cli {
namespace {

constexpr double kSecondsBeforeTraining = 2;

/// "chosen on A, and this is B"; empty: here, or there are none.
std::string chosen_elsewhere(const costmodel::KernelChoices& choices) {
  const auto here = exec::bench::kernel_home();
  if (choices.empty() || choices.home == here) return {};
  return "chosen on " + choices.home.text() + ", and this is " + here.text();
}

const std::string& implementation_of(const plan::Role& role, const plan::Instruction& i) {
  return role.kernels[static_cast<std::size_t>(i.kernel)].implementation;
}

}  // namespace

void require_several_kernels(const std::string& option, std::string_view backend) {
  if (backend == "auto" || backend == "onednn") return;
  const auto name = std::string(backend) + (backend == "reference" ? ", which computes f64, too," : "");
  throw BadInput(option, "chooses where several kernels can run a node, and the backend " + name +
                             " has one for each; without this option it runs as it is");
}

std::string place_of_choices(const std::string& machine) { return machine + ": calibration.choices"; }

costmodel::KernelChoices choices_for_here(costmodel::KernelChoices choices, const std::string& machine,
                                          std::vector<std::string>& warnings) {
  const auto elsewhere = chosen_elsewhere(choices);
  if (elsewhere.empty()) return choices;
  warnings.push_back("--machine " + machine + ": its kernels were " + elsewhere +
                     ": here they are chosen by the rules; `rehearse calibrate` measures them");
  return {};
}

costmodel::KernelChoices choices_to_keep(costmodel::KernelChoices choices, const std::string& machine, std::vector<std::string>& warnings) {
  auto lost = chosen_elsewhere(choices);
  try {
    if (lost.empty()) exec::CpuBackend("auto").choose(choices, place_of_choices(machine));
  } catch (const BadInput&) {
    lost = "chosen by a version of Rehearsal that has other kernels";
  }
  if (lost.empty()) return choices;
  warnings.push_back(machine + " holds choices of kernels for " + std::to_string(choices.nodes.size()) + " nodes, " + lost +
                     ": they are lost when it is written anew");
  return {};
}

void require_own_file(const std::string& machine) {
  exec::refuse_debug_build();
  const auto measured = costmodel::read_calibration(machine);
  const auto remedy = ": times of kernels here are kept in a file that `rehearse calibrate` writes here";
  const auto origin = origin_of(measured.context, "");
  if (origin.likeness == costmodel::Likeness::Akin || origin.likeness == costmodel::Likeness::Foreign)
    throw BadInput(machine, origin.sentence + remedy);
  const auto elsewhere = chosen_elsewhere(measured.choices);
  if (!elsewhere.empty()) throw BadInput(machine, "its kernels were " + elsewhere + remedy);
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

void choose_kernels(const std::string& machine, exec::Communicator& world, exec::ComputeBackend& backend,
                    std::vector<std::string>& warnings) {
  if (machine.empty() || backend.name() != "onednn") return;  // others have nothing to choose from
  std::string text;
  if (world.rank() == 0) {
    auto known = costmodel::holds_calibration(machine) ? costmodel::read_calibration(machine).choices : costmodel::KernelChoices{};
    text = text_of_choices(choices_for_here(std::move(known), machine, warnings));
  }
  backend.choose(choices_of_text(world.broadcast(text), machine), place_of_choices(machine));
}

std::optional<costmodel::KernelChoices> measure_kernels(const KernelsToMeasure& job, exec::ComputeBackend& backend, Progress& progress,
                                                        std::vector<std::string>& warnings) {
  const bool first = job.world.rank() == 0, kept = !job.machine.empty();
  if (first && kept) require_own_file(job.machine);
  const int threads = exec::threads_per_rank(job.world);
  const auto nodes = exec::nodes_with_choice(job.training, job.plan, backend, threads);
  auto choices = exec::timed_choices(backend, nodes, {threads, kSecondsBeforeTraining, &job.world}, progress);
  if (job.world.max(progress.stop_requested() ? 1 : 0) > 0) return std::nullopt;
  backend.choose(choices, "--measure-kernels");
  if (kept && first && !choices.empty()) keep_choices(job.machine, choices);
  if (!kept && !choices.empty())
    warnings.push_back(
        "--measure-kernels: kernels are those that were quickest just now, and may be others in the next run; with --machine FILE they are "
        "kept there");
  if (const auto left_out = nodes.size() - choices.nodes.size(); left_out > 0)
    warnings.push_back("--measure-kernels: " + std::to_string(left_out) +
                       " nodes that several kernels can run do not fit into a quarter of the memory, in which they are timed: they go by "
                       "the rules");
  return choices;
}

std::string widened_text(const plan::Program& program, const graph::Graph& g) {
  constexpr double kWorthSaying = 0.1;
  std::map<graph::NodeId, bool> kernels;  // whether any rank widens
  for (const auto& role : program.roles)
    for (const auto& body : role.bodies)
      for (const auto& i : body.instructions)
        if (i.kernel >= 0 && i.node != graph::NodeId::None)
          kernels[i.node] = kernels[i.node] || implementation_of(role, i).starts_with(exec::kWidened);
  double all = 0, widened = 0;
  for (const auto& [node, is_widened] : kernels) {
    const double flops = graph::flops_of(g, g[node]);
    all += flops;
    if (is_widened) widened += flops;
  }
  if (widened < kWorthSaying * all || widened == 0) return {};
  return std::string(name(program.dtype)) + ": " + std::to_string(std::lround(100 * widened / all)) +
         " % of the FLOPs are computed in f32, on widened copies, for which this processor or the kernels have no units of 16 bits: no "
         "quicker than f32 (`rehearse inspect MODEL --kernels` gives the reasons)";
}

}  // namespace rehearsal::cli
