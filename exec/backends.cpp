#include "exec/backends.hpp"

#include <array>

#include "base/error.hpp"
#include "base/module.hpp"
#include "exec/kernels/cpu_backend.hpp"

namespace rehearsal::exec {
namespace {

using Factory = ComputeBackend* (*)(int rank_on_machine, bool tf32);

constexpr std::string_view kTf32 = "cuda-tf32";

constexpr ModuleNames kCuda{"librehearsal_cuda.so", "REHEARSAL_CUDA_MODULE", "the backend for NVIDIA GPUs",
                            "It is built where CUDA's compiler is (scripts/build --cuda), and wants libcublasLt and libcudnn to run",
                            "rehearsal_make_cuda_backend"};

std::unique_ptr<ComputeBackend> on_host(const std::string& name, int) { return std::make_unique<CpuBackend>(name); }

std::unique_ptr<ComputeBackend> on_gpu(const std::string& name, int rank_on_machine) {
  return std::unique_ptr<ComputeBackend>(reinterpret_cast<Factory>(open_module(kCuda).factory)(rank_on_machine, name == kTf32));
}

struct Row {
  std::string_view name;
  std::unique_ptr<ComputeBackend> (*make)(const std::string& name, int rank_on_machine);
};
constexpr std::array kRows{Row{"auto", on_host}, Row{"onednn", on_host}, Row{"reference", on_host}, Row{"cuda", on_gpu},
                           Row{kTf32, on_gpu}};

}  // namespace

std::unique_ptr<ComputeBackend> make_backend(const std::string& name, int rank_on_machine) {
  for (const auto& row : kRows)
    if (row.name == name) return row.make(name, rank_on_machine);
  throw BadInput("--backend", "\"" + name + "\" is not a backend of this program; use " + backend_names());
}

std::string backend_names() {
  std::string names;
  for (std::size_t i = 0; i < kRows.size(); ++i)
    names += (i == 0 ? "" : i + 1 == kRows.size() ? " or " : ", ") + std::string(kRows[i].name);
  return names;
}

}  // namespace rehearsal::exec
