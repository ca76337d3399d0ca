// Sums over axes that lie in memory in one or two places.

#include <optional>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::native {
namespace {

/// [before, outer, summed, inner] in memory order, the first and the third summed.
struct Block {
  std::int64_t before = 1, outer = 1, summed = 1, inner = 1;
};

/// Nothing when axes that are summed and that are not take turns more often.
std::optional<Block> block_of(const graph::Shape& shape, const std::vector<bool>& reduced, plan::Format format) {
  graph::Shape flags(reduced.begin(), reduced.end());
  const auto sizes = in_memory_order(shape, format), sum = in_memory_order(flags, format);
  std::vector<std::int64_t> turns(1, 1);  // kept, summed, kept, summed, kept
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if ((turns.size() % 2 == 0) != (sum[d] != 0)) turns.push_back(1);
    turns.back() *= sizes[d];
  }
  const bool twice = turns.size() > 3;
  if (turns.size() > 5 || (twice && turns[0] > 1)) return std::nullopt;
  turns.resize(5, 1);
  return twice ? Block{turns[1], turns[2], turns[3], turns[4]} : Block{1, turns[0], turns[1], turns[2]};
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
    const std::int64_t own = b.summed * b.inner, apart = b.outer * own;
    if (b.inner == 1 && b.outer > 1) {
      parallel_items(call.threads(), b.outer, kElementsWorthAThread / (b.before * own) + 1, [&](std::int64_t o) {
        double sum = 0;
        for (std::int64_t i = 0; i < b.before; ++i) sum += loops_over<T>().row_sum(x + i * apart + o * own, own);
        y[o] = rounded<T>(static_cast<float>(sum * scale));
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
      parallel_items(call.threads(), b.outer, kElementsWorthAThread / (b.before * own) + 1, [&](std::int64_t o) {
        double* by_column = sums + o * b.inner;
        std::fill_n(by_column, b.inner, 0.0);
        for (std::int64_t i = 0; i < b.before; ++i) loops_over<T>().column_sums(x + i * apart + o * own, b.summed, b.inner, by_column);
        store(y + o * b.inner, by_column, b.inner);
      });
    }
  }
};

std::unique_ptr<Kernel> make_sum(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const auto block = block_of(request.view().input(0).shape, reduced_by(request.schema, request.view()), request.input_formats[0]);
  if (!block) {
    reason = "the summed axes lie in memory in more than two places";
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
