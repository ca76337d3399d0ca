// Elements moved as they are, by their size, and tensors that follow from attributes alone.

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/in_memory_order.hpp"
#include "exec/kernels/cuda/strided_copies.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::cuda {
namespace {

using graph::Shape;
using graph::StridedView;
using graph::whole_view;

std::int64_t count_of(const Shape& shape) { return graph::element_count(shape); }

/// All elements of a view of operand `i`, one after another, to result 0.
template <class T>
void copy_view(const Call& call, const StridedView& view) {
  copy_strided(call.context.stream, call.in<T>(0), view, call.out<T>(), whole_view(view.shape));
}

struct Reshape {
  template <class T>
  static void run(const Call& call) {
    if (call.in<T>(0) != call.out<T>())
      copy(call.context.stream, call.out<T>(), call.in<T>(0), count_of(call.out_shape()) * static_cast<std::int64_t>(sizeof(T)));
  }
};

struct Transpose {
  template <class T>
  static void run(const Call& call) {
    const Shape& shape = call.in_shape(0);
    std::vector<std::int64_t> reversed(shape.size());
    for (std::size_t d = 0; d < reversed.size(); ++d) reversed[d] = static_cast<std::int64_t>(reversed.size() - 1 - d);
    copy_view<T>(call, graph::transposed_view(shape, call.attributes().integers("perm", reversed)));
  }
};

struct Expand {
  template <class T>
  static void run(const Call& call) {
    copy_view<T>(call, graph::broadcast_view(call.in_shape(0), call.out_shape()));
  }
};

struct Tile {
  template <class T>
  static void run(const Call& call) {
    copy_view<T>(call, graph::tiled_view(call.in_shape(0), call.attributes().integers("repeats")));
  }
};

/// A block of the whole tensor, and the block of the slice of it, of which only the shape matters here.
struct SlicedBlock {
  const Shape &whole, &global_whole, &piece;
  const Shape *whole_origin, *piece_origin;

  /// Where the piece lies in the block. Attributes speak of the unsplit tensor; dimensions that are not cut are as the blocks have them.
  [[nodiscard]] StridedView view(const graph::Attributes& attributes) const {
    auto ranges = graph::slice_ranges(attributes, global_whole);
    for (std::size_t d = 0; d < ranges.size(); ++d) {
      const bool cut = ranges[d].count != global_whole[d] || ranges[d].step != 1;
      const std::int64_t of_piece = piece_origin ? (*piece_origin)[d] : 0, of_whole = whole_origin ? (*whole_origin)[d] : 0;
      ranges[d].start = cut ? ranges[d].start + of_piece * ranges[d].step - of_whole : 0;
      ranges[d].count = piece[d];
    }
    return graph::sliced_view(whole, ranges);
  }
};

struct Slice {
  template <class T>
  static void run(const Call& call) {
    const SlicedBlock block{call.in_shape(0), call.in_global(0), call.out_shape(), call.inputs[0].origin, call.outputs[0].origin};
    copy_view<T>(call, block.view(call.attributes()));
  }
};

struct SliceGrad {
  template <class T>
  static void run(const Call& call) {
    const SlicedBlock block{call.out_shape(), call.out_global(), call.in_shape(0), call.outputs[0].origin, call.inputs[0].origin};
    clear(call.context.stream, call.out<T>(), count_of(call.out_shape()) * static_cast<std::int64_t>(sizeof(T)));
    copy_strided(call.context.stream, call.in<T>(0), whole_view(call.in_shape(0)), call.out<T>(), block.view(call.attributes()));
  }
};

struct Split {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = graph::axis_of(call.problem.view(), 0);
    const auto sizes = call.attributes().integers("split");
    std::int64_t start = 0;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (!call.has_output(i)) {
        start += sizes[i];
        continue;
      }
      const Shape& shape = call.out_shape(i);
      copy_strided(call.context.stream, call.in<T>(0), graph::part_view(call.in_shape(0), shape, axis, start), call.out<T>(i),
                   whole_view(shape));
      start += shape[axis];
    }
  }
};

struct Concat {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = graph::axis_of(call.problem.view(), 0);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Shape& shape = call.in_shape(i);
      copy_strided(call.context.stream, call.in<T>(i), whole_view(shape), call.out<T>(),
                   graph::part_view(call.out_shape(), shape, axis, start));
      start += shape[axis];
    }
  }
};

/// The last `first` of `size` come first.
struct Roll {
  template <class T>
  static void run(const Call& call) {
    const auto [outer, size, inner] = graph::split_at(call.in_shape(0), graph::axis_of(call.problem.view(), 0));
    if (size == 0) return;
    const std::int64_t shift = call.attributes().integer("shift", 0) % size, first = shift < 0 ? shift + size : shift;
    const std::int64_t all = size * inner, head = first * inner;
    const auto columns = [outer = outer, all](std::int64_t from, std::int64_t count) {
      return StridedView{{outer, count}, {all, 1}, from};
    };
    copy_strided(call.context.stream, call.in<T>(0), columns(all - head, head), call.out<T>(), columns(0, head));
    copy_strided(call.context.stream, call.in<T>(0), columns(0, all - head), call.out<T>(), columns(head, all - head));
  }
};

template <class T>
struct Triangle {
  const T* x;
  T* y;
  Divider columns, rows;
  std::int64_t shift;
  bool upper;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t rest = i;
    const std::int64_t column = columns.split(rest), above = column - rows.split(rest) + shift;
    y[i] = (upper ? above >= 0 : above <= 0) ? x[i] : T(0);
  }
};

struct Trilu {
  template <class T>
  static void run(const Call& call) {
    const Shape& shape = call.out_shape();
    const std::size_t rank = shape.size();
    const std::int64_t shift = call.out_origin(0, rank - 1) - call.out_origin(0, rank - 2) - call.attributes().integer("k", 0);
    for_each(call.context.stream, count_of(shape),
             Triangle<T>{call.in<T>(0), call.out<T>(), Divider(shape[rank - 1]), Divider(shape[rank - 2]), shift,
                         call.attributes().integer("upper", 1) != 0});
  }
};

template <class T>
struct Fill {
  Packs<T> packs;
  T value;
  T* y;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    Pack<T> pack;
    for (auto& element : pack.at) element = value;
    packs.store(y, i, pack);
  }
};

struct ConstantOfShape {
  template <class T>
  static void run(const Call& call) {
    const auto value = static_cast<T>(static_cast<Real<T>>(call.attributes().number("value", 0.0)));
    const Packs<T> packs{count_of(call.out_shape()), are_aligned({call.out<T>()})};
    for_each(call.context.stream, packs.packs(), Fill<T>{packs, value, call.out<T>()});
  }
};

template <class T>
struct Count {
  double start, delta;
  std::int64_t first;
  T* y;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    y[i] = static_cast<T>(static_cast<Real<T>>(start + static_cast<double>(first + i) * delta));
  }
};

struct Range {
  template <class T>
  static void run(const Call& call) {
    for_each(call.context.stream, count_of(call.out_shape()),
             Count<T>{call.attributes().number("start", 0), call.attributes().number("delta", 1), call.out_origin(0, 0), call.out<T>()});
  }
};

using Everything = reference::Types<float, double, Half, BFloat16, std::int32_t, std::int64_t, bool, std::int8_t, std::uint8_t,
                                    std::int16_t, std::uint16_t, std::uint32_t, std::uint64_t>;

/// By the size of operand 0: results may be absent.
template <class B>
std::unique_ptr<Kernel> make_by_input_size(const KernelRequest& request, std::string& reason) {
  const DType type = request.view().input(0).dtype;
  switch (size_of(type)) {
    case 1:
      return reference::make_kernel(request, &B::template run<std::uint8_t>, reason);
    case 2:
      return reference::make_kernel(request, &B::template run<std::uint16_t>, reason);
    case 4:
      return reference::make_kernel(request, &B::template run<std::uint32_t>, reason);
    default:
      return reference::make_kernel(request, &B::template run<std::uint64_t>, reason);
  }
}

constexpr std::string_view kName = "cuda:movement";
constexpr KernelRow kRows[] = {
    {"Reshape", kName, make_by_size<Reshape>},
    {"Transpose", kName, make_by_size<Transpose>},
    {"Expand", kName, make_by_size<Expand>},
    {"Slice", kName, make_by_size<Slice>},
    {"SliceGrad", kName, make_by_size<SliceGrad>},
    {"Split", kName, in_order_of_memory<make_by_input_size<Split>>, follow_any},
    {"Concat", kName, in_order_of_memory<make_by_size<Concat>>, follow_any},
    {"Tile", kName, make_by_size<Tile>},
    {"Roll", kName, make_by_size<Roll>},
    {"Trilu", kName, make_by_size<Trilu>},
    {"ConstantOfShape", kName, make_by_output<ConstantOfShape, Everything>},
    {"Range", kName, make_by_output<Range, Numbers>},
};

}  // namespace

std::span<const KernelRow> movement_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
