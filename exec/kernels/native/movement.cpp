// Moving elements of any type by their size: transposes, joins and splits; rows picked by index.

#include <cstring>
#include <numeric>
#include <unordered_map>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/native/transpose.hpp"
#include "exec/kernels/reference/indexing.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::native {
namespace {

using graph::Shape;

/// The axes of a transpose, those that stay neighbours joined: result sizes, and strides in the operand.
struct Axes {
  std::vector<std::int64_t> sizes, strides;
};

Axes joined_axes(const Call& call) {
  const Shape& shape = call.in_shape(0);
  std::vector<std::int64_t> perm(shape.size());
  for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(perm.size() - 1 - d);
  const auto view = graph::transposed_view(shape, call.attributes().integers("perm", perm));
  Axes axes;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 1) continue;
    if (!axes.sizes.empty() && axes.strides.back() == view.shape[d] * view.strides[d]) {
      axes.sizes.back() *= view.shape[d];
      axes.strides.back() = view.strides[d];
    } else {
      axes.sizes.push_back(view.shape[d]);
      axes.strides.push_back(view.strides[d]);
    }
  }
  return axes;
}

/// Offsets in operand and result of number `i` of the axes that `skip` does not name.
struct Offsets {
  std::int64_t from = 0, to = 0;
};
Offsets offsets_of(const Axes& axes, const std::vector<std::int64_t>& result_strides, const std::vector<bool>& skip, std::int64_t i) {
  Offsets o;
  for (std::size_t d = axes.sizes.size(); d-- > 0;) {
    if (skip[d]) continue;
    const std::int64_t at = i % axes.sizes[d];
    i /= axes.sizes[d];
    o.from += at * axes.strides[d];
    o.to += at * result_strides[d];
  }
  return o;
}

struct MovementTranspose {
  template <class Element>
  static void run(const Call& call) {
    if (channels_last(call.inputs[0]) || channels_last(call.outputs[0])) return Unchanged::run<Element>(call);
    const Axes axes = joined_axes(call);
    const auto* from = call.in<Element>(0);
    auto* to = call.out<Element>();
    const std::int64_t count = graph::element_count(call.out_shape());
    if (axes.sizes.size() <= 1) return void(std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Element)));
    const auto result_strides = graph::row_major_strides(Shape(axes.sizes.begin(), axes.sizes.end()));
    const std::size_t last = axes.sizes.size() - 1;
    std::vector<bool> skip(axes.sizes.size(), false);
    skip[last] = true;
    if (axes.strides[last] == 1) {
      const std::int64_t length = axes.sizes[last];
      return parallel_items(call.threads(), count / length, kElementsWorthAThread / length + 1, [&](std::int64_t i) {
        const auto at = offsets_of(axes, result_strides, skip, i);
        std::memcpy(to + at.to, from + at.from, static_cast<std::size_t>(length) * sizeof(Element));
      });
    }
    const auto unit = static_cast<std::size_t>(std::find(axes.strides.begin(), axes.strides.end(), 1) - axes.strides.begin());
    skip[unit] = true;
    // Blocks of rows, so that a single large matrix is shared among threads too.
    const std::int64_t rows = axes.sizes[unit], blocks = (rows + 63) / 64, others = count / (rows * axes.sizes[last]);
    parallel_items(call.threads(), others * blocks, kElementsWorthAThread / (64 * axes.sizes[last]) + 1, [&](std::int64_t i) {
      const auto at = offsets_of(axes, result_strides, skip, i / blocks);
      const std::int64_t first = i % blocks * 64;
      MatrixTranspose<Element>{from + at.from + first, to + at.to + first * result_strides[unit],
                               axes.sizes[last],       std::min<std::int64_t>(64, rows - first),
                               axes.strides[last],     result_strides[unit]}
          .run();
    });
  }
};

/// A part of a tensor along `axis` in memory order: `outer` runs of `run` elements, `pitch` apart in the whole.
struct CopiedRuns {
  std::int64_t outer, run, pitch, start;
};
std::size_t axis_in_memory(const Call& call, std::size_t rank, plan::Format format) {
  return in_memory_order(graph::axis_of(call.problem.view(), 0), rank, format);
}
CopiedRuns runs_of(const Call& call, const Shape& whole, const Shape& part, std::int64_t start, plan::Format format) {
  const std::size_t axis = axis_in_memory(call, whole.size(), format);
  const auto split = graph::split_at(in_memory_order(whole, format), axis);
  const std::int64_t own = in_memory_order(part, format)[axis];
  return {split.outer, own * split.inner, split.size * split.inner, start * split.inner};
}

/// Copies between a part, whose runs follow each other, and its place in the whole.
template <class Element>
void copy_runs(const Call& call, const CopiedRuns& r, Element* part, Element* whole, bool into_part) {
  parallel_items(call.threads(), r.outer, kElementsWorthAThread / std::max<std::int64_t>(1, r.run) + 1, [&](std::int64_t o) {
    Element *in_part = part + o * r.run, *in_whole = whole + o * r.pitch + r.start;
    std::memcpy(into_part ? in_part : in_whole, into_part ? in_whole : in_part, static_cast<std::size_t>(r.run) * sizeof(Element));
  });
}

struct MovementConcat {
  template <class Element>
  static void run(const Call& call) {
    const auto format = call.outputs[0].format;
    const auto axis = graph::axis_of(call.problem.view(), 0);
    std::int64_t start = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      copy_runs(call, runs_of(call, call.out_shape(), call.in_shape(i), start, format), call.inputs[i].template as<Element>(),
                call.out<Element>(), false);
      start += call.in_shape(i)[axis];
    }
  }
};

struct MovementSplit {
  template <class Element>
  static void run(const Call& call) {
    const auto format = call.inputs[0].format;
    const auto axis = graph::axis_of(call.problem.view(), 0);
    const auto sizes = call.attributes().integers("split");
    std::int64_t start = 0;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const bool present = call.has_output(i);
      if (present)
        copy_runs(call, runs_of(call, call.in_shape(0), call.out_shape(i), start, format), call.out<Element>(i),
                  call.inputs[0].template as<Element>(), true);
      start += present ? call.out_shape(i)[axis] : sizes[i];
    }
  }
};

// Rows picked by index, and their gradients added up. Every part of a result is written by one thread, in the order of the indices,
// so that sums do not depend on the number of threads.

/// The operand or result that is gathered from, and the row of every index in it (-1: another block has it).
struct Picks {
  graph::AxisSplit split;
  std::vector<std::int64_t> rows;

  Picks(const Call& call, const graph::Shape& data, const graph::Shape& global, const graph::Shape* origin) {
    const std::size_t axis = reference::axis_in(call, data);
    split = graph::split_at(data, axis);
    rows = reference::read_rows(call, reference::Rows{origin ? (*origin)[axis] : 0, split.size, global[axis]});
  }
};

struct MovementGather {
  template <class Element>
  static void run(const Call& call) {
    const Picks picks(call, call.in_shape(0), call.in_global(0), call.inputs[0].origin);
    const auto [outer, size, inner] = picks.split;
    const auto count = static_cast<std::int64_t>(picks.rows.size());
    const auto bytes = static_cast<std::size_t>(inner) * sizeof(Element);
    const auto* x = call.in<Element>(0);
    auto* y = call.out<Element>();
    parallel_items(call.threads(), outer * count, kElementsWorthAThread / inner + 1, [&, size = size, inner = inner](std::int64_t i) {
      const std::int64_t row = picks.rows[static_cast<std::size_t>(i % count)];
      if (row < 0) {
        std::memset(y + i * inner, 0, bytes);
      } else {
        std::memcpy(y + i * inner, x + (i / count * size + row) * inner, bytes);
      }
    });
  }
};

/// Sums of rows [first, last) of a result, in f32 until they are stored: the result itself where it is f32.
template <class T>
class SumsOfRows {
 public:
  SumsOfRows(T* result, std::int64_t first, std::int64_t last, std::int64_t inner)
      : result_(result), first_(first), last_(last), inner_(inner) {
    std::memset(result + first * inner, 0, static_cast<std::size_t>((last - first) * inner) * sizeof(T));
  }
  void add(std::int64_t row, const T* addend) { loops_over<T>().add(sums_of(row), addend, inner_); }
  void store() {
    if constexpr (!std::is_same_v<T, float>)
      for (const auto& [row, sums] : rows_) loops_over<T>().from_f32(result_ + row * inner_, sums.data(), inner_);
  }

 private:
  float* sums_of(std::int64_t row) {
    if constexpr (std::is_same_v<T, float>) {
      return result_ + row * inner_;
    } else {
      auto& sums = rows_[row];
      sums.resize(static_cast<std::size_t>(inner_));
      return sums.data();
    }
  }

  T* result_;
  std::int64_t first_, last_, inner_;
  std::unordered_map<std::int64_t, std::vector<float>> rows_;  ///< of those that are picked at all
};

struct GatherGradient {
  template <class T>
  static void run(const Call& call) {
    const Picks picks(call, call.out_shape(), call.out_global(), call.outputs[0].origin);
    const auto [outer, size, inner] = picks.split;
    const auto count = static_cast<std::int64_t>(picks.rows.size());
    parallel_ranges(call.threads(), outer * size, kElementsWorthAThread / inner + 1,
                    [&, size = size, inner = inner](std::int64_t first, std::int64_t last) {
                      SumsOfRows<T> sums(call.out<T>(), first, last, inner);
                      for (std::int64_t o = first / size; o * size < last; ++o) {
                        for (std::int64_t i = 0; i < count; ++i) {
                          const std::int64_t row = picks.rows[static_cast<std::size_t>(i)], at = o * size + row;
                          if (row >= 0 && at >= first && at < last) sums.add(at, call.in<T>(0) + (o * count + i) * inner);
                        }
                      }
                      sums.store();
                    });
  }
};

struct FilledTensor {
  template <class T>
  static void run(const Call& call) {
    const auto value = rounded<T>(static_cast<float>(call.attributes().number("value", 0.0)));
    parallel_ranges(call.threads(), graph::element_count(call.out_shape()), kElementsWorthAThread,
                    [&](std::int64_t first, std::int64_t last) { std::fill(call.out<T>() + first, call.out<T>() + last, value); });
  }
};

std::unique_ptr<Kernel> make_filled(const KernelRequest& request, std::string& reason) {
  if (const auto body = reference::body_for<FilledTensor>(request.view().output().dtype, reference::Types<float, Bf16, F16>{}))
    return make_kernel(request, body);
  reason = "only f32, bf16 and f16";
  return nullptr;
}

/// Where an image's channels go last or come from there, memory stays as it is if the other side is channels-last. Of three axes either
/// may be meant, and sequences have such transposes, too.
bool channels_stay(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  const std::size_t rank = node.inputs[0]->shape.size();
  if (rank < 4 || !is_image(node.inputs[0]->shape)) return true;
  std::vector<std::int64_t> last(rank), second(rank);
  std::iota(last.begin(), last.end(), 0);
  second = last;
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  std::rotate(second.begin() + 1, second.end() - 1, second.end());
  const auto perm = node.attributes.integers("perm");
  if (perm == last && node.input_formats[0] == plan::Format::ChannelsLast) inputs[0] = plan::Format::ChannelsLast;
  if (perm == second) outputs[0] = plan::Format::ChannelsLast;
  return true;
}

constexpr KernelRow kMovementRows[] = {
    {"StopGradient", "native:copy", make_by_width<Unchanged>, follow_any},
    {"ConstantOfShape", "native:fill", make_filled},
    {"Transpose", "native:transpose", make_by_width<MovementTranspose>, channels_stay},
    {"Concat", "native:copy", make_by_width<MovementConcat>, follow_any},
    {"Split", "native:copy", make_by_width<MovementSplit>, follow_any},
    {"Gather", "native:gather", make_by_width<MovementGather>},
    {"GatherGrad", "native:gather", make<GatherGradient>},
};

}  // namespace

std::span<const KernelRow> movement_kernels() { return kMovementRows; }

}  // namespace rehearsal::exec::native
