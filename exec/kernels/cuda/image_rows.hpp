#pragma once
// Images as rows, one for each channel of each sample, and passes over them that scale and shift every row by factors of its own: what
// batch and group normalization and their gradients do with an image.

#include <algorithm>
#include <cstdint>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/neighbours.hpp"
#include "exec/kernels/cuda/reduce.hpp"

namespace rehearsal::exec::cuda {

/// An image [batch, channels, spatial...] as rows of one channel of one sample, and the statistic that each row belongs to:
/// sums [2, c] are of a channel over the batch, sums [2, n, groups] of a sample's group of channels.
struct ImageRows {
  std::int64_t batch, channels, length = 1, groups;
  bool per_sample;

  ImageRows(const graph::Shape& image, const graph::Shape& sums)
      : batch(image[0]), channels(image[1]), groups(sums.back()), per_sample(sums.size() == 3) {
    for (std::size_t d = 2; d < image.size(); ++d) length *= image[d];
  }
  /// Statistics of single channels over the batch.
  static ImageRows of_channels(const graph::Shape& image) { return {image, {image[1]}}; }

  [[nodiscard]] std::int64_t rows() const { return batch * channels; }
  REHEARSAL_BODY std::int64_t statistics() const { return per_sample ? batch * groups : groups; }
  REHEARSAL_BODY std::int64_t statistic_of(std::int64_t row) const {
    const Division at = divide(row, channels);
    const std::int64_t group = at.remainder / (channels / groups);
    return per_sample ? at.quotient * groups + group : group;
  }
  /// Rows that differ in what they need: all, or the channels of one sample.
  [[nodiscard]] std::int64_t kinds() const { return per_sample ? rows() : channels; }

  /// Each statistic as a sum over its rows.
  [[nodiscard]] Segments segments() const {
    const std::int64_t sample = channels * length, each = groups == 0 ? 0 : channels / groups;
    Segments s;
    s.targets = statistics(), s.count = per_sample ? each : batch * each, s.length = length;
    s.target_walk = walk_of<1>({graph::StridedView{{per_sample ? batch : 1, groups}, {sample, each * length}}});
    s.segment_walk = walk_of<1>({graph::StridedView{{per_sample ? 1 : batch, each}, {sample, length}}});
    s.split();
    return s;
  }
};

/// y = slope * a - linear * (x - mean) + constant for a row, where a is x - mean or a gradient.
template <class R>
struct FactorsIn {
  R mean, slope, linear, constant;
};
using RowFactors = FactorsIn<double>;
template <class R>
REHEARSAL_BODY FactorsIn<R> in_type(const RowFactors& f) {
  return {static_cast<R>(f.mean), static_cast<R>(f.slope), static_cast<R>(f.linear), static_cast<R>(f.constant)};
}

/// Rows of an image that one team takes, some at a time where they are short: threads side by side share a row.
struct RowTiles {
  static constexpr std::int64_t kElements = 8192;
  std::int64_t rows, length, each, kinds;

  explicit RowTiles(const ImageRows& layout)
      : rows(layout.rows()),
        length(layout.length),
        each(std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, length))),
        kinds(layout.kinds()) {}
  [[nodiscard]] std::int64_t count() const { return length == 0 ? 0 : (rows + each - 1) / each; }

  /// No more than have something to do.
  [[nodiscard]] std::int64_t most_threads() const {
    return each == 1 ? kMostThreads : std::min(kMostThreads, std::max<std::int64_t>(32, lanes_for(length, kMostThreads) * each));
  }

  /// body(kind of a row, its elements) for this thread's part of the tile.
  template <class Body>
  REHEARSAL_BODY void visit(const Team& team, std::int64_t tile, const Body& body) const {
    const std::int64_t lanes = each == 1 ? team.size() : lanes_for(length, team.size());
    const std::int64_t lane = team.rank() % lanes, last = (tile + 1) * each < rows ? (tile + 1) * each : rows;
    for (std::int64_t row = tile * each + team.rank() / lanes; row < last; row += team.size() / lanes)
      body(divide(row, kinds).remainder, Share{row * length, (row + 1) * length, lane, lanes});
  }
};

/// The factors of one row, in the type that is computed in.
template <class T>
struct SameFactors {
  FactorsIn<Real<T>> factors;
  REHEARSAL_BODY explicit SameFactors(const RowFactors& f) : factors(in_type<Real<T>>(f)) {}
  REHEARSAL_BODY const auto& operator()() const { return factors; }
};

/// Those of one element after another, from element `at` of a row of this kind on.
struct FactorsInTurn {
  const RowFactors* factors;
  std::int64_t at, kind, length, kinds;
  REHEARSAL_BODY const RowFactors& operator()() {
    if (at == length) at = 0, kind = kind + 1 == kinds ? 0 : kind + 1;
    ++at;
    return factors[kind];
  }
};

/// Short rows: threads take neighbouring elements, of whichever rows they are.
template <class Row, int kCount>
struct FlatRows {
  Row row;
  Divider length, kinds;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t number = i * kCount;
    const std::int64_t at = length.split(number), kind = kinds.split(number);
    FactorsInTurn turn{row.factors, at, kind, length.size, kinds.size};
    row.template take<kCount>(i * kCount, turn);
  }
};

template <class T>
struct ApplyRow {
  const T* x;
  T* y;
  const RowFactors* factors;
  /// So many elements from i on, whose factors `next` tells in their order.
  template <int kCount, class Next>
  REHEARSAL_BODY void take(std::int64_t i, Next& next) const {
    auto values = load_few<kCount>(x + i);
    for (auto& value : values.at) {
      const auto& f = next();
      value =
          static_cast<T>((real(value) - static_cast<Real<T>>(f.mean)) * static_cast<Real<T>>(f.slope) + static_cast<Real<T>>(f.constant));
    }
    store_few(y + i, values);
  }
  REHEARSAL_BODY void operator()(std::int64_t kind, const Share& share) const {
    const SameFactors<T> same(factors[kind]);
    visit_share(
        share, [&](auto count, std::int64_t i) { take<count()>(i, same); }, x, y);
  }
  [[nodiscard]] bool is_aligned(int count) const { return begins_whole(x, count) && begins_whole(y, count); }
};

template <class T>
struct GradientRow {
  const T *x, *dy;
  T* dx;
  const RowFactors* factors;
  template <int kCount, class Next>
  REHEARSAL_BODY void take(std::int64_t i, Next& next) const {
    const auto values = load_few<kCount>(x + i), gradients = load_few<kCount>(dy + i);
    Few<T, kCount> results;
    for (int k = 0; k < kCount; ++k) {
      const auto& f = next();
      const auto mean = static_cast<Real<T>>(f.mean), slope = static_cast<Real<T>>(f.slope), linear = static_cast<Real<T>>(f.linear);
      results.at[k] =
          static_cast<T>(slope * real(gradients.at[k]) - linear * (real(values.at[k]) - mean) + static_cast<Real<T>>(f.constant));
    }
    store_few(dx + i, results);
  }
  REHEARSAL_BODY void operator()(std::int64_t kind, const Share& share) const {
    const SameFactors<T> same(factors[kind]);
    visit_share(
        share, [&](auto count, std::int64_t i) { take<count()>(i, same); }, x, dy, dx);
  }
  [[nodiscard]] bool is_aligned(int count) const { return begins_whole(x, count) && begins_whole(dy, count) && begins_whole(dx, count); }
};

template <class Row>
struct TileOfRows {
  RowTiles tiles;
  Row row;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t tile) const { tiles.visit(team, tile, row); }
};

/// `prepare` writes the factors of every kind of row; then the rows.
template <class Prepare, class Row>
void run_rows_of(const Call& call, const ImageRows& layout, const Prepare& prepare, const Row& row) {
  constexpr std::int64_t kShort = 512;
  constexpr int kTogether = 4;
  const RowTiles tiles(layout);
  for_each(call.context.stream, layout.kinds(), prepare);
  const std::int64_t elements = tiles.rows * tiles.length;
  if (tiles.length < kShort && elements % kTogether == 0 && row.is_aligned(kTogether))
    return for_each(call.context.stream, elements / kTogether,
                    FlatRows<Row, kTogether>{row, Divider(tiles.length), Divider(layout.kinds())});
  for_each_row(call.context.stream, tiles.count(), tiles.each * tiles.length, TileOfRows<Row>{tiles, row}, tiles.most_threads());
}

}  // namespace rehearsal::exec::cuda
