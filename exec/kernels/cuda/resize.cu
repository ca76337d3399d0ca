// Resize, Pad and their gradients by the maps of exec/kernels/reference/axis_maps.hpp: an element of the result is the sum over the taps of
// its positions along all axes. Gradients take the maps the other way round.

#include <vector>

#include "base/error.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/reference/axis_maps.hpp"

namespace rehearsal::exec::cuda {
namespace {

using graph::Tap;
using reference::AxisMap;

constexpr int kMostAxes = 6;

/// Taps of every position of the result along one axis, in the workspace.
struct AxisTable {
  const std::int64_t* first;  ///< tap of every position, and one more
  const Tap* taps;
  Divider positions;
  std::int64_t stride;  ///< of the operand
};

template <class T>
struct SumTaps {
  using R = Real<T>;
  const T* x;
  T* y;
  AxisTable axes[kMostAxes];
  int count;
  std::int64_t operand_block;  ///< elements of the operand for one element of the leading axes
  R empty;                     ///< result without taps

  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t block = i, first[kMostAxes] = {};
    int taps[kMostAxes] = {}, outer = 1;
    for (int a = count - 1; a >= 0; --a) {
      const std::int64_t position = axes[a].positions.split(block);
      first[a] = axes[a].first[position];
      taps[a] = static_cast<int>(axes[a].first[position + 1] - first[a]);
      if (a + 1 < count) outer *= taps[a];
    }
    const bool none = outer == 0 || taps[count - 1] == 0;
    R sum = none ? empty : R(0);
    for (int o = 0; o < outer && !none; ++o) {
      std::int64_t at = block * operand_block;
      R weight = 1;
      int rest = o;
      for (int a = count - 2; a >= 0; --a) {
        const Tap& tap = axes[a].taps[first[a] + rest % taps[a]];
        rest /= taps[a];
        weight *= static_cast<R>(tap.weight);
        at += tap.index * axes[a].stride;
      }
      sum += weight * sum_last(first[count - 1], taps[count - 1], at);
    }
    y[i] = static_cast<T>(sum);
  }

  REHEARSAL_BODY R sum_last(std::int64_t first, int taps, std::int64_t at) const {
    R sum = 0;
    for (int k = 0; k < taps; ++k) {
      const Tap& tap = axes[count - 1].taps[first + k];
      sum += static_cast<R>(tap.weight) * real(x[at + tap.index]);
    }
    return sum;
  }
};

/// The map from the result's side to the operand's: its positions are those of the operand.
AxisMap turned(const AxisMap& map) {
  AxisMap other{map.out, map.in, std::vector<std::vector<Tap>>(static_cast<std::size_t>(map.in))};
  for (std::size_t o = 0; o < map.taps.size(); ++o)
    for (const Tap& tap : map.taps[o]) other.taps[static_cast<std::size_t>(tap.index)].push_back({static_cast<std::int64_t>(o), tap.weight});
  return other;
}

/// Bytes of the table of one axis.
constexpr std::int64_t table_bytes(std::int64_t positions, std::int64_t taps) {
  return (positions + 1) * static_cast<std::int64_t>(sizeof(std::int64_t)) + taps * static_cast<std::int64_t>(sizeof(Tap));
}

/// Puts the map into the memory from `at` on and moves `at` behind it.
AxisTable store_map(DeviceStream stream, const AxisMap& map, std::byte*& at, const std::byte* end) {
  std::vector<std::int64_t> first{0};
  std::vector<Tap> taps;
  for (const auto& of_position : map.taps) {
    taps.insert(taps.end(), of_position.begin(), of_position.end());
    first.push_back(static_cast<std::int64_t>(taps.size()));
  }
  const auto count = static_cast<std::int64_t>(taps.size());
  auto* to = at;
  at += table_bytes(map.out, count);
  ensure(at <= end, "a map of Resize or Pad has more taps than were foreseen");
  auto* first_to = reinterpret_cast<std::int64_t*>(to);
  auto* taps_to = reinterpret_cast<Tap*>(first_to + map.out + 1);
  store_table(stream, first_to, first.data(), map.out + 1);
  store_table(stream, taps_to, taps.data(), count);
  return {first_to, taps_to, Divider(map.out), 1};
}

template <class T>
void sum_taps(const Call& call, std::vector<AxisMap> maps, bool transposed, std::int64_t workspace, double empty) {
  SumTaps<T> body{call.in<T>(0), call.out<T>(), {}, static_cast<int>(maps.size()), 1, static_cast<Real<T>>(empty)};
  const std::int64_t count = graph::element_count(call.out_shape());
  if (count == 0) return;
  auto* at = static_cast<std::byte*>(call.context.workspace);
  const auto* end = at + workspace;
  for (std::size_t a = maps.size(); a-- > 0;) {
    if (transposed) maps[a] = turned(maps[a]);
    body.axes[a] = store_map(call.context.stream, maps[a], at, end);
    body.axes[a].stride = body.operand_block;
    body.operand_block *= maps[a].in;
  }
  if (maps.empty()) return copy(call.context.stream, body.y, body.x, count * static_cast<std::int64_t>(sizeof(T)));
  for_each(call.context.stream, count, body);
}

/// Room for maps with at most taps_of(operand size, result size) taps for each position of the result of Resize or Pad.
template <class TapsOf>
std::int64_t bytes_of_maps(const graph::NodeView& node, std::size_t axes, bool transposed, const TapsOf& taps_of) {
  const auto &small = transposed ? node.output().shape : node.input(0).shape, &large = transposed ? node.input(0).shape : node.output().shape;
  std::int64_t bytes = 0;
  for (std::size_t d = small.size() - axes; d < small.size(); ++d)
    bytes += table_bytes(std::max(small[d], large[d]), large[d] * taps_of(small[d], large[d]));
  return bytes;
}

template <bool kTransposed>
struct Resize {
  template <class T>
  static void run(const Call& call) {
    sum_taps<T>(call, reference::resize_maps(call, kTransposed), kTransposed, workspace_bytes(call.problem.view()), 0.0);
  }
  /// Cubic interpolation has 4 taps; with antialiasing as many for each element of the operand that a result element covers.
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const bool smoothed = node.attributes.integer("antialias", 0) != 0;
    return bytes_of_maps(node, node.attributes.integers("sizes").size(), kTransposed, [&](std::int64_t from, std::int64_t to) {
      constexpr std::int64_t kCubic = 4;
      return smoothed ? 2 * kCubic * (from / std::max<std::int64_t>(1, to) + 2) : kCubic;
    });
  }
};

template <bool kTransposed>
struct Pad {
  template <class T>
  static void run(const Call& call) {
    const double value = kTransposed ? 0.0 : call.attributes().number("value", 0.0);
    sum_taps<T>(call, reference::pad_maps(call, kTransposed), kTransposed, workspace_bytes(call.problem.view()), value);
  }
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    return bytes_of_maps(node, node.attributes.integers("pads").size() / 2, kTransposed, [](std::int64_t, std::int64_t) { return 1; });
  }
};

template <class B>
std::unique_ptr<Kernel> make(const KernelRequest& request, std::string& reason) {
  const std::size_t axes = std::max(request.attributes.integers("sizes").size(), request.attributes.integers("pads").size() / 2);
  if (axes <= kMostAxes) return make_by_output_with_workspace<B, Floats>(request, reason);
  reason = "GPU kernels resize and pad at most " + std::to_string(kMostAxes) + " axes";
  return nullptr;
}

constexpr std::string_view kName = "cuda:resize";
const KernelRow kRows[] = {
    {"Resize", kName, make<Resize<false>>},
    {"ResizeGrad", kName, make<Resize<true>>},
    {"Pad", kName, make<Pad<false>>},
    {"PadGrad", kName, make<Pad<true>>},
};

}  // namespace

std::span<const KernelRow> resize_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
