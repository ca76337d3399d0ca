// Batch normalization of channels-last images: columns are channels, and a thread that has some neighbouring channels keeps what it knows
// of them in registers. Shapes are in the order of memory (in_memory_order.hpp). Sums are in f64.

#include <cmath>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/in_memory_order.hpp"
#include "exec/kernels/cuda/reduce.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// An image as rows of channels.
struct PixelRows {
  std::int64_t pixels = 1, channels;
  explicit PixelRows(const graph::Shape& in_memory) : channels(in_memory.back()) {
    for (std::size_t d = 0; d + 1 < in_memory.size(); ++d) pixels *= in_memory[d];
  }
  [[nodiscard]] Columns columns() const {
    Columns all;
    all.columns = channels, all.rows = pixels;
    all.row_walk.rank = 1;
    all.row_walk.sizes[0] = Divider(pixels);
    all.row_walk.strides[0][0] = channels;
    all.split();
    return all;
  }
};

/// Sums of a channel's elements and of their squares, or of dy and of dy times x.
template <class T>
struct ChannelTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 2, kTogether = columns_together<T>;
  static REHEARSAL_BODY Value start() { return 0; }
  const T *x, *dy;  ///< no dy: x itself
  [[nodiscard]] bool is_aligned(int columns) const { return begins_whole(x, columns) && begins_whole(dy, columns); }
  REHEARSAL_BODY void add(Value* totals, const Strided& run) const {
    REHEARSAL_UNROLL
    for (std::int64_t i = run.at + run.begin; i < run.at + run.end; i += run.step) {
      const auto value = static_cast<double>(real(x[i])), first = dy == nullptr ? value : static_cast<double>(real(dy[i]));
      totals[0] += first;
      totals[1] += first * value;
    }
  }
  template <int kColumns>
  REHEARSAL_BODY void add_columns(Value (*totals)[kValues], const Strided& run) const {
    REHEARSAL_UNROLL
    for (std::int64_t i = run.at + run.begin; i < run.at + run.end; i += run.step) {
      const auto values = load_few<kColumns>(x + i), firsts = dy == nullptr ? values : load_few<kColumns>(dy + i);
      for (int c = 0; c < kColumns; ++c) {
        const auto first = static_cast<double>(real(firsts.at[c]));
        totals[c][0] += first;
        totals[c][1] += first * static_cast<double>(real(values.at[c]));
      }
    }
  }
};

struct ChannelStore {
  double* to;
  std::int64_t channels;
  REHEARSAL_BODY void operator()(std::int64_t c, const double* totals) const {
    to[c] = totals[0];
    to[channels + c] = totals[1];
  }
};

/// Mean and inverse deviation of a channel, from the sums of its elements and of their squares.
struct ChannelMoments {
  const double* sums;
  std::int64_t channels;
  double count, epsilon;
  ChannelMoments(const Call& call, std::size_t operand)
      : sums(call.in<double>(operand)),
        channels(call.in_shape(0).back()),
        count(static_cast<double>(call.attributes().integer("count", 1))),
        epsilon(call.attributes().number("epsilon", 1e-5)) {}
  REHEARSAL_BODY double mean(std::int64_t c) const { return sums[c] / count; }
  REHEARSAL_BODY double inverse(std::int64_t c) const {
    const double average = mean(c), variance = sums[channels + c] / count - average * average;
    return 1.0 / std::sqrt((variance > 0 ? variance : 0) + epsilon);
  }
};

/// Makes of the sum of dy times x that of dy times the normalized x.
struct NormalizedStore {
  ChannelMoments moments;
  double* to;
  REHEARSAL_BODY void operator()(std::int64_t c, const double* totals) const {
    to[c] = totals[0];
    to[moments.channels + c] = moments.inverse(c) * (totals[1] - moments.mean(c) * totals[0]);
  }
};

struct Sums {
  static Columns columns_of(const graph::NodeView& node) { return PixelRows(node.input(0).shape).columns(); }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<ChannelTerm<float>>(columns_of(node)); }
  template <class T>
  static void run(const Call& call) {
    reduce(call.context.stream, columns_of(call.problem.view()), ChannelTerm<T>{call.in<T>(0), nullptr},
           ChannelStore{call.out<double>(), call.in_shape(0).back()}, call.context.workspace);
  }
};

/// X, sums, dY -> sums of dY and of dY times the normalized X.
struct GradSums {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return Sums::workspace_bytes(node); }
  template <class T>
  static void run(const Call& call) {
    reduce(call.context.stream, Sums::columns_of(call.problem.view()), ChannelTerm<T>{call.in<T>(0), call.in<T>(2)},
           NormalizedStore{ChannelMoments(call, 1), call.out<double>()}, call.context.workspace);
  }
};

/// slope * a - linear * (x - mean) + constant for the elements of a channel, where a is x - mean or a gradient.
template <class R>
struct ChannelFactors {
  R mean, slope, linear, constant;
};

template <class T>
struct PrepareApply {
  ChannelMoments moments;
  const T *scale, *bias;  ///< no bias: 0
  ChannelFactors<Real<T>>* factors;
  REHEARSAL_BODY void operator()(std::int64_t c) const {
    using R = Real<T>;
    const double slope = static_cast<double>(real(scale[c])) * moments.inverse(c);
    factors[c] = {static_cast<R>(moments.mean(c)), static_cast<R>(slope), R(0), bias != nullptr ? real(bias[c]) : R(0)};
  }
};

template <class T>
struct PrepareGradient {
  ChannelMoments moments;
  const T* scale;
  const double* gradients;
  ChannelFactors<Real<T>>* factors;
  REHEARSAL_BODY void operator()(std::int64_t c) const {
    using R = Real<T>;
    const double inverse = moments.inverse(c), slope = inverse * static_cast<double>(real(scale[c])), share = slope / moments.count;
    factors[c] = {static_cast<R>(moments.mean(c)), static_cast<R>(slope), static_cast<R>(share * gradients[moments.channels + c] * inverse),
                  static_cast<R>(-share * gradients[c])};
  }
};

template <class T>
struct ApplyChannels {
  const T* x;
  T* y;
  const ChannelFactors<Real<T>>* factors;
  [[nodiscard]] bool is_aligned(int count) const { return begins_whole(x, count) && begins_whole(y, count); }
  template <int kCount>
  REHEARSAL_BODY void take(std::int64_t i, const ChannelFactors<Real<T>> (&of)[kCount]) const {
    auto values = load_few<kCount>(x + i);
    for (int k = 0; k < kCount; ++k) values.at[k] = static_cast<T>((real(values.at[k]) - of[k].mean) * of[k].slope + of[k].constant);
    store_few(y + i, values);
  }
};

template <class T>
struct GradientChannels {
  const T *x, *dy;
  T* dx;
  const ChannelFactors<Real<T>>* factors;
  [[nodiscard]] bool is_aligned(int count) const { return begins_whole(x, count) && begins_whole(dy, count) && begins_whole(dx, count); }
  template <int kCount>
  REHEARSAL_BODY void take(std::int64_t i, const ChannelFactors<Real<T>> (&of)[kCount]) const {
    const auto values = load_few<kCount>(x + i);
    auto results = load_few<kCount>(dy + i);
    for (int k = 0; k < kCount; ++k)
      results.at[k] = static_cast<T>(of[k].slope * real(results.at[k]) - of[k].linear * (real(values.at[k]) - of[k].mean) + of[k].constant);
    store_few(dx + i, results);
  }
};

/// kCount neighbouring channels of every `turns`-th pixel.
template <int kCount, class Body, class R>
struct EveryPixel {
  Body body;
  std::int64_t pixels, channels, turns;
  Divider groups;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t turn = i;
    const std::int64_t channel = groups.split(turn) * kCount;
    ChannelFactors<R> of[kCount];
    for (int k = 0; k < kCount; ++k) of[k] = body.factors[channel + k];
    for (std::int64_t p = turn; p < pixels; p += turns) body.template take<kCount>(p * channels + channel, of);
  }
};

template <int kCount, class T, class Body>
void for_each_pixel(const Call& call, const PixelRows& rows, const Body& body) {
  constexpr std::int64_t kThreadsWanted = 1 << 18, kLeast = 4;  // threads; pixels of one
  const std::int64_t groups = rows.channels / kCount;
  const std::int64_t turns = std::max<std::int64_t>(1, std::min(kThreadsWanted / std::max<std::int64_t>(1, groups), rows.pixels / kLeast));
  for_each(call.context.stream, groups * turns,
           EveryPixel<kCount, Body, Real<T>>{body, rows.pixels, rows.channels, turns, Divider(groups)});
}

std::int64_t bytes_of_factors(const graph::NodeView& node) {
  return node.input(0).shape.back() * static_cast<std::int64_t>(sizeof(ChannelFactors<double>));
}

/// `prepare` writes the factors of every channel; then the pixels.
template <class T, class Prepare, class Body>
void run_pixels(const Call& call, const Prepare& prepare, const Body& body) {
  constexpr int kCount = columns_together<T>;
  const PixelRows rows(call.in_shape(0));
  for_each(call.context.stream, rows.channels, prepare);
  if (rows.channels % kCount == 0 && body.is_aligned(kCount)) return for_each_pixel<kCount, T>(call, rows, body);
  for_each_pixel<1, T>(call, rows, body);
}

/// X, sums, scale, bias -> Y.
struct Apply {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors(node); }
  template <class T>
  static void run(const Call& call) {
    auto* factors = static_cast<ChannelFactors<Real<T>>*>(call.context.workspace);
    run_pixels<T>(call, PrepareApply<T>{ChannelMoments(call, 1), call.in<T>(2), call.in<T>(3), factors},
                  ApplyChannels<T>{call.in<T>(0), call.out<T>(), factors});
  }
};

/// X, sums, scale, dY, gradient sums -> dX.
struct GradInput {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors(node); }
  template <class T>
  static void run(const Call& call) {
    auto* factors = static_cast<ChannelFactors<Real<T>>*>(call.context.workspace);
    run_pixels<T>(call, PrepareGradient<T>{ChannelMoments(call, 1), call.in<T>(2), call.in<double>(4), factors},
                  GradientChannels<T>{call.in<T>(0), call.in<T>(3), call.out<T>(), factors});
  }
};

constexpr std::string_view kName = "cuda:normalization-channels-last";
constexpr KernelRow kRows[] = {
    {"BatchNormSums", kName, of_channels_last<make_by_input_with_workspace<Sums, Floats>>, only_channels_last},
    {"BatchNormApply", kName, of_channels_last<make_by_output_with_workspace<Apply, Floats>>, only_channels_last},
    {"BatchNormGradSums", kName, of_channels_last<make_by_input_with_workspace<GradSums, Floats>>, only_channels_last},
    {"BatchNormGradInput", kName, of_channels_last<make_by_output_with_workspace<GradInput, Floats>>, only_channels_last},
};

}  // namespace

std::span<const KernelRow> channels_last_normalization_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
