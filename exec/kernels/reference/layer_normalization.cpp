// Layer and root-mean-square normalization. The second is the first with a mean of zero.

#include <cmath>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/partial_sums.hpp"

namespace rehearsal::exec::reference {
namespace {

/// Operand X as rows of the normalized axes.
struct LayerNormalizationLayout {
  std::int64_t rows = 1, length = 1;

  explicit LayerNormalizationLayout(const Call& call) {
    const graph::Shape& x = call.in_shape(0);
    const auto axis = static_cast<std::size_t>(graph::normalize_axis(call.attributes().integer("axis", -1), x.size()));
    for (std::size_t d = 0; d < x.size(); ++d) (d < axis ? rows : length) *= x[d];
  }
};

/// Element i of an optional operand.
template <class T>
double at_or(const T* values, std::int64_t i, double otherwise) {
  return values ? static_cast<double>(values[i]) : otherwise;
}

template <class T>
const T* optional_in_of_layer_normalization(const Call& call, std::size_t i) {
  return call.has_input(i) ? call.in<T>(i) : nullptr;
}

/// X, scale?, bias? -> Y, [mean if Centered], inverse deviation.
template <bool Centered>
struct Normalize {
  template <class T>
  static void run(const Call& call) {
    const LayerNormalizationLayout layout(call);
    const T *scale = optional_in_of_layer_normalization<T>(call, 1),
            *bias = Centered ? optional_in_of_layer_normalization<T>(call, 2) : nullptr;
    const double epsilon = call.attributes().number("epsilon", 1e-5), count = static_cast<double>(layout.length);
    parallel_items(call.threads(), layout.rows, 4, [&](std::int64_t row) {
      const T* x = call.in<T>(0) + row * layout.length;
      T* y = call.out<T>() + row * layout.length;
      const double mean = Centered ? sum_of(layout.length, [&](std::int64_t i) { return static_cast<double>(x[i]); }) / count : 0.0;
      const auto square = [&](std::int64_t i) { return (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean); };
      const double inverse = 1.0 / std::sqrt(sum_of(layout.length, square) / count + epsilon);
      for (std::int64_t i = 0; i < layout.length; ++i) {
        y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * inverse * at_or(scale, i, 1.0) + at_or(bias, i, 0.0));
      }
      if (Centered && call.has_output(1)) call.out<T>(1)[row] = static_cast<T>(mean);
      if (call.has_output(Centered ? 2 : 1)) call.out<T>(Centered ? 2 : 1)[row] = static_cast<T>(inverse);
    });
  }
};

/// Where the operands of the gradient rows are: X, [mean if Centered], inverse deviation, dY, scale?
template <bool Centered>
struct Operands {
  static constexpr std::size_t inverse = Centered ? 2 : 1, gradient = inverse + 1, scale = inverse + 2;

  template <class T>
  static double mean(const Call& call, std::int64_t row) {
    return Centered ? static_cast<double>(call.in<T>(1)[row]) : 0.0;
  }
};

/// dX = (g - [mean of g] - normalized x * mean of (g * normalized x)) / deviation with g = dY * scale.
template <bool Centered>
struct LayerNormalizationGradInput {
  template <class T>
  static void run(const Call& call) {
    using At = Operands<Centered>;
    const LayerNormalizationLayout layout(call);
    const T* scale = optional_in_of_layer_normalization<T>(call, At::scale);
    const auto count = static_cast<double>(layout.length);
    parallel_items(call.threads(), layout.rows, 4, [&](std::int64_t row) {
      const T *x = call.in<T>(0) + row * layout.length, *dy = call.in<T>(At::gradient) + row * layout.length;
      T* dx = call.out<T>() + row * layout.length;
      const double mean = At::template mean<T>(call, row), inverse = static_cast<double>(call.in<T>(At::inverse)[row]);
      const auto g = [&](std::int64_t i) { return static_cast<double>(dy[i]) * at_or(scale, i, 1.0); };
      const auto normalized = [&](std::int64_t i) { return (static_cast<double>(x[i]) - mean) * inverse; };
      const double constant = Centered ? sum_of(layout.length, g) / count : 0.0;
      const double linear = sum_of(layout.length, [&](std::int64_t i) { return g(i) * normalized(i); }) / count;
      for (std::int64_t i = 0; i < layout.length; ++i) dx[i] = static_cast<T>(inverse * (g(i) - constant - normalized(i) * linear));
    });
  }
};

/// dscale = sum over rows of dY * normalized X; dbias = sum over rows of dY.
template <bool Centered>
struct GradParameters {
  template <class T>
  static void run(const Call& call) {
    using At = Operands<Centered>;
    const LayerNormalizationLayout layout(call);
    parallel_ranges(call.threads(), layout.length, 16, [&](std::int64_t first, std::int64_t last) {
      std::vector<double> dscale(static_cast<std::size_t>(last - first), 0.0), dbias = dscale;
      for (std::int64_t row = 0; row < layout.rows; ++row) {
        const T *x = call.in<T>(0) + row * layout.length + first, *dy = call.in<T>(At::gradient) + row * layout.length + first;
        const double mean = At::template mean<T>(call, row), inverse = static_cast<double>(call.in<T>(At::inverse)[row]);
        for (std::size_t i = 0; i < dscale.size(); ++i) {
          dscale[i] += static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - mean) * inverse;
          dbias[i] += static_cast<double>(dy[i]);
        }
      }
      const auto store = [&](T* to, const std::vector<double>& from) {
        std::transform(from.begin(), from.end(), to + first, [](double v) { return static_cast<T>(v); });
      };
      if (call.has_output(0)) store(call.out<T>(0), dscale);
      if (Centered && call.has_output(1)) store(call.out<T>(1), dbias);
    });
  }
};

const KernelRow kLayerNormalizationRows[] = {
    {"LayerNormalization", "reference:any", make_by_output<Normalize<true>, Floats>},
    {"LayerNormalizationGradInput", "reference:any", make_by_output<LayerNormalizationGradInput<true>, Floats>},
    {"LayerNormalizationGradParameters", "reference:any", make_by_input<GradParameters<true>, Floats>},
    {"RMSNormalization", "reference:any", make_by_output<Normalize<false>, Floats>},
    {"RMSNormalizationGradInput", "reference:any", make_by_output<LayerNormalizationGradInput<false>, Floats>},
    {"RMSNormalizationGradParameters", "reference:any", make_by_input<GradParameters<false>, Floats>},
};

}  // namespace

std::span<const KernelRow> layer_normalization_kernels() { return kLayerNormalizationRows; }

}  // namespace rehearsal::exec::reference
