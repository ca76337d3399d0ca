#include "base/random.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

/// Stream of the numbers that turn (seed, step) into the seed of one step's masks.
constexpr std::uint64_t kSteps = 0x64726F706F7574;

/// Index in the unsplit tensor of the first element of local row `row` (a row is the last dimension).
std::int64_t global_row(const Call& call, std::int64_t row) {
  const graph::Shape &local = call.in_shape(0), &global = call.in_global(0);
  std::int64_t index = 0, stride = 1;
  for (std::size_t d = local.size(); d-- > 0;) {
    const bool last = d + 1 == local.size();
    const std::int64_t at = last ? 0 : row % local[d];
    if (!last) row /= local[d];
    index += (call.in_origin(0, d) + at) * stride;
    stride *= global[d];
  }
  return index;
}

/// X -> Y, and dY -> dX with the same mask.
struct Dropout {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& shape = call.in_shape(0);
    const std::int64_t length = shape.empty() ? 1 : shape.back(), rows = length > 0 ? graph::element_count(shape) / length : 0;
    const double ratio = call.attributes().number("ratio", 0.5);
    const T scale = static_cast<T>(ratio < 1 ? 1 / (1 - ratio) : 0.0);
    const std::uint64_t seed = random_bits(call.context.seed, kSteps, static_cast<std::uint64_t>(call.context.step));
    const auto stream = static_cast<std::uint64_t>(call.attributes().integer("stream", 0));
    parallel_items(call.threads(), rows, 4, [&](std::int64_t row) {
      const auto first = static_cast<std::uint64_t>(global_row(call, row));
      const T* x = call.in<T>(0) + row * length;
      T* y = call.out<T>() + row * length;
      for (std::int64_t i = 0; i < length; ++i)
        y[i] = random_uniform(seed, stream, first + static_cast<std::uint64_t>(i)) >= ratio ? x[i] * scale : T(0);
    });
  }
};

const KernelRow kRows[] = {
    {"Dropout", "reference:any", make_by_output<Dropout, Floats>},
    {"DropoutGrad", "reference:any", make_by_output<Dropout, Floats>},
};

}  // namespace

std::span<const KernelRow> dropout_kernels() { return kRows; }

}  // namespace rehearsal::exec::reference
