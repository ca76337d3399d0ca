// Batch normalization of channels-last images: columns are channels, and a thread that has some neighbouring channels keeps what it knows
// of them in registers. Shapes are in the order of memory (in_memory_order.hpp). Sums are in f64.

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/image_statistics.hpp"
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
  [[nodiscard]] Columns columns() const { return Columns::of_rows(pixels, channels); }
};

/// Sums of a channel's elements and of their squares, or of dy and of dy times x.
template <class T>
struct ChannelTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 2, kTogether = few_of<T>;
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

/// Statistics of the channels of an image, which is operand 0.
template <class T>
ImageStatistics<T> statistics_of(const Call& call, std::size_t sums) {
  return ImageStatistics<T>::of_sums(call, ImageRows::of_channels(channels_first(call.in_shape(0))), sums);
}

/// Makes of the sum of dy times x that of dy times the normalized x.
template <class T>
struct NormalizedStore {
  ImageStatistics<T> statistics;
  SumsStore store;
  REHEARSAL_BODY void operator()(std::int64_t c, const double* totals) const {
    const ImageMoments m = statistics.moments(c);
    const double normalized[] = {totals[0], m.inverse * (totals[1] - m.mean * totals[0])};
    store(c, normalized);
  }
};

struct Sums {
  static Columns columns_of(const graph::NodeView& node) { return PixelRows(node.input(0).shape).columns(); }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<ChannelTerm<float>>(columns_of(node)); }
  template <class T>
  static void run(const Call& call) {
    reduce(call.context.stream, columns_of(call.problem.view()), ChannelTerm<T>{call.in<T>(0), nullptr},
           SumsStore{call.out<double>(), call.in_shape(0).back()}, call.context.workspace);
  }
};

/// X, sums, dY -> sums of dY and of dY times the normalized X.
struct GradSums {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return Sums::workspace_bytes(node); }
  template <class T>
  static void run(const Call& call) {
    reduce(call.context.stream, Sums::columns_of(call.problem.view()), ChannelTerm<T>{call.in<T>(0), call.in<T>(2)},
           NormalizedStore<T>{statistics_of<T>(call, 1), {call.out<double>(), call.in_shape(0).back()}}, call.context.workspace);
  }
};

/// The factors of neighbouring channels, one after another.
template <class R>
struct ChannelsInTurn {
  const FactorsIn<R>* next;
  REHEARSAL_BODY const FactorsIn<R>& operator()() { return *next++; }
};

/// kCount neighbouring channels of every `turns`-th pixel, by the body of a row.
template <int kCount, class Row, class R>
struct EveryPixel {
  Row row;
  std::int64_t pixels, channels, turns;
  Divider groups;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t turn = i;
    const std::int64_t channel = groups.split(turn) * kCount;
    FactorsIn<R> factors[kCount];
    for (int k = 0; k < kCount; ++k) factors[k] = in_type<R>(row.factors[channel + k]);
    for (std::int64_t p = turn; p < pixels; p += turns) {
      ChannelsInTurn<R> next{factors};
      row.template take<kCount>(p * channels + channel, next);
    }
  }
};

template <int kCount, class T, class Row>
void for_each_pixel(const Call& call, const PixelRows& rows, const Row& row) {
  constexpr std::int64_t kThreadsWanted = 1 << 18, kLeast = 4;  // threads; pixels of one
  const std::int64_t groups = rows.channels / kCount;
  const std::int64_t turns = std::max<std::int64_t>(1, std::min(kThreadsWanted / std::max<std::int64_t>(1, groups), rows.pixels / kLeast));
  for_each(call.context.stream, groups * turns, EveryPixel<kCount, Row, Real<T>>{row, rows.pixels, rows.channels, turns, Divider(groups)});
}

std::int64_t bytes_of_factors(const graph::NodeView& node) {
  return node.input(0).shape.back() * static_cast<std::int64_t>(sizeof(RowFactors));
}
RowFactors* factors_of(const Call& call) { return static_cast<RowFactors*>(call.context.workspace); }

/// `prepare` writes the factors of every channel; then the pixels.
template <class T, class Prepare, class Row>
void run_pixels(const Call& call, const Prepare& prepare, const Row& row) {
  constexpr int kCount = few_of<T>;
  const PixelRows rows(call.in_shape(0));
  for_each(call.context.stream, rows.channels, prepare);
  if (rows.channels % kCount == 0 && row.is_aligned(kCount)) return for_each_pixel<kCount, T>(call, rows, row);
  for_each_pixel<1, T>(call, rows, row);
}

/// X, sums, scale, bias -> Y.
struct Apply {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors(node); }
  template <class T>
  static void run(const Call& call) {
    run_pixels<T>(call, ApplyFactors<T>{statistics_of<T>(call, 1), call.in<T>(2), call.in<T>(3), factors_of(call)},
                  ApplyRow<T>{call.in<T>(0), call.out<T>(), factors_of(call)});
  }
};

/// X, sums, scale, dY, gradient sums -> dX.
struct GradInput {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors(node); }
  template <class T>
  static void run(const Call& call) {
    run_pixels<T>(call, GradientFactors<false, T>{statistics_of<T>(call, 1), call.in<T>(2), call.in<double>(4), factors_of(call)},
                  GradientRow<T>{call.in<T>(0), call.in<T>(3), call.out<T>(), factors_of(call)});
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
