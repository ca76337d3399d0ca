// Sums over neighbouring axes: [outer, summed, inner] in memory order.

#include <optional>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::native {
namespace {

struct Block {
  std::int64_t outer = 1, summed = 1, inner = 1;
};

/// Nothing when the summed axes are not neighbours in memory.
std::optional<Block> block_of(const graph::Shape& shape, const std::vector<bool>& reduced, plan::Format format) {
  graph::Shape flags(reduced.begin(), reduced.end());
  const auto sizes = in_memory_order(shape, format), sum = in_memory_order(flags, format);
  Block b;
  int at = 0;  // 0: before, 1: in, 2: behind the summed axes
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (sum[d] != 0 && at == 0) at = 1;
    if (sum[d] == 0 && at == 1) at = 2;
    if (sum[d] != 0 && at == 2) return std::nullopt;
    (at == 0 ? b.outer : at == 1 ? b.summed : b.inner) *= sizes[d];
  }
  return b;
}

std::vector<bool> reduced_by(const graph::OpSchema& op, const graph::NodeView& view) {
  if (op.name != "ConvGradBias") return graph::reduced_dimensions(view);
  std::vector<bool> reduced(view.input(0).shape.size(), true);
  reduced[1] = false;
  return reduced;
}

/// Doubles of workspace: sums of parts when there is one result row, else of every result element.
std::int64_t workspace_of(const Block& b) {
  if (b.inner == 1 && b.outer > 1) return 0;
  const std::int64_t doubles = b.outer == 1 ? parts_of(b.summed, b.inner) * b.inner : b.outer * b.inner;
  return (doubles + b.inner) * static_cast<std::int64_t>(sizeof(double));
}

struct ReductionSum {
  template <class T>
  static void run(const Call& call) {
    const auto view = call.problem.view();
    const Block b = *block_of(call.in_shape(0), reduced_by(call.problem.schema, view), call.inputs[0].format);
    const auto* x = call.in<T>(0);
    auto* y = call.out<T>();
    const double scale = call.attributes().number("scale", 1.0);
    const auto store = [&](T* to, const double* from, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = rounded<T>(static_cast<float>(from[i] * scale));
    };
    auto* sums = static_cast<double*>(call.context.workspace);
    if (b.inner == 1 && b.outer > 1) {
      parallel_items(call.threads(), b.outer, kElementsWorthAThread / b.summed + 1, [&](std::int64_t o) {
        y[o] = rounded<T>(static_cast<float>(loops_over<T>().row_sum(x + o * b.summed, b.summed) * scale));
      });
    } else if (b.outer == 1) {
      double* total = sums + parts_of(b.summed, b.inner) * b.inner;
      sum_parts(call, {b.summed, b.inner, b.inner}, total, [&](std::int64_t first, std::int64_t rows, double* part) {
        if (b.inner == 1)
          part[0] += loops_over<T>().row_sum(x + first, rows);
        else
          loops_over<T>().column_sums(x + first * b.inner, rows, b.inner, part);
      });
      store(y, total, b.inner);
    } else {
      parallel_items(call.threads(), b.outer, kElementsWorthAThread / (b.summed * b.inner) + 1, [&](std::int64_t o) {
        double* own = sums + o * b.inner;
        std::fill_n(own, b.inner, 0.0);
        loops_over<T>().column_sums(x + o * b.summed * b.inner, b.summed, b.inner, own);
        store(y + o * b.inner, own, b.inner);
      });
    }
  }
};

std::unique_ptr<Kernel> make_sum(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const auto block = block_of(request.view().input(0).shape, reduced_by(request.schema, request.view()), request.input_formats[0]);
  if (!block) {
    reason = "the summed axes are not neighbours";
    return nullptr;
  }
  return make_kernel(request, body_of<ReductionSum>(request), workspace_of(*block));
}

/// Channels-last as it is when all pixels are summed: what is left then has no order of pixels.
bool pixels_or_plain(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>&) {
  if (node.input_formats[0] != plan::Format::ChannelsLast) return true;
  const auto reduced = reduced_by(node.schema, node.view());
  if (std::all_of(reduced.begin() + 2, reduced.end(), [](bool r) { return r; })) inputs[0] = plan::Format::ChannelsLast;
  return true;
}

constexpr KernelRow kReductionRows[] = {
    {"ReduceSum", "native:reduction", make_sum, pixels_or_plain},
    {"ConvGradBias", "native:reduction", make_sum, pixels_or_plain},
};

}  // namespace

std::span<const KernelRow> reduction_kernels() { return kReductionRows; }

}  // namespace rehearsal::exec::native
