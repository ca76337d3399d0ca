// Kernels generated from the functions of graph/ops/scalar_functions.hpp, and the two that are none: Where and Cast.

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/row_pieces.hpp"
#include "graph/ops/bit_functions.hpp"
#include "graph/ops/scalar_functions.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::reference {
namespace {

namespace scalar = graph::scalar;
using graph::StridedView;

constexpr std::int64_t kElementwiseGrain = 1 << 14;  ///< elements worth a thread

using AllIntegers = Types<std::int32_t, std::int64_t, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using AllNumbers =
    Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::uint32_t, std::uint64_t>;

template <class F>
using Elements = std::conditional_t<F::integers, AllNumbers, Floats>;

/// Piece of a row: offsets and steps of the result and then of the operands, and how many elements.
template <std::size_t N>
using Piece =
    std::function<void(const std::array<std::int64_t, N + 1>& at, const std::array<std::int64_t, N + 1>& steps, std::int64_t count)>;

/// Calls body for pieces of rows. The body is erased so that the walk is compiled once per number of operands, not per function.
template <std::size_t N>
void for_each_piece(const Call& call, const Piece<N>& body) {
  std::array<StridedView, N + 1> views;
  const graph::Shape& shape = call.out_shape();
  views[0] = graph::whole_view(shape);
  for (std::size_t i = 0; i < N; ++i) views[i + 1] = graph::broadcast_view(call.in_shape(i), shape);
  walk_pieces(call.threads(), views, kElementwiseGrain, body);
}

/// out[i] = f(operands at i). Rows without gaps are a loop of their own: the compiler vectorises it.
template <class F>
struct Map {
  template <class T>
  static void run(const Call& call) {
    run_with<T>(call, std::make_index_sequence<static_cast<std::size_t>(F::arity)>{});
  }

 private:
  template <class T, std::size_t... I>
  static void run_with(const Call& call, std::index_sequence<I...>) {
    using Result = std::conditional_t<F::predicate, bool, T>;
    constexpr std::size_t kOperands = sizeof...(I);
    const F function{call.attributes()};
    for_each_piece<kOperands>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
      Result* y = call.out<Result>() + at[0];
      const std::array<const T*, kOperands> x = {(call.in<T>(I) + at[I + 1])...};
      if (((steps[I + 1] == 1) && ...)) {
        for (std::int64_t i = 0; i < count; ++i) y[i] = function.value(x[I][i]...);
      } else {
        for (std::int64_t i = 0; i < count; ++i) y[i * steps[0]] = function.value(x[I][i * steps[I + 1]]...);
      }
    });
  }
};

struct ElementwiseWhere {
  template <class T>
  static void run(const Call& call) {
    for_each_piece<3>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
      const bool* condition = call.in<bool>(0) + at[1];
      const T *a = call.in<T>(1) + at[2], *b = call.in<T>(2) + at[3];
      T* y = call.out<T>() + at[0];
      for (std::int64_t i = 0; i < count; ++i) y[i * steps[0]] = condition[i * steps[1]] ? a[i * steps[2]] : b[i * steps[3]];
    });
  }
};

/// Floats outside the range of an integer type saturate (in C++ the conversion is undefined), NaN becomes 0.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr auto kLow = static_cast<double>(std::numeric_limits<To>::min()), kHigh = static_cast<double>(std::numeric_limits<To>::max());
    const auto wide = static_cast<double>(x);
    if (std::isnan(wide)) return To(0);
    return wide <= kLow ? std::numeric_limits<To>::min() : wide >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(wide);
  } else {
    return static_cast<To>(x);
  }
}

template <class From>
struct CastFrom {
  template <class To>
  static void run(const Call& call) {
    for_each_piece<1>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
      const From* x = call.in<From>(0) + at[1];
      To* y = call.out<To>() + at[0];
      for (std::int64_t i = 0; i < count; ++i) y[i * steps[0]] = converted<To>(x[i * steps[1]]);
    });
  }
};

template <class... From>
KernelBody cast_body(DType from, DType to, Types<From...>) {
  KernelBody body = nullptr;
  ((from == kTypeOf<From> ? void(body = body_for<CastFrom<From>>(to, Types<From...>{})) : void()), ...);
  return body;
}

using Castable = Everything;

std::unique_ptr<Kernel> make_cast_of_elementwise(const KernelRequest& request, std::string& reason) {
  const DType from = request.view().input(0).dtype, to = request.view().output().dtype;
  if (const KernelBody body = cast_body(from, to, Castable{})) return make_kernel(request, body, reason);
  return refuse_type(request, from, reason);
}

constexpr std::string_view kElementwiseAny = "reference:any";

template <class F>
void add_unary(std::vector<KernelRow>& rows) {
  rows.push_back({F::name, kElementwiseAny, make_by_input<Map<F>, Elements<F>>});
  if constexpr (F::saved == scalar::Saved::Operand || F::saved == scalar::Saved::Result) {
    rows.push_back({scalar::gradient_name<F>(), kElementwiseAny, make_by_output<Map<scalar::SlopeOf<F>>, Floats>});
  }
}

template <class... F>
void add_unaries(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (add_unary<F>(rows), ...);
}
template <class... F>
void add_numeric(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (rows.push_back({F::name, kElementwiseAny, make_by_input<Map<F>, Elements<F>>}), ...);
}
template <class... F>
void add_bit_functions(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (rows.push_back({F::name, kElementwiseAny, make_by_input<Map<F>, AllIntegers>}), ...);
}
template <class... F>
void add_connectives(std::vector<KernelRow>& rows, scalar::List<F...>) {
  (rows.push_back({F::name, kElementwiseAny, make_by_input<Map<F>, Types<bool>>}), ...);
}

std::vector<KernelRow> make_rows_elementwise() {
  std::vector<KernelRow> rows;
  rows.push_back({"Equal", kElementwiseAny, make_by_input<Map<scalar::Equal>, Everything>});
  rows.push_back({"Where", kElementwiseAny, make_by_size<ElementwiseWhere>});
  rows.push_back({"Cast", kElementwiseAny, make_cast_of_elementwise});
  add_unaries(rows, scalar::Unaries{});
  add_numeric(rows, scalar::Binaries{});
  add_numeric(rows, scalar::Comparisons{});
  add_numeric(rows, scalar::OperandGradients{});
  add_connectives(rows, scalar::Connectives{});
  add_bit_functions(rows, scalar::BitFunctions{});
  return rows;
}

}  // namespace

std::span<const KernelRow> elementwise_kernels() {
  static const std::vector<KernelRow> kRows = make_rows_elementwise();
  return kRows;
}

}  // namespace rehearsal::exec::reference
