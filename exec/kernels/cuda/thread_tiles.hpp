#pragma once
// Products of square tiles that a team shares, each lane holding a small square of the result. For bodies of for_each_tile.

#include "exec/kernels/cuda/launch.hpp"
#include "exec/kernels/cuda/packs.hpp"

namespace rehearsal::exec::cuda {

inline constexpr int kGrid = 16;  ///< lanes along a side of a tile
static_assert(kGrid * kGrid == kTileLanes);

template <class R>
inline constexpr int kEach = Pack<R>::kSize;  ///< elements along a side of a lane's square
template <class R>
inline constexpr int kSide = kGrid* kEach<R>;  ///< of a tile: 64 in f32, 32 in f64

/// Rows are a pack longer than they need be, so that packs of neighbouring rows lie in different banks of the memory.
template <class R>
struct alignas(kPackBytes) TeamTile {
  R at[kSide<R>][kSide<R> + kEach<R>];
};

/// What one lane holds.
template <class R>
struct Fragment {
  R at[kEach<R>][kEach<R>] = {};
};

/// One lane: its rows in a tile are row(i), its columns column(j) of products with transposed tiles, packed_column(j) of others.
struct Lane {
  int y, x;
  REHEARSAL_BODY explicit Lane(std::int64_t number) : y(static_cast<int>(number) / kGrid), x(static_cast<int>(number) % kGrid) {}
  REHEARSAL_BODY int row(int i) const { return y + kGrid * i; }
  REHEARSAL_BODY int column(int j) const { return x + kGrid * j; }
  template <class R>
  REHEARSAL_BODY int packed_column(int j) const {
    return x * kEach<R> + j;
  }
};
REHEARSAL_BODY Lane lane_of(const Team& team, int own) { return Lane(team.rank() + own * team.size()); }

/// out += a b'.
template <class R>
REHEARSAL_BODY void multiply_transposed(const TeamTile<R>& a, const TeamTile<R>& b, Lane lane, Fragment<R>& out) {
  constexpr int n = kEach<R>;
  for (int k = 0; k < kSide<R>; k += n) {
    Pack<R> left[n], right[n];
    for (int i = 0; i < n; ++i) left[i] = load_pack(&a.at[lane.row(i)][k]);
    for (int j = 0; j < n; ++j) right[j] = load_pack(&b.at[lane.column(j)][k]);
    for (int p = 0; p < n; ++p)
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) out.at[i][j] += left[i].at[p] * right[j].at[p];
  }
}

/// out += a b.
template <class R>
REHEARSAL_BODY void multiply(const TeamTile<R>& a, const TeamTile<R>& b, Lane lane, Fragment<R>& out) {
  constexpr int n = kEach<R>;
  for (int k = 0; k < kSide<R>; k += n) {
    Pack<R> left[n], right[n];
    for (int i = 0; i < n; ++i) left[i] = load_pack(&a.at[lane.row(i)][k]);
    for (int p = 0; p < n; ++p) right[p] = load_pack(&b.at[k + p][lane.packed_column<R>(0)]);
    for (int p = 0; p < n; ++p)
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) out.at[i][j] += left[i].at[p] * right[p].at[j];
  }
}

/// A matrix in memory, and how far apart its neighbours are.
template <class T>
struct MatrixView {
  T* first;
  std::int64_t rows, columns, row_step, column_step;
};

/// The tile of `from` that starts at (row, column); 0 where the matrix ends.
template <class T, class R>
REHEARSAL_BODY void load_tile(const Team& team, const MatrixView<const T>& from, std::int64_t row, std::int64_t column, TeamTile<R>& to) {
  const bool rows_first = from.column_step == 1;
  for (int e = static_cast<int>(team.rank()); e < kSide<R> * kSide<R>; e += static_cast<int>(team.size())) {
    const int slow = e / kSide<R>, fast = e % kSide<R>, i = rows_first ? slow : fast, j = rows_first ? fast : slow;
    const bool inside = row + i < from.rows && column + j < from.columns;
    to.at[i][j] = inside ? real(from.first[(row + i) * from.row_step + (column + j) * from.column_step]) : R(0);
  }
}

/// Stores a fragment made by multiply().
template <class T, class R>
REHEARSAL_BODY void store_fragment(Lane lane, const Fragment<R>& from, std::int64_t row, std::int64_t column, const MatrixView<T>& to) {
  for (int i = 0; i < kEach<R>; ++i) {
    for (int j = 0; j < kEach<R>; ++j) {
      const std::int64_t r = row + lane.row(i), c = column + lane.packed_column<R>(j);
      if (r < to.rows && c < to.columns) to.first[r * to.row_step + c * to.column_step] = static_cast<T>(from.at[i][j]);
    }
  }
}

/// Two tiles that products are made of.
template <class R>
struct TilePair {
  TeamTile<R>&a, &b;
};

/// The rows of a matrix from `first` on.
template <class T>
struct RowsOf {
  const MatrixView<const T>& matrix;
  std::int64_t first;
};
template <class T>
REHEARSAL_BODY RowsOf<T> rows_of(const MatrixView<const T>& matrix, std::int64_t first) {
  return {matrix, first};
}

/// out = rows of x times rows of y, one fragment per own lane. All threads must call it; tiles are free again behind the next wait().
template <class T, class R>
REHEARSAL_BODY void multiply_rows(const Team& team, const TilePair<R>& tiles, const RowsOf<T>& x, const RowsOf<T>& y, Fragment<R>* out) {
  for (int own = 0; own < kLanesOfThread; ++own) out[own] = {};
  for (std::int64_t column = 0; column < x.matrix.columns; column += kSide<R>) {
    team.wait();
    load_tile(team, x.matrix, x.first, column, tiles.a);
    load_tile(team, y.matrix, y.first, column, tiles.b);
    team.wait();
    for (int own = 0; own < kLanesOfThread; ++own) multiply_transposed(tiles.a, tiles.b, lane_of(team, own), out[own]);
  }
}

/// True on every thread when all of them say so.
REHEARSAL_BODY bool all_of_team(const Team& team, bool mine) { return team.reduce(mine ? 1 : 0, SmallerOf{}) != 0; }

/// One number of every lane, added up or compared along the rows of a tile.
template <class R>
struct RowSums {
  R at[kSide<R>][kGrid + 1];
  template <class Op>
  REHEARSAL_BODY R over(int row, R value, Op op) const {
    for (int x = 0; x < kGrid; ++x) value = op(value, at[row][x]);
    return value;
  }
};

}  // namespace rehearsal::exec::cuda
