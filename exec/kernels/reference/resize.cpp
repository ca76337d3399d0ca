// Resize, Pad and their gradients: a sparse map per axis, applied axis by axis in double. The maps are those of the unsplit tensor,
// shifted to the block at hand.

#include "base/error.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/interpolation.hpp"

namespace rehearsal::exec::reference {
namespace {

/// Taps of every local position of one axis of the larger side of the map (the result of Resize or Pad), in local operand positions.
struct AxisMap {
  std::int64_t in = 0, out = 0;
  std::vector<std::vector<graph::Tap>> taps;
};

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

/// A result row without taps is `empty`.
void gather_axis(const AxisMap& map, std::int64_t inner, const double* in, double* out, double empty) {
  for (std::int64_t o = 0; o < map.out; ++o) {
    const auto& taps = map.taps[static_cast<std::size_t>(o)];
    std::fill_n(out + o * inner, inner, taps.empty() ? empty : 0.0);
    for (const graph::Tap& tap : taps) {
      for (std::int64_t i = 0; i < inner; ++i) out[o * inner + i] += tap.weight * in[tap.index * inner + i];
    }
  }
}

void scatter_axis(const AxisMap& map, std::int64_t inner, const double* out, double* in) {
  std::fill_n(in, map.in * inner, 0.0);
  for (std::int64_t o = 0; o < map.out; ++o) {
    for (const graph::Tap& tap : map.taps[static_cast<std::size_t>(o)]) {
      for (std::int64_t i = 0; i < inner; ++i) in[tap.index * inner + i] += tap.weight * out[o * inner + i];
    }
  }
}

/// Applies all maps (or all transposed maps) to one block of the trailing axes.
void apply_maps(const std::vector<AxisMap>& maps, bool transposed, double empty, std::vector<double>& values) {
  std::int64_t inner = 1;
  std::vector<double> next;
  for (std::size_t a = maps.size(); a-- > 0;) {
    const std::int64_t from = transposed ? maps[a].out : maps[a].in, to = transposed ? maps[a].in : maps[a].out;
    const std::int64_t outer = static_cast<std::int64_t>(values.size()) / (from * inner);
    next.assign(static_cast<std::size_t>(outer * to * inner), 0.0);
    for (std::int64_t block = 0; block < outer; ++block) {
      const double* source = values.data() + block * from * inner;
      double* target = next.data() + block * to * inner;
      if (transposed) {
        scatter_axis(maps[a], inner, source, target);
      } else {
        gather_axis(maps[a], inner, source, target, empty);
      }
    }
    values.swap(next);
    inner *= to;
  }
}

template <class T>
void run_maps(const Call& call, const std::vector<AxisMap>& maps, bool transposed, double empty) {
  std::int64_t from = 1, to = 1;
  for (const AxisMap& map : maps) {
    from *= transposed ? map.out : map.in;
    to *= transposed ? map.in : map.out;
  }
  const std::int64_t blocks = to > 0 ? graph::element_count(call.out_shape()) / to : 0;
  parallel_items(call.threads(), blocks, 1, [&](std::int64_t block) {
    const T* in = call.in<T>(0) + block * from;
    std::vector<double> values(in, in + from);
    apply_maps(maps, transposed, empty, values);
    std::transform(values.begin(), values.end(), call.out<T>() + block * to, [](double v) { return static_cast<T>(v); });
  });
}

template <bool Transposed>
struct Resize {
  template <class T>
  static void run(const Call& call) {
    const Side from = Transposed ? output_side(call) : input_side(call), to = Transposed ? input_side(call) : output_side(call);
    const std::vector<double> scales = call.attributes().numbers("scales");
    const auto taps_of = [&](std::size_t a, graph::ResizedAxis axis, std::int64_t o) {
      axis.scale = scales.empty() ? static_cast<double>(axis.out) / static_cast<double>(axis.in) : scales[a];
      return graph::resize_taps(call.attributes(), axis, o);
    };
    run_maps<T>(call, maps_between(from, to, call.attributes().integers("sizes").size(), Transposed, taps_of), Transposed, 0.0);
  }
};

template <bool Transposed>
struct Pad {
  template <class T>
  static void run(const Call& call) {
    const Side from = Transposed ? output_side(call) : input_side(call), to = Transposed ? input_side(call) : output_side(call);
    const std::vector<std::int64_t> pads = call.attributes().integers("pads");
    const auto taps_of = [&](std::size_t a, const graph::ResizedAxis& axis, std::int64_t o) {
      return graph::pad_taps(call.attributes(), axis.in, pads[a], o);
    };
    run_maps<T>(call, maps_between(from, to, pads.size() / 2, Transposed, taps_of), Transposed, call.attributes().number("value", 0.0));
  }
};

const KernelRow kRows[] = {
    {"Resize", "reference:any", make_by_output<Resize<false>, Floats>},
    {"ResizeGrad", "reference:any", make_by_output<Resize<true>, Floats>},
    {"Pad", "reference:any", make_by_output<Pad<false>, Floats>},
    {"PadGrad", "reference:any", make_by_output<Pad<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> resize_kernels() { return kRows; }

}  // namespace rehearsal::exec::reference
