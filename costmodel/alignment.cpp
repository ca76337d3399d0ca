#include "costmodel/alignment.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "base/parse_number.hpp"

namespace rehearsal::costmodel {

int row_alignment(std::string_view signature, DType dtype) {
  const auto type = std::string(name(dtype)) + "[";
  std::int64_t common = 16;
  // Attributes come before the first bar; then operands and results, as in "bf16[8,1024,768]".
  for (auto at = signature.find(type, std::min(signature.find('|'), signature.size())); at != std::string_view::npos;
       at = signature.find(type, at + 1)) {
    const auto sizes = signature.substr(at + type.size(), signature.find(']', at) - at - type.size());
    const auto comma = sizes.rfind(',');
    if (comma == std::string_view::npos) continue;  // one row
    if (const auto columns = parse_number<std::int64_t>(sizes.substr(comma + 1)))
      common = std::gcd(common, *columns * static_cast<std::int64_t>(size_of(dtype)));
  }
  return static_cast<int>(common);
}

double share_by_alignment(const KernelCase& k) {
  struct Row {
    int bytes;
    double share;
  };
  constexpr Row kRows[] = {{2, 0.22}, {4, 0.38}, {8, 0.62}};
  if (k.op != "MatMul" && k.op != "Gemm") return 1;
  if (size_of(k.dtype) != 2) return 1;
  const auto* row = std::ranges::find(kRows, row_alignment(k.signature, k.dtype), &Row::bytes);
  return row == std::end(kRows) ? 1 : row->share;
}

}  // namespace rehearsal::costmodel
