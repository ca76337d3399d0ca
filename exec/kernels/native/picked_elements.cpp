// Elements picked by index along an axis, of 2 or 4 bytes; their gradients are added in f32. Whatever shares its other indices is a line,
// and one thread's, so that nothing depends on their number.

#include <algorithm>
#include <vector>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/indexing.hpp"

namespace rehearsal::exec::native {
namespace {

/// One line of indices, and of the data that they point into.
struct PickedLine {
  const std::int64_t* rows;      ///< -1: another block has it
  std::int64_t at, step, count;  ///< of operands or results shaped as the indices
  std::int64_t data_at, data_step;
  [[nodiscard]] std::int64_t row(std::int64_t i) const { return rows[at + i * step]; }
  [[nodiscard]] std::int64_t place(std::int64_t i) const { return data_at + row(i) * data_step; }
};

/// Calls body(line, memory that the lines of a thread share) for every line, after all indices were looked at: a wrong one is thrown before
/// there are threads.
template <class F>
void for_lines(const Call& call, const graph::Shape& data, const reference::Rows& of_axis, const F& body) {
  const auto rows = reference::read_rows(call, of_axis);
  const auto& shape = call.in_shape(1);
  const std::size_t axis = reference::axis_in(call, data);
  const auto strides = graph::row_major_strides(shape), data_strides = graph::row_major_strides(data);
  const std::int64_t length = shape[axis], lines = length == 0 ? 0 : static_cast<std::int64_t>(rows.size()) / length;
  parallel_ranges(call.threads(), lines, kElementsWorthAThread / std::max<std::int64_t>(1, length) + 1,
                  [&](std::int64_t first, std::int64_t last) {
                    std::vector<float> shared;
                    for (std::int64_t i = first; i < last; ++i) {
                      PickedLine line{rows.data(), 0, strides[axis], length, 0, data_strides[axis]};
                      std::int64_t rest = i;
                      for (std::size_t d = shape.size(); d-- > 0;) {
                        if (d == axis) continue;
                        line.at += rest % shape[d] * strides[d];
                        line.data_at += rest % shape[d] * data_strides[d];
                        rest /= shape[d];
                      }
                      body(line, shared);
                    }
                  });
}

/// Data, indices -> what they point to; 0 where that is another block's.
struct PickedElements {
  template <class Element>
  static void run(const Call& call) {
    const auto& data = call.in_shape(0);
    const std::size_t axis = reference::axis_in(call, data);
    const auto* x = call.in<Element>(0);
    auto* y = call.out<Element>();
    for_lines(call, data, {call.in_origin(0, axis), data[axis], call.in_global(0)[axis]},
              [&](const PickedLine& line, const std::vector<float>&) {
                for (std::int64_t i = 0; i < line.count; ++i) y[line.at + i * line.step] = line.row(i) < 0 ? Element{} : x[line.place(i)];
              });
  }
};

/// Data, indices, updates -> data with updates in their places, the last of each staying.
struct ReplacedElements {
  template <class Element>
  static void run(const Call& call) {
    const auto& data = call.in_shape(0);
    const std::int64_t size = data[reference::axis_in(call, data)];
    const auto* update = call.in<Element>(2);
    auto* y = call.out<Element>();
    Unchanged::run<Element>(call);
    for_lines(call, data, {0, size, size}, [&](const PickedLine& line, const std::vector<float>&) {
      for (std::int64_t i = 0; i < line.count; ++i) y[line.place(i)] = update[line.at + i * line.step];
    });
  }
};

/// Adds a line to what lies in the result already; an element is rounded once, when all that goes into it is added. `sums` is any memory.
template <class T>
void add_line(const PickedLine& line, const T* addend, T* result, std::vector<float>& sums) {
  const auto for_each = [&](const auto& body) {
    for (std::int64_t i = 0; i < line.count; ++i)
      if (line.row(i) >= 0) body(sums[static_cast<std::size_t>(line.row(i))], i);
  };
  for_each([&](float& sum, std::int64_t i) { sum = number(result[line.place(i)]); });
  for_each([&](float& sum, std::int64_t i) { sum += number(addend[line.at + i * line.step]); });
  for_each([&](float sum, std::int64_t i) { result[line.place(i)] = rounded<T>(sum); });
}

/// Data, indices, updates -> data to which updates are added.
struct AddedElements {
  template <class T>
  static void run(const Call& call) {
    const auto& data = call.in_shape(0);
    const std::int64_t size = data[reference::axis_in(call, data)];
    Unchanged::run<T>(call);
    for_lines(call, data, {0, size, size}, [&](const PickedLine& line, std::vector<float>& sums) {
      sums.resize(static_cast<std::size_t>(size));
      add_line(line, call.in<T>(2), call.out<T>(), sums);
    });
  }
};

/// dY, indices -> dX.
struct PickedGradient {
  template <class T>
  static void run(const Call& call) {
    const auto& data = call.out_shape();
    const std::size_t axis = reference::axis_in(call, data);
    auto* dx = call.out<T>();
    parallel_ranges(call.threads(), graph::element_count(data), kElementsWorthAThread,
                    [&](std::int64_t first, std::int64_t last) { std::fill(dx + first, dx + last, T{}); });
    for_lines(call, data, {call.out_origin(0, axis), data[axis], call.out_global()[axis]},
              [&](const PickedLine& line, std::vector<float>& sums) {
                sums.resize(static_cast<std::size_t>(data[axis]));
                add_line(line, call.in<T>(0), dx, sums);
              });
  }
};

std::unique_ptr<Kernel> make_scattered(const KernelRequest& request, std::string& reason) {
  const std::string reduction = request.attributes.text("reduction", "none");
  if (reduction == "none") return make_by_width<ReplacedElements>(request, reason);
  if (reduction == "add") return make<AddedElements>(request, reason);
  reason = "only where updates replace what is there, or are added";
  return nullptr;
}

constexpr std::string_view kPickedName = "native:gather";
constexpr KernelRow kPickedRows[] = {
    {"GatherElements", kPickedName, make_by_width<PickedElements>},
    {"GatherElementsGrad", kPickedName, make<PickedGradient>},
    {"ScatterElements", kPickedName, make_scattered},
};

}  // namespace

std::span<const KernelRow> picked_element_kernels() { return kPickedRows; }

}  // namespace rehearsal::exec::native
