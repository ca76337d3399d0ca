#pragma once
// Which kernels run nodes that several can, by what they take here.

#include <span>
#include <vector>

#include "base/progress.hpp"
#include "costmodel/kernel_choices.hpp"
#include "exec/bench/cases.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "graph/training.hpp"
#include "plan/plan.hpp"

namespace rehearsal::exec {

/// Nodes of the ranks' Programs that several kernels of this backend can run and that it knows no times of: each once. Throws as
/// plan::lower().
[[nodiscard]] std::vector<bench::Case> nodes_with_choice(const graph::TrainingGraph&, const plan::Plan&, const ComputeBackend&,
                                                         int threads);
/// Those of a calibration's sweep.
[[nodiscard]] std::vector<bench::Case> nodes_with_choice(std::span<const bench::Case> sweep, const ComputeBackend&, int threads);

struct KernelTiming {
  int threads = 1;                ///< of a rank
  double seconds = 10;            ///< in all; longer where that is not enough for three runs of each kernel
  Communicator* world = nullptr;  ///< ranks that run the kernels at the same time and choose alike; nullptr: this process is alone
};
/// Goes through all nodes again and again until the time is over. Nodes that do not fit into memory are left out, and those that were not
/// finished when the user stopped it. Throws Refusal where ranks have different kernels.
[[nodiscard]] costmodel::KernelChoices timed_choices(const ComputeBackend&, std::span<const bench::Case>, const KernelTiming&, Progress&);

}  // namespace rehearsal::exec
