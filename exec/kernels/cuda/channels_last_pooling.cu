// Pools of largest elements over channels-last images: a thread has some neighbouring channels of a window, or of an element where the
// gradient is gathered. Shapes are in the order of memory (in_memory_order.hpp).

#include <limits>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/in_memory_order.hpp"
#include "exec/kernels/cuda/neighbours.hpp"
#include "exec/kernels/cuda/pool_windows.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// The first largest element of a window in each of some neighbouring channels; a NaN wins over everything.
template <class T, int kCount>
struct Winners {
  const T* x;  ///< channels of the plane's first element
  std::int64_t channels;
  Real<T> largest[kCount];
  std::int32_t at[kCount];  ///< -1: the window sees padding only
  REHEARSAL_BODY Winners(const T* first, std::int64_t of_pixel) : x(first), channels(of_pixel) {
    for (int k = 0; k < kCount; ++k) largest[k] = -std::numeric_limits<Real<T>>::infinity(), at[k] = -1;
  }
  REHEARSAL_BODY void operator()(std::int64_t element) {
    const auto candidates = load_few<kCount>(x + element * channels);
    for (int k = 0; k < kCount; ++k) {
      const Real<T> candidate = real(candidates.at[k]);
      if (at[k] >= 0 && !(candidate > largest[k]) && candidate == candidate) continue;
      largest[k] = candidate;
      at[k] = static_cast<std::int32_t>(element);
    }
  }
};

/// Writes what is largest, or where it is.
template <class T, int kCount>
struct WindowChannels {
  Pool pool;
  Divider groups;  ///< of channels
  const T* x;
  T* y;                   ///< nullptr:
  std::int32_t* winners;  ///< numbers in the plane
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t number = i;
    const std::int64_t channel = groups.split(number) * kCount, channels = groups.size * kCount;
    const PlanePosition window = plane_position(number, pool.windows);
    Winners<T, kCount> found(x + window.plane * pool.image.size() * channels + channel, channels);
    pool.for_taps(window.at, found);
    if (y == nullptr) {
      Few<std::int32_t, kCount> places;
      for (int k = 0; k < kCount; ++k) places.at[k] = found.at[k];
      return store_few(winners + i * kCount, places);
    }
    Few<T, kCount> values;
    for (int k = 0; k < kCount; ++k) values.at[k] = static_cast<T>(found.largest[k]);
    store_few(y + i * kCount, values);
  }
};

template <class T, int kCount>
struct GradientOfWinners {
  const T* dy;
  const std::int32_t* winners;
  std::int64_t channels;
  std::int32_t element;
  Real<T> sums[kCount] = {};
  REHEARSAL_BODY void operator()(const Three&, std::int64_t window) {
    const auto places = load_few<kCount>(winners + window * channels);
    const auto gradients = load_few<kCount>(dy + window * channels);
    for (int k = 0; k < kCount; ++k)
      if (places.at[k] == element) sums[k] += real(gradients.at[k]);
  }
};

template <class T, int kCount>
struct ElementChannels {
  Pool pool;
  Divider groups;
  WantedPart part;
  const T* dy;
  const std::int32_t* winners;
  T* dx;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t number = i;
    const std::int64_t channel = groups.split(number) * kCount, channels = groups.size * kCount;
    const PlanePosition element = part.place(number);
    const std::int64_t windows = element.plane * pool.windows.size() * channels + channel;
    GradientOfWinners<T, kCount> gradient{dy + windows, winners + windows, channels,
                                          static_cast<std::int32_t>(pool.image.number(element.at))};
    pool.for_windows(element.at, gradient);
    Few<T, kCount> results;
    for (int k = 0; k < kCount; ++k) results.at[k] = static_cast<T>(gradient.sums[k]);
    store_few(dx + i * kCount, results);
  }
};

/// Channels that a thread takes: as many as 16 bytes hold where they are whole groups of them.
template <class T, class Body>
void with_channels(std::int64_t channels, bool aligned, const Body& body) {
  constexpr int kCount = few_of<T>;
  if (aligned && channels % kCount == 0) return body(std::integral_constant<int, kCount>{});
  body(std::integral_constant<int, 1>{});
}

struct MaxPool {
  template <class T>
  static void run(const Call& call) {
    const Pool pool(call.problem.view(), channels_first(call.in_shape(0)), channels_first(call.out_shape()));
    const std::int64_t channels = call.out_shape().back();
    const auto* x = call.in<T>(0);
    auto* y = call.out<T>();
    with_channels<T>(channels, are_aligned({x, y}), [&](auto count) {
      for_each(call.context.stream, pool.all_windows() / count(),
               WindowChannels<T, count()>{pool, Divider(channels / count()), x, y, nullptr});
    });
  }
};

/// The winner of each window lies in the workspace before its gradient is gathered.
struct MaxPoolGrad {
  static Pool pool_of(const graph::NodeView& node) {
    return {node, channels_first(node.input(0).shape), channels_first(node.input(1).shape)};
  }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return bytes_of_winners(pool_of(node), node.input(0).shape); }
  template <class T>
  static void run(const Call& call) {
    const Pool pool = pool_of(call.problem.view());
    const auto shape = channels_first(call.out_shape());
    const WantedPart part(call, shape);
    auto* winners = static_cast<std::int32_t*>(call.context.workspace);
    const auto *x = call.in<T>(0), *dy = call.in<T>(1);
    auto* dx = call.out<T>();
    with_channels<T>(shape[1], are_aligned({x, dy, dx}), [&](auto count) {
      const Divider groups(shape[1] / count());
      for_each(call.context.stream, pool.all_windows() / count(), WindowChannels<T, count()>{pool, groups, x, nullptr, winners});
      for_each(call.context.stream, shape[0] * groups.size * part.size.size(),
               ElementChannels<T, count()>{pool, groups, part, dy, winners, dx});
    });
  }
};

bool when_image_is(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  follow_any(node, inputs, outputs);
  return outputs[0] == plan::Format::ChannelsLast;
}

constexpr std::string_view kName = "cuda:pooling-channels-last";
constexpr KernelRow kRows[] = {
    {"MaxPool", kName, of_channels_last<make_by_output<MaxPool, Floats>>, when_image_is},
    {"MaxPoolGrad", kName, of_channels_last<make_by_output_with_workspace<MaxPoolGrad, Floats>>, when_image_is},
};

}  // namespace

std::span<const KernelRow> channels_last_pooling_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
