// The gradient of attention: weights are recomputed, tile by tile, from what a first pass keeps of every row: what its scores were shifted
// by, one over the sum of its exponentials, and the mean of the weights' gradients. Then each result has a team for each of its tiles,
// which goes over all rows or keys in one order.

#include "exec/kernels/cuda/attention_scores.hpp"
#include "exec/kernels/cuda/families.hpp"

namespace rehearsal::exec::cuda {
namespace {

using Guard = graph::AttentionProblem::Guard;
using graph::StridedView;

/// Of one row of one matrix of scores.
template <class R>
struct RowState {
  R shift, factor, mean;
};

/// Maximum, by which a row that nobody used is known: of 0 and magnitudes, where what is no number is larger than all.
struct LargestMagnitude {
  template <class R>
  REHEARSAL_BODY R operator()(R a, R b) const {
    const R magnitude = b < 0 ? -b : b;
    return a > magnitude || a != a ? a : magnitude;
  }
};

/// What all passes read.
template <class T>
struct Gradient {
  using R = Real<T>;
  using Matrix = typename Scores<T>::Matrix;
  using Tile = ScoreTile<Matrix>;
  Scores<T> scores;
  const T* dy;
  RowState<R>* states;

  REHEARSAL_BODY MatrixView<const T> dy_of(const Matrix& m) const {
    return {dy + m.number * scores.rows * scores.width, scores.rows, scores.width, scores.width, 1};
  }
  REHEARSAL_BODY RowState<R> state(const Matrix& m, std::int64_t row) const { return states[m.number * scores.rows + row]; }
  REHEARSAL_BODY bool has(std::int64_t row, std::int64_t key) const { return row < scores.rows && key < scores.keys; }

  /// True when nothing flows through any score of a tile, of which `transposed` ones lie by keys.
  REHEARSAL_BODY bool is_unseen(const Team& team, const Matrix& m, std::int64_t row, std::int64_t key, bool transposed) const {
    if (!scores.may_hide) return false;
    bool unseen = true;
    for (int own = 0; own < kLanesOfThread && unseen; ++own) {
      const Lane lane = lane_of(team, own);
      for (int i = 0; i < kEach<R>; ++i) {
        for (int j = 0; j < kEach<R> && unseen; ++j) {
          const std::int64_t r = row + (transposed ? lane.column(j) : lane.row(i)), k = key + (transposed ? lane.row(i) : lane.column(j));
          unseen = !has(r, k) || is_unseen(m, r, k);
        }
      }
    }
    return all_of_team(team, unseen);
  }
  REHEARSAL_BODY bool is_unseen(const Matrix& m, std::int64_t row, std::int64_t key) const {
    const auto s = state(m, row);
    return s.shift > R(kSeen) && s.factor == s.factor && s.mean - s.mean == 0 && scores.is_hidden(m, row, key);
  }

  REHEARSAL_BODY R weight(const Matrix& m, std::int64_t row, std::int64_t key, R product) const {
    const auto s = state(m, row);
    return std::exp(scores.score(m, row, key, product) - s.shift) * s.factor;
  }
  /// Gradient of what softmax read; `value` is dy times the key's values. 0 of a row without weights whose results nobody used.
  REHEARSAL_BODY R through_softmax(const Matrix& m, std::int64_t row, std::int64_t key, R product, R value) const {
    const auto s = state(m, row);
    if (s.factor != s.factor && s.mean == 0) return R(0);
    return weight(m, row, key, product) * (scores.dropped(m, row, key, value) - s.mean);
  }
};

/// Finds the states of rows.
template <class T>
struct FindStates {
  using R = Real<T>;
  using Matrix = typename Scores<T>::Matrix;
  using Tile = ScoreTile<Matrix>;
  static constexpr int kOwn = kEach<R>;
  Gradient<T> g;
  std::int64_t row_tiles;

  /// Of the rows of a lane: sums of exponentials, of them times their gradients, and the largest of those gradients.
  struct Running {
    R largest[kOwn], sum[kOwn], product[kOwn], used[kOwn], shrink[kOwn];
  };
  struct Memory {
    TilePair<R> tiles;
    RowSums<R>&sums, &products, &used;
  };

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t tile) const {
    REHEARSAL_SHARED TeamTile<R> a, b;
    REHEARSAL_SHARED RowSums<R> sums;
    // No product is under way while rows are added up: their memory is that of the tiles.
    const Memory memory{{a, b}, sums, reinterpret_cast<RowSums<R>&>(a), reinterpret_cast<RowSums<R>&>(b)};
    const std::int64_t row = tile % row_tiles * kSide<R>;
    const Matrix m = g.scores.matrix(tile / row_tiles);
    Fragment<R> x[kLanesOfThread], values[kLanesOfThread];
    Running running[kLanesOfThread];
    for (auto& r : running)
      for (int i = 0; i < kOwn; ++i) r.largest[i] = minus_infinity<R>(), r.sum[i] = r.product[i] = r.used[i] = R(0);
    for (std::int64_t key = 0; key < g.scores.keys; key += kSide<R>) {
      if (g.scores.sees_nothing(team, m, row, key, running)) continue;
      multiply_rows(team, memory.tiles, rows_of(m.q, row), rows_of(m.k, key), x);
      multiply_rows(team, memory.tiles, rows_of(g.dy_of(m), row), rows_of(m.v, key), values);
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) score(lane_of(team, own), memory, {m, row, key}, x[own]);
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) shift(lane_of(team, own), memory, running[own]);
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) measure(lane_of(team, own), memory, {m, row, key}, {x[own], values[own], running[own]});
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) add(lane_of(team, own), memory, running[own]);
      team.wait();
    }
    for (int own = 0; own < kLanesOfThread; ++own) store(lane_of(team, own), m, row, running[own]);
  }

  REHEARSAL_BODY void score(Lane lane, const Memory& memory, const Tile& tile, Fragment<R>& x) const {
    for (int i = 0; i < kOwn; ++i) {
      R largest = minus_infinity<R>();
      for (int j = 0; j < kOwn; ++j) {
        const std::int64_t r = tile.row + lane.row(i), k = tile.key + lane.column(j);
        R& score = x.at[i][j];
        score = g.has(r, k) ? g.scores.score(tile.matrix, r, k, score) : minus_infinity<R>();
        largest = LargestNumber{}(largest, score);
      }
      memory.sums.at[lane.row(i)][lane.x] = largest;
    }
  }

  REHEARSAL_BODY static R shift_of(R largest) { return largest == minus_infinity<R>() ? R(0) : largest; }

  REHEARSAL_BODY void shift(Lane lane, const Memory& memory, Running& r) const {
    for (int i = 0; i < kOwn; ++i) {
      const R largest = memory.sums.over(lane.row(i), r.largest[i], LargestNumber{});
      r.shrink[i] = std::exp(r.largest[i] - shift_of(largest));
      r.largest[i] = largest;
    }
  }

  struct Measured {
    const Fragment<R>&scores, &values;
    const Running& running;
  };
  REHEARSAL_BODY void measure(Lane lane, const Memory& memory, const Tile& tile, const Measured& from) const {
    for (int i = 0; i < kOwn; ++i) {
      R sum = 0, product = 0, used = 0;
      for (int j = 0; j < kOwn; ++j) {
        const std::int64_t r = tile.row + lane.row(i), k = tile.key + lane.column(j);
        if (!g.has(r, k)) continue;
        const R weight = std::exp(from.scores.at[i][j] - shift_of(from.running.largest[i]));
        const R gradient = g.scores.dropped(tile.matrix, r, k, from.values.at[i][j]);
        sum += weight;
        product += weight * gradient;
        used = LargestMagnitude{}(used, gradient);
      }
      memory.sums.at[lane.row(i)][lane.x] = sum;
      memory.products.at[lane.row(i)][lane.x] = product;
      memory.used.at[lane.row(i)][lane.x] = used;
    }
  }

  REHEARSAL_BODY void add(Lane lane, const Memory& memory, Running& r) const {
    for (int i = 0; i < kOwn; ++i) {
      r.sum[i] = memory.sums.over(lane.row(i), r.sum[i] * r.shrink[i], SumOf{});
      r.product[i] = memory.products.over(lane.row(i), r.product[i] * r.shrink[i], SumOf{});
      r.used[i] = memory.used.over(lane.row(i), r.used[i], LargestMagnitude{});
    }
  }

  /// Rows without weights (graph::AttentionProblem::Guard) have the factor 0; or none, and then a mean of 0 says that nobody used them.
  REHEARSAL_BODY void store(Lane lane, const Matrix& m, std::int64_t row, const Running& r) const {
    for (int i = 0; i < kOwn; ++i) {
      const std::int64_t at = row + lane.row(i);
      if (lane.x != 0 || at >= g.scores.rows) continue;
      const bool hidden = r.sum[i] == 0, none = hidden || r.sum[i] != r.sum[i];
      const bool empty = (g.scores.guard == Guard::NoNumber && none) || (g.scores.guard == Guard::AllHidden && hidden);
      const R factor = empty ? R(0) : none ? no_number<R>() : R(1) / r.sum[i];
      const R mean = empty || (none && r.used[i] == 0) ? R(0) : r.product[i] / r.sum[i];
      g.states[m.number * g.scores.rows + at] = {shift_of(r.largest[i]), factor, mean};
    }
  }
};

enum class Wanted : std::uint8_t { Queries, Keys, Values };

/// One tile of dq, dk or dv. Seen from keys, tiles of scores are transposed.
template <class T, Wanted kWanted>
struct AddFactors {
  using R = Real<T>;
  using Matrix = typename Scores<T>::Matrix;
  using Tile = ScoreTile<Matrix>;
  static constexpr bool kByKeys = kWanted != Wanted::Queries;
  Gradient<T> g;
  MatrixView<T> out;  ///< of matrix 0
  std::int64_t tiles, column_tiles;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t tile) const {
    REHEARSAL_SHARED TeamTile<R> a, b;
    const TilePair<R> pair{a, b};
    const std::int64_t column = tile % column_tiles * kSide<R>, first = tile / column_tiles % tiles * kSide<R>;
    const Matrix m = g.scores.matrix(tile / column_tiles / tiles);
    Fragment<R> x[kLanesOfThread], values[kLanesOfThread], sum[kLanesOfThread];
    const std::int64_t others = kByKeys ? g.scores.rows : g.scores.keys;
    for (std::int64_t other = 0; other < others; other += kSide<R>) {
      if (g.is_unseen(team, m, kByKeys ? other : first, kByKeys ? first : other, kByKeys)) continue;
      multiply_rows(team, pair, rows_of(kByKeys ? m.k : m.q, first), rows_of(kByKeys ? m.q : m.k, other), x);
      if constexpr (kWanted == Wanted::Keys) multiply_rows(team, pair, rows_of(m.v, first), rows_of(g.dy_of(m), other), values);
      if constexpr (kWanted == Wanted::Queries) multiply_rows(team, pair, rows_of(g.dy_of(m), first), rows_of(m.v, other), values);
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) put(lane_of(team, own), {m, first, other}, {x[own], values[own]}, a);
      load_tile(team, kWanted == Wanted::Queries ? m.k : kWanted == Wanted::Keys ? m.q : g.dy_of(m), other, column, b);
      team.wait();
      for (int own = 0; own < kLanesOfThread; ++own) multiply(a, b, lane_of(team, own), sum[own]);
    }
    MatrixView<T> to = out;
    to.first += m.number * to.rows * to.columns;
    for (int own = 0; own < kLanesOfThread; ++own) store_fragment(lane_of(team, own), sum[own], first, column, to);
  }

  /// A tile by its first position along what is wanted and along the other side.
  struct Sides {
    const Matrix& m;
    std::int64_t first, other;
  };
  struct Products {
    const Fragment<R>&scores, &values;
  };
  /// Weights or their gradients in a tile.
  REHEARSAL_BODY void put(Lane lane, const Sides& at, const Products& from, TeamTile<R>& to) const {
    for (int i = 0; i < kEach<R>; ++i) {
      for (int j = 0; j < kEach<R>; ++j) {
        const std::int64_t row = kByKeys ? at.other + lane.column(j) : at.first + lane.row(i);
        const std::int64_t key = kByKeys ? at.first + lane.row(i) : at.other + lane.column(j);
        R put = 0;
        if (!g.has(row, key))
          put = 0;
        else if (kWanted == Wanted::Values)
          put = g.scores.dropped(at.m, row, key, g.weight(at.m, row, key, from.scores.at[i][j]));
        else
          put = g.scores.step_back(at.m, row, key, -1, g.through_softmax(at.m, row, key, from.scores.at[i][j], from.values.at[i][j]));
        to.at[lane.row(i)][lane.column(j)] = put;
      }
    }
  }
};

/// Gradient of an added operand. Where it is broadcast along rows or keys, a team goes over all of them.
template <class T>
struct AddBias {
  using R = Real<T>;
  using Matrix = typename Scores<T>::Matrix;
  using Tile = ScoreTile<Matrix>;
  Gradient<T> g;
  T* out;
  int step;
  std::int64_t row_stride, key_stride, row_tiles, key_tiles;  ///< strides 0: broadcast; tiles that are each for themselves
  Walk<2> own;                                                ///< batches of the operand: numbers of matrices, elements
  Walk<1> others;                                             ///< batches that share its elements: numbers of matrices
  std::int64_t other_count;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t tile) const {
    REHEARSAL_SHARED TeamTile<R> a, b;
    const TilePair<R> pair{a, b};
    const std::int64_t first_key = tile % key_tiles * kSide<R>, first_row = tile / key_tiles % row_tiles * kSide<R>;
    const auto place = own.place(tile / key_tiles / row_tiles);
    const std::int64_t end_row = row_stride == 0 ? g.scores.rows : first_row + 1, end_key = key_stride == 0 ? g.scores.keys : first_key + 1;
    Fragment<R> sum[kLanesOfThread];
    for (std::int64_t other = 0; other < other_count; ++other) {
      const Matrix m = g.scores.matrix(place.at[0] + others.place(other).at[0]);
      for (std::int64_t row = first_row; row < end_row; row += kSide<R>)
        for (std::int64_t key = first_key; key < end_key; key += kSide<R>) add(team, pair, {m, row, key}, sum);
    }
    team.wait();
    for (int l = 0; l < kLanesOfThread; ++l)
      for (int i = 0; i < kEach<R>; ++i)
        for (int j = 0; j < kEach<R>; ++j) a.at[lane_of(team, l).row(i)][lane_of(team, l).column(j)] = sum[l].at[i][j];
    team.wait();
    store(team, a, first_row, first_key, out + place.at[1]);
  }

  REHEARSAL_BODY void add(const Team& team, const TilePair<R>& pair, const Tile& tile, Fragment<R>* sum) const {
    Fragment<R> x[kLanesOfThread], values[kLanesOfThread];
    const Matrix& m = tile.matrix;
    if (g.is_unseen(team, m, tile.row, tile.key, false)) return;
    multiply_rows(team, pair, rows_of(m.q, tile.row), rows_of(m.k, tile.key), x);
    multiply_rows(team, pair, rows_of(g.dy_of(m), tile.row), rows_of(m.v, tile.key), values);
    for (int l = 0; l < kLanesOfThread; ++l) {
      const Lane lane = lane_of(team, l);
      for (int i = 0; i < kEach<R>; ++i) {
        for (int j = 0; j < kEach<R>; ++j) {
          const std::int64_t r = tile.row + lane.row(i), k = tile.key + lane.column(j);
          if (g.has(r, k))
            sum[l].at[i][j] += g.scores.step_back(m, r, k, step, g.through_softmax(m, r, k, x[l].at[i][j], values[l].at[i][j]));
        }
      }
    }
  }

  /// Sums along what is broadcast, in one order.
  REHEARSAL_BODY void store(const Team& team, const TeamTile<R>& sums, std::int64_t row, std::int64_t key, T* to) const {
    const int rows = row_stride == 0 ? 1 : kSide<R>, keys = key_stride == 0 ? 1 : kSide<R>;
    for (int e = static_cast<int>(team.rank()); e < rows * keys; e += static_cast<int>(team.size())) {
      const int i = e / keys, j = e % keys;
      if (!g.has(row + i, key + j)) continue;
      R sum = 0;
      for (int r = i; r < (row_stride == 0 ? kSide<R> : i + 1); ++r)
        for (int k = j; k < (key_stride == 0 ? kSide<R> : j + 1); ++k) sum += sums.at[r][k];
      to[(row + i) * row_stride + (key + j) * key_stride] = static_cast<T>(sum);
    }
  }
};

template <class T>
void add_bias(const Call& call, const Gradient<T>& g, const graph::AttentionProblem& p, std::size_t s, T* out) {
  using R = Real<T>;
  const auto strides = graph::attention_strides(p, call.in_shape(4 + static_cast<std::size_t>(p.steps[s].operand)), false);
  const auto numbers = graph::row_major_strides(p.batch);
  StridedView own_numbers, own_elements, others;
  for (std::size_t d = 0; d < p.batch.size(); ++d) {
    StridedView& to = strides.batch[d] == 0 ? others : own_numbers;
    to.shape.push_back(p.batch[d]), to.strides.push_back(numbers[d]);
    if (strides.batch[d] != 0) own_elements.shape.push_back(p.batch[d]), own_elements.strides.push_back(strides.batch[d]);
  }
  const std::int64_t row_tiles = strides.row == 0 ? 1 : tiles_along<R>(p.rows), key_tiles = strides.key == 0 ? 1 : tiles_along<R>(p.keys);
  for_each_tile(call.context.stream, graph::element_count(own_numbers.shape) * row_tiles * key_tiles,
                AddBias<T>{g, out, static_cast<int>(s), strides.row, strides.key, row_tiles, key_tiles,
                           walk_of<2>({own_numbers, own_elements}), walk_of<1>({others}), graph::element_count(others.shape)});
}

template <class T, Wanted kWanted>
void add_factors(const Call& call, const Gradient<T>& g, std::int64_t matrices, std::size_t result, const MatrixView<T>& out) {
  if (!call.has_output(result)) return;
  const std::int64_t tiles = tiles_along<Real<T>>(out.rows), column_tiles = tiles_along<Real<T>>(out.columns);
  for_each_tile(call.context.stream, matrices * tiles * column_tiles, AddFactors<T, kWanted>{g, out, tiles, column_tiles});
}

struct AttentionGrad {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const auto p = graph::attention_problem(node, 1);
    const std::int64_t size = node.input(0).dtype == DType::F64 ? sizeof(RowState<double>) : sizeof(RowState<float>);
    return p.matrices() * p.rows * size;
  }
  template <class T>
  static void run(const Call& call) {
    using R = Real<T>;
    const auto p = graph::attention_problem(call.problem.view(), 1);
    const Gradient<T> g{Scores<T>(call, p, 1), call.in<T>(0), static_cast<RowState<R>*>(call.context.workspace)};
    const std::int64_t matrices = p.matrices(), row_tiles = tiles_along<R>(p.rows);
    for_each_tile(call.context.stream, matrices * row_tiles, FindStates<T>{g, row_tiles});
    add_factors<T, Wanted::Queries>(call, g, matrices, 0, {call.out<T>(0), p.rows, p.depth, p.depth, 1});
    add_factors<T, Wanted::Keys>(call, g, matrices, 1,
                                 {call.out<T>(1), p.keys, p.depth, p.keys_last ? 1 : p.depth, p.keys_last ? p.keys : 1});
    add_factors<T, Wanted::Values>(call, g, matrices, 2, {call.out<T>(2), p.keys, p.width, p.width, 1});
    std::size_t result = 3;
    for (std::size_t s = 0; s < p.steps.size(); ++s)
      if (p.steps[s].differentiated) add_bias<T>(call, g, p, s, call.out<T>(result++));
  }
};

std::unique_ptr<Kernel> make_gradient(const KernelRequest& request, std::string& reason) {
  if (!fits(graph::attention_problem(request.view(), 1), reason)) return nullptr;
  return make_by_input_with_workspace<AttentionGrad, Floats>(request, reason);
}

constexpr KernelRow kRows[] = {{"AttentionGrad", "cuda:attention", make_gradient}};

}  // namespace

std::span<const KernelRow> attention_gradient_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
