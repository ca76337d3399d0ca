#include "exec/backends.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/module.hpp"
#include "base/names.hpp"
#include "exec/host/cpu_backend.hpp"

namespace rehearsal::exec {
namespace {

using Factory = ComputeBackend* (*)(int rank_on_machine, bool tf32);

using DescribedFactory = ComputeBackend* (*)(const platforms::Device&, bool tf32);

constexpr ModuleNames cuda_module(std::string_view factory) {
  return {"librehearsal_cuda.so", "REHEARSAL_CUDA_MODULE", "the backend for NVIDIA GPUs",
          "It is built where CUDA's compiler is (scripts/build --cuda), and wants libcublasLt and libcudnn to run", factory};
}

[[noreturn]] void refuse_device(const BackendRequest& request) {
  throw Refusal("--device " + request.described->name + ": kernels of --backend " + request.name +
                " are of this machine; GPUs that are not here are asked about with --backend cuda");
}

std::unique_ptr<ComputeBackend> on_host(const BackendRequest& request) {
  if (request.described != nullptr) refuse_device(request);
  if (request.tf32) throw Refusal("--dtype tf32: no kernel of this backend computes in it; use f32, or --backend cuda");
  return std::make_unique<CpuBackend>(request.name);
}

/// Said before the module is looked for: whoever asks about a device of another vendor is not helped by having it.
void require_known_gpu(const platforms::Device& device) {
  if (device.compute_capability) return;
  throw Refusal("--device " + device.name +
                ": no NVIDIA GPU of a known compute capability, and kernels of other devices cannot be asked about; name a GPU from Volta "
                "(7.0) on, such as h100, or leave --device out for the kernels of this machine");
}

std::unique_ptr<ComputeBackend> on_gpu(const BackendRequest& request) {
  if (request.described != nullptr) {
    require_known_gpu(*request.described);
    const auto factory = reinterpret_cast<DescribedFactory>(open_module(cuda_module("rehearsal_make_described_backend")).factory);
    return std::unique_ptr<ComputeBackend>(factory(*request.described, request.tf32));
  }
  const auto factory = reinterpret_cast<Factory>(open_module(cuda_module("rehearsal_make_cuda_backend")).factory);
  return std::unique_ptr<ComputeBackend>(factory(request.rank_on_machine, request.tf32));
}

struct BackendsRow {
  std::string_view name;
  std::unique_ptr<ComputeBackend> (*make)(const BackendRequest&);
};
constexpr std::array kBackendsRows{BackendsRow{"auto", on_host}, BackendsRow{"onednn", on_host}, BackendsRow{"reference", on_host},
                                   BackendsRow{"cuda", on_gpu}};

}  // namespace

std::string_view known_backend(const std::string& name) {
  if (const auto found = find_name(name, names_of_rows(kBackendsRows, &BackendsRow::name))) return *found;
  throw BadInput("--backend", "\"" + name + "\" is not a backend of this program; use " + backend_names());
}

std::unique_ptr<ComputeBackend> make_backend(const BackendRequest& request) {
  auto known = request;
  known.name = known_backend(request.name);
  return std::ranges::find(kBackendsRows, known.name, &BackendsRow::name)->make(known);
}

std::string backend_names() {
  std::string names;
  for (std::size_t i = 0; i < kBackendsRows.size(); ++i)
    names += (i == 0 ? "" : i + 1 == kBackendsRows.size() ? " or " : ", ") + std::string(kBackendsRows[i].name);
  return names;
}

}  // namespace rehearsal::exec
