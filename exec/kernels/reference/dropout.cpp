#include "exec/kernels/reference/draws.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

/// A local block of a tensor.
struct DropoutPart {
  const graph::Shape &local, &global;
  const graph::Shape* origin;

  [[nodiscard]] std::int64_t length() const { return local.empty() ? 1 : local.back(); }
  [[nodiscard]] std::int64_t rows() const { return length() > 0 ? graph::element_count(local) / length() : 0; }
  /// Index in the unsplit tensor of the first element of local row `row` (a row is the last dimension).
  [[nodiscard]] std::int64_t global_row(std::int64_t row) const {
    std::int64_t index = 0, stride = 1;
    for (std::size_t d = local.size(); d-- > 0;) {
      const bool last = d + 1 == local.size();
      const std::int64_t at = last ? 0 : row % local[d];
      if (!last) row /= local[d];
      index += ((origin ? (*origin)[d] : 0) + at) * stride;
      stride *= global[d];
    }
    return index;
  }
};

std::uint64_t stream_of(const Call& call) { return static_cast<std::uint64_t>(call.attributes().integer("stream", 0)); }

struct Noise {
  template <class T>
  static void run(const Call& call) {
    const DropoutPart part{call.out_shape(), call.out_global(), call.outputs[0].origin};
    const std::uint64_t seed = seed_of(call), stream = stream_of(call);
    const bool normal = call.attributes().integer("normal", 0) != 0;
    parallel_items(call.threads(), part.rows(), 4, [&](std::int64_t row) {
      const auto first = static_cast<std::uint64_t>(part.global_row(row));
      T* y = call.out<T>() + row * part.length();
      for (std::int64_t i = 0; i < part.length(); ++i) {
        const std::uint64_t at = first + static_cast<std::uint64_t>(i);
        y[i] = static_cast<T>(normal ? random_normal(seed, stream, at) : random_uniform(seed, stream, at));
      }
    });
  }
};

/// X -> Y, and dY -> dX with the same mask.
struct Dropout {
  template <class T>
  static void run(const Call& call) {
    const DropoutPart part{call.in_shape(0), call.in_global(0), call.inputs[0].origin};
    const std::int64_t length = part.length(), rows = part.rows();
    const double ratio = call.attributes().number("ratio", 0.5);
    const T scale = static_cast<T>(ratio < 1 ? 1 / (1 - ratio) : 0.0);
    const std::uint64_t seed = seed_of(call), stream = stream_of(call);
    parallel_items(call.threads(), rows, 4, [&](std::int64_t row) {
      const auto first = static_cast<std::uint64_t>(part.global_row(row));
      const T* x = call.in<T>(0) + row * length;
      T* y = call.out<T>() + row * length;
      for (std::int64_t i = 0; i < length; ++i)
        y[i] = random_uniform(seed, stream, first + static_cast<std::uint64_t>(i)) >= ratio ? x[i] * scale : T(0);
    });
  }
};

const KernelRow kDropoutRows[] = {
    {"Dropout", "reference:any", make_by_output<Dropout, Floats>},
    {"Noise", "reference:any", make_by_output<Noise, Floats>},
    {"DropoutGrad", "reference:any", make_by_output<Dropout, Floats>},
};

}  // namespace

std::span<const KernelRow> dropout_kernels() { return kDropoutRows; }

}  // namespace rehearsal::exec::reference
