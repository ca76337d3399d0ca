#pragma once
// What an elementwise function is made of.
//   value(x)   the function; for integers too where `integers` is set
//   slope(s)   its derivative, from the operand or the result, as `saved` says

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/dtype.hpp"
#include "graph/attributes.hpp"

namespace rehearsal::graph::scalar {

template <class... F>
struct List {};

/// Folded single-precision results are rounded, so that a folded scale gives the size that the exporting framework got.
[[nodiscard]] inline double rounded(double x, DType type) { return type == DType::F32 ? static_cast<double>(static_cast<float>(x)) : x; }

/// What the gradient of a function of one operand needs.
enum class Saved : std::uint8_t {
  Operand,
  Result,
  Nothing,   ///< the function is linear: its gradient is itself
  Never,     ///< piecewise constant, or not of real numbers: no gradient
  Detached,  ///< the operand counts as a constant
};

template <Saved kSaved, int kFlops, bool kIntegers = false>
struct Unary {
  static constexpr int arity = 1;
  static constexpr Saved saved = kSaved;
  static constexpr int flops = kFlops;
  static constexpr bool integers = kIntegers;
  static constexpr bool predicate = false;  ///< the result is Bool
  Unary() = default;
  Unary(const Attributes&) {}
};

/// f(a, b) where integers wrap around instead of overflowing.
template <class T, class F>
constexpr T wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

template <class T>
constexpr T logistic(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
constexpr T log_one_plus_exp(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}

/// Name of the row and kernel of a function's gradient: "ReluGrad".
template <class F>
std::string_view gradient_name() {
  static const std::string kName = std::string(F::name) + "Grad";
  return kName;
}

/// The gradient of F with respect to its operand: (gradient of the result, what was saved).
template <class F>
struct SlopeOf {
  static constexpr int arity = 2, flops = F::flops + 1;
  static constexpr bool integers = false, predicate = false;
  F function;
  SlopeOf(const Attributes& a) : function{a} {}
  template <class T>
  constexpr T value(T gradient, T saved) const {
    return gradient * function.slope(saved);
  }
};

/// Functions of two operands (three, where a gradient needs both operands).
template <int kArity, int kFlops, bool kIntegers, bool kPredicate = false>
struct Several {
  static constexpr int arity = kArity, flops = kFlops;
  static constexpr bool integers = kIntegers, predicate = kPredicate;
  Several() = default;
  Several(const Attributes&) {}
};

}  // namespace rehearsal::graph::scalar
