#include "exec/backends.hpp"

#include <array>

#include "base/error.hpp"
#include "base/module.hpp"
#include "exec/host/cpu_backend.hpp"

namespace rehearsal::exec {
namespace {

using Factory = ComputeBackend* (*)(int rank_on_machine, bool tf32);

constexpr ModuleNames kCuda{"librehearsal_cuda.so", "REHEARSAL_CUDA_MODULE", "the backend for NVIDIA GPUs",
                            "It is built where CUDA's compiler is (scripts/build --cuda), and wants libcublasLt and libcudnn to run",
                            "rehearsal_make_cuda_backend"};

std::unique_ptr<ComputeBackend> on_host(const BackendRequest& request) {
  if (request.tf32) throw Refusal("--dtype tf32: no kernel of this backend computes in it; use f32, or --backend cuda");
  return std::make_unique<CpuBackend>(request.name);
}

std::unique_ptr<ComputeBackend> on_gpu(const BackendRequest& request) {
  const auto factory = reinterpret_cast<Factory>(open_module(kCuda).factory);
  return std::unique_ptr<ComputeBackend>(factory(request.rank_on_machine, request.tf32));
}

struct BackendsRow {
  std::string_view name;
  std::unique_ptr<ComputeBackend> (*make)(const BackendRequest&);
};
constexpr std::array kBackendsRows{BackendsRow{"auto", on_host}, BackendsRow{"onednn", on_host}, BackendsRow{"reference", on_host},
                                   BackendsRow{"cuda", on_gpu}};

}  // namespace

std::unique_ptr<ComputeBackend> make_backend(const BackendRequest& request) {
  for (const auto& row : kBackendsRows)
    if (row.name == request.name) return row.make(request);
  throw BadInput("--backend", "\"" + request.name + "\" is not a backend of this program; use " + backend_names());
}

std::string backend_names() {
  std::string names;
  for (std::size_t i = 0; i < kBackendsRows.size(); ++i)
    names += (i == 0 ? "" : i + 1 == kBackendsRows.size() ? " or " : ", ") + std::string(kBackendsRows[i].name);
  return names;
}

}  // namespace rehearsal::exec
