#pragma once
// Elementwise functions of the bits of integers. Rows and kernels take integers only; for floats they are never called.

#include <limits>
#include <string_view>
#include <type_traits>

#include "graph/ops/scalar.hpp"

namespace rehearsal::graph::scalar {

/// Shifting down fills with the sign; by the width or more it leaves nothing else, shifting up leaves nothing.
struct BitShift : Several<2, 1, true> {
  static constexpr std::string_view name = "BitShift", description = "a shifted by b bits, up when the attribute left is 1, else down";
  bool left;
  explicit BitShift(const Attributes& a) : left(a.integer("left", 0) != 0) {}
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      if (b < 0 || static_cast<U>(b) >= std::numeric_limits<U>::digits) return !left && a < 0 ? static_cast<T>(-1) : T(0);
      return static_cast<T>(left ? static_cast<U>(static_cast<U>(a) << b) : a >> b);
    } else {
      return a;
    }
  }
};
struct BitwiseAnd : Several<2, 1, true> {
  static constexpr std::string_view name = "BitwiseAnd", description = "bits that both have";
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
    return a;
  }
};
struct BitwiseOr : Several<2, 1, true> {
  static constexpr std::string_view name = "BitwiseOr", description = "bits that one or both have";
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
    return a;
  }
};
struct BitwiseXor : Several<2, 1, true> {
  static constexpr std::string_view name = "BitwiseXor", description = "bits that exactly one has";
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a ^ b);
    return a;
  }
};

using BitFunctions = List<BitShift, BitwiseAnd, BitwiseOr, BitwiseXor>;

}  // namespace rehearsal::graph::scalar
