#pragma once
// Activation functions of networks.

#include <cmath>
#include <numbers>
#include <string_view>

#include "graph/ops/scalar.hpp"

namespace rehearsal::graph::scalar {

struct Relu : Unary<Saved::Result, 1, true> {
  static constexpr std::string_view name = "Relu", description = "max(x, 0)";
  template <class T>
  constexpr T value(T x) const {
    return x < 0 ? T(0) : x;
  }
  template <class T>
  constexpr T slope(T y) const {
    return y > 0 ? T(1) : T(0);
  }
};
struct Sigmoid : Unary<Saved::Result, 4> {
  static constexpr std::string_view name = "Sigmoid", description = "1 / (1 + exp(-x))";
  constexpr auto value(auto x) const { return logistic(x); }
  constexpr auto slope(auto y) const { return y * (1 - y); }
};
/// Reference: Hendrycks and Gimpel, "Gaussian error linear units", arXiv 1606.08415: x Phi(x), or its tanh form.
struct Gelu : Unary<Saved::Operand, 10> {
  static constexpr std::string_view name = "Gelu",
                                    description = "x times the normal distribution function; attribute approximate: none or tanh";
  bool tanh = false;
  explicit Gelu(const Attributes& a) : tanh(a.text("approximate", "none") == "tanh") {}
  static constexpr double kScale = 0.79788456080286535588, kCubic = 0.044715;  // sqrt(2 / pi)
  template <class T>
  constexpr T value(T x) const {
    if (tanh) return T(0.5) * x * (T(1) + std::tanh(T(kScale) * (x + T(kCubic) * x * x * x)));
    return T(0.5) * x * (T(1) + std::erf(x * T(1 / std::numbers::sqrt2)));
  }
  template <class T>
  constexpr T slope(T x) const {
    if (!tanh) {
      const T density = T(kScale / 2) * std::exp(T(-0.5) * x * x);
      return T(0.5) * (T(1) + std::erf(x * T(1 / std::numbers::sqrt2))) + x * density;
    }
    const T t = std::tanh(T(kScale) * (x + T(kCubic) * x * x * x));
    return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * T(kScale) * (T(1) + T(3 * kCubic) * x * x);
  }
};
struct LeakyRelu : Unary<Saved::Operand, 1> {
  static constexpr std::string_view name = "LeakyRelu", description = "x for x > 0, else alpha x";
  double alpha;
  explicit LeakyRelu(const Attributes& a) : alpha(a.number("alpha", 0.01)) {}
  template <class T>
  constexpr T value(T x) const {
    return x < 0 ? T(alpha) * x : x;
  }
  template <class T>
  constexpr T slope(T x) const {
    return x > 0 ? T(1) : T(alpha);
  }
};
struct Elu : Unary<Saved::Operand, 5> {
  static constexpr std::string_view name = "Elu", description = "x for x > 0, else alpha (exp(x) - 1)";
  double alpha;
  explicit Elu(const Attributes& a) : alpha(a.number("alpha", 1.0)) {}
  template <class T>
  constexpr T value(T x) const {
    return x < 0 ? T(alpha) * std::expm1(x) : x;
  }
  template <class T>
  constexpr T slope(T x) const {
    return x > 0 ? T(1) : T(alpha) * std::exp(x);
  }
};
/// Reference: Klambauer et al., "Self-normalizing neural networks", arXiv 1706.02515, for the two constants.
struct Selu : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Selu", description = "gamma x for x > 0, else gamma alpha (exp(x) - 1)";
  double alpha, gamma;
  explicit Selu(const Attributes& a) : alpha(a.number("alpha", 1.6732632423543772848)), gamma(a.number("gamma", 1.0507009873554804934)) {}
  template <class T>
  constexpr T value(T x) const {
    return T(gamma) * (x < 0 ? T(alpha) * std::expm1(x) : x);
  }
  template <class T>
  constexpr T slope(T x) const {
    return T(gamma) * (x > 0 ? T(1) : T(alpha) * std::exp(x));
  }
};
struct Celu : Unary<Saved::Operand, 6> {
  static constexpr std::string_view name = "Celu", description = "x for x > 0, else alpha (exp(x / alpha) - 1)";
  double alpha;
  explicit Celu(const Attributes& a) : alpha(a.number("alpha", 1.0)) {}
  template <class T>
  constexpr T value(T x) const {
    return x < 0 ? T(alpha) * std::expm1(x / T(alpha)) : x;
  }
  template <class T>
  constexpr T slope(T x) const {
    return x > 0 ? T(1) : std::exp(x / T(alpha));
  }
};
struct Softplus : Unary<Saved::Operand, 8> {
  static constexpr std::string_view name = "Softplus", description = "log(1 + exp(x))";
  constexpr auto value(auto x) const { return log_one_plus_exp(x); }
  constexpr auto slope(auto x) const { return logistic(x); }
};
struct Softsign : Unary<Saved::Operand, 2> {
  static constexpr std::string_view name = "Softsign", description = "x / (1 + |x|)";
  constexpr auto value(auto x) const { return x / (1 + std::abs(x)); }
  constexpr auto slope(auto x) const { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }
};
struct HardSigmoid : Unary<Saved::Operand, 3> {
  static constexpr std::string_view name = "HardSigmoid", description = "alpha x + beta, limited to [0, 1]";
  double alpha, beta;
  explicit HardSigmoid(const Attributes& a) : alpha(a.number("alpha", 0.2)), beta(a.number("beta", 0.5)) {}
  template <class T>
  constexpr T value(T x) const {
    return std::fmin(T(1), std::fmax(T(0), T(alpha) * x + T(beta)));
  }
  template <class T>
  constexpr T slope(T x) const {
    return T(alpha) * x + T(beta) > 0 && T(alpha) * x + T(beta) < 1 ? T(alpha) : T(0);
  }
};
struct HardSwish : Unary<Saved::Operand, 4> {
  static constexpr std::string_view name = "HardSwish", description = "x times (x / 6 + 1/2 limited to [0, 1])";
  template <class T>
  constexpr T value(T x) const {
    return x * std::fmin(T(1), std::fmax(T(0), x / T(6) + T(0.5)));
  }
  template <class T>
  constexpr T slope(T x) const {
    return x < -3 ? T(0) : x <= 3 ? x / T(3) + T(0.5) : T(1);
  }
};
struct Mish : Unary<Saved::Operand, 15> {
  static constexpr std::string_view name = "Mish", description = "x tanh(log(1 + exp(x)))";
  constexpr auto value(auto x) const { return x * std::tanh(log_one_plus_exp(x)); }
  template <class T>
  constexpr T slope(T x) const {
    const T t = std::tanh(log_one_plus_exp(x));
    return t + x * (T(1) - t * t) * logistic(x);
  }
};

}  // namespace rehearsal::graph::scalar
