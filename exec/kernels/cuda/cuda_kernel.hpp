#pragma once
// How a kernel for GPUs is written: as the reference ones (a struct with a static `run<T>(const Call&)`, and a row), but run() only starts
// the work, by for_each() or for_each_row() on call.context.stream, with a body that holds everything it needs by value.

#include <array>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "exec/kernels/cuda/launch.hpp"
#include "exec/kernels/cuda/packs.hpp"
#include "exec/kernels/kernel.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::cuda {

using reference::Call;
using reference::make_by_input;
using reference::make_by_output;
using reference::make_by_size;
using reference::make_for;
using reference::Problem;

/// A kernel that calls `body` and needs scratch memory (Call::context.workspace).
[[nodiscard]] std::unique_ptr<Kernel> make_with_workspace(const KernelRequest& request, reference::KernelBody body, std::int64_t bytes);

using BodyOfSeveral = void (*)(std::span<const Call>);
/// A kernel that calls `body`, or `of_several` for runs of kernels that were made with the same one.
[[nodiscard]] std::unique_ptr<Kernel> make_joinable(const KernelRequest& request, reference::KernelBody body, BodyOfSeveral of_several,
                                                    std::string& reason);

/// As make_by_output and make_by_input (exec/kernels/reference/reference.hpp), with B::workspace_bytes(node) bytes of scratch memory.
template <class B, class List>
[[nodiscard]] std::unique_ptr<Kernel> make_for_with_workspace(DType type, const KernelRequest& request, std::string& reason) {
  const auto body = reference::body_for<B>(type, List{});
  if (!body) return reference::refuse_type(request, type, reason);
  if (!reference::make_kernel(request, body, reason)) return nullptr;  // operands or results that are not plain
  return make_with_workspace(request, body, B::workspace_bytes(request.view()));
}
template <class B, class List>
[[nodiscard]] std::unique_ptr<Kernel> make_by_output_with_workspace(const KernelRequest& request, std::string& reason) {
  return make_for_with_workspace<B, List>(request.view().output().dtype, request, reason);
}
template <class B, class List, std::size_t I = 0>
[[nodiscard]] std::unique_ptr<Kernel> make_by_input_with_workspace(const KernelRequest& request, std::string& reason) {
  return make_for_with_workspace<B, List>(request.view().input(I).dtype, request, reason);
}

/// The data of an operand or result that may be absent; nullptr when it is.
template <class T>
const T* optional_in(const Call& call, std::size_t i) {
  return call.has_input(i) ? call.in<T>(i) : nullptr;
}
template <class T>
T* optional_out(const Call& call, std::size_t i) {
  return call.has_output(i) ? call.out<T>(i) : nullptr;
}

struct Division {
  std::int64_t quotient, remainder;
};
/// Of numbers that are not negative. GPUs divide 32 bits several times as fast as 64.
REHEARSAL_BODY Division divide(std::int64_t number, std::int64_t by) {
  if (by == 1) return {number, 0};
  if (((number | by) >> 31) == 0) {
    const auto n = static_cast<std::uint32_t>(number), d = static_cast<std::uint32_t>(by);
    return {static_cast<std::int64_t>(n / d), static_cast<std::int64_t>(n % d)};
  }
  return {number / by, number % by};
}

/// Dimensions of a loop over the elements of a tensor that views of other strides accompany, N of them; passed to bodies by value.
template <std::size_t N>
struct Walk {
  static constexpr int kMost = 8;
  int rank = 0;
  Divider sizes[kMost] = {};
  std::int64_t strides[N][kMost] = {};
  std::int64_t offsets[N] = {};

  struct Offsets {
    std::int64_t at[N];
  };
  /// Offsets of element i, counted in row-major order, in every view.
  REHEARSAL_BODY Offsets place(std::int64_t i) const {
    Offsets p;
    for (std::size_t v = 0; v < N; ++v) p.at[v] = offsets[v];
    for (int d = rank - 1; d > 0; --d) {
      const std::int64_t index = sizes[d].split(i);
      for (std::size_t v = 0; v < N; ++v) p.at[v] += index * strides[v][d];
    }
    for (std::size_t v = 0; v < N; ++v) p.at[v] += i * strides[v][0];
    return p;
  }
};

/// Dimensions that all views traverse without a gap become one. Throws Refusal when more than Walk::kMost remain.
template <std::size_t N>
Walk<N> walk_of(const std::array<graph::StridedView, N>& views) {
  Walk<N> walk;
  for (std::size_t v = 0; v < N; ++v) walk.offsets[v] = views[v].offset;
  const auto& shape = views[0].shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool joins = walk.rank > 0;
    for (std::size_t v = 0; v < N && joins; ++v) joins = walk.strides[v][walk.rank - 1] == shape[d] * views[v].strides[d];
    if (!joins && walk.rank == Walk<N>::kMost)
      throw Refusal("a tensor of shape " + graph::to_text(shape) + " has more dimensions than GPU kernels walk");
    if (!joins) ++walk.rank;
    auto& size = walk.sizes[walk.rank - 1];
    size = Divider((joins ? size.size : 1) * shape[d]);
    for (std::size_t v = 0; v < N; ++v) walk.strides[v][walk.rank - 1] = views[v].strides[d];
  }
  return walk;
}

}  // namespace rehearsal::exec::cuda
