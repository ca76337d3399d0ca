#pragma once
// What this process can compute on, by name.

#include <memory>
#include <string>
#include <string_view>

#include "exec/kernels/compute_backend.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::exec {

struct BackendRequest {
  /// "auto": the host's fast kernels; "onednn", "reference": those of the host; "cuda": an NVIDIA GPU.
  std::string name = "auto";
  int rank_on_machine = 0;  ///< which GPU: the one of this number, round and round
  bool tf32 = false;        ///< factors of products and convolutions in f32 are rounded to 10 bits of fraction, for tensor cores
  /// A GPU that is not here, for name "cuda": its kernels can be asked for, not run. Must outlive the backend.
  const platforms::Device* described = nullptr;
};
/// The name of a backend in whatever spelling. Throws BadInput for another one.
[[nodiscard]] std::string_view known_backend(const std::string& name);
/// Throws BadInput as known_backend() does, Refusal for tf32 where there are no units for it, or for a described device that the backend
/// knows nothing of, EnvironmentFailure when the device or its libraries are not there.
[[nodiscard]] std::unique_ptr<ComputeBackend> make_backend(const BackendRequest&);
/// "auto, onednn, reference or cuda"
[[nodiscard]] std::string backend_names();

}  // namespace rehearsal::exec
