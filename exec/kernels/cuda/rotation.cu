// Rotary embedding and its gradient: y = x cos + (-x2, x1) sin over the two halves of a row, tables broadcast to the rows.

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// One element of the first half of a row, and its partner in the second. Views of the walk: x, cos, sin.
template <bool kBackward, class T>
struct RotatePair {
  const T *x, *cos, *sin;
  T* y;
  Walk<3> walk;  ///< over first halves
  std::int64_t half, cos_half, sin_half;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto place = walk.place(i);
    const std::int64_t at = place.at[0];
    const auto x1 = real(x[at]), x2 = real(x[at + half]);
    const auto cos1 = real(cos[place.at[1]]), cos2 = real(cos[place.at[1] + cos_half]);
    const auto sin1 = real(sin[place.at[2]]), sin2 = real(sin[place.at[2] + sin_half]);
    y[at] = static_cast<T>(kBackward ? x1 * cos1 + x2 * sin2 : x1 * cos1 - x2 * sin1);
    y[at + half] = static_cast<T>(kBackward ? x2 * cos2 - x1 * sin1 : x2 * cos2 + x1 * sin2);
  }
};

template <bool kBackward>
struct Rotary {
  template <class T>
  static void run(const Call& call) {
    const graph::Shape& shape = call.in_shape(0);
    const std::int64_t half = shape.back() / 2;
    std::array<graph::StridedView, 3> views{graph::whole_view(shape), graph::broadcast_view(call.in_shape(1), shape),
                                            graph::broadcast_view(call.in_shape(2), shape)};
    const std::int64_t cos_half = half * views[1].strides.back(), sin_half = half * views[2].strides.back();
    for (auto& view : views) view.shape.back() = half;
    for_each(call.context.stream, graph::element_count(views[0].shape),
             RotatePair<kBackward, T>{call.in<T>(0), call.in<T>(1), call.in<T>(2), call.out<T>(), walk_of(views), half, cos_half, sin_half});
  }
};

constexpr std::string_view kName = "cuda:rotation";
constexpr KernelRow kRows[] = {
    {"RotaryEmbedding", kName, make_by_output<Rotary<false>, Floats>},
    {"RotaryEmbeddingGrad", kName, make_by_output<Rotary<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> rotation_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
