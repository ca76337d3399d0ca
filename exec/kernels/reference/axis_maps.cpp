#include "exec/kernels/reference/axis_maps.hpp"

#include "base/error.hpp"

namespace rehearsal::exec::reference {
namespace {

/// The operand or result that is on one side of a map, and which it is.
struct Side {
  const graph::Shape &local, &global;
  const graph::Shape* origin;

  [[nodiscard]] std::int64_t first(std::size_t d) const { return origin ? (*origin)[d] : 0; }
};
Side input_side(const Call& call) { return {call.in_shape(0), call.in_global(0), call.inputs[0].origin}; }
Side output_side(const Call& call) { return {call.out_shape(), call.out_global(), call.outputs[0].origin}; }

/// Moves taps to local positions. A gradient skips taps outside the block: their owner adds them.
void make_local(AxisMap& map, std::int64_t first, bool transposed) {
  for (auto& taps : map.taps) {
    for (graph::Tap& tap : taps) tap.index -= first;
    const auto erased = std::erase_if(taps, [&](const graph::Tap& tap) { return tap.index < 0 || tap.index >= map.in; });
    ensure(transposed || erased == 0, "a block of a resized or padded tensor needs operand rows that it does not have");
  }
}

/// One map per trailing axis; taps_of(axis among the trailing ones, global in, global out, o).
template <class TapsOf>
std::vector<AxisMap> maps_between(const Side& from, const Side& to, std::size_t axes, bool transposed, TapsOf&& taps_of) {
  std::vector<AxisMap> maps;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::size_t d = from.local.size() - axes + a;
    AxisMap map{from.local[d], to.local[d], {}};
    for (std::int64_t o = 0; o < map.out; ++o)
      map.taps.push_back(taps_of(a, graph::ResizedAxis{from.global[d], to.global[d], 1.0}, to.first(d) + o));
    make_local(map, from.first(d), transposed);
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace

std::vector<AxisMap> resize_maps(const Call& call, bool transposed) {
  const Side from = transposed ? output_side(call) : input_side(call), to = transposed ? input_side(call) : output_side(call);
  const std::vector<double> scales = call.attributes().numbers("scales");
  const auto taps_of = [&](std::size_t a, graph::ResizedAxis axis, std::int64_t o) {
    axis.scale = scales.empty() ? static_cast<double>(axis.out) / static_cast<double>(axis.in) : scales[a];
    return graph::resize_taps(call.attributes(), axis, o);
  };
  return maps_between(from, to, call.attributes().integers("sizes").size(), transposed, taps_of);
}

std::vector<AxisMap> pad_maps(const Call& call, bool transposed) {
  const Side from = transposed ? output_side(call) : input_side(call), to = transposed ? input_side(call) : output_side(call);
  const std::vector<std::int64_t> pads = call.attributes().integers("pads");
  const auto taps_of = [&](std::size_t a, const graph::ResizedAxis& axis, std::int64_t o) {
    return graph::pad_taps(call.attributes(), axis.in, pads[a], o);
  };
  return maps_between(from, to, pads.size() / 2, transposed, taps_of);
}

}  // namespace rehearsal::exec::reference
