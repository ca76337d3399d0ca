#include "exec/kernels/reference/rotation.hpp"

#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::string_view kRotationAny = "reference:any";
constexpr KernelRow kRotationRows[] = {
    {"Roll", kRotationAny, make_by_size<Roll>},
    {"RotaryEmbedding", kRotationAny, make_by_output<Rotary<false>, Floats>},
    {"RotaryEmbeddingGrad", kRotationAny, make_by_output<Rotary<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> rotation_kernels() { return kRotationRows; }

}  // namespace rehearsal::exec::reference
