#include "exec/kernels/reference/rotation.hpp"

#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::string_view kAny = "reference:any";
constexpr KernelRow kRows[] = {
    {"Roll", kAny, make_by_size<Roll>},
    {"RotaryEmbedding", kAny, make_by_output<Rotary<false>, Floats>},
    {"RotaryEmbeddingGrad", kAny, make_by_output<Rotary<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> rotation_kernels() { return kRows; }

}  // namespace rehearsal::exec::reference
