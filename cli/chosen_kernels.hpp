#pragma once
// Which kernels run nodes that several can, as their times in a machine's file say.

#include <string>
#include <vector>

#include "cli/terminal.hpp"
#include "costmodel/kernel_choices.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "graph/training.hpp"
#include "plan/plan.hpp"

namespace rehearsal::cli {

/// Where in a machine's file they stand, for what is wrong with them.
[[nodiscard]] std::string place_of_choices(const std::string& machine);
/// Those of a file, where this machine and this build may go by them: none, and a warning, where they were made on another processor, by
/// other instructions or libraries.
[[nodiscard]] costmodel::KernelChoices choices_for_here(const std::string& machine, std::vector<std::string>& warnings);
/// Throws BadInput for a file that has no measurements, or those of another processor: times of kernels here do not go with them.
void require_own_file(const std::string& machine);
/// Takes them into such a file, and leaves the rest of it as it is.
void keep_choices(const std::string& machine, const costmodel::KernelChoices&);

[[nodiscard]] std::string text_of_choices(const costmodel::KernelChoices&);
[[nodiscard]] costmodel::KernelChoices choices_of_text(const std::string& text, const std::string& where);

/// How a training's kernels are chosen.
struct ChoosingKernels {
  std::string machine;   ///< the file, or nothing
  bool measure = false;  ///< nodes that it knows no times of
  int threads = 1;       ///< of a rank
};
/// Of what, and for whom.
struct TrainingToChooseFor {
  const graph::TrainingGraph& graph;
  const plan::Plan& plan;
  exec::Communicator& world;
};
/// By rank 0's file, the same on all ranks; what is measured is kept in it. Throws BadInput for what is wrong with the file.
void choose_kernels(const ChoosingKernels&, const TrainingToChooseFor&, exec::ComputeBackend&, std::vector<std::string>& warnings);

}  // namespace rehearsal::cli
