// Layer normalization and that by the root mean square: rows of the normalized axes.

#include <cmath>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

struct NormalizedRows {
  std::int64_t count = 1, length = 1;
  NormalizedRows(const graph::Shape& shape, const graph::Attributes& attributes) {
    const auto axis = static_cast<std::size_t>(graph::normalize_axis(attributes.integer("axis", -1), shape.size()));
    for (std::size_t d = 0; d < shape.size(); ++d) (d < axis ? count : length) *= shape[d];
  }
  [[nodiscard]] std::int64_t worth_a_thread() const { return kElementsWorthAThread / length + 1; }
};

template <class T>
const T* optional_in(const Call& call, std::size_t i) {
  return call.has_input(i) ? call.in<T>(i) : nullptr;
}

/// X, scale?, bias? -> Y, mean, inverse deviation.
struct LayerNormalizationForward {
  template <class T>
  static void run(const Call& call) {
    const NormalizedRows rows(call.in_shape(0), call.attributes());
    const T *scale = optional_in<T>(call, 1), *bias = optional_in<T>(call, 2);
    const double epsilon = call.attributes().number("epsilon", 1e-5), count = static_cast<double>(rows.length);
    parallel_items(call.threads(), rows.count, rows.worth_a_thread(), [&](std::int64_t row) {
      const T* x = call.in<T>(0) + row * rows.length;
      const double mean = loops_over<T>().row_sum(x, rows.length) / count;
      const double inverse = 1.0 / std::sqrt(loops_over<T>().row_squares(x, rows.length, mean) / count + epsilon);
      loops_over<T>().normalize_row(call.out<T>() + row * rows.length, x, rows.length,
                                    {static_cast<float>(mean), static_cast<float>(inverse)}, scale, bias);
      if (call.has_output(1)) call.out<T>(1)[row] = rounded<T>(static_cast<float>(mean));
      if (call.has_output(2)) call.out<T>(2)[row] = rounded<T>(static_cast<float>(inverse));
    });
  }
};

/// X, mean, inverse deviation, dY, scale? -> dX.
struct LayerNormalizationGradientInput {
  template <class T>
  static void run(const Call& call) {
    const NormalizedRows rows(call.in_shape(0), call.attributes());
    const T* scale = optional_in<T>(call, 4);
    const auto count = static_cast<double>(rows.length);
    parallel_items(call.threads(), rows.count, rows.worth_a_thread(), [&](std::int64_t row) {
      const T *x = call.in<T>(0) + row * rows.length, *dy = call.in<T>(3) + row * rows.length;
      const auto mean = static_cast<double>(number(call.in<T>(1)[row])), inverse = static_cast<double>(number(call.in<T>(2)[row]));
      double sums[2];
      loops_over<T>().scaled_sums(x, dy, scale, rows.length, mean, sums);
      const double linear = inverse * inverse * inverse * sums[1] / count, constant = linear * mean - inverse * sums[0] / count;
      loops_over<T>().scaled_line(call.out<T>() + row * rows.length, dy, x, scale, rows.length, {inverse, -linear, constant});
    });
  }
};

/// X, mean, inverse deviation, dY -> dscale, dbias.
struct LayerNormalizationGradientParameters {
  template <class T>
  static void run(const Call& call) {
    const NormalizedRows rows(call.in_shape(0), call.attributes());
    const std::int64_t length = rows.length;
    std::vector<double> total(static_cast<std::size_t>(2 * length));
    sum_parts(call, {rows.count, length, 2 * length}, total.data(), [&](std::int64_t first, std::int64_t count, double* sums) {
      for (std::int64_t row = first; row < first + count; ++row) {
        const float mean = number(call.in<T>(1)[row]), inverse = number(call.in<T>(2)[row]);
        loops_over<T>().parameter_row(call.in<T>(0) + row * length, call.in<T>(3) + row * length, length, {mean, inverse}, sums,
                                      sums + length);
      }
    });
    for (std::int64_t i = 0; i < length; ++i) {
      if (call.has_output(0)) call.out<T>(0)[i] = rounded<T>(static_cast<float>(total[static_cast<std::size_t>(i)]));
      if (call.has_output(1)) call.out<T>(1)[i] = rounded<T>(static_cast<float>(total[static_cast<std::size_t>(length + i)]));
    }
  }
};

/// X, scale? -> Y, inverse root mean square.
struct RootForward {
  template <class T>
  static void run(const Call& call) {
    const NormalizedRows rows(call.in_shape(0), call.attributes());
    const T* scale = optional_in<T>(call, 1);
    const double epsilon = call.attributes().number("epsilon", 1e-5), count = static_cast<double>(rows.length);
    parallel_items(call.threads(), rows.count, rows.worth_a_thread(), [&](std::int64_t row) {
      const T* x = call.in<T>(0) + row * rows.length;
      const auto inverse = static_cast<float>(1.0 / std::sqrt(loops_over<T>().row_squares(x, rows.length, 0) / count + epsilon));
      loops_over<T>().normalize_row(call.out<T>() + row * rows.length, x, rows.length, {0.0F, inverse}, scale, nullptr);
      if (call.has_output(1)) call.out<T>(1)[row] = rounded<T>(inverse);
    });
  }
};

/// X, inverse root mean square, dY, scale? -> dX.
struct RootGradientInput {
  template <class T>
  static void run(const Call& call) {
    const NormalizedRows rows(call.in_shape(0), call.attributes());
    const T* scale = optional_in<T>(call, 3);
    const auto count = static_cast<double>(rows.length);
    parallel_items(call.threads(), rows.count, rows.worth_a_thread(), [&](std::int64_t row) {
      const T *x = call.in<T>(0) + row * rows.length, *dy = call.in<T>(2) + row * rows.length;
      const auto inverse = static_cast<double>(number(call.in<T>(1)[row]));
      double sums[2];
      loops_over<T>().scaled_sums(x, dy, scale, rows.length, 0, sums);
      const double linear = inverse * inverse * inverse * sums[1] / count;
      loops_over<T>().scaled_line(call.out<T>() + row * rows.length, dy, x, scale, rows.length, {inverse, -linear, 0});
    });
  }
};

/// X, inverse root mean square, dY -> dscale.
struct RootGradientParameters {
  template <class T>
  static void run(const Call& call) {
    const NormalizedRows rows(call.in_shape(0), call.attributes());
    const std::int64_t length = rows.length;
    std::vector<double> total(static_cast<std::size_t>(2 * length));
    sum_parts(call, {rows.count, length, 2 * length}, total.data(), [&](std::int64_t first, std::int64_t count, double* sums) {
      for (std::int64_t row = first; row < first + count; ++row)
        loops_over<T>().parameter_row(call.in<T>(0) + row * length, call.in<T>(2) + row * length, length,
                                      {0.0F, number(call.in<T>(1)[row])}, sums, sums + length);
    });
    loops_over<T>().from_f32(call.out<T>(), std::vector<float>(total.begin(), total.begin() + length).data(), length);
  }
};

template <class B>
std::unique_ptr<Kernel> make_gradient_parameters(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const NormalizedRows rows(request.view().input(0).shape, request.attributes);
  return make_kernel(request, body_of<B>(request),
                     parts_of(rows.count, rows.length) * 2 * rows.length * static_cast<std::int64_t>(sizeof(double)));
}

constexpr std::string_view kLayerNormalizationName = "native:layer-normalization", kRootNormalizationName = "native:rms-normalization";
constexpr KernelRow kLayerNormalizationRows[] = {
    {"LayerNormalization", kLayerNormalizationName, make<LayerNormalizationForward>},
    {"LayerNormalizationGradInput", kLayerNormalizationName, make<LayerNormalizationGradientInput>},
    {"LayerNormalizationGradParameters", kLayerNormalizationName, make_gradient_parameters<LayerNormalizationGradientParameters>},
    {"RMSNormalization", kRootNormalizationName, make<RootForward>},
    {"RMSNormalizationGradInput", kRootNormalizationName, make<RootGradientInput>},
    {"RMSNormalizationGradParameters", kRootNormalizationName, make_gradient_parameters<RootGradientParameters>},
};

}  // namespace

std::span<const KernelRow> layer_normalization_kernels() { return kLayerNormalizationRows; }

}  // namespace rehearsal::exec::native
