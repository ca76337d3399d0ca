// Resize, Pad and their gradients: a sparse map per axis (reference/axis_maps.hpp), of which the gradient's is the transpose. Where every
// element of the result is one of the operand's, as in Pad and in the nearest of Resize, elements are only moved; else they are added in
// f32.

#include <algorithm>
#include <cstring>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/axis_maps.hpp"

namespace rehearsal::exec::native {
namespace {

using reference::AxisMap;
using Maps = std::vector<AxisMap>;

AxisMap unchanged_axis(std::int64_t size) {
  AxisMap map{size, size, {}};
  for (std::int64_t i = 0; i < size; ++i) map.taps.push_back({{i, 1.0}});
  return map;
}

AxisMap transposed(const AxisMap& map) {
  AxisMap result{map.out, map.in, std::vector<std::vector<graph::Tap>>(static_cast<std::size_t>(map.in))};
  for (std::int64_t o = 0; o < map.out; ++o)
    for (const auto& tap : map.taps[static_cast<std::size_t>(o)])
      if (tap.weight != 0) result.taps[static_cast<std::size_t>(tap.index)].push_back({o, tap.weight});
  return result;
}

bool moves(const AxisMap& map) {
  return std::all_of(map.taps.begin(), map.taps.end(),
                     [](const auto& taps) { return taps.empty() || (taps.size() == 1 && taps[0].weight == 1); });
}
bool changes_nothing(const AxisMap& map) {
  if (map.in != map.out || !moves(map)) return false;
  for (std::int64_t o = 0; o < map.out; ++o)
    if (const auto& taps = map.taps[static_cast<std::size_t>(o)]; taps.empty() || taps[0].index != o) return false;
  return true;
}

/// Neighbours in the result that are neighbours in the operand; from -1: of no element.
struct MovedRun {
  std::int64_t to, from, count;
};

/// A part of the operand's rows that goes into a row of the result.
struct WeightedRow {
  std::int64_t row;
  float weight;
};

/// Axes in memory order: `outer` blocks that are mapped alike; of each, rows by all of `rows`; of each row, `last`; of each of its places,
/// `inner` elements side by side.
struct MappedAxes {
  std::int64_t outer = 1, inner = 1;
  Maps rows;
  AxisMap last;

  explicit MappedAxes(Maps maps) {
    constexpr std::int64_t kLong = 256;  // elements that are worth a row of their own
    while (maps.size() > 1 && changes_nothing(maps.back())) {
      inner *= maps.back().in;
      maps.pop_back();
    }
    if (inner >= kLong) maps.push_back(unchanged_axis(1));
    last = std::move(maps.back());
    maps.pop_back();
    auto first = maps.begin();
    for (; first != maps.end() && changes_nothing(*first); ++first) outer *= first->in;
    rows.assign(first, maps.end());
  }

  [[nodiscard]] std::int64_t result_rows() const {
    std::int64_t count = outer;
    for (const auto& map : rows) count *= map.out;
    return count;
  }
  [[nodiscard]] bool only_moves() const { return std::all_of(rows.begin(), rows.end(), moves) && moves(last); }
  [[nodiscard]] std::vector<MovedRun> runs() const {
    std::vector<MovedRun> found;
    for (std::int64_t o = 0; o < last.out; ++o) {
      const auto& taps = last.taps[static_cast<std::size_t>(o)];
      const std::int64_t from = taps.empty() ? -1 : taps[0].index;
      const bool goes_on =
          !found.empty() && (from < 0 ? found.back().from < 0 : found.back().from >= 0 && found.back().from + found.back().count == from);
      if (goes_on)
        ++found.back().count;
      else
        found.push_back({o, from, 1});
    }
    return found;
  }
  /// What number `row` of the result's rows is made of.
  void find(std::int64_t row, std::vector<WeightedRow>& parts) const {
    std::int64_t block = row;
    for (const auto& map : rows) block /= map.out;
    parts.assign(1, {block, 1.0F});
    std::int64_t below = row - block * (result_rows() / outer), count = result_rows() / outer;
    for (const auto& map : rows) {
      count /= map.out;
      const auto& taps = map.taps[static_cast<std::size_t>(below / count)];
      below %= count;
      const std::size_t before = parts.size();
      const auto through = [&](const WeightedRow& part, const graph::Tap& tap) {
        return WeightedRow{part.row * map.in + tap.index, part.weight * static_cast<float>(tap.weight)};
      };
      for (std::size_t t = 1; t < taps.size(); ++t)
        for (std::size_t p = 0; p < before; ++p) parts.push_back(through(parts[p], taps[t]));
      for (std::size_t p = 0; p < before && !taps.empty(); ++p) parts[p] = through(parts[p], taps[0]);
      if (taps.empty()) return parts.clear();
    }
  }
};

template <class T>
void move_elements(const Call& call, const MappedAxes& axes, T empty) {
  const auto runs = axes.runs();
  const std::int64_t from_row = axes.last.in * axes.inner, to_row = axes.last.out * axes.inner;
  const auto* x = call.in<T>(0);
  auto* y = call.out<T>();
  parallel_ranges(call.threads(), axes.result_rows(), kElementsWorthAThread / std::max<std::int64_t>(1, to_row) + 1,
                  [&](std::int64_t first, std::int64_t last) {
                    std::vector<WeightedRow> from;
                    for (std::int64_t row = first; row < last; ++row) {
                      axes.find(row, from);
                      T* to = y + row * to_row;
                      for (const auto& run : runs) {
                        T* place = to + run.to * axes.inner;
                        const std::int64_t count = run.count * axes.inner;
                        if (!from.empty() && count == 1 && run.from >= 0)
                          *place = x[from[0].row * from_row + run.from];
                        else if (from.empty() || run.from < 0)
                          std::fill_n(place, count, empty);
                        else
                          std::copy_n(x + from[0].row * from_row + run.from * axes.inner, count, place);
                      }
                    }
                  });
}

/// Of a row, one place after another.
struct PlaceTaps {
  std::vector<std::size_t> ends;
  std::vector<WeightedRow> taps;

  explicit PlaceTaps(const AxisMap& map) {
    for (const auto& of_place : map.taps) {
      for (const auto& tap : of_place) taps.push_back({tap.index, static_cast<float>(tap.weight)});
      ends.push_back(taps.size());
    }
  }
};

void add_places(const PlaceTaps& by, const MappedAxes& axes, const float* from, float* to) {
  const auto& loops = loops_over<float>();
  std::size_t t = 0;
  for (std::size_t o = 0; o < by.ends.size(); ++o, to += axes.inner) {
    if (axes.inner == 1) {
      float sum = 0;
      for (; t < by.ends[o]; ++t) sum += by.taps[t].weight * from[by.taps[t].row];
      *to = sum;
      continue;
    }
    std::fill_n(to, axes.inner, 0.0F);
    for (; t < by.ends[o]; ++t) loops.add_scaled(to, from + by.taps[t].row * axes.inner, axes.inner, by.taps[t].weight);
  }
}

template <class T>
void add_elements(const Call& call, const MappedAxes& axes) {
  const std::int64_t from_row = axes.last.in * axes.inner, to_row = axes.last.out * axes.inner;
  const auto& loops = loops_over<T>();
  const PlaceTaps taps(axes.last);
  parallel_ranges(call.threads(), axes.result_rows(), kElementsWorthAThread / (from_row + to_row) + 1,
                  [&](std::int64_t first, std::int64_t last) {
                    std::vector<WeightedRow> from;
                    std::vector<float> sum(static_cast<std::size_t>(from_row)), result(static_cast<std::size_t>(to_row));
                    for (std::int64_t row = first; row < last; ++row) {
                      axes.find(row, from);
                      std::fill(sum.begin(), sum.end(), 0.0F);
                      for (const auto& part : from)
                        loops.add_scaled(sum.data(), call.in<T>(0) + part.row * from_row, from_row, part.weight);
                      add_places(taps, axes, sum.data(), result.data());
                      loops.from_f32(call.out<T>() + row * to_row, result.data(), to_row);
                    }
                  });
}

/// The maps of the trailing axes, of the gradient if Transposed.
template <class T, bool Transposed>
void run_mapped(const Call& call, const Maps& trailing, double empty) {
  const auto& shape = call.in_shape(0);
  Maps maps;
  for (std::size_t d = 0; d + trailing.size() < shape.size(); ++d) maps.push_back(unchanged_axis(shape[d]));
  for (const auto& map : trailing) maps.push_back(Transposed ? transposed(map) : map);
  if (channels_last(call.inputs[0])) std::rotate(maps.begin() + 1, maps.begin() + 2, maps.end());
  const MappedAxes axes(std::move(maps));
  if (axes.only_moves())
    move_elements<T>(call, axes, rounded<T>(static_cast<float>(empty)));
  else
    add_elements<T>(call, axes);
}

template <bool Transposed>
struct ResizedImage {
  template <class T>
  static void run(const Call& call) {
    run_mapped<T, Transposed>(call, reference::resize_maps(call, Transposed), 0.0);
  }
};

template <bool Transposed>
struct PaddedTensor {
  template <class T>
  static void run(const Call& call) {
    run_mapped<T, Transposed>(call, reference::pad_maps(call, Transposed), Transposed ? 0.0 : call.attributes().number("value", 0.0));
  }
};

constexpr KernelRow kResizingRows[] = {
    {"Resize", "native:resize", make<ResizedImage<false>>, follow_any},
    {"ResizeGrad", "native:resize", make<ResizedImage<true>>, follow_any},
    {"Pad", "native:pad", make<PaddedTensor<false>>, follow_any},
    {"PadGrad", "native:pad", make<PaddedTensor<true>>, follow_any},
};

}  // namespace

std::span<const KernelRow> resizing_kernels() { return kResizingRows; }

}  // namespace rehearsal::exec::native
