// Kernels generated from the functions of graph/ops/scalar_functions.hpp, and the two that are none: Where and Cast.

#include <limits>
#include <utility>
#include <vector>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/in_memory_order.hpp"
#include "exec/kernels/cuda/neighbours.hpp"
#include "graph/ops/bit_functions.hpp"
#include "graph/ops/scalar_functions.hpp"

namespace rehearsal::exec::cuda {
namespace {

namespace scalar = graph::scalar;
using graph::StridedView;
using reference::Types;

using AllIntegers = Types<std::int32_t, std::int64_t, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using Small = Types<float, double, Half, BFloat16, std::int32_t, std::int64_t>;

template <class F>
using Elements = std::conditional_t<F::integers, Small, Floats>;

template <std::size_t N>
Walk<N + 1> walk_of_operands(const Call& call) {
  std::array<StridedView, N + 1> views;
  views[0] = graph::whole_view(call.out_shape());
  for (std::size_t i = 0; i < N; ++i) views[i + 1] = graph::broadcast_view(call.in_shape(i), call.out_shape());
  return walk_of(views);
}

/// The walk in steps of `size` elements, of which places are those of the first; false where rows are no whole steps. `dense` says of every
/// view whether a step is neighbouring elements, or one element for all of them.
template <std::size_t N>
bool take_steps(Walk<N>& walk, std::int64_t size, bool (&dense)[N]) {
  if (walk.rank == 0) return false;
  const int last = walk.rank - 1;
  if (walk.sizes[last].size % size != 0) return false;
  for (std::size_t v = 0; v < N; ++v) {
    dense[v] = walk.strides[v][last] == 1;
    if (!dense[v] && walk.strides[v][last] != 0) return false;
    bool whole = walk.offsets[v] % size == 0;
    for (int d = 0; d < last; ++d) whole = whole && walk.strides[v][d] % size == 0;
    if (dense[v] && !whole) return false;
  }
  walk.sizes[last] = Divider(walk.sizes[last].size / size);
  for (std::size_t v = 0; v < N; ++v) walk.strides[v][last] *= size;
  return dense[0];
}

/// What one element becomes: T is the type of operands, Result that of results.
template <class F, class T, class Result, std::size_t... I>
REHEARSAL_BODY Result value_of(const F& function, const T* const* x, const std::int64_t* at, std::index_sequence<I...>) {
  if constexpr (F::predicate) return function.template value<Real<T>>(real(x[I][at[I]])...);
  if constexpr (!F::predicate) return static_cast<Result>(function.template value<Real<T>>(real(x[I][at[I]])...));
}

/// So many elements at a time as 16 bytes hold.
template <class F, class T, class Result>
struct InSteps {
  static constexpr std::size_t kOperands = static_cast<std::size_t>(F::arity);
  static constexpr int kSize = Pack<T>::kSize;
  F function;
  const T* x[kOperands];
  Result* y;
  Walk<kOperands + 1> walk;
  bool dense[kOperands + 1];
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto place = walk.place(i);
    Few<T, kSize> values[kOperands];
    const T* rows[kOperands];
    for (std::size_t o = 0; o < kOperands; ++o) {
      const T* from = x[o] + place.at[o + 1];
      if (dense[o + 1])
        values[o] = load_few<kSize>(from);
      else
        for (auto& value : values[o].at) value = *from;
      rows[o] = values[o].at;
    }
    Few<Result, kSize> results;
    for (int k = 0; k < kSize; ++k) {
      std::int64_t at[kOperands];
      for (auto& a : at) a = k;
      results.at[k] = value_of<F, T, Result>(function, rows, at, std::make_index_sequence<kOperands>{});
    }
    store_few(y + place.at[0], results);
  }
};

template <class F, class T, class Result>
struct Broadcast {
  static constexpr std::size_t kOperands = static_cast<std::size_t>(F::arity);
  F function;
  const T* x[kOperands];
  Result* y;
  Walk<kOperands + 1> walk;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto place = walk.place(i);
    y[place.at[0]] = value_of<F, T, Result>(function, x, place.at + 1, std::make_index_sequence<kOperands>{});
  }
};

/// One operand is as large as the result, and another one row of it, of any length: packs of the first, elements of the row.
template <class F, class T>
struct WithRow {
  F function;
  const T* x[2];
  T* y;
  bool is_row[2];
  Divider length;  ///< of the row
  Packs<T> packs;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    Pack<T> values[2];
    for (int o = 0; o < 2; ++o) {
      if (!is_row[o]) {
        values[o] = packs.load(x[o], i);
        continue;
      }
      std::int64_t number = i * Pack<T>::kSize, at = length.split(number);
      for (auto& value : values[o].at) {
        value = x[o][at];
        at = at + 1 == length.size ? 0 : at + 1;
      }
    }
    const T* rows[2] = {values[0].at, values[1].at};
    Pack<T> results;
    for (int k = 0; k < Pack<T>::kSize; ++k) {
      const std::int64_t at[2] = {k, k};
      results.at[k] = value_of<F, T, T>(function, rows, at, std::make_index_sequence<2>{});
    }
    packs.store(y, i, results);
  }
};

/// out[i] = f(operands at i).
template <class F>
struct Map {
  template <class T>
  static void run(const Call& call) {
    using Result = std::conditional_t<F::predicate, bool, T>;
    constexpr std::size_t kOperands = static_cast<std::size_t>(F::arity);
    const F function{call.attributes()};
    const auto walk = walk_of_operands<kOperands>(call);
    const auto count = graph::element_count(call.out_shape());
    // Two elements of 8 bytes would take more registers than a thread should have.
    constexpr bool kSmall = sizeof(T) <= sizeof(float);
    if constexpr (kSmall) {
      InSteps<F, T, Result> steps{function, {}, call.out<Result>(), walk, {}};
      if (are_steps(call, steps)) return for_each(call.context.stream, count / steps.kSize, steps);
    }
    if constexpr (kOperands == 2 && !F::predicate && kSmall) {
      WithRow<F, T> rows{function, {call.in<T>(0), call.in<T>(1)}, call.out<T>(), {}, Divider(), {count, false}};
      if (are_rows(walk, rows)) return for_each(call.context.stream, rows.packs.packs(), rows);
    }
    Broadcast<F, T, Result> body{function, {}, call.out<Result>(), walk};
    for (std::size_t i = 0; i < kOperands; ++i) body.x[i] = call.in<T>(i);
    for_each(call.context.stream, count, body);
  }

 private:
  template <class T>
  static bool are_rows(const Walk<3>& walk, WithRow<F, T>& rows) {
    if (walk.rank != 2 || walk.strides[0][1] != 1 || walk.strides[0][0] != walk.sizes[1].size || !are_aligned({rows.y})) return false;
    rows.length = walk.sizes[1];
    rows.packs.aligned = true;
    for (std::size_t o = 0; o < 2; ++o) {
      rows.is_row[o] = walk.strides[o + 1][0] == 0;
      const bool dense = walk.strides[o + 1][0] == walk.sizes[1].size && are_aligned({rows.x[o]});
      if (walk.strides[o + 1][1] != 1 || walk.offsets[o + 1] != 0 || (!dense && !rows.is_row[o])) return false;
    }
    return true;
  }
  template <class T, class Result>
  static bool are_steps(const Call& call, InSteps<F, T, Result>& steps) {
    if (!take_steps(steps.walk, steps.kSize, steps.dense)) return false;
    if (reinterpret_cast<std::uintptr_t>(steps.y) % (steps.kSize * sizeof(Result)) != 0) return false;
    for (std::size_t i = 0; i < steps.kOperands; ++i) {
      steps.x[i] = call.in<T>(i);
      if (steps.dense[i + 1] && !are_aligned({steps.x[i]})) return false;
    }
    return true;
  }
};

template <class T>
struct Choose {
  const bool* condition;
  const T *a, *b;
  T* y;
  Walk<4> walk;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto place = walk.place(i);
    y[place.at[0]] = condition[place.at[1]] ? a[place.at[2]] : b[place.at[3]];
  }
};

struct Where {
  template <class T>
  static void run(const Call& call) {
    for_each(call.context.stream, graph::element_count(call.out_shape()),
             Choose<T>{call.in<bool>(0), call.in<T>(1), call.in<T>(2), call.out<T>(), walk_of_operands<3>(call)});
  }
};

/// Floats outside the range of an integer type saturate (in C++ the conversion is undefined), NaN becomes 0.
template <class To, class From>
struct Converted {
  const From* x;
  To* y;
  double low, high;  ///< of To
  To lowest, highest;
  static constexpr std::int64_t kEach = 8;
  REHEARSAL_BODY To converted(From from) const {
    const auto value = real(from);
    using Value = decltype(value);
    if constexpr (std::is_same_v<To, bool>) {
      return value != Value(0);
    } else if constexpr (std::is_floating_point_v<std::remove_const_t<Value>> && std::is_integral_v<To>) {
      const auto wide = static_cast<double>(value);
      return wide != wide ? To(0) : wide <= low ? lowest : wide >= high ? highest : static_cast<To>(value);
    } else {
      return static_cast<To>(static_cast<Real<To>>(value));
    }
  }
  /// Group i of kEach elements, the last of which may be short.
  REHEARSAL_BODY void operator()(std::int64_t group) const {
    const std::int64_t first = group * kEach, last = first + kEach < count ? first + kEach : count;
    if (!aligned || last - first < kEach) {
      for (std::int64_t i = first; i < last; ++i) y[i] = converted(x[i]);
      return;
    }
    Few<From, kRead> values[kEach / kRead];
    for (int part = 0; part < kEach / kRead; ++part) values[part] = load_few<kRead>(x + first + part * kRead);
    for (int part = 0; part < kEach / kWritten; ++part) {
      Few<To, kWritten> results;
      for (int k = 0; k < kWritten; ++k) {
        const int at = part * kWritten + k;
        results.at[k] = converted(values[at / kRead].at[at % kRead]);
      }
      store_few(y + first + part * kWritten, results);
    }
  }
  std::int64_t count = 0;
  bool aligned = false;
  /// Read and written at once.
  static constexpr int kRead = sizeof(From) >= 2 ? static_cast<int>(kPackBytes / sizeof(From)) : static_cast<int>(kEach);
  static constexpr int kWritten = sizeof(To) >= 2 ? static_cast<int>(kPackBytes / sizeof(To)) : static_cast<int>(kEach);
};

template <class From>
struct CastFrom {
  template <class To>
  static void run(const Call& call) {
    using Limits = std::numeric_limits<std::conditional_t<std::is_integral_v<To>, To, int>>;
    using Bound = std::conditional_t<std::is_integral_v<To>, To, int>;
    Converted<To, From> body{call.in<From>(0), call.out<To>(), 0, 0, To{}, To{}};
    if constexpr (std::is_integral_v<Bound> && std::is_integral_v<To>) {
      body.low = static_cast<double>(Limits::min()), body.high = static_cast<double>(Limits::max());
      body.lowest = Limits::min(), body.highest = Limits::max();
    }
    body.count = graph::element_count(call.out_shape());
    body.aligned = are_aligned({body.x, body.y});
    for_each(call.context.stream, (body.count + body.kEach - 1) / body.kEach, body);
  }
};

using Castable = Types<float, double, Half, BFloat16, bool, std::int32_t, std::int64_t, std::uint8_t>;

template <class... From>
reference::KernelBody cast_body(DType from, DType to, Types<From...>) {
  reference::KernelBody body = nullptr;
  ((from == reference::kTypeOf<From> ? void(body = reference::body_for<CastFrom<From>>(to, Types<From...>{})) : void()), ...);
  return body;
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request, std::string& reason) {
  const DType from = request.view().input(0).dtype, to = request.view().output().dtype;
  if (const auto body = cast_body(from, to, Castable{})) return reference::make_kernel(request, body, reason);
  return reference::refuse_type(request, from, reason);
}

using Comparable = Types<float, double, Half, BFloat16, std::int32_t, std::int64_t, bool>;

constexpr std::string_view kName = "cuda:elementwise";

template <class F>
void add_unary(std::vector<KernelRow>& rows) {
  rows.push_back({F::name, kName, in_order_of_memory<make_by_input<Map<F>, Elements<F>>>, follow_result});
  if constexpr (F::saved == scalar::Saved::Operand || F::saved == scalar::Saved::Result)
    rows.push_back({scalar::gradient_name<F>(), kName, in_order_of_memory<make_by_output<Map<scalar::SlopeOf<F>>, Floats>>, follow_result});
}

template <class... F>
void add_unaries(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (add_unary<F>(rows), ...);
}
template <class... F>
void add_numeric(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (rows.push_back({F::name, kName, in_order_of_memory<make_by_input<Map<F>, Elements<F>>>, follow_result}), ...);
}
template <class... F>
void add_connectives(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (rows.push_back({F::name, kName, in_order_of_memory<make_by_input<Map<F>, Types<bool>>>, follow_result}), ...);
}

std::vector<KernelRow> make_rows() {
  std::vector<KernelRow> rows;
  rows.push_back({"Equal", kName, in_order_of_memory<make_by_input<Map<scalar::Equal>, Comparable>>, follow_result});
  rows.push_back({"Where", kName, in_order_of_memory<make_by_size<Where>>, follow_result});
  rows.push_back({"Cast", kName, in_order_of_memory<make_cast>, follow_result});
  add_unaries(rows, scalar::Unaries{});
  add_numeric(rows, scalar::Binaries{});
  add_numeric(rows, scalar::Comparisons{});
  add_numeric(rows, scalar::OperandGradients{});
  add_connectives(rows, scalar::Connectives{});
  return rows;
}

}  // namespace

std::span<const KernelRow> elementwise_kernels() {
  static const std::vector<KernelRow> kRows = make_rows();
  return kRows;
}

}  // namespace rehearsal::exec::cuda
