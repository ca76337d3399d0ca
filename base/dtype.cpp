#include "base/dtype.hpp"

#include <array>

namespace rehearsal {
namespace {

constexpr std::array<DTypeRow, static_cast<std::size_t>(DType::Count)> kRows{{
    {DType::F32, "f32", "float32", 1, 4},
    {DType::F64, "f64", "float64", 11, 8},
    {DType::F16, "f16", "float16", 10, 2},
    {DType::BF16, "bf16", "bfloat16", 16, 2},
    {DType::I8, "i8", "int8", 3, 1},
    {DType::I16, "i16", "int16", 5, 2},
    {DType::I32, "i32", "int32", 6, 4},
    {DType::I64, "i64", "int64", 7, 8},
    {DType::U8, "u8", "uint8", 2, 1},
    {DType::U16, "u16", "uint16", 4, 2},
    {DType::U32, "u32", "uint32", 12, 4},
    {DType::U64, "u64", "uint64", 13, 8},
    {DType::Bool, "bool", "bool", 9, 1},
    {DType::String, "string", "str", 8, 0},
    {DType::F8E4M3, "f8e4m3", "float8_e4m3fn", 17, 1},
    {DType::F8E5M2, "f8e5m2", "float8_e5m2", 19, 1},
}};

}  // namespace

const DTypeRow& row(DType type) { return kRows[static_cast<std::size_t>(type)]; }

bool is_float(DType t) {
  return t == DType::F32 || t == DType::F64 || t == DType::F16 || t == DType::BF16 || t == DType::F8E4M3 || t == DType::F8E5M2;
}

std::optional<DType> dtype_from_name(std::string_view text) {
  for (const auto& r : kRows)
    if (r.name == text || r.numpy_name == text) return r.type;
  return std::nullopt;
}

std::optional<DType> dtype_from_onnx(int code) {
  for (const auto& r : kRows)
    if (r.onnx_code == code) return r.type;
  return std::nullopt;
}

}  // namespace rehearsal
