// Included once per instruction set, by level_*.cpp, in a namespace of its own. Plain C++: the compiler makes vectors of it.

#define REHEARSAL_FLATTEN __attribute__((flatten)) static

using I = std::int64_t;

// ---- functions

/// Powers of e by range reduction and the Cephes polynomial of expf; relative error below 2e-7. NaN stays NaN.
static inline float exponential(float x) {
  const float clamped = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;
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
  const float y = p * __builtin_bit_cast(float, bits);
  const float limited = x > 88.7F ? __builtin_inff() : x < -87.3F ? 0.0F : y;
  return x != x ? x : limited;
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

// ---- walks

template <class F>
REHEARSAL_FLATTEN void map1(const Parameters& parameters, float* y, const float* const* x, const I* steps, I n) {
  const Parameters p = parameters;
  const float* a = x[0];
  if (steps[0] == 1) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = F::of(p, a[i]);
  } else if (steps[0] == 0) {
    const float one = F::of(p, a[0]);
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = one;
  } else {
    for (I i = 0; i < n; ++i) y[i] = F::of(p, a[i * steps[0]]);
  }
}

template <class F>
REHEARSAL_FLATTEN void map2(const Parameters& parameters, float* y, const float* const* x, const I* steps, I n) {
  const Parameters p = parameters;
  const float *a = x[0], *b = x[1];
  if (steps[0] == 1 && steps[1] == 1) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = F::of(p, a[i], b[i]);
  } else if (steps[0] == 1 && steps[1] == 0) {
    const float one = b[0];
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = F::of(p, a[i], one);
  } else if (steps[0] == 0 && steps[1] == 1) {
    const float one = a[0];
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = F::of(p, one, b[i]);
  } else {
    for (I i = 0; i < n; ++i) y[i] = F::of(p, a[i * steps[0]], b[i * steps[1]]);
  }
}

static const ElementwiseRow kElementwise[] = {
    {"Relu", 1, map1<Relu>}, {"Sigmoid", 1, map1<Sigmoid>}, {"Tanh", 1, map1<Tanh>}, {"Exp", 1, map1<Exp>}, {"Neg", 1, map1<Neg>}, {"Abs", 1, map1<Abs>},
    {"Sqrt", 1, map1<Sqrt>}, {"Reciprocal", 1, map1<Reciprocal>}, {"Scale", 1, map1<Scale>}, {"Identity", 1, map1<Identity>}, {"LeakyRelu", 1, map1<LeakyRelu>},
    {"HardSigmoid", 1, map1<HardSigmoid>}, {"HardSwish", 1, map1<HardSwish>}, {"Clip", 1, map1<Clip>}, {"HardSigmoidGrad", 2, map2<HardSigmoidGrad>},
    {"HardSwishGrad", 2, map2<HardSwishGrad>}, {"ClipGrad", 2, map2<ClipGrad>}, {"Expand", 1, map1<Identity>},
    {"Gelu", 1, map1<GeluErf>}, {"Gelu:tanh", 1, map1<GeluTanh>}, {"GeluGrad", 2, map2<GeluErfGrad>}, {"GeluGrad:tanh", 2, map2<GeluTanhGrad>},
    {"ReluGrad", 2, map2<ReluGrad>}, {"SigmoidGrad", 2, map2<SigmoidGrad>}, {"TanhGrad", 2, map2<TanhGrad>}, {"LeakyReluGrad", 2, map2<LeakyReluGrad>},
    {"ExpGrad", 2, map2<Mul>}, {"Add", 2, map2<Add>}, {"Sub", 2, map2<Sub>}, {"Mul", 2, map2<Mul>}, {"Div", 2, map2<Div>}, {"Max", 2, map2<Max>}, {"Min", 2, map2<Min>},
};

REHEARSAL_FLATTEN void where(float* y, const std::uint8_t* condition, const float* a, const float* b, const I* steps, I n) {
  const I c = steps[0], s = steps[1], t = steps[2];
  if (c == 1 && s == 1 && t == 0) {
    const float one = b[0];
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = condition[i] ? a[i] : one;
  } else {
    for (I i = 0; i < n; ++i) y[i] = condition[i * c] ? a[i * s] : b[i * t];
  }
}

// ---- columns

/// Four rows at a time, so that each running sum is loaded and stored once for all of them.
static void column_sums(const float* x, I rows, I columns, double* sums) {
  I r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * columns) {
    const float *x1 = x + columns, *x2 = x1 + columns, *x3 = x2 + columns;
#pragma omp simd
    for (I c = 0; c < columns; ++c) sums[c] += (double(x[c]) + double(x1[c])) + (double(x2[c]) + double(x3[c]));
  }
  for (; r < rows; ++r, x += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) sums[c] += double(x[c]);
  }
}

static void column_moments(const float* x, I rows, I columns, double* sums, double* squares) {
  I r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * columns) {
    const float *x1 = x + columns, *x2 = x1 + columns, *x3 = x2 + columns;
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      const double a = double(x[c]), b = double(x1[c]), d = double(x2[c]), e = double(x3[c]);
      sums[c] += (a + b) + (d + e);
      squares[c] += (a * a + b * b) + (d * d + e * e);
    }
  }
  for (; r < rows; ++r, x += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      const double a = double(x[c]);
      sums[c] += a;
      squares[c] += a * a;
    }
  }
}

static void column_gradient(const float* x, const float* dy, I rows, I columns, const double* mean, double* sums, double* products) {
  I r = 0;
  for (; r + 2 <= rows; r += 2, x += 2 * columns, dy += 2 * columns) {
    const float *x1 = x + columns, *dy1 = dy + columns;
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      const double a = double(dy[c]), b = double(dy1[c]);
      sums[c] += a + b;
      products[c] += a * (double(x[c]) - mean[c]) + b * (double(x1[c]) - mean[c]);
    }
  }
  for (; r < rows; ++r, x += columns, dy += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      sums[c] += double(dy[c]);
      products[c] += double(dy[c]) * (double(x[c]) - mean[c]);
    }
  }
}

static void column_affine(float* y, const float* x, I rows, I columns, const double* slope, const double* offset) {
  for (I r = 0; r < rows; ++r, x += columns, y += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) y[c] = float(x[c] * slope[c] + offset[c]);
  }
}

static void column_line(float* dx, const float* dy, const float* x, I rows, I columns, const double* dy_factor, const double* x_factor, const double* constant) {
  for (I r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) dx[c] = float(dy[c] * dy_factor[c] + (x[c] * x_factor[c] + constant[c]));
  }
}

// ---- rows

static double row_sum(const float* x, I n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += double(x[i]);
  return sum;
}

static double row_squares(const float* x, I n, double mean) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += (double(x[i]) - mean) * (double(x[i]) - mean);
  return sum;
}

static double row_product(const float* dy, const float* x, I n, double mean) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += double(dy[i]) * (double(x[i]) - mean);
  return sum;
}

static void row_affine(float* y, const float* x, I n, Affine affine) {
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] = float(x[i] * affine.slope + affine.offset);
}

static void row_line(float* dx, const float* dy, const float* x, I n, GradientLine line) {
#pragma omp simd
  for (I i = 0; i < n; ++i) dx[i] = float(dy[i] * line.dy_factor + (x[i] * line.x_factor + line.constant));
}

// ---- layer normalization

static void normalize_row(float* y, const float* x, I n, Standard by, const float* scale, const float* bias) {
  if (scale && bias) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = (x[i] - by.mean) * by.inverse * scale[i] + bias[i];
  } else if (scale) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = (x[i] - by.mean) * by.inverse * scale[i];
  } else {
    for (I i = 0; i < n; ++i) y[i] = (x[i] - by.mean) * by.inverse + (bias ? bias[i] : 0.0F);
  }
}

static void scaled_sums(const float* x, const float* dy, const float* scale, I n, double mean, double* out) {
  double sum = 0, product = 0;
  if (scale) {
#pragma omp simd reduction(+ : sum, product)
    for (I i = 0; i < n; ++i) {
      const double g = double(dy[i]) * double(scale[i]);
      sum += g;
      product += g * (double(x[i]) - mean);
    }
  } else {
    sum = row_sum(dy, n);
    product = row_product(dy, x, n, mean);
  }
  out[0] = sum;
  out[1] = product;
}

static void scaled_line(float* dx, const float* dy, const float* x, const float* scale, I n, GradientLine line) {
  if (!scale) return row_line(dx, dy, x, n, line);
#pragma omp simd
  for (I i = 0; i < n; ++i) dx[i] = float(dy[i] * scale[i] * line.dy_factor + (x[i] * line.x_factor + line.constant));
}

static void parameter_row(const float* x, const float* dy, I n, Standard by, double* products, double* sums) {
#pragma omp simd
  for (I i = 0; i < n; ++i) {
    products[i] += double(dy[i]) * double(x[i] - by.mean) * by.inverse;
    sums[i] += double(dy[i]);
  }
}

// ---- softmax

static float largest_of(const float* x, I n) {
  float m = -__builtin_inff();
#pragma omp simd reduction(max : m)
  for (I i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

REHEARSAL_FLATTEN void softmax_row(float* y, const float* x, I n) {
  const float m = largest_of(x, n);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) {
    const float e = exponential(x[i] - m);
    y[i] = e;
    sum += double(e);
  }
  const float factor = float(1.0 / sum);
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] *= factor;
}

REHEARSAL_FLATTEN void softmax_gradient_row(float* dx, const float* dy, const float* y, I n) {
  const float sum = float(row_product(dy, y, n, 0.0));
#pragma omp simd
  for (I i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

REHEARSAL_FLATTEN double log_sum_exp(const float* x, I n) {
  const float m = largest_of(x, n);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += double(exponential(x[i] - m));
  return double(m) + __builtin_log(sum);
}

REHEARSAL_FLATTEN void scaled_exp(float* y, const float* x, I n, float shift, float factor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] = factor * exponential(x[i] - shift);
}

// ---- windows

/// As PyTorch: a NaN wins over everything, and among equals the first.
static void largest(float* best, std::int32_t* tap_of_best, const float* x, I columns, std::int32_t tap) {
#pragma omp simd
  for (I c = 0; c < columns; ++c) {
    const bool beats = !(x[c] <= best[c]) && !(best[c] != best[c] && x[c] == x[c]);
    best[c] = beats ? x[c] : best[c];
    tap_of_best[c] = beats ? tap : tap_of_best[c];
  }
}

static void add(float* sum, const float* x, I n) {
#pragma omp simd
  for (I i = 0; i < n; ++i) sum[i] += x[i];
}

static void add_scaled(float* sum, const float* x, I n, float factor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) sum[i] += x[i] * factor;
}

// ---- optimizers

static void sgd(float* p, const float* p_old, const float* g, float* m, const float* m_old, I n, const SgdStep& step) {
  const SgdStep s = step;
  if (!m) {
#pragma omp simd
    for (I i = 0; i < n; ++i) p[i] = p_old[i] - s.lr * (g[i] + s.decay * p_old[i]);
    return;
  }
  const float own = s.nesterov ? 1.0F : 0.0F, kept = s.nesterov ? s.momentum : 1.0F;
#pragma omp simd
  for (I i = 0; i < n; ++i) {
    const float gradient = g[i] + s.decay * p_old[i], moment = s.momentum * m_old[i] + gradient;
    m[i] = moment;
    p[i] = p_old[i] - s.lr * (own * gradient + kept * moment);
  }
}

REHEARSAL_FLATTEN void adam(float* p, const float* p_old, const float* g, float* const* moments, const float* const* moments_old, I n, const AdamStep& step) {
  const AdamStep s = step;
  float *m = moments[0], *v = moments[1];
  const float *m_old = moments_old[0], *v_old = moments_old[1];
  const float into = s.decoupled ? 0.0F : s.decay, shrink = s.decoupled ? 1.0F - s.lr * s.decay : 1.0F;
  const float first = 1.0F / s.correction1, second = 1.0F / s.correction2;
#pragma omp simd
  for (I i = 0; i < n; ++i) {
    const float gradient = g[i] + into * p_old[i];
    const float mean = s.beta1 * m_old[i] + s.rest1 * gradient, square = s.beta2 * v_old[i] + s.rest2 * gradient * gradient;
    m[i] = mean;
    v[i] = square;
    p[i] = p_old[i] * shrink - s.lr * (mean * first) / (__builtin_sqrtf(square * second) + s.eps);
  }
}

// ---- peak

#ifdef __AVX512F__
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T>
static double multiply_add(I rounds) {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  Vector a[kMultiplyAdds], factor, addend;
  for (unsigned long l = 0; l < kVectorBytes / sizeof(T); ++l) factor[l] = T(0.999), addend[l] = T(0.001);
#pragma GCC unroll 16
  for (int k = 0; k < kMultiplyAdds; ++k) a[k] = addend * T(k);
  for (I r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int k = 0; k < kMultiplyAdds; ++k) a[k] = a[k] * factor + addend;
  }
  double sum = 0;
  for (int k = 0; k < kMultiplyAdds; ++k) sum += double(a[k][0]);
  return sum;
}

#include "exec/kernels/native/attention.inl"

static const Loops kLoops = {
    kElementwise, int(sizeof(kElementwise) / sizeof(kElementwise[0])), where, column_sums, column_moments, column_gradient, column_affine, column_line,
    row_sum, row_squares, row_product, row_affine, row_line, normalize_row, scaled_sums, scaled_line, parameter_row,
    softmax_row, softmax_gradient_row, log_sum_exp, scaled_exp, largest, add, add_scaled, kAttention, sgd, adam,
    multiply_add<float>, multiply_add<double>, kVectorBytes,
};
