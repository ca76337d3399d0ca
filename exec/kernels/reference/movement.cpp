#include <algorithm>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {
namespace {

using graph::Shape;
using graph::StridedView;

std::int64_t count_of(const Shape& shape) { return graph::element_count(shape); }

struct Reshape {
  template <class T>
  static void run(const Call& call) {
    if (call.in<T>(0) != call.out<T>()) std::copy_n(call.in<T>(0), count_of(call.out_shape()), call.out<T>());
  }
};

struct MovementTranspose {
  template <class T>
  static void run(const Call& call) {
    const Shape& shape = call.in_shape(0);
    std::vector<std::int64_t> perm(shape.size());
    for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(perm.size() - 1 - d);
    graph::copy_strided(call.in<T>(0), graph::transposed_view(shape, call.attributes().integers("perm", perm)), call.out<T>());
  }
};

struct Expand {
  template <class T>
  static void run(const Call& call) {
    graph::copy_strided(call.in<T>(0), graph::broadcast_view(call.in_shape(0), call.out_shape()), call.out<T>());
  }
};

/// Where the slice of `whole` of which `piece` is a block lies. The attributes speak of the unsplit tensor; dimensions that are
/// not cut are as the blocks have them.
struct SliceBlock {
  const Shape& local_whole;
  const Shape& global_whole;
  const Shape& local_piece;
};

StridedView slice_block(const Call& call, const SliceBlock& block, const auto& whole_origin, const auto& piece_origin) {
  auto ranges = graph::slice_ranges(call.attributes(), block.global_whole);
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const bool cut = ranges[d].count != block.global_whole[d] || ranges[d].step != 1;
    ranges[d].start = cut ? ranges[d].start + piece_origin(d) * ranges[d].step - whole_origin(d) : 0;
    ranges[d].count = block.local_piece[d];
  }
  return graph::sliced_view(block.local_whole, ranges);
}

struct Slice {
  template <class T>
  static void run(const Call& call) {
    const auto whole_origin = [&](std::size_t d) { return call.in_origin(0, d); };
    const auto piece_origin = [&](std::size_t d) { return call.out_origin(0, d); };
    graph::copy_strided(call.in<T>(0),
                        slice_block(call, {call.in_shape(0), call.in_global(0), call.out_shape()}, whole_origin, piece_origin),
                        call.out<T>());
  }
};

struct SliceGrad {
  template <class T>
  static void run(const Call& call) {
    const auto whole_origin = [&](std::size_t d) { return call.out_origin(0, d); };
    const auto piece_origin = [&](std::size_t d) { return call.in_origin(0, d); };
    std::fill_n(call.out<T>(), count_of(call.out_shape()), T(0));
    const StridedView target = slice_block(call, {call.out_shape(), call.out_global(), call.in_shape(0)}, whole_origin, piece_origin);
    graph::copy_strided(call.in<T>(0), graph::whole_view(call.in_shape(0)), call.out<T>(), target);
  }
};

struct MovementSplit {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = graph::axis_of(call.problem.view(), 0);
    const auto sizes = call.attributes().integers("split");
    std::int64_t start = 0;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const bool present = call.has_output(i);
      if (present) graph::copy_strided(call.in<T>(0), graph::part_view(call.in_shape(0), call.out_shape(i), axis, start), call.out<T>(i));
      start += present ? call.out_shape(i)[axis] : sizes[i];
    }
  }
};

struct MovementConcat {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = graph::axis_of(call.problem.view(), 0);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Shape& shape = call.in_shape(i);
      graph::copy_strided(call.in<T>(i), graph::whole_view(shape), call.out<T>(), graph::part_view(call.out_shape(), shape, axis, start));
      start += shape[axis];
    }
  }
};

struct Tile {
  template <class T>
  static void run(const Call& call) {
    graph::copy_strided(call.in<T>(0), graph::tiled_view(call.in_shape(0), call.attributes().integers("repeats")), call.out<T>());
  }
};

struct Trilu {
  template <class T>
  static void run(const Call& call) {
    const Shape& shape = call.out_shape();
    const std::size_t rank = shape.size();
    const std::int64_t columns = shape[rank - 1], rows = shape[rank - 2], k = call.attributes().integer("k", 0);
    const std::int64_t shift = call.out_origin(0, rank - 1) - call.out_origin(0, rank - 2) - k;
    const bool upper = call.attributes().integer("upper", 1) != 0;
    for (std::int64_t i = 0; i < count_of(shape); ++i) {
      const std::int64_t above = i % columns - i / columns % rows + shift;
      call.out<T>()[i] = (upper ? above >= 0 : above <= 0) ? call.in<T>(0)[i] : T(0);
    }
  }
};

struct ConstantOfShape {
  template <class T>
  static void run(const Call& call) {
    std::fill_n(call.out<T>(), count_of(call.out_shape()), static_cast<T>(call.attributes().number("value", 0.0)));
  }
};

struct RangeOfNumbers {
  template <class T>
  static void run(const Call& call) {
    const double start = call.attributes().number("start", 0), delta = call.attributes().number("delta", 1);
    const std::int64_t count = count_of(call.out_shape()), first = call.out_origin(0, 0);
    for (std::int64_t i = 0; i < count; ++i) call.out<T>()[i] = static_cast<T>(start + static_cast<double>(first + i) * delta);
  }
};

constexpr std::string_view kMovementAny = "reference:any";
constexpr KernelRow kMovementRows[] = {
    {"Reshape", kMovementAny, make_by_size<Reshape>},
    {"Transpose", kMovementAny, make_by_size<MovementTranspose>},
    {"Expand", kMovementAny, make_by_size<Expand>},
    {"Slice", kMovementAny, make_by_size<Slice>},
    {"SliceGrad", kMovementAny, make_by_size<SliceGrad>},
    {"Split", kMovementAny, make_by_input<MovementSplit, Everything>},
    {"Concat", kMovementAny, make_by_size<MovementConcat>},
    {"Tile", kMovementAny, make_by_size<Tile>},
    {"Trilu", kMovementAny, make_by_size<Trilu>},
    {"ConstantOfShape", kMovementAny, make_by_output<ConstantOfShape, Everything>},
    {"Range", kMovementAny, make_by_output<RangeOfNumbers, Numbers>},
};

}  // namespace

std::span<const KernelRow> movement_kernels() { return kMovementRows; }

}  // namespace rehearsal::exec::reference
