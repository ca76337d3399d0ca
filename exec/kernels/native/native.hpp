#pragma once
// How our own fast kernels are written: as the reference ones (a struct with `run<T>` and a row), for numbers that lie in f32, bf16 or f16,
// in plain or channels-last order, on the loops of loops.hpp. Sums run over parts of fixed size, so that results do not depend on the
// number of threads.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exec/kernels/image_order.hpp"
#include "exec/kernels/native/loops.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {

template <>
inline constexpr DType kTypeOf<native::Bf16> = DType::BF16;
template <>
inline constexpr DType kTypeOf<native::F16> = DType::F16;

}  // namespace rehearsal::exec::reference

namespace rehearsal::exec::native {

using reference::Call;
using reference::KernelBody;
using reference::parallel_items;
using reference::parallel_ranges;

[[nodiscard]] std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, KernelBody body, std::int64_t workspace_bytes = 0);

/// One number that lies as T.
template <class T>
[[nodiscard]] float number(T x) {
  float y;
  loops_over<T>().to_f32(&y, &x, 1);
  return y;
}
template <class T>
[[nodiscard]] T rounded(float x) {
  T y;
  loops_over<T>().from_f32(&y, &x, 1);
  return y;
}

/// The instantiation of B::run for the type in which the numbers of operand 0 lie.
template <class B>
[[nodiscard]] KernelBody body_of(const KernelRequest& request) {
  return reference::body_for<B>(request.view().input(0).dtype, reference::Types<float, Bf16, F16>{});
}

/// True when operand 0 is f32, bf16 or f16, every other operand and result of reals is of its type (or a statistic in f64), and no operand
/// is empty; else says why not.
[[nodiscard]] bool takes(const KernelRequest& request, std::string& reason);
/// As takes(), and f32.
[[nodiscard]] bool takes_f32(const KernelRequest& request, std::string& reason);

/// A kernel that runs B.
template <class B>
[[nodiscard]] std::unique_ptr<Kernel> make(const KernelRequest& request, std::string& reason) {
  return takes(request, reason) ? make_kernel(request, body_of<B>(request)) : nullptr;
}

/// A kernel that runs B for elements as wide as those of operand 0.
template <class B>
[[nodiscard]] std::unique_ptr<Kernel> make_by_width(const KernelRequest& request, std::string& reason) {
  const auto view = request.view();
  if (graph::element_count(view.input(0).shape) == 0) {
    reason = "an empty tensor";
    return nullptr;
  }
  switch (size_of(view.input(0).dtype)) {
    case 2:
      return make_kernel(request, B::template run<std::uint16_t>);
    case 4:
      return make_kernel(request, B::template run<std::uint32_t>);
    default:
      reason = "only elements of 2 or 4 bytes";
      return nullptr;
  }
}

[[nodiscard]] inline bool channels_last(const TensorView& view) { return view.format == plan::Format::ChannelsLast; }

/// An image as its kernels see it.
struct Image {
  std::int64_t batch, channels, pixels = 1;
  explicit Image(const graph::Shape& shape);
};

inline constexpr std::int64_t kElementsWorthAThread = 1 << 14;
/// Operand 0 as it is, maybe written in place.
struct Unchanged {
  template <class Element>
  static void run(const Call& call) {
    const auto* x = call.in<Element>(0);
    auto* y = call.out<Element>();
    parallel_ranges(call.threads(), graph::element_count(call.out_shape()), kElementsWorthAThread,
                    [&](std::int64_t first, std::int64_t last) {
                      if (x != y) std::memcpy(y + first, x + first, static_cast<std::size_t>(last - first) * sizeof(Element));
                    });
  }
};

/// Rows (of `columns` elements) of one part of a sum: a fixed size, whatever the number of threads.
[[nodiscard]] std::int64_t rows_of_part(std::int64_t rows, std::int64_t columns);
[[nodiscard]] inline std::int64_t parts_of(std::int64_t rows, std::int64_t columns) {
  const auto each = rows_of_part(rows, columns);
  return (rows + each - 1) / each;
}

/// Adds up the rows of every matrix by column, `width` sums in all: part(number of the first row among those of all matrices, rows, sums)
/// adds one part to zeroed sums in the workspace, and the parts are then added in order into `total`, width of a matrix after another's.
/// The workspace holds matrices * parts_of(rows, columns) * width doubles.
struct ColumnSums {
  std::int64_t rows = 0, columns = 0;  ///< of a matrix
  std::int64_t width = 0;
  std::int64_t matrices = 1;
};
template <class F>
void sum_parts(const Call& call, const ColumnSums& shape, double* total, const F& part) {
  const auto [rows, columns, width, matrices] = shape;
  const std::int64_t each = rows_of_part(rows, columns), parts = parts_of(rows, columns);
  auto* sums = static_cast<double*>(call.context.workspace);
  parallel_items(call.threads(), matrices * parts, 1, [&, rows = rows, width = width](std::int64_t p) {
    const std::int64_t first = p % parts * each;
    std::fill_n(sums + p * width, width, 0.0);
    part(p / parts * rows + first, std::min(each, rows - first), sums + p * width);
  });
  std::fill_n(total, matrices * width, 0.0);
  for (std::int64_t p = 0; p < matrices * parts; ++p)
    for (std::int64_t i = 0; i < width; ++i) total[p / parts * width + i] += sums[p * width + i];
}

}  // namespace rehearsal::exec::native
