// Pools: a thread for each window, and for each element of the image in gradients, so that no two threads add to one place.

#include <cmath>
#include <limits>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/pool_windows.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// The first largest element of a window, as PyTorch: a NaN wins over everything.
template <class T>
struct Winner {
  const T* x;
  Real<T> largest = -std::numeric_limits<Real<T>>::infinity();
  std::int64_t at = -1;  ///< -1: the window sees padding only
  REHEARSAL_BODY void operator()(std::int64_t element) {
    const Real<T> candidate = real(x[element]);
    if (at >= 0 && !(candidate > largest) && candidate == candidate) return;
    largest = candidate;
    at = element;
  }
};

template <class T>
struct MaxPoolWindow {
  Pool pool;
  const T* x;
  T* y;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const PlanePosition window = plane_position(i, pool.windows);
    Winner<T> winner{x + window.plane * pool.image.size()};
    pool.for_taps(window.at, winner);
    y[i] = static_cast<T>(winner.largest);
  }
};

struct MaxPool {
  template <class T>
  static void run(const Call& call) {
    const Pool pool(call.problem.view(), call.in_shape(0), call.out_shape());
    for_each(call.context.stream, pool.all_windows(), MaxPoolWindow<T>{pool, call.in<T>(0), call.out<T>()});
  }
};

template <class T, class Index>
struct WinnerOfWindow {
  Pool pool;
  const T* x;
  Index* winners;
  bool in_tensor, column_major;  ///< numbers in the whole tensor, or in the plane; of a plane whose first axis counts fastest

  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const PlanePosition window = plane_position(i, pool.windows);
    const std::int64_t first = window.plane * pool.image.size();
    Winner<T> winner{x + first};
    pool.for_taps(window.at, winner);
    const std::int64_t at = column_major ? by_columns(winner.at) : winner.at;
    winners[i] = static_cast<Index>(in_tensor ? first + at : at);
  }
  REHEARSAL_BODY std::int64_t by_columns(std::int64_t element) const {
    if (element < 0) return element;
    const Three at = plane_position(element, pool.image).at;
    return (at.x * pool.image.y + at.y) * pool.image.z + at.z;
  }
};

struct MaxPoolPositions {
  template <class T>
  static void run(const Call& call) {
    const Pool pool(call.problem.view(), call.in_shape(0), call.out_shape());
    const bool columns = call.attributes().integer("column_major", 0) != 0;
    for_each(call.context.stream, pool.all_windows(),
             WinnerOfWindow<T, std::int64_t>{pool, call.in<T>(0), call.out<std::int64_t>(), true, columns});
  }
};

template <class T>
struct GradientOfWinner {
  const T* dy;
  const std::int32_t* winners;
  std::int64_t element;
  Real<T> sum = 0;
  REHEARSAL_BODY void operator()(const Three&, std::int64_t window) {
    if (winners[window] == element) sum += real(dy[window]);
  }
};

template <class T>
struct MaxPoolGradElement {
  Pool pool;
  WantedPart part;
  const T* dy;
  const std::int32_t* winners;
  T* dx;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const PlanePosition element = part.place(i);
    const std::int64_t windows = element.plane * pool.windows.size();
    GradientOfWinner<T> gradient{dy + windows, winners + windows, pool.image.number(element.at)};
    pool.for_windows(element.at, gradient);
    dx[i] = static_cast<T>(gradient.sum);
  }
};

/// The winner of each window lies in the workspace before its gradient is gathered.
struct MaxPoolGrad {
  static Pool pool_of(const graph::NodeView& node) { return {node, node.input(0).shape, node.input(1).shape}; }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_winners(pool_of(node), node.input(0).shape); }
  template <class T>
  static void run(const Call& call) {
    const Pool pool = pool_of(call.problem.view());
    auto* winners = static_cast<std::int32_t*>(call.context.workspace);
    for_each(call.context.stream, pool.all_windows(), WinnerOfWindow<T, std::int32_t>{pool, call.in<T>(0), winners, false, false});
    const WantedPart part(call, call.out_shape());
    for_each(call.context.stream, pool.planes * part.size.size(), MaxPoolGradElement<T>{pool, part, call.in<T>(1), winners, call.out<T>()});
  }
};

/// How many elements the mean of a window counts: those of the tensor, or those of its padding, too. Windows that ceil_mode lets reach
/// beyond the high padding do not count what lies there.
struct Counts {
  Three low_end, high_end;  ///< what counts lies between these

  Counts(const graph::NodeView& node, const Pool& pool) : low_end{0, 0, 0}, high_end(pool.image) {
    if (node.attributes.integer("count_include_pad", 0) == 0) return;
    const auto window = graph::window_of(node.attributes, node.attributes.integers("kernel_shape"));
    reference::Triple high{0, 0, 0};
    for (std::size_t d = 0; d < window.rank(); ++d) high[3 - window.rank() + d] = window.high[d];
    low_end = {-pool.z.low, -pool.y.low, -pool.x.low};
    high_end = {pool.image.z + high[0], pool.image.y + high[1], pool.image.x + high[2]};
  }
  REHEARSAL_BODY std::int64_t along(const Axis& axis, std::int64_t window, std::int64_t low, std::int64_t high) const {
    const PoolSpan taps = axis.taps(window, low, high);
    return taps.last > taps.first ? taps.last - taps.first : 0;
  }
  /// 1 / (elements that count).
  template <class R>
  REHEARSAL_BODY R weight(const Pool& pool, const Three& window) const {
    const std::int64_t count = along(pool.z, window.z, low_end.z, high_end.z) * along(pool.y, window.y, low_end.y, high_end.y) *
                               along(pool.x, window.x, low_end.x, high_end.x);
    return R(1) / static_cast<R>(count > 1 ? count : 1);
  }
};

template <class T>
struct SumOfTaps {
  const T* x;
  Real<T> sum = 0;
  REHEARSAL_BODY void operator()(std::int64_t element) { sum += real(x[element]); }
};

template <class T>
struct AveragePoolWindow {
  Pool pool;
  Counts counts;
  const T* x;
  T* y;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const PlanePosition window = plane_position(i, pool.windows);
    SumOfTaps<T> taps{x + window.plane * pool.image.size()};
    pool.for_taps(window.at, taps);
    y[i] = static_cast<T>(taps.sum * counts.weight<Real<T>>(pool, window.at));
  }
};

struct AveragePool {
  template <class T>
  static void run(const Call& call) {
    const Pool pool(call.problem.view(), call.in_shape(0), call.out_shape());
    for_each(call.context.stream, pool.all_windows(),
             AveragePoolWindow<T>{pool, Counts(call.problem.view(), pool), call.in<T>(0), call.out<T>()});
  }
};

template <class T>
struct WeightedWindows {
  const Pool& pool;
  const Counts& counts;
  const T* dy;
  Real<T> sum = 0;
  REHEARSAL_BODY void operator()(const Three& window, std::int64_t number) {
    sum += real(dy[number]) * counts.weight<Real<T>>(pool, window);
  }
};

template <class T>
struct AveragePoolGradElement {
  Pool pool;
  Counts counts;
  const T* dy;
  T* dx;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const PlanePosition element = plane_position(i, pool.image);
    WeightedWindows<T> windows{pool, counts, dy + element.plane * pool.windows.size()};
    pool.for_windows(element.at, windows);
    dx[i] = static_cast<T>(windows.sum);
  }
};

struct AveragePoolGrad {
  template <class T>
  static void run(const Call& call) {
    const Pool pool(call.problem.view(), call.out_shape(), call.in_shape(0));
    for_each(call.context.stream, pool.planes * pool.image.size(),
             AveragePoolGradElement<T>{pool, Counts(call.problem.view(), pool), call.in<T>(0), call.out<T>()});
  }
};

constexpr std::string_view kName = "cuda:pooling";
const KernelRow kRows[] = {
    {"MaxPool", kName, make_by_output<MaxPool, Floats>},
    {"MaxPoolPositions", kName, make_by_input<MaxPoolPositions, Floats>},
    {"MaxPoolGrad", kName, make_by_output_with_workspace<MaxPoolGrad, Floats>},
    {"AveragePool", kName, make_by_output<AveragePool, Floats>},
    {"AveragePoolGrad", kName, make_by_output<AveragePoolGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> pooling_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
