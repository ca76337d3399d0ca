// Resize, Pad and their gradients: a sparse map per axis, applied axis by axis in double.

#include "exec/kernels/reference/axis_maps.hpp"
#include "exec/kernels/reference/families.hpp"

namespace rehearsal::exec::reference {
namespace {

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
    run_maps<T>(call, resize_maps(call, Transposed), Transposed, 0.0);
  }
};

template <bool Transposed>
struct Pad {
  template <class T>
  static void run(const Call& call) {
    run_maps<T>(call, pad_maps(call, Transposed), Transposed, call.attributes().number("value", 0.0));
  }
};

const KernelRow kResizeRows[] = {
    {"Resize", "reference:any", make_by_output<Resize<false>, Floats>},
    {"ResizeGrad", "reference:any", make_by_output<Resize<true>, Floats>},
    {"Pad", "reference:any", make_by_output<Pad<false>, Floats>},
    {"PadGrad", "reference:any", make_by_output<Pad<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> resize_kernels() { return kResizeRows; }

}  // namespace rehearsal::exec::reference
