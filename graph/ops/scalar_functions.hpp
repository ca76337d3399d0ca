#pragma once
// The elementwise functions, once: the operator rows (folding, gradients) and the reference kernels are both generated from
// these structs. To add a function: one struct and its name in the list at the end.

#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <type_traits>

#include "graph/ops/activations.hpp"
#include "graph/ops/scalar.hpp"

namespace rehearsal::graph::scalar {

struct Tanh : Unary<Saved::Result, 6> {
  static constexpr std::string_view name = "Tanh", description = "hyperbolic tangent";
  constexpr auto value(auto x) const { return std::tanh(x); }
  constexpr auto slope(auto y) const { return 1 - y * y; }
};
struct Exp : Unary<Saved::Result, 4> {
  static constexpr std::string_view name = "Exp", description = "exp(x)";
  constexpr auto value(auto x) const { return std::exp(x); }
  constexpr auto slope(auto y) const { return y; }
};
struct Log : Unary<Saved::Operand, 4> {
  static constexpr std::string_view name = "Log", description = "natural logarithm";
  constexpr auto value(auto x) const { return std::log(x); }
  constexpr auto slope(auto x) const { return 1 / x; }
};
struct Sqrt : Unary<Saved::Result, 2> {
  static constexpr std::string_view name = "Sqrt", description = "square root";
  constexpr auto value(auto x) const { return std::sqrt(x); }
  template <class T>
  constexpr T slope(T y) const {
    return T(0.5) / y;
  }
};
struct Neg : Unary<Saved::Nothing, 1, true> {
  static constexpr std::string_view name = "Neg", description = "-x";
  template <class T>
  constexpr T value(T x) const {
    return wrapped(T(0), x, std::minus<>());
  }
};
struct Abs : Unary<Saved::Operand, 1, true> {
  static constexpr std::string_view name = "Abs", description = "|x|";
  template <class T>
  constexpr T value(T x) const {
    return x < 0 ? wrapped(T(0), x, std::minus<>()) : x;
  }
  template <class T>
  constexpr T slope(T x) const {
    return x > 0 ? T(1) : x < 0 ? T(-1) : T(0);
  }
};
struct Erf : Unary<Saved::Operand, 8> {
  static constexpr std::string_view name = "Erf", description = "error function";
  constexpr auto value(auto x) const { return std::erf(x); }
  template <class T>
  constexpr T slope(T x) const {
    return T(2 * std::numbers::inv_sqrtpi) * std::exp(-x * x);
  }
};
struct Reciprocal : Unary<Saved::Result, 1> {
  static constexpr std::string_view name = "Reciprocal", description = "1 / x";
  constexpr auto value(auto x) const { return 1 / x; }
  constexpr auto slope(auto y) const { return -y * y; }
};
struct Sin : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Sin", description = "sine";
  constexpr auto value(auto x) const { return std::sin(x); }
  constexpr auto slope(auto x) const { return std::cos(x); }
};
struct Cos : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Cos", description = "cosine";
  constexpr auto value(auto x) const { return std::cos(x); }
  constexpr auto slope(auto x) const { return -std::sin(x); }
};
struct Atan : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Atan", description = "inverse tangent";
  constexpr auto value(auto x) const { return std::atan(x); }
  constexpr auto slope(auto x) const { return 1 / (1 + x * x); }
};
struct Tan : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Tan", description = "tangent";
  constexpr auto value(auto x) const { return std::tan(x); }
  constexpr auto slope(auto x) const { return 1 + std::tan(x) * std::tan(x); }
};
struct Asin : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Asin", description = "inverse sine";
  constexpr auto value(auto x) const { return std::asin(x); }
  constexpr auto slope(auto x) const { return 1 / std::sqrt(1 - x * x); }
};
struct Acos : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Acos", description = "inverse cosine";
  constexpr auto value(auto x) const { return std::acos(x); }
  constexpr auto slope(auto x) const { return -1 / std::sqrt(1 - x * x); }
};
struct Sinh : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Sinh", description = "hyperbolic sine";
  constexpr auto value(auto x) const { return std::sinh(x); }
  constexpr auto slope(auto x) const { return std::cosh(x); }
};
struct Cosh : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Cosh", description = "hyperbolic cosine";
  constexpr auto value(auto x) const { return std::cosh(x); }
  constexpr auto slope(auto x) const { return std::sinh(x); }
};
struct Asinh : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Asinh", description = "inverse hyperbolic sine";
  constexpr auto value(auto x) const { return std::asinh(x); }
  constexpr auto slope(auto x) const { return 1 / std::sqrt(x * x + 1); }
};
struct Acosh : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Acosh", description = "inverse hyperbolic cosine";
  constexpr auto value(auto x) const { return std::acosh(x); }
  constexpr auto slope(auto x) const { return 1 / std::sqrt(x * x - 1); }
};
struct Atanh : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Atanh", description = "inverse hyperbolic tangent";
  constexpr auto value(auto x) const { return std::atanh(x); }
  constexpr auto slope(auto x) const { return 1 / (1 - x * x); }
};
struct Identity : Unary<Saved::Nothing, 0, true> {
  static constexpr std::string_view name = "Identity", description = "x";
  constexpr auto value(auto x) const { return x; }
};
struct Scale : Unary<Saved::Nothing, 1> {
  static constexpr std::string_view name = "Scale", description = "x times the attribute factor";
  double factor;
  explicit Scale(const Attributes& a) : factor(a.number("factor", 1.0)) {}
  template <class T>
  constexpr T value(T x) const {
    return T(factor) * x;
  }
};
struct Clip : Unary<Saved::Operand, 2, true> {
  static constexpr std::string_view name = "Clip", description = "x limited to the attributes [min, max]";
  double min, max;
  explicit Clip(const Attributes& a)
      : min(a.number("min", -std::numeric_limits<double>::infinity())), max(a.number("max", std::numeric_limits<double>::infinity())) {}
  // ONNX: with min > max every element becomes max.
  template <class T>
  constexpr T value(T x) const {
    return static_cast<double>(x) > max || min > max ? T(max) : static_cast<double>(x) < min ? T(min) : x;
  }
  template <class T>
  constexpr T slope(T x) const {
    return static_cast<double>(x) >= min && static_cast<double>(x) <= max ? T(1) : T(0);
  }
};
struct Floor : Unary<Saved::Never, 1> {
  static constexpr std::string_view name = "Floor", description = "the largest integer not above x";
  constexpr auto value(auto x) const { return std::floor(x); }
};
struct Ceil : Unary<Saved::Never, 1> {
  static constexpr std::string_view name = "Ceil", description = "the smallest integer not below x";
  constexpr auto value(auto x) const { return std::ceil(x); }
};
struct Round : Unary<Saved::Never, 1> {
  static constexpr std::string_view name = "Round", description = "the nearest integer, halves to even";
  constexpr auto value(auto x) const { return std::nearbyint(x); }
};
/// What frameworks call detach or stop_gradient.
struct StopGradient : Unary<Saved::Detached, 0, true> {
  static constexpr std::string_view name = "StopGradient", description = "x, through which no gradient passes";
  constexpr auto value(auto x) const { return x; }
};
struct Sign : Unary<Saved::Never, 1, true> {
  static constexpr std::string_view name = "Sign", description = "-1, 0 or 1";
  template <class T>
  constexpr T value(T x) const {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
};
struct IsNaN : Unary<Saved::Never, 1> {
  static constexpr std::string_view name = "IsNaN", description = "whether x is not a number";
  static constexpr bool predicate = true;
  constexpr bool value(auto x) const { return std::isnan(x); }
};
struct IsInf : Unary<Saved::Never, 1> {
  static constexpr std::string_view name = "IsInf", description = "whether x is infinite";
  static constexpr bool predicate = true;
  constexpr bool value(auto x) const { return std::isinf(x); }
};

struct Add : Several<2, 1, true> {
  static constexpr std::string_view name = "Add", description = "a + b";
  constexpr auto value(auto a, auto b) const { return wrapped(a, b, std::plus<>()); }
};
struct Sub : Several<2, 1, true> {
  static constexpr std::string_view name = "Sub", description = "a - b";
  constexpr auto value(auto a, auto b) const { return wrapped(a, b, std::minus<>()); }
};
struct Mul : Several<2, 1, true> {
  static constexpr std::string_view name = "Mul", description = "a b";
  constexpr auto value(auto a, auto b) const { return wrapped(a, b, std::multiplies<>()); }
};
struct Div : Several<2, 1, true> {
  static constexpr std::string_view name = "Div",
                                    description = "a / b; integers truncate towards zero, and anything divided by an integer 0 is 0";
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return T(0);
      return b == static_cast<T>(-1) ? wrapped(T(0), a, std::minus<>()) : static_cast<T>(a / b);  // the smallest integer over -1 would trap
    } else {
      return a / b;
    }
  }
};
struct Pow : Several<2, 10, true> {
  static constexpr std::string_view name = "Pow", description = "a to the power b";
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    } else {
      return b == 2 ? a * a : b == 3 ? a * a * a : std::pow(a, b);
    }
  }
};
struct Max : Several<2, 1, true> {
  static constexpr std::string_view name = "Max", description = "the larger of a and b; NaN wins";
  constexpr auto value(auto a, auto b) const { return a > b || a != a ? a : b; }
};
struct Min : Several<2, 1, true> {
  static constexpr std::string_view name = "Min", description = "the smaller of a and b; NaN wins";
  constexpr auto value(auto a, auto b) const { return a < b || a != a ? a : b; }
};
struct Mod : Several<2, 3, true> {
  static constexpr std::string_view name = "Mod", description = "remainder with the sign of the divisor, of the dividend with fmod = 1";
  bool truncated;
  explicit Mod(const Attributes& a) : truncated(a.integer("fmod", 0) != 0) {}
  template <class T>
  constexpr T value(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || b == static_cast<T>(-1)) return T(0);
      const T rest = static_cast<T>(a % b);
      return !truncated && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      const T rest = std::fmod(a, b);
      if (truncated || std::isnan(rest)) return rest;
      return rest == 0 ? std::copysign(T(0), b) : (rest < 0) != (b < 0) ? rest + b : rest;
    }
  }
};
struct PRelu : Several<2, 1, false> {
  static constexpr std::string_view name = "PRelu", description = "x for x > 0, else slope x";
  constexpr auto value(auto x, auto slope) const { return x < 0 ? slope * x : x; }
};
struct Equal : Several<2, 1, true, true> {
  static constexpr std::string_view name = "Equal", description = "a = b";
  constexpr bool value(auto a, auto b) const { return a == b; }
};
struct Less : Several<2, 1, true, true> {
  static constexpr std::string_view name = "Less", description = "a < b";
  constexpr bool value(auto a, auto b) const { return a < b; }
};
struct Greater : Several<2, 1, true, true> {
  static constexpr std::string_view name = "Greater", description = "a > b";
  constexpr bool value(auto a, auto b) const { return a > b; }
};
struct LessOrEqual : Several<2, 1, true, true> {
  static constexpr std::string_view name = "LessOrEqual", description = "a <= b";
  constexpr bool value(auto a, auto b) const { return a <= b; }
};
struct GreaterOrEqual : Several<2, 1, true, true> {
  static constexpr std::string_view name = "GreaterOrEqual", description = "a >= b";
  constexpr bool value(auto a, auto b) const { return a >= b; }
};

/// Functions of truth values.
struct Not : Unary<Saved::Never, 1> {
  static constexpr std::string_view name = "Not", description = "whether a does not hold";
  static constexpr bool predicate = true;
  constexpr bool value(auto a) const { return !static_cast<bool>(a); }
};
struct And : Several<2, 1, false, true> {
  static constexpr std::string_view name = "And", description = "whether both hold";
  constexpr bool value(auto a, auto b) const { return static_cast<bool>(a) && static_cast<bool>(b); }
};
struct Or : Several<2, 1, false, true> {
  static constexpr std::string_view name = "Or", description = "whether one or both hold";
  constexpr bool value(auto a, auto b) const { return static_cast<bool>(a) || static_cast<bool>(b); }
};
struct Xor : Several<2, 1, false, true> {
  static constexpr std::string_view name = "Xor", description = "whether exactly one holds";
  constexpr bool value(auto a, auto b) const { return static_cast<bool>(a) != static_cast<bool>(b); }
};

/// Gradients that need both operands: (gradient of the result, the operand it is for, the other).
struct MaxGrad : Several<3, 2, false> {
  static constexpr std::string_view name = "MaxGrad", description = "gradient of Max for its second argument; ties share it";
  template <class T>
  constexpr T value(T gradient, T own, T other) const {
    return own > other ? gradient : own == other ? T(0.5) * gradient : T(0);
  }
};
struct MinGrad : Several<3, 2, false> {
  static constexpr std::string_view name = "MinGrad", description = "gradient of Min for its second argument; ties share it";
  template <class T>
  constexpr T value(T gradient, T own, T other) const {
    return own < other ? gradient : own == other ? T(0.5) * gradient : T(0);
  }
};
struct PReluGrad : Several<3, 2, false> {
  static constexpr std::string_view name = "PReluGrad", description = "gradient of PRelu for x: (gradient, x, slope)";
  constexpr auto value(auto gradient, auto x, auto slope) const { return x > 0 ? gradient : slope * gradient; }
};
struct PReluSlopeGrad : Several<2, 2, false> {
  static constexpr std::string_view name = "PReluSlopeGrad",
                                    description = "gradient of PRelu for the slope, element by element: (gradient, x)";
  template <class T>
  constexpr T value(T gradient, T x) const {
    return x > 0 ? T(0) : x * gradient;
  }
};

using Unaries = List<Relu, Sigmoid, Tanh, Exp, Log, Sqrt, Neg, Abs, Erf, Reciprocal, Gelu, LeakyRelu, Elu, Selu, Celu, Softplus, Softsign,
                     HardSigmoid, HardSwish, Mish, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Identity, Scale, Clip,
                     Floor, Ceil, Round, StopGradient, Sign, IsNaN, IsInf>;
using Binaries = List<Add, Sub, Mul, Div, Pow, Max, Min, Mod, PRelu>;
using Comparisons = List<Equal, Less, Greater, LessOrEqual, GreaterOrEqual>;
using Connectives = List<Not, And, Or, Xor>;
using OperandGradients = List<MaxGrad, MinGrad, PReluGrad, PReluSlopeGrad>;

}  // namespace rehearsal::graph::scalar
