#pragma once
// The innermost loops over contiguous numbers, compiled once per instruction set (loops.inl) and chosen at run time. They compute in f32
// (sums in f64), also where numbers lie in 16 bits: those are widened in registers, and what is stored is rounded once.
// They take raw pointers only: nothing in them may be shared with code compiled for another instruction set.

#include <cstdint>
#include <type_traits>

namespace rehearsal::exec::native {

/// 16-bit numbers as they lie in memory; stored ones are rounded to the nearest, ties to even (IEEE 754-2019, 4.3.1).
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

/// What the attributes of an element-wise operator say.
struct FunctionParameters {
  float factor = 1;
  float alpha = 0, beta = 0;
  float low = 0, high = 0;  ///< of Clip
  bool tanh = false;
};

/// y[i] = f(x[0][i * steps[0]], x[1][i * steps[1]]). y may be one of the operands.
template <class T>
using ElementwiseLoop = void (*)(const FunctionParameters&, T* y, const T* const* x, const std::int64_t* steps, std::int64_t count);
template <class T>
struct ElementwiseRow {
  const char* op;
  int operands;
  ElementwiseLoop<T> loop;
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
  float most;  ///< where the first moment is held to a part of the root of the corrected second one: which
  bool holds;
  bool decoupled;
};

/// Of two matrices, c = a b or (`adds`) c += a b. b and c have their columns side by side, a lies anyhow: either factor's transpose is one.
struct PlainProduct {
  std::int64_t rows, columns, depth;  ///< of c, and how many products make an element of it
  std::int64_t a_row, a_column;       ///< elements between neighbours
  std::int64_t b_row, c_row;
  std::int64_t b_elements;  ///< that may be read from the first of b on
  bool adds;
};

/// Rows of scores.
struct ScoreRows {
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
  void (*product)(const PlainProduct&, const float* a, const float* b, float* c);
  void (*transpose)(const float* from, std::int64_t from_row, float* to, std::int64_t to_row, std::int64_t rows, std::int64_t columns);
  void (*scale)(const ScoreRows&, float factor);
  void (*divide)(const ScoreRows&, float divisor);
  void (*add)(const ScoreRows&, const float* addend, std::int64_t row_step, std::int64_t step);
  void (*hide)(const ScoreRows&, const HiddenBy&);
  /// x = factor x where y is not 0, and 0 where it is
  void (*keep)(float* x, const float* y, std::int64_t count, float factor);
  float (*largest)(const float* x, std::int64_t count);
  // The first and one past the last element above a bound (flag that is not `hidden`); equal where there is none.
  void (*range_above)(const float* x, std::int64_t count, float bound, std::int64_t* range);
  void (*range_shown)(const std::uint8_t* flags, std::int64_t count, bool hidden, std::int64_t* range);
};

/// Pixels (or taps) of which each has its channels side by side; elements from one to the next below it and beside it.
struct ConstPatch {
  const float* first;
  std::int64_t row, column;
};
struct Patch {
  float* first;
  std::int64_t row, column;
};

/// What Winograd's convolutions are made of besides products (winograd.inl): each of `count` channels, 16 or more, of one patch.
struct WinogradLoops {
  using Transform = void (*)(const ConstPatch& x, const Patch& y, std::int64_t count);
  Transform image;            ///< 6 x 6 -> 6 x 6
  Transform result;           ///< 6 x 6 -> 4 x 4
  Transform gradient;         ///< of a result: 4 x 4 -> 6 x 6
  Transform weights;          ///< 3 x 3 -> 6 x 6
  Transform weight_gradient;  ///< 6 x 6 -> 3 x 3
};

/// Channels that gradients of depthwise convolutions' weights are added up of at once.
inline constexpr std::int64_t kDepthwiseChannels = 16;
/// Pixels of the gradient of a result, and those of the image under the first tap: each has kDepthwiseChannels numbers side by side.
struct DepthwiseRows {
  std::int64_t rows, columns;    ///< of the gradient
  std::int64_t x_row, x_column;  ///< elements between pixels of the image under neighbouring ones
  std::int64_t dy_row;
  std::int64_t tap;  ///< elements between pixels under neighbouring taps
};
/// Some channels of pixels that are `step` elements apart.
struct ChannelBlock {
  std::int64_t pixels, step, channels;
};
/// What those gradients are made of (depthwise.inl).
struct DepthwiseLoops {
  /// sums[tap] += x * dy, by channel, of so many taps of a row
  void (*sums)(const DepthwiseRows&, std::int64_t taps, const float* x, const float* dy, float* sums);
  // To kDepthwiseChannels side by side, those that are not there 0.
  void (*take_f32)(const ChannelBlock&, const float* x, float* y);
  void (*take_bf16)(const ChannelBlock&, const Bf16* x, float* y);
  void (*take_f16)(const ChannelBlock&, const F16* x, float* y);
};

/// Over numbers that lie as T: float, Bf16 or F16.
template <class T>
struct LoopsOver {
  const ElementwiseRow<T>* elementwise;
  int elementwise_rows;
  /// y[i] = condition[i * steps[0]] ? a[i * steps[1]] : b[i * steps[2]]
  void (*where)(T* y, const std::uint8_t* condition, const T* a, const T* b, const std::int64_t* steps, std::int64_t count);

  // Matrices of `rows` x `columns`, sums by column added to what is there.
  void (*column_sums)(const T* x, std::int64_t rows, std::int64_t columns, double* sums);
  void (*column_moments)(const T* x, std::int64_t rows, std::int64_t columns, double* sums, double* squares);
  /// sums += dy; products += dy * (x - mean[column])
  void (*column_gradient)(const T* x, const T* dy, std::int64_t rows, std::int64_t columns, const double* mean, double* sums,
                          double* products);
  void (*column_affine)(T* y, const T* x, std::int64_t rows, std::int64_t columns, const double* slope, const double* offset);
  void (*column_line)(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t columns, const double* dy_factor,
                      const double* x_factor, const double* constant);

  // One contiguous row of one channel.
  double (*row_sum)(const T* x, std::int64_t count);
  double (*row_squares)(const T* x, std::int64_t count, double mean);
  double (*row_product)(const T* dy, const T* x, std::int64_t count, double mean);
  void (*row_affine)(T* y, const T* x, std::int64_t count, Affine affine);
  void (*row_line)(T* dx, const T* dy, const T* x, std::int64_t count, GradientLine line);

  // Layer normalization. scale and bias may be nullptr.
  void (*normalize_row)(T* y, const T* x, std::int64_t count, Standard by, const T* scale, const T* bias);
  /// out[0] = sum of dy scale, out[1] = sum of dy scale (x - mean)
  void (*scaled_sums)(const T* x, const T* dy, const T* scale, std::int64_t count, double mean, double* out);
  void (*scaled_line)(T* dx, const T* dy, const T* x, const T* scale, std::int64_t count, GradientLine line);
  /// products += dy * (x - mean) * inverse, sums += dy
  void (*parameter_row)(const T* x, const T* dy, std::int64_t count, Standard by, double* products, double* sums);

  // Softmax of one row, and what cross entropy needs of it.
  void (*softmax_row)(T* y, const T* x, std::int64_t count);
  void (*softmax_gradient_row)(T* dx, const T* dy, const T* y, std::int64_t count);
  /// log of the sum of exp(x)
  double (*log_sum_exp)(const T* x, std::int64_t count);
  /// y = factor * exp(x - shift)
  void (*scaled_exp)(T* y, const T* x, std::int64_t count, float shift, float factor);

  // Windows over channels-last images: `columns` channels side by side.
  void (*largest)(float* best, std::int32_t* tap_of_best, const T* x, std::int64_t columns, std::int32_t tap);
  void (*add)(float* sum, const T* x, std::int64_t count);
  void (*add_scaled)(float* sum, const T* x, std::int64_t count, float factor);

  void (*to_f32)(float* y, const T* x, std::int64_t count);
  void (*from_f32)(T* y, const float* x, std::int64_t count);
};

struct Loops {
  LoopsOver<float> f32;
  LoopsOver<Bf16> bf16;
  LoopsOver<F16> f16;

  AttentionLoops attention;
  WinogradLoops winograd;

  /// Rows x columns whose rows are from_row apart to columns x rows, to_row apart; of 4 and of 2 bytes.
  void (*transpose32)(const std::uint32_t* from, std::int64_t from_row, std::uint32_t* to, std::int64_t to_row, std::int64_t rows,
                      std::int64_t columns);
  void (*transpose16)(const std::uint16_t* from, std::int64_t from_row, std::uint16_t* to, std::int64_t to_row, std::int64_t rows,
                      std::int64_t columns);

  /// Of rows of 2 bytes: word (p, c) holds element c of rows 2 p and 2 p + 1, as amx_tiles.hpp wants b.
  void (*pair_rows)(const std::uint16_t* from, std::int64_t from_row, std::uint32_t* to, std::int64_t to_row, std::int64_t pairs,
                    std::int64_t columns);

  void (*sgd)(float* p, const float* p_old, const float* g, float* m, const float* m_old, std::int64_t count, const SgdStep& step);
  void (*adam)(float* p, const float* p_old, const float* g, float* const* moments, const float* const* moments_old, std::int64_t count,
               const AdamStep& step);

  // Peak arithmetic of one core: independent multiply-adds. Returns something that depends on all of them.
  double (*multiply_add_f32)(std::int64_t rounds);
  double (*multiply_add_f64)(std::int64_t rounds);
  int multiply_add_bytes;  ///< width of a vector; a round is kMultiplyAdds vectors

  DepthwiseLoops depthwise;
};
inline constexpr int kMultiplyAdds = 12;

/// For the instruction set of this machine.
[[nodiscard]] const Loops& loops();
/// Its loops over numbers that lie as T.
template <class T>
[[nodiscard]] const LoopsOver<T>& loops_over() {
  if constexpr (std::is_same_v<T, Bf16>)
    return loops().bf16;
  else if constexpr (std::is_same_v<T, F16>)
    return loops().f16;
  else
    return loops().f32;
}

}  // namespace rehearsal::exec::native
