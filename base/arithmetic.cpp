#include "base/arithmetic.hpp"

#include <algorithm>
#include <array>

namespace rehearsal {
namespace {

constexpr std::array kArithmetics{
    ArithmeticRow{"f32", "f32", DType::F32, false},         ArithmeticRow{"f64", "f64", DType::F64, false},
    ArithmeticRow{"tf32", "tf32", DType::F32, false},       ArithmeticRow{"f16", "f16", DType::F16, false},
    ArithmeticRow{"bf16", "bf16", DType::BF16, false},      ArithmeticRow{"fp8", "fp8", DType::BF16, true},
    ArithmeticRow{"fp8-rowwise", "fp8", DType::BF16, true}, ArithmeticRow{"fp8-block", "fp8", DType::BF16, true},
    ArithmeticRow{"mxfp8", "fp8", DType::BF16, true},       ArithmeticRow{"nvfp4", "fp4", DType::BF16, true},
};

}  // namespace

std::span<const ArithmeticRow> arithmetic_rows() { return kArithmetics; }

const ArithmeticRow* find_arithmetic(std::string_view name) {
  const auto* found = std::ranges::find(kArithmetics, name, &ArithmeticRow::name);
  return found == kArithmetics.end() ? nullptr : found;
}

}  // namespace rehearsal
