// Element-wise operators: operands are walked in the order in which the result lies in memory, a row at a time.

#include <array>
#include <cstring>
#include <limits>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/row_pieces.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::native {
namespace {

using graph::Shape;

/// An operand broadcast to `full`, both in the result's memory order. A plain operand that has no pixels of its own lies in memory
/// alike in either order.
graph::StridedView operand_view(const Shape& own, const Shape& full, plan::Format order) {
  return graph::broadcast_view(in_memory_order(padded_to(full.size(), own), order), in_memory_order(full, order));
}

/// Calls body(offsets, steps, count) for contiguous pieces of the result; index 0 of both is the result.
template <std::size_t N, class F>
void for_each_piece(const Call& call, const F& body) {
  const auto order = call.outputs[0].format;
  const Shape& full = call.out_shape();
  std::array<graph::StridedView, N + 1> views;
  views[0] = graph::whole_view(in_memory_order(full, order));
  for (std::size_t i = 0; i < N; ++i) views[i + 1] = operand_view(call.in_shape(i), full, order);
  reference::walk_pieces(call.threads(), views, kElementsWorthAThread, body);
}

/// Defaults as in graph/ops/scalar_functions.hpp: LeakyRelu's alpha is 0.01, HardSigmoid's 0.2.
FunctionParameters parameters_of(std::string_view op, const graph::Attributes& a) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double low = a.number("min", -kInfinity), high = a.number("max", kInfinity);
  return {.factor = static_cast<float>(a.number("factor", 1.0)),
          .alpha = static_cast<float>(a.number("alpha", op.starts_with("HardSigmoid") ? 0.2 : 0.01)),
          .beta = static_cast<float>(a.number("beta", 0.5)),
          .low = static_cast<float>(low),
          .high = static_cast<float>(high),
          .tanh = a.text("approximate", "none") == "tanh"};
}

template <class T>
ElementwiseLoop<T> find(std::string_view op, bool tanh) {
  const std::string name = std::string(op) + (tanh ? ":tanh" : "");
  const auto& l = loops_over<T>();
  for (int i = 0; i < l.elementwise_rows; ++i)
    if (name == l.elementwise[i].op) return l.elementwise[i].loop;
  return nullptr;
}

template <std::size_t N>
struct Function {
  template <class T>
  static void run(const Call& call) {
    const auto parameters = parameters_of(call.problem.schema.name, call.attributes());
    const auto loop = find<T>(call.problem.schema.name, parameters.tanh);
    for_each_piece<N>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
      std::array<const T*, N> x;
      for (std::size_t i = 0; i < N; ++i) x[i] = call.in<T>(i) + at[i + 1];
      loop(parameters, call.out<T>() + at[0], x.data(), steps.data() + 1, count);
    });
  }
};

std::unique_ptr<Kernel> make_function(const KernelRequest& request, std::string& reason) {
  return request.inputs.size() == 1 ? make<Function<1>>(request, reason) : make<Function<2>>(request, reason);
}

struct ElementwiseWhere {
  template <class T>
  static void run(const Call& call) {
    for_each_piece<3>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
      loops_over<T>().where(call.out<T>() + at[0], call.in<std::uint8_t>(0) + at[1], call.in<T>(1) + at[2], call.in<T>(2) + at[3],
                            steps.data() + 1, count);
    });
  }
};

std::unique_ptr<Kernel> make_where(const KernelRequest& request, std::string& reason) {
  const auto output = request.view().output();
  const KernelBody body = reference::body_for<ElementwiseWhere>(output.dtype, reference::Types<float, Bf16, F16>{});
  if (body != nullptr && graph::element_count(output.shape) > 0) return make_kernel(request, body);
  reason = "only f32, bf16 and f16, not empty";
  return nullptr;
}

/// From one type to another, element by element.
template <class From>
struct Cast {
  template <class To>
  static void run(const Call& call) {
    const auto* x = call.in<From>(0);
    auto* y = call.out<To>();
    parallel_ranges(call.threads(), graph::element_count(call.out_shape()), kElementsWorthAThread,
                    [&](std::int64_t first, std::int64_t last) {
                      if constexpr (std::is_same_v<From, float>)
                        loops_over<To>().from_f32(y + first, x + first, last - first);
                      else
                        loops_over<From>().to_f32(y + first, x + first, last - first);
                    });
  }
};

std::unique_ptr<Kernel> make_cast_of_elementwise(const KernelRequest& request, std::string& reason) {
  const auto view = request.view();
  const DType from = view.input(0).dtype, to = view.output().dtype;
  KernelBody body = nullptr;
  if (from == DType::F32) body = reference::body_for<Cast<float>>(to, reference::Types<Bf16, F16>{});
  if (from == DType::BF16) body = reference::body_for<Cast<Bf16>>(to, reference::Types<float>{});
  if (from == DType::F16) body = reference::body_for<Cast<F16>>(to, reference::Types<float>{});
  if (body != nullptr && graph::element_count(view.output().shape) > 0) return make_kernel(request, body);
  reason = "only between f32 and 16 bits, not empty";
  return nullptr;
}

std::vector<KernelRow> make_rows() {
  std::vector<KernelRow> rows;
  const auto& l = loops_over<float>();
  for (int i = 0; i < l.elementwise_rows; ++i)
    if (std::strchr(l.elementwise[i].op, ':') == nullptr)
      rows.push_back({l.elementwise[i].op, "native:elementwise", make_function, follow_result});
  rows.push_back({"Cast", "native:elementwise", make_cast_of_elementwise, follow_result});
  rows.push_back({"Where", "native:elementwise", make_where});
  return rows;
}

}  // namespace

std::span<const KernelRow> elementwise_kernels() {
  static const std::vector<KernelRow> kRows = make_rows();
  return kRows;
}

}  // namespace rehearsal::exec::native
