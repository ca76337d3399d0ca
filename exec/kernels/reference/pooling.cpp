#include "exec/kernels/reference/pooling.hpp"

#include <cmath>
#include <limits>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

/// As PyTorch: a NaN wins over everything, and among equals the first.
template <class T>
bool beats(T candidate, T best) {
  return candidate > best || std::isnan(candidate);
}

struct MaxPool {
  template <class T>
  static void run(const Call& call) {
    const Planes p(call, call.in_shape(0), call.out_shape());
    parallel_items(call.threads(), p.count, 1, [&](std::int64_t item) {
      const T* x = call.in<T>(0) + item * p.plane.image_size();
      T* y = call.out<T>() + item * p.plane.windows_size();
      std::fill_n(y, p.plane.windows_size(), -std::numeric_limits<T>::infinity());
      for (std::int64_t tap = 0; tap < p.plane.taps(); ++tap) {
        for_rows_of_tap(p.plane, tap, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) {
            const T candidate = x[from + i * p.plane.stride[2]];
            if (beats(candidate, y[to + i])) y[to + i] = candidate;
          }
        });
      }
    });
  }
};

/// Image position of the first largest element of each window of one plane; -1 where a window sees padding only.
template <class T>
void find_winners(const Plane& plane, const T* x, std::vector<std::int64_t>& winners) {
  winners.assign(static_cast<std::size_t>(plane.windows_size()), -1);
  for (std::int64_t tap = 0; tap < plane.taps(); ++tap) {
    for_rows_of_tap(plane, tap, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t& winner = winners[static_cast<std::size_t>(to + i)];
        const std::int64_t candidate = from + i * plane.stride[2];
        if (winner < 0 || beats(x[candidate], x[winner])) winner = candidate;
      }
    });
  }
}

/// Number of an element of a plane when the first axis counts fastest.
std::int64_t column_major(const Plane& plane, std::int64_t at) {
  const std::int64_t x = at % plane.image[2], y = at / plane.image[2] % plane.image[1], z = at / (plane.image[2] * plane.image[1]);
  return (x * plane.image[1] + y) * plane.image[0] + z;
}

struct MaxPoolPositions {
  template <class T>
  static void run(const Call& call) {
    const Planes p(call, call.in_shape(0), call.out_shape());
    const bool columns = call.attributes().integer("column_major", 0) != 0;
    std::vector<std::int64_t> winners;
    for (std::int64_t item = 0; item < p.count; ++item) {
      const std::int64_t first = item * p.plane.image_size();
      find_winners(p.plane, call.in<T>(0) + first, winners);
      std::int64_t* y = call.out<std::int64_t>() + item * p.plane.windows_size();
      for (const std::int64_t winner : winners) *y++ = first + (columns ? column_major(p.plane, winner) : winner);
    }
  }
};

struct MaxPoolGrad {
  template <class T>
  static void run(const Call& call) {
    const Planes p(call, call.in_shape(0), call.in_shape(1));
    const Crop crop(call, p.plane);
    parallel_ranges(call.threads(), p.count, 1, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> winners;
      for (std::int64_t item = first; item < last; ++item) {
        find_winners(p.plane, call.in<T>(0) + item * p.plane.image_size(), winners);
        const T* dy = call.in<T>(1) + item * p.plane.windows_size();
        T* dx = call.out<T>() + item * crop.size();
        std::fill_n(dx, crop.size(), T(0));
        for (std::size_t i = 0; i < winners.size(); ++i) {
          const std::int64_t to = winners[i] < 0 ? -1 : crop(winners[i]);
          if (to >= 0) dx[to] += dy[i];
        }
      }
    });
  }
};

bool includes_pad_of_pooling(const Call& call) { return call.attributes().integer("count_include_pad", 0) != 0; }

struct AveragePool {
  template <class T>
  static void run(const Call& call) {
    const Planes p(call, call.in_shape(0), call.out_shape());
    const std::vector<double> weights = window_weights(p, includes_pad_of_pooling(call));
    parallel_items(call.threads(), p.count, 1, [&](std::int64_t item) {
      const T* x = call.in<T>(0) + item * p.plane.image_size();
      T* y = call.out<T>() + item * p.plane.windows_size();
      std::fill_n(y, p.plane.windows_size(), T(0));
      for (std::int64_t tap = 0; tap < p.plane.taps(); ++tap) {
        for_rows_of_tap(p.plane, tap, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) y[to + i] += x[from + i * p.plane.stride[2]];
        });
      }
      for (std::size_t i = 0; i < weights.size(); ++i) y[i] = static_cast<T>(static_cast<double>(y[i]) * weights[i]);
    });
  }
};

struct AveragePoolGrad {
  template <class T>
  static void run(const Call& call) {
    const Planes p(call, call.out_shape(), call.in_shape(0));
    const std::vector<double> weights = window_weights(p, includes_pad_of_pooling(call));
    parallel_items(call.threads(), p.count, 1, [&](std::int64_t item) {
      const T* dy = call.in<T>(0) + item * p.plane.windows_size();
      T* dx = call.out<T>() + item * p.plane.image_size();
      std::fill_n(dx, p.plane.image_size(), T(0));
      for (std::int64_t tap = 0; tap < p.plane.taps(); ++tap) {
        for_rows_of_tap(p.plane, tap, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) {
            dx[to + i * p.plane.stride[2]] +=
                static_cast<T>(static_cast<double>(dy[from + i]) * weights[static_cast<std::size_t>(from + i)]);
          }
        });
      }
    });
  }
};

const KernelRow kPoolingRows[] = {
    {"MaxPool", "reference:any", make_by_output<MaxPool, Floats>},
    {"MaxPoolPositions", "reference:any", make_by_input<MaxPoolPositions, Floats>},
    {"MaxPoolGrad", "reference:any", make_by_output<MaxPoolGrad, Floats>},
    {"AveragePool", "reference:any", make_by_output<AveragePool, Floats>},
    {"AveragePoolGrad", "reference:any", make_by_output<AveragePoolGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> pooling_kernels() { return kPoolingRows; }

}  // namespace rehearsal::exec::reference
