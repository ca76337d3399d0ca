#pragma once
// Copies between strided views: whole, by packs where rows lie one after another on both sides, through tiles where the views run along
// different dimensions, element by element otherwise.

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/neighbours.hpp"

namespace rehearsal::exec::cuda {

/// E: an element, or a pack of them. View 0 is where elements come from, view 1 where they go.
template <class E>
struct CopyEach {
  const E* from;
  E* to;
  Walk<2> walk;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto place = walk.place(i);
    to[place.at[1]] = from[place.at[0]];
  }
};

/// Tiles of two dimensions: along `across` neighbours lie together in the source, along `down` in the target.
template <class T>
struct CopyTiles {
  static constexpr int kSide = sizeof(T) <= 2 ? 64 : 32, kGroup = kSide / 8;
  const T* from;
  T* to;
  Walk<2> outer;
  std::int64_t across, down;                  ///< elements
  std::int64_t source_stride, target_stride;  ///< of neighbours along `down` in the source, along `across` in the target
  Divider across_tiles, down_tiles;
  bool in_groups;  ///< read and written kGroup at a time

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t tile) const {
    REHEARSAL_SHARED T held[kSide][kSide + 1];
    const std::int64_t a0 = across_tiles.split(tile) * kSide, d0 = down_tiles.split(tile) * kSide;
    const auto place = outer.place(tile);
    const T* source = from + place.at[0] + a0 + d0 * source_stride;
    T* target = to + place.at[1] + d0 + a0 * target_stride;
    team.wait();  // whoever still reads the last tile
    if (in_groups) return copy_groups(team, held, {source, target, across - a0, down - d0});
    for (int k = static_cast<int>(team.rank()); k < kSide * kSide; k += static_cast<int>(team.size())) {
      const int a = k % kSide, d = k / kSide;
      if (a0 + a < across && d0 + d < down) held[d][a] = source[a + d * source_stride];
    }
    team.wait();
    for (int k = static_cast<int>(team.rank()); k < kSide * kSide; k += static_cast<int>(team.size())) {
      const int d = k % kSide, a = k / kSide;
      if (a0 + a < across && d0 + d < down) target[d + a * target_stride] = held[d][a];
    }
  }
  /// What is left of both tensors from a tile on: first elements, and how many there are along `across` and along `down`.
  struct Rest {
    const T* source;
    T* target;
    std::int64_t wide, high;
  };
  template <class Held>
  REHEARSAL_BODY void copy_groups(const Team& team, Held& held, const Rest& rest) const {
    constexpr int kOfRow = kSide / kGroup;
    for (int k = static_cast<int>(team.rank()); k < kSide * kOfRow; k += static_cast<int>(team.size())) {
      const int a = k % kOfRow * kGroup, d = k / kOfRow;
      if (a >= rest.wide || d >= rest.high) continue;
      const auto few = load_few<kGroup>(rest.source + a + d * source_stride);
      for (int j = 0; j < kGroup; ++j) held[d][a + j] = few.at[j];
    }
    team.wait();
    for (int k = static_cast<int>(team.rank()); k < kSide * kOfRow; k += static_cast<int>(team.size())) {
      const int d = k % kOfRow * kGroup, a = k / kOfRow;
      if (a >= rest.wide || d >= rest.high) continue;
      Few<T, kGroup> few;
      for (int j = 0; j < kGroup; ++j) few.at[j] = held[d + j][a];
      store_few(rest.target + d + a * target_stride, few);
    }
  }
};

/// True where every address of a walk, and of its tiles, is a whole number of groups.
template <class T>
bool are_groups(const CopyTiles<T>& body) {
  const std::int64_t group = body.kGroup;
  bool whole = begins_whole(body.from, body.kGroup) && begins_whole(body.to, body.kGroup);
  whole = whole && body.across % group == 0 && body.down % group == 0 && body.source_stride % group == 0 && body.target_stride % group == 0;
  for (int v = 0; v < 2; ++v) {
    whole = whole && body.outer.offsets[v] % group == 0;
    for (int d = 0; d < body.outer.rank; ++d) whole = whole && body.outer.strides[v][d] % group == 0;
  }
  return whole;
}

/// The walk by packs of `size` elements; false where rows or their distances are no whole packs.
inline bool take_packs(Walk<2>& walk, std::int64_t size) {
  if (walk.rank == 0) return false;
  const int last = walk.rank - 1;
  bool whole = walk.sizes[last].size % size == 0;
  for (int v = 0; v < 2; ++v) {
    whole = whole && walk.strides[v][last] == 1 && walk.offsets[v] % size == 0;
    for (int d = 0; d < last; ++d) whole = whole && walk.strides[v][d] % size == 0;
  }
  if (!whole) return false;
  walk.sizes[last] = Divider(walk.sizes[last].size / size);
  for (int v = 0; v < 2; ++v) {
    walk.offsets[v] /= size;
    for (int d = 0; d < last; ++d) walk.strides[v][d] /= size;
  }
  return true;
}

/// Dimension of the walk along which neighbours of view v lie together; -1: none.
inline int dense_dimension(const Walk<2>& walk, int v) {
  for (int d = walk.rank - 1; d >= 0; --d)
    if (walk.strides[v][d] == 1) return d;
  return -1;
}

/// Takes dimensions a and b out of a walk.
inline Walk<2> without(const Walk<2>& walk, int a, int b) {
  Walk<2> rest;
  for (int v = 0; v < 2; ++v) rest.offsets[v] = walk.offsets[v];
  for (int d = 0; d < walk.rank; ++d) {
    if (d == a || d == b) continue;
    rest.sizes[rest.rank] = walk.sizes[d];
    for (int v = 0; v < 2; ++v) rest.strides[v][rest.rank] = walk.strides[v][d];
    ++rest.rank;
  }
  return rest;
}

/// False where neighbours lie together along the same dimension on both sides, or too few of them do.
template <class T>
bool copy_tiles(DeviceStream stream, const T* from, T* to, const Walk<2>& walk) {
  constexpr std::int64_t kFew = 8, kThreads = 1024;  // of 4 elements each
  const int across = dense_dimension(walk, 0), down = dense_dimension(walk, 1);
  if (across < 0 || down < 0 || across == down || walk.sizes[across].size < kFew || walk.sizes[down].size < kFew) return false;
  const auto tiles = [](std::int64_t size) { return Divider((size + CopyTiles<T>::kSide - 1) / CopyTiles<T>::kSide); };
  CopyTiles<T> body{from,
                    to,
                    without(walk, across, down),
                    walk.sizes[across].size,
                    walk.sizes[down].size,
                    walk.strides[0][down],
                    walk.strides[1][across],
                    tiles(walk.sizes[across].size),
                    tiles(walk.sizes[down].size),
                    false};
  body.in_groups = are_groups(body);
  std::int64_t count = body.across_tiles.size * body.down_tiles.size;
  for (int d = 0; d < body.outer.rank; ++d) count *= body.outer.sizes[d].size;
  for_each_row(stream, count, kThreads, body);
  return true;
}

/// to[target] = from[source] for every element: both views have one shape. Nothing of the target is read.
template <class T>
void copy_strided(DeviceStream stream, const T* from, const graph::StridedView& source, T* to, const graph::StridedView& target) {
  const std::int64_t count = graph::element_count(source.shape);
  if (count == 0) return;
  auto walk = walk_of<2>({source, target});
  if (walk.rank == 0 || (walk.rank == 1 && walk.strides[0][0] == 1 && walk.strides[1][0] == 1))
    return copy(stream, to + walk.offsets[1], from + walk.offsets[0], count * static_cast<std::int64_t>(sizeof(T)));
  if (are_aligned({from, to}) && take_packs(walk, Pack<T>::kSize))
    return for_each(stream, count / Pack<T>::kSize,
                    CopyEach<Pack<T>>{reinterpret_cast<const Pack<T>*>(from), reinterpret_cast<Pack<T>*>(to), walk});
  if (!copy_tiles(stream, from, to, walk)) for_each(stream, count, CopyEach<T>{from, to, walk});
}

}  // namespace rehearsal::exec::cuda
