#pragma once
// How our own fast kernels are written: as the reference ones (a body and a row), in f32 only, in plain or channels-last order, on the
// loops of loops.hpp. Sums run over parts of fixed size, so that results do not depend on the number of threads.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/kernels/native/loops.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::native {

using reference::Body;
using reference::Call;
using reference::parallel_items;
using reference::parallel_ranges;

[[nodiscard]] std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, Body body, std::int64_t workspace_bytes = 0);

/// True when operand 0 and result 0 (unless it is a statistic in f64) are f32 and not empty; else says why not.
[[nodiscard]] bool takes(const KernelRequest& request, std::string& reason);

[[nodiscard]] inline bool is_image(const graph::Shape& shape) { return shape.size() >= 3 && shape.size() <= 5; }

/// Asks for channels-last images when one already is: every operand and result shaped as operand 0 then is. True always.
bool follow(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);

[[nodiscard]] inline bool channels_last(const TensorView& view) { return view.format == plan::Format::ChannelsLast; }

/// The shape in the order in which elements lie in memory.
[[nodiscard]] graph::Shape in_memory_order(graph::Shape shape, plan::Format format);

/// An image as its kernels see it.
struct Image {
  std::int64_t batch, channels, pixels = 1;
  explicit Image(const graph::Shape& shape);
};

inline constexpr std::int64_t kElementsWorthAThread = 1 << 14;
/// Rows (of `columns` elements) of one part of a sum: a fixed size, whatever the number of threads.
[[nodiscard]] std::int64_t rows_of_part(std::int64_t rows, std::int64_t columns);
[[nodiscard]] inline std::int64_t parts_of(std::int64_t rows, std::int64_t columns) {
  const auto each = rows_of_part(rows, columns);
  return (rows + each - 1) / each;
}

/// Adds up rows by column, `width` sums in all: part(first row, rows, sums) adds one part to zeroed sums in the workspace, and
/// the parts are then added in order into `total`. The workspace holds parts_of(rows, columns) * width doubles.
struct ColumnSums {
  std::int64_t rows = 0, columns = 0;  ///< of what is added up
  std::int64_t width = 0;
};
template <class F>
void sum_parts(const Call& call, const ColumnSums& shape, double* total, const F& part) {
  const auto [rows, columns, width] = shape;
  const std::int64_t each = rows_of_part(rows, columns), parts = parts_of(rows, columns);
  auto* sums = static_cast<double*>(call.context.workspace);
  parallel_items(call.threads(), parts, 1, [&](std::int64_t p) {
    std::fill_n(sums + p * width, width, 0.0);
    part(p * each, std::min(each, rows - p * each), sums + p * width);
  });
  std::fill_n(total, width, 0.0);
  for (std::int64_t p = 0; p < parts; ++p)
    for (std::int64_t i = 0; i < width; ++i) total[i] += sums[p * width + i];
}

}  // namespace rehearsal::exec::native
