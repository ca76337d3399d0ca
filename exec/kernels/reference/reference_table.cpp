#include <vector>

#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec {

std::span<const KernelRow> reference_kernels() {
  static const std::vector<KernelRow> kRows = [] {
    std::vector<KernelRow> rows;
    for (const auto family : reference::kFamilies) {
      const auto more = family();
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  }();
  return kRows;
}

}  // namespace rehearsal::exec
