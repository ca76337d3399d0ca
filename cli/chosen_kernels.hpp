#pragma once
// Which kernels run nodes that several can, as their times in a machine's file say.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"
#include "costmodel/kernel_choices.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "graph/training.hpp"
#include "plan/plan.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::cli {

/// Throws BadInput with `option`, which asks for a choice, where this backend has none: the reference and GPUs have one kernel for a node.
void require_several_kernels(const std::string& option, std::string_view backend);
/// Where in a machine's file choices stand, for what is wrong with them.
[[nodiscard]] std::string place_of_choices(const std::string& machine);
/// The same choices, which are of that file, where this machine and this build may go by them: none, and a warning, where they were made on
/// another processor, by other instructions or libraries.
[[nodiscard]] costmodel::KernelChoices choices_for_here(costmodel::KernelChoices choices, const std::string& machine,
                                                        std::vector<std::string>& warnings);
/// What of them stays where the file is written anew, with a warning of what does not.
[[nodiscard]] costmodel::KernelChoices choices_to_keep(costmodel::KernelChoices choices, const std::string& machine,
                                                       std::vector<std::string>& warnings);
/// Throws BadInput for a file that has no measurements, or those of another device, or choices that were made on another processor, by
/// other instructions or libraries: times of kernels here do not go with them. Throws Refusal in a build without optimisation.
void require_own_file(const std::string& machine);
/// Takes them into such a file, and leaves the rest of it as it is.
void keep_choices(const std::string& machine, const costmodel::KernelChoices&);

[[nodiscard]] std::string text_of_choices(const costmodel::KernelChoices&);
[[nodiscard]] costmodel::KernelChoices choices_of_text(const std::string& text, const std::string& where);

/// By rank 0's file, the same on all ranks; by none where `machine` is empty. Throws BadInput for what is wrong with the file.
void choose_kernels(const std::string& machine, exec::Communicator&, exec::ComputeBackend&, std::vector<std::string>& warnings);

/// Whose kernels are timed, by whom, and where the times are kept.
struct KernelsToMeasure {
  const graph::TrainingGraph& training;
  const plan::Plan& plan;
  exec::Communicator& world;
  std::string machine;  ///< the file, or nothing
};
/// Times nodes that the backend knows no times of, which then takes the quickest. Returns these; nothing, and none of it is kept, where the
/// user stopped it. Throws as require_own_file().
[[nodiscard]] std::optional<costmodel::KernelChoices> measure_kernels(const KernelsToMeasure&, exec::ComputeBackend&, Progress&,
                                                                      std::vector<std::string>& warnings);

/// "f16: 97 % of the FLOPs are computed in f32, ...": where much of what is asked for in 16 bits runs on widened copies; empty: it does
/// not.
[[nodiscard]] std::string widened_text(const plan::Program&, const graph::Graph&);

}  // namespace rehearsal::cli
