// Included once per instruction set, by level_*.cpp, in a namespace of its own. Plain C++: the compiler makes vectors of it.

#define REHEARSAL_FLATTEN __attribute__((flatten)) static

using I = std::int64_t;

#include "exec/kernels/native/numbers.inl"
#include "exec/kernels/native/functions.inl"

// ---- walks

template <class F, class T>
REHEARSAL_FLATTEN void map1(const Parameters& parameters, T* y, const T* const* x, const I* steps, I n) {
  const Parameters p = parameters;
  const T* a = x[0];
  if (steps[0] == 1) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = stored<T>(F::of(p, wide(a[i])));
  } else if (steps[0] == 0) {
    const T one = stored<T>(F::of(p, wide(a[0])));
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = one;
  } else {
    for (I i = 0; i < n; ++i) y[i] = stored<T>(F::of(p, wide(a[i * steps[0]])));
  }
}

template <class F, class T>
REHEARSAL_FLATTEN void map2(const Parameters& parameters, T* y, const T* const* x, const I* steps, I n) {
  const Parameters p = parameters;
  const T *a = x[0], *b = x[1];
  if (steps[0] == 1 && steps[1] == 1) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = stored<T>(F::of(p, wide(a[i]), wide(b[i])));
  } else if (steps[0] == 1 && steps[1] == 0) {
    const float one = wide(b[0]);
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = stored<T>(F::of(p, wide(a[i]), one));
  } else if (steps[0] == 0 && steps[1] == 1) {
    const float one = wide(a[0]);
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = stored<T>(F::of(p, one, wide(b[i])));
  } else {
    for (I i = 0; i < n; ++i) y[i] = stored<T>(F::of(p, wide(a[i * steps[0]]), wide(b[i * steps[1]])));
  }
}

template <class T>
struct Functions {
  static constexpr ElementwiseRow<T> kRows[] = {
      {"Relu", 1, map1<Relu, T>}, {"Sigmoid", 1, map1<Sigmoid, T>}, {"Tanh", 1, map1<Tanh, T>}, {"Exp", 1, map1<Exp, T>}, {"Neg", 1, map1<Neg, T>}, {"Abs", 1, map1<Abs, T>},
      {"Sqrt", 1, map1<Sqrt, T>}, {"Reciprocal", 1, map1<Reciprocal, T>}, {"Scale", 1, map1<Scale, T>}, {"Identity", 1, map1<Identity, T>}, {"LeakyRelu", 1, map1<LeakyRelu, T>},
      {"HardSigmoid", 1, map1<HardSigmoid, T>}, {"HardSwish", 1, map1<HardSwish, T>}, {"Clip", 1, map1<Clip, T>}, {"HardSigmoidGrad", 2, map2<HardSigmoidGrad, T>},
      {"HardSwishGrad", 2, map2<HardSwishGrad, T>}, {"ClipGrad", 2, map2<ClipGrad, T>}, {"Expand", 1, map1<Identity, T>},
      {"Gelu", 1, map1<GeluErf, T>}, {"Gelu:tanh", 1, map1<GeluTanh, T>}, {"GeluGrad", 2, map2<GeluErfGrad, T>}, {"GeluGrad:tanh", 2, map2<GeluTanhGrad, T>},
      {"ReluGrad", 2, map2<ReluGrad, T>}, {"SigmoidGrad", 2, map2<SigmoidGrad, T>}, {"TanhGrad", 2, map2<TanhGrad, T>}, {"LeakyReluGrad", 2, map2<LeakyReluGrad, T>},
      {"ExpGrad", 2, map2<Mul, T>}, {"Add", 2, map2<Add, T>}, {"Sub", 2, map2<Sub, T>}, {"Mul", 2, map2<Mul, T>}, {"Div", 2, map2<Div, T>}, {"Max", 2, map2<Max, T>}, {"Min", 2, map2<Min, T>},
  };
};

template <class T>
REHEARSAL_FLATTEN void where(T* y, const std::uint8_t* condition, const T* a, const T* b, const I* steps, I n) {
  const I c = steps[0], s = steps[1], t = steps[2];
  if (c == 1 && s == 1 && t == 0) {
    const T one = b[0];
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = condition[i] ? a[i] : one;
  } else {
    for (I i = 0; i < n; ++i) y[i] = condition[i * c] ? a[i * s] : b[i * t];
  }
}

// ---- columns

/// Four rows at a time, so that each running sum is loaded and stored once for all of them.
template <class T>
static void column_sums(const T* x, I rows, I columns, double* sums) {
  I r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * columns) {
    const T *x1 = x + columns, *x2 = x1 + columns, *x3 = x2 + columns;
#pragma omp simd
    for (I c = 0; c < columns; ++c) sums[c] += (double(wide(x[c])) + double(wide(x1[c]))) + (double(wide(x2[c])) + double(wide(x3[c])));
  }
  for (; r < rows; ++r, x += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) sums[c] += double(wide(x[c]));
  }
}

template <class T>
static void column_moments(const T* x, I rows, I columns, double* sums, double* squares) {
  I r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * columns) {
    const T *x1 = x + columns, *x2 = x1 + columns, *x3 = x2 + columns;
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      const double a = double(wide(x[c])), b = double(wide(x1[c])), d = double(wide(x2[c])), e = double(wide(x3[c]));
      sums[c] += (a + b) + (d + e);
      squares[c] += (a * a + b * b) + (d * d + e * e);
    }
  }
  for (; r < rows; ++r, x += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      const double a = double(wide(x[c]));
      sums[c] += a;
      squares[c] += a * a;
    }
  }
}

template <class T>
static void column_gradient(const T* x, const T* dy, I rows, I columns, const double* mean, double* sums, double* products) {
  I r = 0;
  for (; r + 2 <= rows; r += 2, x += 2 * columns, dy += 2 * columns) {
    const T *x1 = x + columns, *dy1 = dy + columns;
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      const double a = double(wide(dy[c])), b = double(wide(dy1[c]));
      sums[c] += a + b;
      products[c] += a * (double(wide(x[c])) - mean[c]) + b * (double(wide(x1[c])) - mean[c]);
    }
  }
  for (; r < rows; ++r, x += columns, dy += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) {
      sums[c] += double(wide(dy[c]));
      products[c] += double(wide(dy[c])) * (double(wide(x[c])) - mean[c]);
    }
  }
}

template <class T>
static void column_affine(T* y, const T* x, I rows, I columns, const double* slope, const double* offset) {
  for (I r = 0; r < rows; ++r, x += columns, y += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) y[c] = stored<T>(float(wide(x[c]) * slope[c] + offset[c]));
  }
}

template <class T>
static void column_line(T* dx, const T* dy, const T* x, I rows, I columns, const double* dy_factor, const double* x_factor, const double* constant) {
  for (I r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
#pragma omp simd
    for (I c = 0; c < columns; ++c) dx[c] = stored<T>(float(wide(dy[c]) * dy_factor[c] + (wide(x[c]) * x_factor[c] + constant[c])));
  }
}

// ---- rows

template <class T>
static double row_sum(const T* x, I n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += double(wide(x[i]));
  return sum;
}

template <class T>
static double row_squares(const T* x, I n, double mean) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += (double(wide(x[i])) - mean) * (double(wide(x[i])) - mean);
  return sum;
}

template <class T>
static double row_product(const T* dy, const T* x, I n, double mean) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += double(wide(dy[i])) * (double(wide(x[i])) - mean);
  return sum;
}

template <class T>
static void row_affine(T* y, const T* x, I n, Affine affine) {
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] = stored<T>(float(wide(x[i]) * affine.slope + affine.offset));
}

template <class T>
static void row_line(T* dx, const T* dy, const T* x, I n, GradientLine line) {
#pragma omp simd
  for (I i = 0; i < n; ++i) dx[i] = stored<T>(float(wide(dy[i]) * line.dy_factor + (wide(x[i]) * line.x_factor + line.constant)));
}

// ---- layer normalization

template <class T>
static void normalize_row(T* y, const T* x, I n, Standard by, const T* scale, const T* bias) {
  if (scale && bias) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = stored<T>((wide(x[i]) - by.mean) * by.inverse * wide(scale[i]) + wide(bias[i]));
  } else if (scale) {
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] = stored<T>((wide(x[i]) - by.mean) * by.inverse * wide(scale[i]));
  } else {
    for (I i = 0; i < n; ++i) y[i] = stored<T>((wide(x[i]) - by.mean) * by.inverse + (bias ? wide(bias[i]) : 0.0F));
  }
}

template <class T>
static void scaled_sums(const T* x, const T* dy, const T* scale, I n, double mean, double* out) {
  double sum = 0, product = 0;
  if (scale) {
#pragma omp simd reduction(+ : sum, product)
    for (I i = 0; i < n; ++i) {
      const double g = double(wide(dy[i])) * double(wide(scale[i]));
      sum += g;
      product += g * (double(wide(x[i])) - mean);
    }
  } else {
    sum = row_sum(dy, n);
    product = row_product(dy, x, n, mean);
  }
  out[0] = sum;
  out[1] = product;
}

template <class T>
static void scaled_line(T* dx, const T* dy, const T* x, const T* scale, I n, GradientLine line) {
  if (!scale) return row_line(dx, dy, x, n, line);
#pragma omp simd
  for (I i = 0; i < n; ++i) dx[i] = stored<T>(float(wide(dy[i]) * wide(scale[i]) * line.dy_factor + (wide(x[i]) * line.x_factor + line.constant)));
}

template <class T>
static void parameter_row(const T* x, const T* dy, I n, Standard by, double* products, double* sums) {
#pragma omp simd
  for (I i = 0; i < n; ++i) {
    products[i] += double(wide(dy[i])) * double(wide(x[i]) - by.mean) * by.inverse;
    sums[i] += double(wide(dy[i]));
  }
}

// ---- softmax

template <class T>
static float largest_of(const T* x, I n) {
  float m = -__builtin_inff();
#pragma omp simd reduction(max : m)
  for (I i = 0; i < n; ++i) m = wide(x[i]) > m ? wide(x[i]) : m;
  return m;
}

template <class T>
REHEARSAL_FLATTEN void scaled_exp(T* y, const T* x, I n, float shift, float factor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) y[i] = stored<T>(factor * exponential(wide(x[i]) - shift));
}

template <class T>
REHEARSAL_FLATTEN void softmax_row(T* y, const T* x, I n) {
  const float m = largest_of(x, n);
  double sum = 0;
  if constexpr (std::is_same_v<T, float>) {
#pragma omp simd reduction(+ : sum)
    for (I i = 0; i < n; ++i) {
      const float e = exponential(x[i] - m);
      y[i] = e;
      sum += double(e);
    }
    const float factor = float(1.0 / sum);
#pragma omp simd
    for (I i = 0; i < n; ++i) y[i] *= factor;
  } else {  // twice: a power that is stored between would be rounded twice
#pragma omp simd reduction(+ : sum)
    for (I i = 0; i < n; ++i) sum += double(exponential(wide(x[i]) - m));
    scaled_exp(y, x, n, m, float(1.0 / sum));
  }
}

template <class T>
REHEARSAL_FLATTEN void softmax_gradient_row(T* dx, const T* dy, const T* y, I n) {
  const float sum = float(row_product(dy, y, n, 0.0));
#pragma omp simd
  for (I i = 0; i < n; ++i) dx[i] = stored<T>(wide(y[i]) * (wide(dy[i]) - sum));
}

template <class T>
REHEARSAL_FLATTEN double log_sum_exp(const T* x, I n) {
  const float m = largest_of(x, n);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (I i = 0; i < n; ++i) sum += double(exponential(wide(x[i]) - m));
  return double(m) + __builtin_log(sum);
}

// ---- windows

/// As PyTorch: a NaN wins over everything, and among equals the first.
template <class T>
static void largest(float* best, std::int32_t* tap_of_best, const T* x, I columns, std::int32_t tap) {
#pragma omp simd
  for (I c = 0; c < columns; ++c) {
    const float a = wide(x[c]);
    const bool beats = !(a <= best[c]) && !(best[c] != best[c] && a == a);
    best[c] = beats ? a : best[c];
    tap_of_best[c] = beats ? tap : tap_of_best[c];
  }
}

template <class T>
static void add(float* sum, const T* x, I n) {
#pragma omp simd
  for (I i = 0; i < n; ++i) sum[i] += wide(x[i]);
}

template <class T>
static void add_scaled(float* sum, const T* x, I n, float factor) {
#pragma omp simd
  for (I i = 0; i < n; ++i) sum[i] += wide(x[i]) * factor;
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
    const float square = s.beta2 * v_old[i] + s.rest2 * gradient * gradient, root = __builtin_sqrtf(square * second);
    const float taken = s.beta1 * m_old[i] + s.rest1 * gradient, most = s.most * root;
    const float mean = !s.holds ? taken : taken > most ? most : taken < -most ? -most : taken;
    m[i] = mean;
    v[i] = square;
    p[i] = p_old[i] * shrink - s.lr * (mean * first) / (root + s.eps);
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

#include "exec/kernels/native/transposes.inl"
#include "exec/kernels/native/attention.inl"
#include "exec/kernels/native/winograd.inl"
#include "exec/kernels/native/depthwise.inl"

template <class T>
static constexpr LoopsOver<T> loops_of() {
  constexpr const auto& kFunctions = Functions<T>::kRows;
  return {kFunctions, int(sizeof(kFunctions) / sizeof(kFunctions[0])), where<T>, column_sums<T>, column_moments<T>, column_gradient<T>, column_affine<T>, column_line<T>,
          row_sum<T>, row_squares<T>, row_product<T>, row_affine<T>, row_line<T>, normalize_row<T>, scaled_sums<T>, scaled_line<T>, parameter_row<T>,
          softmax_row<T>, softmax_gradient_row<T>, log_sum_exp<T>, scaled_exp<T>, largest<T>, add<T>, add_scaled<T>, to_f32<T>, from_f32<T>};
}
static const Loops kLoops = {
    loops_of<float>(), loops_of<Bf16>(), loops_of<F16>(),
    kAttention, kWinograd, transpose<std::uint32_t>, transpose<std::uint16_t>, pair_rows, sgd, adam, multiply_add<float>, multiply_add<double>, kVectorBytes, kDepthwise,
};
