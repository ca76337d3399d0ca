#include "exec/kernels/kernel.hpp"

#include "base/error.hpp"

namespace rehearsal::exec {

void check_fault(const Fault& fault) {
  if (fault.raised != 0)
    throw BadInput("index " + std::to_string(fault.index) + " lies outside a dimension of size " + std::to_string(fault.size));
}

}  // namespace rehearsal::exec
