#pragma once
// Loops of cyclic shifts and rotary embedding, for every element type.

#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::reference {

inline constexpr std::int64_t kRotatedWorthAThread = 1 << 14;  ///< elements

struct Roll {
  template <class T>
  static void run(const Call& call) {
    const auto [outer, size, inner] = graph::split_at(call.in_shape(0), graph::axis_of(call.problem.view(), 0));
    if (size == 0) return;
    const std::int64_t shift = call.attributes().integer("shift", 0) % size, first = shift < 0 ? shift + size : shift;
    const std::int64_t head = first * inner, all = size * inner;
    parallel_items(call.threads(), outer, kRotatedWorthAThread / std::max<std::int64_t>(1, all) + 1, [&](std::int64_t o) {
      const T* x = call.in<T>(0) + o * all;
      T* y = call.out<T>() + o * all;
      std::copy_n(x + all - head, head, y);
      std::copy_n(x, all - head, y + head);
    });
  }
};

/// A table that is broadcast to the rows of x: where a row of it begins, and whether it has an element for each of x.
class RotaryTable {
 public:
  RotaryTable(const graph::Shape& table, const graph::Shape& x) : shape_(x), strides_(graph::broadcast_view(table, x).strides) {}

  [[nodiscard]] std::int64_t row(std::int64_t number) const {
    std::int64_t at = 0;
    for (std::size_t d = shape_.size() - 1; d-- > 0; number /= shape_[d]) at += number % shape_[d] * strides_[d];
    return at;
  }
  [[nodiscard]] std::int64_t step() const { return strides_.back(); }

 private:
  const graph::Shape& shape_;
  std::vector<std::int64_t> strides_;
};

/// Where a row of the tables lies, and how far apart its elements are.
template <class T>
struct RotaryRow {
  const T *cos, *sin;
  std::int64_t cos_step, sin_step;
};

template <bool Backward, class T>
void rotate_row(const T* x, T* y, std::int64_t half, const RotaryRow<T>& table) {
  for (std::int64_t i = 0; i < half; ++i) {
    const T cos1 = table.cos[i * table.cos_step], cos2 = table.cos[(i + half) * table.cos_step];
    const T sin1 = table.sin[i * table.sin_step], sin2 = table.sin[(i + half) * table.sin_step];
    y[i] = Backward ? x[i] * cos1 + x[i + half] * sin2 : x[i] * cos1 - x[i + half] * sin1;
    y[i + half] = Backward ? x[i + half] * cos2 - x[i] * sin1 : x[i + half] * cos2 + x[i] * sin2;
  }
}

/// y = x cos + (-x2, x1) sin, or of its gradient dx = dy cos + (dy sin)2, -(dy sin)1.
template <bool Backward>
struct Rotary {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& shape = call.in_shape(0);
    const std::int64_t length = shape.back(), rows = length == 0 ? 0 : graph::element_count(shape) / length;
    const RotaryTable cos(call.in_shape(1), shape), sin(call.in_shape(2), shape);
    parallel_items(call.threads(), rows, kRotatedWorthAThread / (length + 1) + 1, [&](std::int64_t row) {
      const T *x = call.in<T>(0) + row * length, *c = call.in<T>(1) + cos.row(row), *s = call.in<T>(2) + sin.row(row);
      T* y = call.out<T>() + row * length;
      if (cos.step() == 1 && sin.step() == 1) {  // known steps are what lets the compiler use vectors
        rotate_row<Backward>(x, y, length / 2, RotaryRow<T>{c, s, 1, 1});
      } else {
        rotate_row<Backward>(x, y, length / 2, RotaryRow<T>{c, s, cos.step(), sin.step()});
      }
    });
  }
};

}  // namespace rehearsal::exec::reference
