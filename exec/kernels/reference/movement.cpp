#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec::reference {

std::span<const KernelRow> movement_kernels() { return {}; }

}  // namespace rehearsal::exec::reference
