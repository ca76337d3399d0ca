// Convolutions by their definition: for each pair of channels and each tap, one row of the image against one row of the result.

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/window.hpp"

namespace rehearsal::exec::reference {
namespace {

/// A convolution between an image X [batch, group * in], a weight [group * out, in] and a result Y [batch, group * out].
/// The number of groups follows from the local shapes, because a plan may split groups over ranks.
struct Geometry {
  Plane plane;
  std::int64_t batch, group, in, out;

  Geometry(const Call& call, const graph::Shape& x, const graph::Shape& w, const graph::Shape& y)
      : plane(plane_of(graph::window_of(call.attributes(), graph::spatial_of(w)), x, y)),
        batch(x[0]),
        group(x[1] / w[1]),
        in(w[1]),
        out(w[0] / group) {}

  [[nodiscard]] std::int64_t image(std::int64_t n, std::int64_t channel) const { return (n * group * in + channel) * plane.image_size(); }
  [[nodiscard]] std::int64_t windows(std::int64_t n, std::int64_t channel) const {
    return (n * group * out + channel) * plane.windows_size();
  }
  [[nodiscard]] std::int64_t weight(std::int64_t o, std::int64_t i) const { return (o * in + i) * plane.taps(); }
};

/// y[i] += a * x[i * step].
template <class T>
void add_gathered(T* y, const T* x, std::int64_t step, T a, std::int64_t count) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i * step];
  }
}

/// x[i * step] += a * y[i].
template <class T>
void add_scattered(T* x, const T* y, std::int64_t step, T a, std::int64_t count) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) x[i] += a * y[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) x[i * step] += a * y[i];
  }
}

/// Eight partial sums let the compiler use vectors without reordering anything else.
template <class T>
T dot(const T* x, std::int64_t step, const T* y, std::int64_t count) {
  T lanes[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t l = 0; l < 8; ++l) lanes[l] += x[(i + l) * step] * y[i + l];
  }
  T sum = ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  for (; i < count; ++i) sum += x[i * step] * y[i];
  return sum;
}

struct Conv {
  template <class T>
  static void run(const Call& call) {
    const Geometry g(call, call.in_shape(0), call.in_shape(1), call.out_shape());
    const T* bias = call.has_input(2) ? call.in<T>(2) : nullptr;
    parallel_items(call.threads(), g.batch * g.group * g.out, 1, [&](std::int64_t item) {
      const std::int64_t n = item / (g.group * g.out), o = item % (g.group * g.out);
      T* y = call.out<T>() + g.windows(n, o);
      std::fill_n(y, g.plane.windows_size(), bias ? bias[o] : T(0));
      for (std::int64_t i = 0; i < g.in; ++i) {
        const T* x = call.in<T>(0) + g.image(n, o / g.out * g.in + i);
        const T* w = call.in<T>(1) + g.weight(o, i);
        for (std::int64_t tap = 0; tap < g.plane.taps(); ++tap) {
          for_rows_of_tap(g.plane, tap, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
            add_gathered(y + to, x + from, g.plane.stride[2], w[tap], count);
          });
        }
      }
    });
  }
};

/// dY, W -> dX. The same sum is a transposed convolution X, W, B? -> Y.
struct ConvTransposed {
  template <class T>
  static void run(const Call& call) {
    const Geometry g(call, call.out_shape(), call.in_shape(1), call.in_shape(0));
    const T* bias = call.has_input(2) ? call.in<T>(2) : nullptr;
    parallel_items(call.threads(), g.batch * g.group * g.in, 1, [&](std::int64_t item) {
      const std::int64_t n = item / (g.group * g.in), c = item % (g.group * g.in), first = c / g.in * g.out;
      T* x = call.out<T>() + g.image(n, c);
      std::fill_n(x, g.plane.image_size(), bias ? bias[c] : T(0));
      for (std::int64_t o = first; o < first + g.out; ++o) {
        const T* y = call.in<T>(0) + g.windows(n, o);
        const T* w = call.in<T>(1) + g.weight(o, c % g.in);
        for (std::int64_t tap = 0; tap < g.plane.taps(); ++tap) {
          for_rows_of_tap(g.plane, tap, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
            add_scattered(x + to, y + from, g.plane.stride[2], w[tap], count);
          });
        }
      }
    });
  }
};

/// X, dY -> dW.
struct ConvGradWeight {
  template <class T>
  static void run(const Call& call) {
    const Geometry g(call, call.in_shape(0), call.out_shape(), call.in_shape(1));
    parallel_items(call.threads(), g.group * g.out * g.in, 1, [&](std::int64_t item) {
      const std::int64_t o = item / g.in, c = o / g.out * g.in + item % g.in;
      for (std::int64_t tap = 0; tap < g.plane.taps(); ++tap) {
        double sum = 0;
        for (std::int64_t n = 0; n < g.batch; ++n) {
          const T *x = call.in<T>(0) + g.image(n, c), *y = call.in<T>(1) + g.windows(n, o);
          for_rows_of_tap(g.plane, tap, [&](std::int64_t from, std::int64_t at, std::int64_t count) {
            sum += static_cast<double>(dot(x + from, g.plane.stride[2], y + at, count));
          });
        }
        call.out<T>()[g.weight(o, item % g.in) + tap] = static_cast<T>(sum);
      }
    });
  }
};

struct ConvGradBias {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& shape = call.in_shape(0);
    const std::int64_t channels = shape[1],
                       plane = channels > 0 ? graph::element_count(shape) / std::max<std::int64_t>(1, shape[0] * channels) : 0;
    parallel_items(call.threads(), channels, 8, [&](std::int64_t c) {
      double sum = 0;
      for (std::int64_t n = 0; n < shape[0]; ++n) {
        const T* dy = call.in<T>(0) + (n * channels + c) * plane;
        for (std::int64_t i = 0; i < plane; ++i) sum += static_cast<double>(dy[i]);
      }
      call.out<T>()[c] = static_cast<T>(sum);
    });
  }
};

const KernelRow kConvolutionRows[] = {
    {"Conv", "reference:any", make_by_output<Conv, Floats>},
    {"ConvGradInput", "reference:any", make_by_output<ConvTransposed, Floats>},
    {"ConvGradWeight", "reference:any", make_by_output<ConvGradWeight, Floats>},
    {"ConvGradBias", "reference:any", make_by_output<ConvGradBias, Floats>},
    {"ConvTranspose", "reference:any", make_by_output<ConvTransposed, Floats>},
};

}  // namespace

std::span<const KernelRow> convolution_kernels() { return kConvolutionRows; }

}  // namespace rehearsal::exec::reference
