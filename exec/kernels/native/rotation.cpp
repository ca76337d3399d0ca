// Cyclic shifts and rotary embedding in f32.

#include "exec/kernels/reference/rotation.hpp"

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

template <KernelBody kBody>
std::unique_ptr<Kernel> make_body(const KernelRequest& request, std::string& reason) {
  return takes_f32(request, reason) ? make_kernel(request, kBody) : nullptr;
}

constexpr std::string_view kRotationName = "native:rotation";
constexpr KernelRow kRotationRows[] = {
    {"Roll", "native:copy", make_body<reference::Roll::run<float>>},
    {"RotaryEmbedding", kRotationName, make_body<reference::Rotary<false>::run<float>>},
    {"RotaryEmbeddingGrad", kRotationName, make_body<reference::Rotary<true>::run<float>>},
};

}  // namespace

std::span<const KernelRow> rotation_kernels() { return kRotationRows; }

}  // namespace rehearsal::exec::native
