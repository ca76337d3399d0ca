// Updates are written in the order of the indices: the last one stays.

#include <algorithm>
#include <string>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/indexing.hpp"
#include "graph/ops/scalar.hpp"

namespace rehearsal::exec::reference {
namespace {

/// Calls write(combine), combine being the attribute `reduction` as a function of what is there and the update.
template <class T, class F>
void with_reduction(const Call& call, const F& write) {
  const std::string reduction = call.attributes().text("reduction", "none");
  if (reduction == "add") return write([](T a, T b) { return graph::scalar::wrapped(a, b, std::plus<>()); });
  if (reduction == "mul") return write([](T a, T b) { return graph::scalar::wrapped(a, b, std::multiplies<>()); });
  if (reduction == "max") return write([](T a, T b) { return std::max(a, b); });
  if (reduction == "min") return write([](T a, T b) { return std::min(a, b); });
  write([](T, T b) { return b; });
}

struct ScatterElements {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& data = call.in_shape(0);
    const std::size_t axis = axis_in(call, data);
    T* y = call.out<T>();
    std::copy_n(call.in<T>(0), graph::element_count(data), y);
    with_reduction<T>(call, [&](const auto& combine) {
      for_each_element(call, data, {0, data[axis], data[axis]},
                       [&](std::int64_t index, std::int64_t at) { y[at] = combine(y[at], call.in<T>(2)[index]); });
    });
  }
};

struct ScatterND {
  template <class T>
  static void run(const Call& call) {
    T* y = call.out<T>();
    std::copy_n(call.in<T>(0), graph::element_count(call.in_shape(0)), y);
    const T* update = call.in<T>(2);
    with_reduction<T>(call, [&](const auto& combine) {
      for_each_slice(call, call.in_shape(0), [&](std::int64_t number, std::int64_t at, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i) y[at + i] = combine(y[at + i], update[number * length + i]);
      });
    });
  }
};

struct GatherND {
  template <class T>
  static void run(const Call& call) {
    for_each_slice(call, call.in_shape(0), [&](std::int64_t number, std::int64_t at, std::int64_t length) {
      std::copy_n(call.in<T>(0) + at, length, call.out<T>() + number * length);
    });
  }
};

using Signed = Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::int16_t>;
constexpr std::string_view kScatterAny = "reference:any";
constexpr KernelRow kScatterRows[] = {
    {"ScatterElements", kScatterAny, make_by_output<ScatterElements, Signed>},
    {"ScatterND", kScatterAny, make_by_output<ScatterND, Signed>},
    {"GatherND", kScatterAny, make_by_size<GatherND>},
};

}  // namespace

std::span<const KernelRow> scatter_kernels() { return kScatterRows; }

}  // namespace rehearsal::exec::reference
