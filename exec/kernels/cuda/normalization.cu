// Batch and group normalization share their kernels: both keep sums per statistic, and differ in which statistic an element belongs to.
// What a row (a channel of a sample) needs besides its elements is computed once into the workspace, before the pass over elements.

#include <cmath>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/image_statistics.hpp"
#include "exec/kernels/cuda/reduce.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// X -> sums.
template <class T>
struct MomentsTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 2;
  static REHEARSAL_BODY Value start() { return 0; }
  const T* x;
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    const auto few = [&](auto count, std::int64_t i) {
      const auto values = load_few<count()>(x + i);
      for (int k = 0; k < count(); ++k) {
        const auto value = static_cast<double>(real(values.at[k]));
        totals[0] += value;
        totals[1] += value * value;
      }
    };
    visit_share(share, few, x);
  }
};
struct Sums {
  static Segments segments_of(const graph::NodeView& node) { return ImageRows(node.input(0).shape, node.output().shape).segments(); }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<MomentsTerm<float>>(segments_of(node)); }
  template <class T>
  static void run(const Call& call) {
    const Segments segments = segments_of(call.problem.view());
    reduce(call.context.stream, segments, MomentsTerm<T>{call.in<T>(0)}, SumsStore{call.out<double>(), segments.targets},
           call.context.workspace);
  }
};

std::int64_t bytes_of_factors(const ImageRows& layout) { return layout.kinds() * static_cast<std::int64_t>(sizeof(RowFactors)); }
RowFactors* factors_of(const Call& call) { return static_cast<RowFactors*>(call.context.workspace); }

/// X, sums, scale, bias -> Y.
struct Apply {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors({node.input(0).shape, node.input(1).shape}); }
  template <class T>
  static void run(const Call& call) {
    const auto statistics = ImageStatistics<T>::of_sums(call, 1);
    run_rows_of(call, statistics.layout, ApplyFactors<T>{statistics, call.in<T>(2), call.in<T>(3), factors_of(call)},
                ApplyRow<T>{call.in<T>(0), call.out<T>(), factors_of(call)});
  }
};

/// X, scale, bias, mean, variance -> Y.
struct Inference {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors(ImageRows::of_channels(node.input(0).shape)); }
  template <class T>
  static void run(const Call& call) {
    const auto statistics = ImageStatistics<T>::of_channels(call, call.in<T>(3), call.in<T>(4));
    run_rows_of(call, statistics.layout, ApplyFactors<T>{statistics, call.in<T>(1), call.in<T>(2), factors_of(call)},
                ApplyRow<T>{call.in<T>(0), call.out<T>(), factors_of(call)});
  }
};

/// dY, scale, variance -> dX.
struct InferenceGradInput {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors(ImageRows::of_channels(node.input(0).shape)); }
  template <class T>
  static void run(const Call& call) {
    const auto statistics = ImageStatistics<T>::of_channels(call, nullptr, call.in<T>(2));
    run_rows_of(call, statistics.layout, ApplyFactors<T>{statistics, call.in<T>(1), nullptr, factors_of(call)},
                ApplyRow<T>{call.in<T>(0), call.out<T>(), factors_of(call)});
  }
};

/// X, sums, scale, dY, gradient sums -> dX = (scale dY - (sum + normalized X * sum') / count) / deviation.
template <bool Scaled>
struct GradInput {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_factors({node.input(0).shape, node.input(1).shape}); }
  template <class T>
  static void run(const Call& call) {
    const auto statistics = ImageStatistics<T>::of_sums(call, 1);
    run_rows_of(call, statistics.layout, GradientFactors<Scaled, T>{statistics, call.in<T>(2), call.in<double>(4), factors_of(call)},
                GradientRow<T>{call.in<T>(0), call.in<T>(3), call.out<T>(), factors_of(call)});
  }
};

/// What gradient sums need of a row: its mean, its inverse deviation and what it weighs.
struct RowWeights {
  double mean, inverse, weight;
};
template <class T>
struct PrepareWeights {
  ImageStatistics<T> statistics;
  const T* scale;  ///< nullptr: all rows weigh 1
  RowWeights* rows;
  REHEARSAL_BODY void operator()(std::int64_t row) const {
    const ImageMoments m = statistics.moments(row);
    const std::int64_t c = divide(row, statistics.layout.channels).remainder;
    rows[row] = {m.mean, m.inverse, scale != nullptr ? static_cast<double>(real(scale[c])) : 1.0};
  }
};

/// Sums of dy, and of dy times the normalized x.
template <class T>
struct GradientTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 2;
  static REHEARSAL_BODY Value start() { return 0; }
  const T *x, *dy;
  const RowWeights* rows;
  std::int64_t length, kinds;
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    const RowWeights row = rows[divide(divide(share.first, length).quotient, kinds).remainder];
    double sum = 0, along = 0;
    const auto few = [&](auto count, std::int64_t i) {
      const auto values = load_few<count()>(x + i), gradients = load_few<count()>(dy + i);
      for (int k = 0; k < count(); ++k) {
        const auto gradient = static_cast<double>(real(gradients.at[k]));
        sum += gradient;
        along += gradient * (static_cast<double>(real(values.at[k])) - row.mean);
      }
    };
    visit_share(share, few, x, dy);
    totals[0] += row.weight * sum;
    totals[1] += row.weight * row.inverse * along;
  }
};

std::int64_t bytes_of_weights(const ImageRows& layout) { return layout.kinds() * static_cast<std::int64_t>(sizeof(RowWeights)); }

/// The weights of rows come first in the workspace.
std::int64_t bytes_of_gradients(const ImageRows& moments, const ImageRows& sums) {
  return bytes_of_weights(moments) + workspace_of<GradientTerm<float>>(sums.segments());
}

/// Gradient sums over the segments of `sums`, by the moments that the statistics of `prepare` have.
template <class T, class Store>
void sum_gradients(const Call& call, const ImageRows& sums, const PrepareWeights<T>& prepare, const T* dy, const Store& store) {
  const auto& statistics = prepare.statistics;
  for_each(call.context.stream, statistics.layout.kinds(), prepare);
  const GradientTerm<T> term{call.in<T>(0), dy, prepare.rows, statistics.layout.length, statistics.layout.kinds()};
  reduce(call.context.stream, sums.segments(), term, store,
         static_cast<unsigned char*>(call.context.workspace) + bytes_of_weights(statistics.layout));
}

/// X, sums, [scale if Scaled], dY -> sums of (scale) dY and of (scale) dY times the normalized X.
template <bool Scaled>
struct GradSums {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const ImageRows layout(node.input(0).shape, node.input(1).shape);
    return bytes_of_gradients(layout, layout);
  }
  template <class T>
  static void run(const Call& call) {
    const auto statistics = ImageStatistics<T>::of_sums(call, 1);
    const PrepareWeights<T> prepare{statistics, Scaled ? call.in<T>(2) : nullptr, static_cast<RowWeights*>(call.context.workspace)};
    sum_gradients(call, statistics.layout, prepare, call.in<T>(Scaled ? 3 : 2),
                  SumsStore{call.out<double>(), statistics.layout.statistics()});
  }
};

template <class T>
struct ParameterStore {
  T *dscale, *dbias;
  explicit ParameterStore(const Call& call) : dscale(optional_out<T>(call, 0)), dbias(optional_out<T>(call, 1)) {}
  REHEARSAL_BODY void operator()(std::int64_t c, const double* totals) const {
    if (dscale != nullptr) dscale[c] = static_cast<T>(static_cast<Real<T>>(totals[1]));
    if (dbias != nullptr) dbias[c] = static_cast<T>(static_cast<Real<T>>(totals[0]));
  }
};

/// X, dY, and the moments of every row -> dscale, dbias.
template <class T>
void write_scale_gradients(const Call& call, const ImageStatistics<T>& statistics, const T* dy) {
  const PrepareWeights<T> prepare{statistics, nullptr, static_cast<RowWeights*>(call.context.workspace)};
  sum_gradients(call, ImageRows::of_channels(call.in_shape(0)), prepare, dy, ParameterStore<T>(call));
}

/// X, sums, dY -> dscale, dbias of group normalization.
struct GroupNormGradParameters {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    return bytes_of_gradients({node.input(0).shape, node.input(1).shape}, ImageRows::of_channels(node.input(0).shape));
  }
  template <class T>
  static void run(const Call& call) {
    write_scale_gradients(call, ImageStatistics<T>::of_sums(call, 1), call.in<T>(2));
  }
};

/// X, mean, variance, dY -> dscale, dbias.
struct InferenceGradParameters {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const ImageRows layout = ImageRows::of_channels(node.input(0).shape);
    return bytes_of_gradients(layout, layout);
  }
  template <class T>
  static void run(const Call& call) {
    write_scale_gradients(call, ImageStatistics<T>::of_channels(call, call.in<T>(1), call.in<T>(2)), call.in<T>(3));
  }
};

template <class T>
struct StoreParameter {
  const double* sums;
  std::int64_t channels;
  ParameterStore<T> store;
  REHEARSAL_BODY void operator()(std::int64_t c) const {
    const double totals[2] = {sums[c], sums[channels + c]};
    store(c, totals);
  }
};

/// Gradient sums, scale -> dscale, dbias.
struct BatchNormGradParameters {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t channels = call.in_shape(0)[1];
    for_each(call.context.stream, channels, StoreParameter<T>{call.in<double>(0), channels, ParameterStore<T>(call)});
  }
};

template <class T>
struct Blend {
  const double* sums;
  std::int64_t channels;
  double count, momentum;
  const T *old_mean, *old_variance;
  T *mean, *variance;
  REHEARSAL_BODY T blend(T old, double fresh) const {
    return static_cast<T>(static_cast<Real<T>>(static_cast<double>(real(old)) * momentum + fresh * (1 - momentum)));
  }
  REHEARSAL_BODY void operator()(std::int64_t c) const {
    const double average = sums[c] / count, biased = sums[channels + c] / count - average * average;
    const double unbiased = (biased > 0 ? biased : 0.0) * count / (count > 2 ? count - 1 : 1.0);
    if (mean != nullptr) mean[c] = blend(old_mean[c], average);
    if (variance != nullptr) variance[c] = blend(old_variance[c], unbiased);
  }
};

/// Sums, running mean, running variance -> new ones. One element has no unbiased variance; its biased one is kept.
struct BatchNormRunning {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t channels = call.in_shape(0)[1];
    const double momentum = call.attributes().number("momentum", 0.9), count = static_cast<double>(call.attributes().integer("count", 1));
    for_each(call.context.stream, channels,
             Blend<T>{call.in<double>(0), channels, count, momentum, call.in<T>(1), call.in<T>(2), optional_out<T>(call, 0),
                      optional_out<T>(call, 1)});
  }
};

constexpr std::string_view kName = "cuda:normalization";
const KernelRow kRows[] = {
    {"BatchNormSums", kName, make_by_input_with_workspace<Sums, Floats>},
    {"BatchNormApply", kName, make_by_output_with_workspace<Apply, Floats>},
    {"BatchNormGradSums", kName, make_by_input_with_workspace<GradSums<false>, Floats>},
    {"BatchNormGradInput", kName, make_by_output_with_workspace<GradInput<false>, Floats>},
    {"BatchNormGradParameters", kName, make_by_input<BatchNormGradParameters, Floats, 1>},
    {"BatchNormRunning", kName, make_by_input<BatchNormRunning, Floats, 1>},
    {"BatchNormInference", kName, make_by_output_with_workspace<Inference, Floats>},
    {"BatchNormInferenceGradInput", kName, make_by_output_with_workspace<InferenceGradInput, Floats>},
    {"BatchNormInferenceGradParameters", kName, make_by_input_with_workspace<InferenceGradParameters, Floats>},
    {"GroupNormSums", kName, make_by_input_with_workspace<Sums, Floats>},
    {"GroupNormApply", kName, make_by_output_with_workspace<Apply, Floats>},
    {"GroupNormGradSums", kName, make_by_input_with_workspace<GradSums<true>, Floats>},
    {"GroupNormGradInput", kName, make_by_output_with_workspace<GradInput<true>, Floats>},
    {"GroupNormGradParameters", kName, make_by_input_with_workspace<GroupNormGradParameters, Floats>},
};

}  // namespace

std::span<const KernelRow> normalization_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
