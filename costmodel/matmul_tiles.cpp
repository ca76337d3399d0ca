#include "costmodel/matmul_tiles.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::costmodel {
namespace {

struct Tile {
  double rows, columns, penalty;
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 1.08}, {128, 64, 1.35}, {64, 128, 1.35},
                           {64, 64, 1.7},   {64, 32, 2.4},   {32, 64, 2.4},    {32, 32, 3.6}};
constexpr double kSplits[] = {1, 2, 4, 8, 16, 32, 64};
constexpr double kLeastSplitDepth = 256;  // elements of k that a part keeps
constexpr double kSplitCost = 1.04;
constexpr double kManyWaves = 8;

double waves_of(double tiles, double units) {
  const double waves = tiles / units;
  return std::max(0.5, waves < kManyWaves ? std::ceil(2 * waves) / 2 : waves + 0.25);
}

double best_split(const Tile& tile, double tiles, const MatmulShape& s, double units, double loop_overhead) {
  double best = 1e300;
  for (const double split : kSplits) {
    if (split > 1 && (s.k / split < kLeastSplitDepth || tiles >= 2 * units)) break;
    const double per_tile = 2 * tile.rows * tile.columns * (s.k / split + loop_overhead) * tile.penalty;
    best = std::min(best, waves_of(tiles * split, units) * units * per_tile * (split > 1 ? kSplitCost : 1.0));
  }
  return best;
}

}  // namespace

double quantised_flops(const MatmulShape& s, int units, double loop_overhead, double reuse_share) {
  double best = 1e300;
  for (const auto& tile : kTiles) {
    const double large = std::max(tile.rows, tile.columns), small = std::min(tile.rows, tile.columns);
    if (large > 2 * std::max(s.m, 32.0) && small > 2 * std::max(s.n, 32.0)) continue;
    const double tiles = std::ceil(s.m / tile.rows) * std::ceil(s.n / tile.columns) * s.batch;
    best = std::min(best, best_split({tile.rows, tile.columns, 1 + reuse_share * (tile.penalty - 1)}, tiles, s, units, loop_overhead));
  }
  return best;
}

MatmulShape aligned(const MatmulShape& s, int element_bytes, bool matrix_units) {
  if (!matrix_units) return s;
  const double step = 16.0 / element_bytes;
  return {s.m, std::ceil(s.n / step) * step, std::ceil(s.k / step) * step, s.batch};
}

}  // namespace rehearsal::costmodel
