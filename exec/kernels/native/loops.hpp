#pragma once
// The innermost loops over contiguous f32, compiled once per instruction set (loops.inl) and chosen at run time.
// They take raw pointers only: nothing in them may be shared with code compiled for another instruction set.

#include <cstdint>
#include <utility>

namespace rehearsal::exec::native {

/// What the attributes of an element-wise operator say.
struct FunctionParameters {
  float factor = 1;
  float alpha = 0, beta = 0;
  float low = 0, high = 0;  ///< of Clip
  bool tanh = false;
};

/// y[i] = f(x[0][i * steps[0]], x[1][i * steps[1]]). y may be one of the operands.
using ElementwiseLoop = void (*)(const FunctionParameters&, float* y, const float* const* x, const std::int64_t* steps, std::int64_t count);
struct ElementwiseRow {
  const char* op;
  int operands;
  ElementwiseLoop loop;
};

/// Of one channel (or row): result = x * slope + offset.
struct Affine {
  double slope, offset;
};
/// Of one row: (x - mean) * inverse deviation.
struct Standard {
  float mean, inverse;
};
/// dx = dy * dy_factor + x * x_factor + constant. In f64: where the mean of x is large beside its deviation the last two nearly cancel, and
/// what they leave wrong is the same for all of a channel, so that sums over dx (gradients of the weights before) keep it.
struct GradientLine {
  double dy_factor, x_factor, constant;
};
/// What one optimizer step is made of.
struct SgdStep {
  float lr, momentum, decay;
  bool nesterov;
};
/// `rest` is 1 - beta, which would lose digits if it were computed in f32.
struct AdamStep {
  float lr, beta1, rest1, beta2, rest2, eps, decay, correction1, correction2;
  bool decoupled;
};

/// Of two matrices, c = a b or (`adds`) c += a b. b and c have their columns side by side, a lies anyhow: either factor's transpose is one.
struct MatrixProduct {
  std::int64_t rows, columns, depth;  ///< of c, and how many products make an element of it
  std::int64_t a_row, a_column;       ///< elements between neighbours
  std::int64_t b_row, c_row;
  std::int64_t b_elements;  ///< that may be read from the first of b on
  bool adds;
};

/// Rows of scores.
struct RowBlock {
  float* first;
  std::int64_t rows, columns, stride;
};
/// What hides scores, as it lies; `step` between columns is 0 or 1.
struct HiddenBy {
  const std::uint8_t* flags;
  std::int64_t row_step, step;
  bool hidden;  ///< the flag of what is hidden
  float number;
};

/// What attention is made of besides softmax (attention.inl).
struct AttentionLoops {
  void (*product)(const MatrixProduct&, const float* a, const float* b, float* c);
  void (*transpose)(const float* from, std::int64_t from_row, float* to, std::int64_t to_row, std::int64_t rows, std::int64_t columns);
  void (*scale)(const RowBlock&, float factor);
  void (*divide)(const RowBlock&, float divisor);
  void (*add)(const RowBlock&, const float* addend, std::int64_t row_step, std::int64_t step);
  void (*hide)(const RowBlock&, const HiddenBy&);
  /// x = factor x where y is not 0, and 0 where it is
  void (*keep)(float* x, const float* y, std::int64_t count, float factor);
  float (*largest)(const float* x, std::int64_t count);
  // The first and one past the last element above a bound (flag that is not `hidden`); equal where there is none.
  void (*range_above)(const float* x, std::int64_t count, float bound, std::int64_t* range);
  void (*range_shown)(const std::uint8_t* flags, std::int64_t count, bool hidden, std::int64_t* range);
};

struct Loops {
  const ElementwiseRow* elementwise;
  int elementwise_rows;
  /// y[i] = condition[i * steps[0]] ? a[i * steps[1]] : b[i * steps[2]]
  void (*where)(float* y, const std::uint8_t* condition, const float* a, const float* b, const std::int64_t* steps, std::int64_t count);

  // Matrices of `rows` x `columns`, sums by column added to what is there.
  void (*column_sums)(const float* x, std::int64_t rows, std::int64_t columns, double* sums);
  void (*column_moments)(const float* x, std::int64_t rows, std::int64_t columns, double* sums, double* squares);
  /// sums += dy; products += dy * (x - mean[column])
  void (*column_gradient)(const float* x, const float* dy, std::int64_t rows, std::int64_t columns, const double* mean, double* sums,
                          double* products);
  void (*column_affine)(float* y, const float* x, std::int64_t rows, std::int64_t columns, const double* slope, const double* offset);
  void (*column_line)(float* dx, const float* dy, const float* x, std::int64_t rows, std::int64_t columns, const double* dy_factor,
                      const double* x_factor, const double* constant);

  // One contiguous row of one channel.
  double (*row_sum)(const float* x, std::int64_t count);
  double (*row_squares)(const float* x, std::int64_t count, double mean);
  double (*row_product)(const float* dy, const float* x, std::int64_t count, double mean);
  void (*row_affine)(float* y, const float* x, std::int64_t count, Affine affine);
  void (*row_line)(float* dx, const float* dy, const float* x, std::int64_t count, GradientLine line);

  // Layer normalization. scale and bias may be nullptr.
  void (*normalize_row)(float* y, const float* x, std::int64_t count, Standard by, const float* scale, const float* bias);
  /// out[0] = sum of dy scale, out[1] = sum of dy scale (x - mean)
  void (*scaled_sums)(const float* x, const float* dy, const float* scale, std::int64_t count, double mean, double* out);
  void (*scaled_line)(float* dx, const float* dy, const float* x, const float* scale, std::int64_t count, GradientLine line);
  /// products += dy * (x - mean) * inverse, sums += dy
  void (*parameter_row)(const float* x, const float* dy, std::int64_t count, Standard by, double* products, double* sums);

  // Softmax of one row, and what cross entropy needs of it.
  void (*softmax_row)(float* y, const float* x, std::int64_t count);
  void (*softmax_gradient_row)(float* dx, const float* dy, const float* y, std::int64_t count);
  /// log of the sum of exp(x)
  double (*log_sum_exp)(const float* x, std::int64_t count);
  /// y = factor * exp(x - shift)
  void (*scaled_exp)(float* y, const float* x, std::int64_t count, float shift, float factor);

  // Windows over channels-last images: `columns` channels side by side.
  void (*largest)(float* best, std::int32_t* tap_of_best, const float* x, std::int64_t columns, std::int32_t tap);
  void (*add)(float* sum, const float* x, std::int64_t count);
  void (*add_scaled)(float* sum, const float* x, std::int64_t count, float factor);

  AttentionLoops attention;

  void (*sgd)(float* p, const float* p_old, const float* g, float* m, const float* m_old, std::int64_t count, const SgdStep& step);
  void (*adam)(float* p, const float* p_old, const float* g, float* const* moments, const float* const* moments_old, std::int64_t count,
               const AdamStep& step);

  // Peak arithmetic of one core: independent multiply-adds. Returns something that depends on all of them.
  double (*multiply_add_f32)(std::int64_t rounds);
  double (*multiply_add_f64)(std::int64_t rounds);
  int multiply_add_bytes;  ///< width of a vector; a round is kMultiplyAdds vectors
};
inline constexpr int kMultiplyAdds = 12;

/// For the instruction set of this machine.
[[nodiscard]] const Loops& loops();

}  // namespace rehearsal::exec::native
