#pragma once
// Measures this machine through the same kernels, messages and collectives that training uses.

#include <string>
#include <vector>

#include "base/progress.hpp"
#include "costmodel/calibration.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::exec {

/// How long, and how much. What does not fit into the time has fewer repetitions.
struct CalibrationBudget {
  double seconds = 150;
  bool thorough = true;  ///< more sizes of every family of kernels
};
[[nodiscard]] constexpr CalibrationBudget quick_calibration() { return {28, false}; }

/// What ranks on all cores measure together: kernels with one thread each while every core is busy, messages, memory.
struct CalibrationResult {
  platforms::Platform platform;
  costmodel::Calibration calibration;
};

/// As ranks of one node or several, one per core where all is to be measured; rank 0's result counts. Throws Refusal in a build without
/// optimisation, and when the nodes are of several kinds.
[[nodiscard]] CalibrationResult calibrate_together(Communicator& world, const CalibrationBudget& budget, Progress& progress);

/// Kernels of one process with a thread per core, added to `calibration`.
void calibrate_threads(costmodel::Calibration& calibration, const CalibrationBudget& budget, Progress& progress);

/// One GPU, with factors of products in f32 as they are, and rounded for tensor cores where it has those (nullptr else).
struct GpuArithmetics {
  const ComputeBackend& f32;
  const ComputeBackend* tf32 = nullptr;
};
/// Kernels of one GPU. The platform is the machine of the catalogue that has it, with one device; links and power are its datasheet's.
/// Throws Refusal when the catalogue does not have this GPU, BadInput when none of its machines does.
[[nodiscard]] CalibrationResult calibrate_gpu(const GpuArithmetics& gpu, const CalibrationBudget& budget, Progress& progress);

/// Throws Refusal in a build without optimisation, whose kernels would be measured wrongly.
void refuse_debug_build();

/// Reads and decodes what is in `folder`, which then is where a node's samples come from: its own disks, or, where the platform has several
/// nodes, a file system that they share. Throws BadInput naming --storage.
void calibrate_storage(platforms::Platform& platform, const std::string& folder, double seconds, Progress& progress);

/// Starts `program arguments...` with mpirun as so many ranks (0: one per core), its results to stderr, and waits for it.
/// Throws EnvironmentFailure when it cannot be started, fails, or takes longer than `limit_seconds`.
void run_on_all_cores(const std::string& program, const std::vector<std::string>& arguments, double limit_seconds, int ranks = 0);

/// {"schema", "platform", "calibration"}: a platform file that holds its measurements.
[[nodiscard]] std::string machine_json_text(const CalibrationResult& result);

}  // namespace rehearsal::exec
