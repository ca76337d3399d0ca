// Element-wise operators: operands are walked in the order in which the result lies in memory, a row at a time.

#include <array>
#include <cstring>
#include <limits>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::native {
namespace {

using graph::Shape;

/// An operand broadcast to `full`, both in the result's memory order. A plain operand that has no pixels of its own lies in memory
/// alike in either order.
graph::StridedView operand_view(const Shape& own, const Shape& full, plan::Format order) {
  Shape padded(full.size() - own.size(), 1);
  padded.insert(padded.end(), own.begin(), own.end());
  return graph::broadcast_view(in_memory_order(padded, order), in_memory_order(full, order));
}

/// True when an operand of this shape lies in memory alike in both orders, once padded to the rank of `full`.
bool order_free(const Shape& own, const Shape& full) {
  Shape padded(full.size() - own.size(), 1);
  padded.insert(padded.end(), own.begin(), own.end());
  const Image image(padded);
  return image.channels == 1 || image.pixels == 1;
}

/// Channels-last when an operand shaped as the result is, and the others do not depend on the order.
bool follow_result(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  const auto& full = node.outputs[0]->shape;
  if (!is_image(full)) return true;
  bool any = false, possible = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool same = node.inputs[i]->shape == full;
    any = any || (same && node.input_formats[i] == plan::Format::ChannelsLast);
    possible = possible && (same || order_free(node.inputs[i]->shape, full));
  }
  if (!any || !possible) return true;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (node.inputs[i]->shape == full) inputs[i] = plan::Format::ChannelsLast;
  outputs[0] = plan::Format::ChannelsLast;
  return true;
}

/// Calls body(offsets, steps, count) for contiguous pieces of the result; index 0 of both is the result.
template <std::size_t N, class F>
void for_each_piece(const Call& call, const F& body) {
  const auto order = call.outputs[0].format;
  const Shape& full = call.out_shape();
  std::array<graph::StridedView, N + 1> views;
  views[0] = graph::whole_view(in_memory_order(full, order));
  for (std::size_t i = 0; i < N; ++i) views[i + 1] = operand_view(call.in_shape(i), full, order);
  const graph::RowWalk<N + 1> walk(views);
  const auto steps = walk.steps();
  if (walk.rows() == 1) {
    parallel_ranges(call.threads(), walk.length(), kElementsWorthAThread, [&](std::int64_t first, std::int64_t last) {
      std::array<std::int64_t, N + 1> at;
      for (std::size_t v = 0; v <= N; ++v) at[v] = views[v].offset + first * steps[v];
      body(at, steps, last - first);
    });
    return;
  }
  parallel_ranges(call.threads(), walk.rows(), kElementsWorthAThread / walk.length() + 1, [&](std::int64_t first, std::int64_t last) {
    walk.each(first, last, [&](std::int64_t, const auto& at) { body(at, steps, walk.length()); });
  });
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

const ElementwiseRow* find(std::string_view op, bool tanh) {
  const std::string name = std::string(op) + (tanh ? ":tanh" : "");
  const Loops& l = loops();
  for (int i = 0; i < l.elementwise_rows; ++i)
    if (name == l.elementwise[i].op) return &l.elementwise[i];
  return nullptr;
}

template <std::size_t N>
void run_elementwise(const Call& call) {
  const auto parameters = parameters_of(call.problem.schema.name, call.attributes());
  const auto loop = find(call.problem.schema.name, parameters.tanh)->loop;
  for_each_piece<N>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
    std::array<const float*, N> x;
    for (std::size_t i = 0; i < N; ++i) x[i] = call.in<float>(i) + at[i + 1];
    loop(parameters, call.out<float>() + at[0], x.data(), steps.data() + 1, count);
  });
}

std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  return make_kernel(request, request.inputs.size() == 1 ? run_elementwise<1> : run_elementwise<2>);
}

void run_where(const Call& call) {
  for_each_piece<3>(call, [&](const auto& at, const auto& steps, std::int64_t count) {
    loops().where(call.out<float>() + at[0], call.in<std::uint8_t>(0) + at[1], call.in<float>(1) + at[2], call.in<float>(2) + at[3],
                  steps.data() + 1, count);
  });
}

std::unique_ptr<Kernel> make_where(const KernelRequest& request, std::string& reason) {
  if (request.view().output().dtype != DType::F32 || graph::element_count(request.view().output().shape) == 0) {
    reason = "only f32, not empty";
    return nullptr;
  }
  return make_kernel(request, run_where);
}

std::vector<KernelRow> make_rows_elementwise() {
  std::vector<KernelRow> rows;
  const Loops& l = loops();
  for (int i = 0; i < l.elementwise_rows; ++i)
    if (std::strchr(l.elementwise[i].op, ':') == nullptr)
      rows.push_back({l.elementwise[i].op, "native:elementwise", make_elementwise, follow_result});
  rows.push_back({"Where", "native:elementwise", make_where});
  return rows;
}

}  // namespace

std::span<const KernelRow> elementwise_kernels() {
  static const std::vector<KernelRow> kRows = make_rows_elementwise();
  return kRows;
}

}  // namespace rehearsal::exec::native
