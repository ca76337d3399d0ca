#pragma once
// What predictions ask of the machine that they are made on: the kernels of its processor, and files with samples. on_this_machine.cpp
// answers with the room exec; predicts_only.cpp stands for it in builds without (REHEARSAL_EXECUTION=OFF).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/data_options.hpp"
#include "cli/model_options.hpp"
#include "plan/backend.hpp"
#include "platforms/platform.hpp"
#include "predict/input/input.hpp"

namespace rehearsal::cli {

/// What lowering asks about devices that are CPUs.
struct CpuKernels {
  std::unique_ptr<plan::Backend> backend;
  std::string doubt;  ///< what a prediction with it does not know; empty: nothing
};
/// `machine`: the file of measurements that predictions rest on, or empty. Throws EnvironmentFailure where it cannot be applied.
[[nodiscard]] CpuKernels cpu_kernels(const std::string& machine);

/// Whose kernels `inspect --kernels` shows: of this machine, or of a GPU of the catalogue. Throws as exec::make_backend().
struct KernelsWanted {
  std::string backend;
  bool tf32 = false;
  const platforms::Device* device = nullptr;  ///< must outlive them
  std::string machine = {};                   ///< the file that says which of several is quickest here
};
/// Adds a warning where the file says nothing of this machine.
[[nodiscard]] std::unique_ptr<plan::Backend> kernels_of(const KernelsWanted&, std::vector<std::string>& warnings);
/// Of a rank that is alone on this machine.
[[nodiscard]] int threads_here();
/// For the help of --backend.
[[nodiscard]] std::string kernels_here_names();

/// Bytes of files, and seconds of one core, of samples in the order of a training. Throws BadInput naming the option that is wrong.
[[nodiscard]] predict::DatasetFacts facts_of(const DataFlags&, const ModelOptions&);
/// What --data-threads says; nothing where it was not given. Throws BadInput for it, and for options of reading that are wrong.
[[nodiscard]] std::optional<int> reading_threads(const DataFlags&);

}  // namespace rehearsal::cli
