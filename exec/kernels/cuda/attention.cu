// Attention with the softmax over the keys taken tile by tile (Milakov, Gimelshein 2018; Dao et al. 2022): a team has some rows and some
// columns of the result; maxima and sums of its rows change from tile to tile of keys, and what was added up before shrinks with them.

#include "exec/kernels/cuda/attention_scores.hpp"
#include "exec/kernels/cuda/families.hpp"

namespace rehearsal::exec::cuda {
namespace {

using Guard = graph::AttentionProblem::Guard;

template <class T>
struct Attend {
  using R = Real<T>;
  using Matrix = typename Scores<T>::Matrix;
  using Tile = ScoreTile<Matrix>;
  static constexpr int kOwn = kEach<R>;
  Scores<T> scores;
  T* y;
  std::int64_t row_tiles, column_tiles;

  /// Of the rows of a lane.
  struct Running {
    R largest[kOwn], sum[kOwn], shrink[kOwn];
  };
  struct Memory {
    TilePair<R> tiles;
    RowSums<R>& sums;
  };

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t tile) const {
    REHEARSAL_SHARED TeamTile<R> a, b;
    REHEARSAL_SHARED RowSums<R> sums;
    const Memory memory{{a, b}, sums};
    const std::int64_t column = tile % column_tiles * kSide<R>, row = tile / column_tiles % row_tiles * kSide<R>;
    const Matrix m = scores.matrix(tile / column_tiles / row_tiles);
    Fragment<R> weights[kLanesOfThread], out[kLanesOfThread];
    Running running[kLanesOfThread];
    for (auto& r : running)
      for (int i = 0; i < kOwn; ++i) r.largest[i] = minus_infinity<R>(), r.sum[i] = R(0);
    for (std::int64_t key = 0; key < scores.keys; key += kSide<R>) {
      if (scores.sees_nothing(team, m, row, key, running)) continue;
      multiply_rows(team, memory.tiles, rows_of(m.q, row), rows_of(m.k, key), weights);
      weigh(team, memory, {m, row, key}, weights, running);
      load_tile(team, m.v, key, column, b);
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) add(team, memory, own, running[own], out[own]);
    }
    const MatrixView<T> to{y + m.number * scores.rows * scores.width, scores.rows, scores.width, scores.width, 1};
    for (int own = 0; own < kLanesOfThread; ++own) {
      finish(running[own], out[own]);
      store_fragment(lane_of(team, own), out[own], row, column, to);
    }
  }

  /// Products become weights, but for the sum of their rows, in the first tile; sums of a lane's weights in the other memory.
  REHEARSAL_BODY void weigh(const Team& team, const Memory& memory, const Tile& tile, Fragment<R>* weights, Running* running) const {
    for (int own = 0; own < kLanesOfThread; ++own) score(lane_of(team, own), memory, tile, weights[own]);
    team.wait();
    for (int own = 0; own < kLanesOfThread; ++own) {
      const Lane lane = lane_of(team, own);
      auto& r = running[own];
      for (int i = 0; i < kOwn; ++i) {
        const R largest = memory.sums.over(lane.row(i), r.largest[i], LargestNumber{}), shift = shift_of(largest);
        r.shrink[i] = std::exp(r.largest[i] - shift);
        r.largest[i] = largest;
        for (int j = 0; j < kOwn; ++j) weights[own].at[i][j] = std::exp(weights[own].at[i][j] - shift);
      }
    }
    team.wait();
    for (int own = 0; own < kLanesOfThread; ++own) keep(lane_of(team, own), memory, tile, weights[own]);
  }

  /// A row that has seen nothing yet has no largest score to subtract.
  REHEARSAL_BODY static R shift_of(R largest) { return largest == minus_infinity<R>() ? R(0) : largest; }

  REHEARSAL_BODY void score(Lane lane, const Memory& memory, const Tile& tile, Fragment<R>& x) const {
    for (int i = 0; i < kOwn; ++i) {
      R largest = minus_infinity<R>();
      const std::int64_t r = tile.row + lane.row(i);
      for (int j = 0; j < kOwn; ++j) {
        const std::int64_t k = tile.key + lane.column(j);
        R& score = x.at[i][j];
        score = r < scores.rows && k < scores.keys ? scores.score(tile.matrix, r, k, score) : minus_infinity<R>();
        largest = LargestNumber{}(largest, score);
      }
      memory.sums.at[lane.row(i)][lane.x] = largest;
    }
  }

  REHEARSAL_BODY void keep(Lane lane, const Memory& memory, const Tile& tile, const Fragment<R>& weights) const {
    for (int i = 0; i < kOwn; ++i) {
      R sum = 0;
      for (int j = 0; j < kOwn; ++j) {
        sum += weights.at[i][j];
        memory.tiles.a.at[lane.row(i)][lane.column(j)] =
            scores.dropped(tile.matrix, tile.row + lane.row(i), tile.key + lane.column(j), weights.at[i][j]);
      }
      memory.sums.at[lane.row(i)][lane.x] = sum;
    }
  }

  REHEARSAL_BODY void add(const Team& team, const Memory& memory, int own, Running& running, Fragment<R>& out) const {
    const Lane lane = lane_of(team, own);
    for (int i = 0; i < kOwn; ++i) {
      running.sum[i] = memory.sums.over(lane.row(i), running.sum[i] * running.shrink[i], SumOf{});
      for (int j = 0; j < kOwn; ++j) out.at[i][j] *= running.shrink[i];
    }
    multiply(memory.tiles.a, memory.tiles.b, lane, out);
  }

  /// Rows without weights: graph::AttentionProblem::Guard.
  REHEARSAL_BODY void finish(const Running& running, Fragment<R>& out) const {
    for (int i = 0; i < kOwn; ++i) {
      const R sum = running.sum[i];
      const bool hidden = sum == 0, none = hidden || sum != sum;
      const bool empty = scores.keys == 0 || (scores.guard == Guard::NoNumber && none) || (scores.guard == Guard::AllHidden && hidden);
      for (int j = 0; j < kOwn; ++j) out.at[i][j] = empty ? R(0) : out.at[i][j] / sum;
    }
  }
};

struct Attention {
  template <class T>
  static void run(const Call& call) {
    const auto p = graph::attention_problem(call.problem.view(), 0);
    const std::int64_t row_tiles = tiles_along<Real<T>>(p.rows), column_tiles = tiles_along<Real<T>>(p.width);
    for_each_tile(call.context.stream, p.matrices() * row_tiles * column_tiles,
                  Attend<T>{Scores<T>(call, p, 0), call.out<T>(), row_tiles, column_tiles});
  }
};

std::unique_ptr<Kernel> make_attention(const KernelRequest& request, std::string& reason) {
  if (!fits(graph::attention_problem(request.view(), 0), reason)) return nullptr;
  return make_by_output<Attention, Floats>(request, reason);
}

constexpr KernelRow kRows[] = {{"Attention", "cuda:attention", make_attention}};

}  // namespace

std::span<const KernelRow> attention_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
