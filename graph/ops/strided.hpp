#pragma once
// Tensors seen through strides: what transposing, broadcasting, slicing and tiling have in common. Used both to fold
// small constants while a graph is built and by the kernels that move elements.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "graph/shape.hpp"

namespace rehearsal::graph {

/// Element `index` of a tensor of `shape` lies in a buffer at offset + sum over d of index[d] * strides[d].
struct StridedView {
  Shape shape;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

[[nodiscard]] std::vector<std::int64_t> row_major_strides(const Shape&);
[[nodiscard]] StridedView whole_view(const Shape&);
/// A tensor of shape `from` broadcast (aligned from the right) to shape `to`.
[[nodiscard]] StridedView broadcast_view(const Shape& from, const Shape& to);
/// Dimension d of the result is dimension perm[d] of a tensor of `shape`.
[[nodiscard]] StridedView transposed_view(const Shape& shape, const std::vector<std::int64_t>& perm);

/// The part of a tensor of shape `whole` along `axis` that starts at `start` and is as large as `piece` has it.
[[nodiscard]] StridedView part_view(const Shape& whole, const Shape& piece, std::size_t axis, std::int64_t start);

/// Walks several views of one shape in row-major order, a row at a time. Dimensions that all views traverse without a gap are
/// joined, so that a row is as long as can be.
template <std::size_t N>
class RowWalk {
 public:
  explicit RowWalk(const std::array<StridedView, N>& views);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t length() const { return shape_.back(); }  ///< elements in a row
  /// Distance of neighbours within a row, per view.
  [[nodiscard]] std::array<std::int64_t, N> steps() const { return strides_.back(); }

  /// Calls body(number of the row, offset of its first element in every view) for rows [first, last).
  template <class F>
  void each(std::int64_t first, std::int64_t last, F&& body) const;
  template <class F>
  void each(F&& body) const {
    each(0, rows_, body);
  }

 private:
  using Strides = std::array<std::int64_t, N>;
  [[nodiscard]] bool joins(const Strides& outer, std::int64_t inner_size, const Strides& inner) const;

  Shape shape_;                   // joined dimensions, at least one
  std::vector<Strides> strides_;  // by joined dimension
  Strides offsets_{};
  std::int64_t rows_ = 1;
};

template <std::size_t N>
bool RowWalk<N>::joins(const Strides& outer, std::int64_t inner_size, const Strides& inner) const {
  for (std::size_t v = 0; v < N; ++v) {
    if (outer[v] != inner_size * inner[v]) return false;
  }
  return true;
}

template <std::size_t N>
RowWalk<N>::RowWalk(const std::array<StridedView, N>& views) {
  const Shape& shape = views[0].shape;
  for (std::size_t v = 0; v < N; ++v) offsets_[v] = views[v].offset;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    Strides strides;
    for (std::size_t v = 0; v < N; ++v) strides[v] = views[v].strides[d];
    if (!shape_.empty() && joins(strides_.back(), shape[d], strides)) {
      shape_.back() *= shape[d];
      strides_.back() = strides;
    } else {
      shape_.push_back(shape[d]);
      strides_.push_back(strides);
    }
  }
  if (shape_.empty()) {
    shape_.push_back(1);
    strides_.emplace_back().fill(1);
  }
  for (std::size_t d = 0; d + 1 < shape_.size(); ++d) rows_ *= shape_[d];
  if (shape_.back() == 0) rows_ = 0;
}

template <std::size_t N>
template <class F>
void RowWalk<N>::each(std::int64_t first, std::int64_t last, F&& body) const {
  const std::size_t outer = shape_.size() - 1;
  std::vector<std::int64_t> index(outer);
  Strides at = offsets_;
  for (std::int64_t d = static_cast<std::int64_t>(outer) - 1, rest = first; d >= 0; --d) {
    const auto u = static_cast<std::size_t>(d);
    index[u] = shape_[u] == 0 ? 0 : rest % shape_[u];
    rest = shape_[u] == 0 ? 0 : rest / shape_[u];
    for (std::size_t v = 0; v < N; ++v) at[v] += index[u] * strides_[u][v];
  }
  for (std::int64_t row = first; row < last; ++row) {
    body(row, at);
    for (std::size_t d = outer; d-- > 0;) {
      for (std::size_t v = 0; v < N; ++v) at[v] += strides_[d][v];
      if (++index[d] < shape_[d]) break;
      for (std::size_t v = 0; v < N; ++v) at[v] -= shape_[d] * strides_[d][v];
      index[d] = 0;
    }
  }
}

/// to[target] = from[source] for every element: both views have one shape.
template <class T>
void copy_strided(const T* from, const StridedView& source, T* to, const StridedView& target) {
  const RowWalk<2> walk({source, target});
  const auto [in, out] = walk.steps();
  walk.each([&, in = in, out = out](std::int64_t, const std::array<std::int64_t, 2>& at) {
    const T* x = from + at[0];
    T* y = to + at[1];
    if (in == 1 && out == 1) {
      std::copy_n(x, walk.length(), y);
    } else {
      for (std::int64_t i = 0; i < walk.length(); ++i) y[i * out] = x[i * in];
    }
  });
}

/// Writes the elements of `source` one after another.
template <class T>
void copy_strided(const T* from, const StridedView& source, T* to) {
  copy_strided(from, source, to, whole_view(source.shape));
}

}  // namespace rehearsal::graph
