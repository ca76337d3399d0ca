// Part of loops.inl: functions of one or two numbers.

/// Powers of e by range reduction and the Cephes polynomial of expf; relative error below 2e-7. NaN stays NaN.
static inline float exponential(float x) {
  float clamped = x < -87.0F ? -87.0F : x;
  clamped = clamped > 88.0F ? 88.0F : clamped;
  const float shifted = clamped * 1.44269504F + 12582912.0F;  // rounds to an integer in the low bits
  const float n = shifted - 12582912.0F;
  const float r = clamped - n * 0.693359375F + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  float y = p * __builtin_bit_cast(float, bits);
  y = x < -87.3F ? 0.0F : y;
  y = x > 88.7F ? __builtin_inff() : y;
  return x != x ? x : y;
}

/// Near 0 the odd Cephes polynomial, elsewhere from the exponential.
static inline float hyperbolic_tangent(float x) {
  const float a = x < 0 ? -x : x, s = x * x;
  float p = -5.70498872745e-3F;
  p = p * s + 2.06390887954e-2F;
  p = p * s - 5.37397155531e-2F;
  p = p * s + 1.33314422036e-1F;
  p = p * s - 3.33332819422e-1F;
  const float near = p * s * x + x;
  const float far = 1.0F - 2.0F / (exponential(2.0F * a) + 1.0F);
  return a < 0.625F ? near : x < 0 ? -far : far;
}

/// Abramowitz and Stegun, 7.1.26: absolute error below 1.5e-7 (times exp, which is returned for the density).
static inline float error_function(float x, float gaussian) {
  const float a = x < 0 ? -x : x, t = 1.0F / (1.0F + 0.3275911F * a);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float y = 1.0F - p * t * gaussian;
  return x < 0 ? -y : y;
}

static inline float logistic(float x) { return 1.0F / (1.0F + exponential(-x)); }

using Parameters = FunctionParameters;

struct Relu { static float of(const Parameters&, float x) { return x < 0 ? 0.0F : x; } };
struct Sigmoid { static float of(const Parameters&, float x) { return logistic(x); } };
struct Tanh { static float of(const Parameters&, float x) { return hyperbolic_tangent(x); } };
struct Exp { static float of(const Parameters&, float x) { return exponential(x); } };
struct Neg { static float of(const Parameters&, float x) { return -x; } };
struct Abs { static float of(const Parameters&, float x) { return x < 0 ? -x : x; } };
struct Sqrt { static float of(const Parameters&, float x) { return __builtin_sqrtf(x); } };
struct Reciprocal { static float of(const Parameters&, float x) { return 1.0F / x; } };
struct Scale { static float of(const Parameters& p, float x) { return p.factor * x; } };
struct Identity { static float of(const Parameters&, float x) { return x; } };
struct LeakyRelu { static float of(const Parameters& p, float x) { return x < 0 ? p.alpha * x : x; } };

struct HardSigmoid {
  static float of(const Parameters& p, float x) {
    const float t = p.alpha * x + p.beta, above = t > 0 ? t : 0.0F;
    return above < 1 ? above : 1.0F;
  }
};
struct HardSwish {
  static float of(const Parameters&, float x) {
    const float t = x / 6.0F + 0.5F, above = t > 0 ? t : 0.0F;
    return x * (above < 1 ? above : 1.0F);
  }
};
struct Clip {
  static float of(const Parameters& p, float x) {
    const float above = x < p.low ? p.low : x;
    return above > p.high ? p.high : above;
  }
};

/// x Phi(x) and its tanh form: Hendrycks and Gimpel, arXiv 1606.08415.
constexpr float kGeluScale = 0.797884561F, kGeluCubic = 0.044715F, kInverseRootTwo = 0.707106781F;
struct GeluTanh {
  static float of(const Parameters&, float x) { return 0.5F * x * (1.0F + hyperbolic_tangent(kGeluScale * (x + kGeluCubic * x * x * x))); }
};
struct GeluErf {
  static float of(const Parameters&, float x) { return 0.5F * x * (1.0F + error_function(x * kInverseRootTwo, exponential(-0.5F * x * x))); }
};
struct GeluTanhGrad {
  static float of(const Parameters&, float dy, float x) {
    const float t = hyperbolic_tangent(kGeluScale * (x + kGeluCubic * x * x * x));
    return dy * (0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * kGeluScale * (1.0F + 3.0F * kGeluCubic * x * x));
  }
};
struct GeluErfGrad {
  static float of(const Parameters&, float dy, float x) {
    const float gaussian = exponential(-0.5F * x * x);
    return dy * (0.5F * (1.0F + error_function(x * kInverseRootTwo, gaussian)) + x * (0.5F * kGeluScale) * gaussian);
  }
};

struct HardSigmoidGrad {
  static float of(const Parameters& p, float dy, float x) {
    const float t = p.alpha * x + p.beta;
    return dy * (t > 0 && t < 1 ? p.alpha : 0.0F);
  }
};
struct HardSwishGrad {
  static float of(const Parameters&, float dy, float x) {
    const float middle = x / 3.0F + 0.5F, upper = x <= 3 ? middle : 1.0F;
    return dy * (x < -3 ? 0.0F : upper);
  }
};
struct ClipGrad { static float of(const Parameters& p, float dy, float x) { return dy * (x >= p.low && x <= p.high ? 1.0F : 0.0F); } };
struct ReluGrad { static float of(const Parameters&, float dy, float y) { return y > 0 ? dy : dy * 0.0F; } };
struct SigmoidGrad { static float of(const Parameters&, float dy, float y) { return dy * (y * (1.0F - y)); } };
struct TanhGrad { static float of(const Parameters&, float dy, float y) { return dy * (1.0F - y * y); } };
struct LeakyReluGrad { static float of(const Parameters& p, float dy, float x) { return x > 0 ? dy : p.alpha * dy; } };
struct Add { static float of(const Parameters&, float a, float b) { return a + b; } };
struct Sub { static float of(const Parameters&, float a, float b) { return a - b; } };
struct Mul { static float of(const Parameters&, float a, float b) { return a * b; } };
struct Div { static float of(const Parameters&, float a, float b) { return a / b; } };
struct Max { static float of(const Parameters&, float a, float b) { return a > b || a != a ? a : b; } };
struct Min { static float of(const Parameters&, float a, float b) { return a < b || a != a ? a : b; } };
