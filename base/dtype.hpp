#pragma once
// Element types. One table row each: our name, numpy's name, ONNX's TensorProto code, size.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rehearsal {

enum class DType : std::uint8_t { F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, String, F8E4M3, F8E5M2, Count };

struct DTypeRow {
  DType type;
  std::string_view name;        ///< as on our command line: "f32"
  std::string_view numpy_name;  ///< "float32"
  int onnx_code;                ///< TensorProto.DataType
  std::size_t bytes;            ///< 0 for strings
};

[[nodiscard]] const DTypeRow& row(DType);
[[nodiscard]] inline std::string_view name(DType t) { return row(t).name; }
[[nodiscard]] inline std::size_t size_of(DType t) { return row(t).bytes; }
[[nodiscard]] bool is_float(DType);
[[nodiscard]] inline bool is_integer(DType t) { return !is_float(t) && t != DType::String; }  ///< bool included
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view);                         ///< our name or numpy's
[[nodiscard]] std::optional<DType> dtype_from_onnx(int code);

}  // namespace rehearsal
