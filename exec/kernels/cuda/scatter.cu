// Elements and slices read and written where indices say. Updates of one place are combined in the order of the indices, as by the
// reference kernels: along an axis one thread walks a line of indices; addresses are sorted.

#include <vector>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/indexing.hpp"

namespace rehearsal::exec::cuda {
namespace {

using graph::Shape;

enum class Reduction : std::uint8_t { None, Add, Mul, Max, Min };

Reduction reduction_of(const Call& call) {
  const std::string name = call.attributes().text("reduction", "none");
  if (name == "add") return Reduction::Add;
  if (name == "mul") return Reduction::Mul;
  if (name == "max") return Reduction::Max;
  return name == "min" ? Reduction::Min : Reduction::None;
}

/// Sums and products of integers wrap around.
template <class T>
using Unwrapped = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

template <class T>
REHEARSAL_BODY T combined(Reduction reduction, T a, T b) {
  using U = Unwrapped<T>;
  switch (reduction) {
    case Reduction::Add:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Reduction::Mul:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Reduction::Max:
      return a < b ? b : a;
    case Reduction::Min:
      return b < a ? b : a;
    default:
      return b;
  }
}

std::size_t axis_in(const Call& call, const Shape& data) {
  return static_cast<std::size_t>(graph::normalize_axis(call.attributes().integer("axis", 0), data.size()));
}

/// A tensor of `data` seen through the shape of the indices, `axis` aside.
graph::StridedView picked_view(const Shape& data, const Shape& indices, std::size_t axis) {
  graph::StridedView view = graph::whole_view(data);
  view.shape = indices;
  view.strides[axis] = 0;
  return view;
}

template <class T>
struct PickElements {
  const T* x;
  T* y;
  Indices indices;
  RowBlock rows;
  std::int64_t stride;
  Walk<2> walk;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const std::int64_t row = rows.find(indices.at(i));
    y[i] = row < 0 ? T(0) : x[walk.place(i).at[1] + row * stride];
  }
};

struct GatherElements {
  template <class T>
  static void run(const Call& call) {
    const Shape &data = call.in_shape(0), &shape = call.in_shape(1);
    const std::size_t axis = axis_in(call, data);
    const RowBlock rows{call.in_origin(0, axis), data[axis], call.in_global(0)[axis], call.context.fault};
    for_each(call.context.stream, graph::element_count(shape),
             PickElements<T>{call.in<T>(0), call.out<T>(), Indices(call), rows, graph::row_major_strides(data)[axis],
                             walk_of<2>({graph::whole_view(shape), picked_view(data, shape, axis)})});
  }
};

/// One line of indices along the axis: no other line meets its elements. A: what T is combined in.
template <class T, class A>
struct CombineLine {
  const T* updates;
  A* y;
  Indices indices;
  RowBlock rows;
  Reduction reduction;
  std::int64_t length, step, stride;  ///< indices of a line, elements between them; elements between rows of y
  Walk<2> walk;
  REHEARSAL_BODY void operator()(std::int64_t line) const {
    const auto place = walk.place(line);
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t at = place.at[0] + j * step, row = rows.find(indices.at(at));
      if (row < 0) continue;
      A& element = y[place.at[1] + row * stride];
      element = combined<A>(reduction, element, static_cast<A>(updates[at]));
    }
  }
};

template <class To, class From>
struct Convert {
  const From* from;
  To* to;
  REHEARSAL_BODY void operator()(std::int64_t i) const { to[i] = static_cast<To>(from[i]); }
};

/// Combines the updates, operand `operand`, with what `y` holds of a tensor of `data`.
template <class T>
void combine_lines(const Call& call, std::size_t operand, const RowBlock& rows, const Shape& data, Real<T>* y) {
  const Shape& shape = call.in_shape(1);
  const std::size_t axis = axis_in(call, data);
  if (graph::element_count(shape) == 0) return;
  const auto strides = graph::row_major_strides(shape);
  graph::StridedView lines = graph::whole_view(shape), picked = picked_view(data, shape, axis);
  lines.shape[axis] = picked.shape[axis] = 1;
  const auto reduction = operand == 0 ? Reduction::Add : reduction_of(call);
  for_each(call.context.stream, graph::element_count(lines.shape),
           CombineLine<T, Real<T>>{call.in<T>(operand), y, Indices(call), rows, reduction, shape[axis], strides[axis],
                                   graph::row_major_strides(data)[axis], walk_of<2>({lines, picked})});
}

/// 16-bit elements are combined in f32, in the workspace.
std::int64_t bytes_of_working_copy(const graph::NodeView& node) {
  const auto& type = node.output();
  return is_narrow(type.dtype) ? graph::element_count(type.shape) * static_cast<std::int64_t>(sizeof(float)) : 0;
}

template <class T>
Real<T>* working_copy(const Call& call) {
  if constexpr (std::is_same_v<Real<T>, T>) return call.out<T>();
  return static_cast<Real<T>*>(call.context.workspace);
}

template <class T>
void finish(const Call& call, const Real<T>* y) {
  if constexpr (!std::is_same_v<Real<T>, T>)
    for_each(call.context.stream, graph::element_count(call.out_shape()), Convert<T, Real<T>>{y, call.out<T>()});
}

struct GatherElementsGrad {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_working_copy(node); }
  template <class T>
  static void run(const Call& call) {
    const Shape& data = call.out_shape();
    const std::size_t axis = axis_in(call, data);
    auto* y = working_copy<T>(call);
    clear(call.context.stream, y, graph::element_count(data) * static_cast<std::int64_t>(sizeof(*y)));
    combine_lines<T>(call, 0, {call.out_origin(0, axis), data[axis], call.out_global()[axis], call.context.fault}, data, y);
    finish<T>(call, y);
  }
};

struct ScatterElements {
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_working_copy(node); }
  template <class T>
  static void run(const Call& call) {
    const Shape& data = call.in_shape(0);
    const std::int64_t size = data[axis_in(call, data)], count = graph::element_count(data);
    auto* y = working_copy<T>(call);
    if constexpr (std::is_same_v<Real<T>, T>)
      copy(call.context.stream, y, call.in<T>(0), count * static_cast<std::int64_t>(sizeof(T)));
    else
      for_each(call.context.stream, count, Convert<Real<T>, T>{call.in<T>(0), y});
    combine_lines<T>(call, 2, {0, size, size, call.context.fault}, data, y);
    finish<T>(call, y);
  }
};

/// Addresses along the last dimension of the indices: each names a slice of a tensor.
struct Addresses {
  static constexpr int kMost = Walk<1>::kMost;
  Indices indices;
  Fault* fault;
  std::int64_t depth, length;  ///< numbers of an address, elements of a slice
  std::int64_t sizes[kMost] = {}, strides[kMost] = {};

  Addresses(const Call& call, const Shape& data) : indices(call), fault(call.context.fault), depth(call.in_shape(1).back()), length(1) {
    if (depth > kMost) throw Refusal("GPU kernels take addresses of at most " + std::to_string(kMost) + " dimensions");
    const auto all = graph::row_major_strides(data);
    for (std::size_t d = 0; d < static_cast<std::size_t>(depth); ++d) sizes[d] = data[d], strides[d] = all[d];
    length = strides[depth - 1];
  }
  /// First element of the slice that address i names; -1, and a fault raised, when it lies outside.
  REHEARSAL_BODY std::int64_t first(std::int64_t i) const {
    std::int64_t at = 0;
    for (int d = 0; d < depth; ++d) {
      const std::int64_t row = RowBlock{0, sizes[d], sizes[d], fault}.find(indices.at(i * depth + d));
      if (row < 0) return -1;
      at += row * strides[d];
    }
    return at;
  }
};

template <class T>
struct PickSlices {
  const T* x;
  T* y;
  Addresses addresses;
  Divider length;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t number = i;
    const std::int64_t column = length.split(number), first = addresses.first(number);
    y[i] = first < 0 ? T(0) : x[first + column];
  }
};

struct GatherND {
  template <class T>
  static void run(const Call& call) {
    const Addresses addresses(call, call.in_shape(0));
    for_each(call.context.stream, graph::element_count(call.out_shape()),
             PickSlices<T>{call.in<T>(0), call.out<T>(), addresses, Divider(addresses.length)});
  }
};

struct AddressKeys {
  Addresses addresses;
  Divider length;
  Key* keys;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const std::int64_t first = addresses.first(i);
    keys[i] = key_of(first < 0 ? -1 : length.quotient(first), i);
  }
};

/// The first of the sorted addresses of a slice combines the updates of all of them, element by element.
template <class T>
struct CombineSlices {
  const T* updates;
  T* y;
  const Key* keys;
  std::int64_t count;
  Reduction reduction;
  Divider length;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t k = i;
    const std::int64_t column = length.split(k);
    const std::uint32_t slice = place_of(keys[k]);
    if (slice == kNowhere || (k > 0 && place_of(keys[k - 1]) == slice)) return;
    T& element = y[static_cast<std::int64_t>(slice) * length.size + column];
    auto value = real(element);
    for (; k < count && place_of(keys[k]) == slice; ++k)
      value = combined<Real<T>>(reduction, value, real(updates[position_of(keys[k]) * length.size + column]));
    element = static_cast<T>(value);
  }
};

struct ScatterND {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const std::int64_t addresses = graph::element_count(node.input(1).shape);
    require_keys(graph::element_count(node.output().shape), addresses);
    return bytes_of_sorting(addresses);
  }
  template <class T>
  static void run(const Call& call) {
    const Shape& data = call.in_shape(0);
    const DeviceStream stream = call.context.stream;
    copy(stream, call.out<T>(), call.in<T>(0), graph::element_count(data) * static_cast<std::int64_t>(sizeof(T)));
    const std::int64_t count = graph::element_count(call.in_shape(1)) / call.in_shape(1).back();
    if (count == 0 || graph::element_count(data) == 0) return;
    const Addresses addresses(call, data);
    const Divider length(addresses.length);
    auto* keys = static_cast<Key*>(call.context.workspace);
    for_each(stream, count, AddressKeys{addresses, length, keys});
    const Key* sorted = sort_keys(stream, keys, keys + count, count);
    for_each(stream, count * addresses.length,
             CombineSlices<T>{call.in<T>(2), call.out<T>(), sorted, count, reduction_of(call), length});
  }
};

using Signed = reference::Types<float, double, Half, BFloat16, std::int32_t, std::int64_t, std::int8_t, std::int16_t>;

constexpr std::string_view kName = "cuda:scatter";
constexpr KernelRow kRows[] = {
    {"GatherElements", kName, make_by_size<GatherElements>},
    {"GatherElementsGrad", kName, make_by_output_with_workspace<GatherElementsGrad, Floats>},
    {"ScatterElements", kName, make_by_output_with_workspace<ScatterElements, Signed>},
    {"ScatterND", kName, make_by_output_with_workspace<ScatterND, Signed>},
    {"GatherND", kName, make_by_size<GatherND>},
};

}  // namespace

std::span<const KernelRow> scatter_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
