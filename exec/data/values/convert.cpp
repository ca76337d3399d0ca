#include "exec/data/values/convert.hpp"

#include <vector>

#include "exec/kernels/narrow.hpp"

namespace rehearsal::exec {
namespace {

template <class To, class From>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
}

/// By way of f32, a block at a time.
template <DType kTo, class From>
void convert_narrow(const std::byte* from, std::byte* to, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  convert<float, From>(from, reinterpret_cast<std::byte*>(wide.data()), count);
  narrow(wide.data(), kTo, to, count);
}

template <class To>
void convert_half(const std::byte* from, std::byte* to, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  widen(from, DType::F16, wide.data(), count);
  convert<To, float>(reinterpret_cast<const std::byte*>(wide.data()), to, count);
}

template <DType kTo>
void convert_half_to_narrow(const std::byte* from, std::byte* to, std::int64_t count) {
  std::vector<float> wide(static_cast<std::size_t>(count));
  widen(from, DType::F16, wide.data(), count);
  narrow(wide.data(), kTo, to, count);
}

template <class To>
Converter converter_to(DType from) {
  switch (from) {
    case DType::F32:
      return convert<To, float>;
    case DType::F64:
      return convert<To, double>;
    case DType::F16:
      return convert_half<To>;
    case DType::I64:
      return convert<To, std::int64_t>;
    case DType::I32:
      return convert<To, std::int32_t>;
    case DType::I16:
      return convert<To, std::int16_t>;
    case DType::I8:
      return convert<To, std::int8_t>;
    case DType::U16:
      return convert<To, std::uint16_t>;
    case DType::U32:
      return convert<To, std::uint32_t>;
    case DType::U8:
    case DType::Bool:
      return convert<To, std::uint8_t>;
    default:
      return nullptr;
  }
}

template <DType kTo>
Converter converter_to_narrow(DType from) {
  switch (from) {
    case DType::F32:
      return convert_narrow<kTo, float>;
    case DType::F64:
      return convert_narrow<kTo, double>;
    case DType::I64:
      return convert_narrow<kTo, std::int64_t>;
    case DType::I32:
      return convert_narrow<kTo, std::int32_t>;
    case DType::I16:
      return convert_narrow<kTo, std::int16_t>;
    case DType::U16:
      return convert_narrow<kTo, std::uint16_t>;
    case DType::F16:
      return convert_half_to_narrow<kTo>;
    case DType::U8:
    case DType::Bool:
      return convert_narrow<kTo, std::uint8_t>;
    default:
      return nullptr;
  }
}

}  // namespace

Converter converter(DType from, DType to) {
  switch (to) {
    case DType::BF16:
      return converter_to_narrow<DType::BF16>(from);
    case DType::F16:
      return converter_to_narrow<DType::F16>(from);
    case DType::F32:
      return converter_to<float>(from);
    case DType::F64:
      return converter_to<double>(from);
    case DType::I64:
      return is_float(from) ? nullptr : converter_to<std::int64_t>(from);
    case DType::I32:
      return is_float(from) ? nullptr : converter_to<std::int32_t>(from);
    case DType::Bool:
      return from == DType::Bool ? converter_to<std::uint8_t>(from) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace rehearsal::exec
