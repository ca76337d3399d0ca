#pragma once
// What attention and its gradient share on GPUs: where the matrices of a head lie, what happens to scores and what dropout keeps
// (graph/ops/attention.hpp).

#include "exec/kernels/cuda/keeping.hpp"
#include "exec/kernels/cuda/thread_tiles.hpp"
#include "graph/ops/attention.hpp"

namespace rehearsal::exec::cuda {

inline constexpr int kMostBatch = 6, kMostSteps = 6;

/// Refuses, with the reason, what does not fit into the arguments of a kernel.
[[nodiscard]] inline bool fits(const graph::AttentionProblem& p, std::string& reason) {
  if (p.batch.size() <= kMostBatch && p.steps.size() <= kMostSteps) return true;
  reason =
      "attention on GPUs takes at most " + std::to_string(kMostBatch) + " batch dimensions and " + std::to_string(kMostSteps) + " steps";
  return false;
}

/// The largest score so far; what is no number does not count, it makes the sum no number.
struct LargestNumber {
  template <class R>
  REHEARSAL_BODY R operator()(R a, R b) const {
    return b > a ? b : a;
  }
};

template <class R>
REHEARSAL_BODY R minus_infinity() {
  return -static_cast<R>(HUGE_VAL);
}

template <class R>
REHEARSAL_BODY R no_number() {
  return static_cast<R>(HUGE_VAL) - static_cast<R>(HUGE_VAL);
}

/// A score that no row with another one sees: e to such a power is 0. Where all scores of a row are near it, every key counts.
inline constexpr float kHidden = static_cast<float>(graph::kHidesScore), kSeen = -1e29F;

template <class R>
struct ScoreStep {
  graph::AttentionStep::Kind kind;
  R number;
  const void* operand;
  std::int64_t row, key;  ///< strides
};

/// A tile of the scores of one matrix, by its first row and key.
template <class Matrix>
struct ScoreTile {
  const Matrix& matrix;
  std::int64_t row, key;
};

template <class T>
class Scores {
 public:
  using R = Real<T>;
  using Kind = graph::AttentionStep::Kind;
  enum Operand : std::uint8_t { kQ, kK, kV, kWeight, kFirstStep };
  static constexpr int kOperands = kFirstStep + kMostSteps;

  /// `queries`: which operand q is. `result`: the result or its gradient, whose block says which weights these are.
  Scores(const Call& call, const graph::AttentionProblem& p, std::size_t queries)
      : rows(p.rows),
        keys(p.keys),
        depth(p.depth),
        width(p.width),
        guard(p.guard),
        drops(p.ratio > 0),
        may_hide(!p.steps.empty() && p.steps.back().operand >= 0),
        kept_factor(static_cast<R>(p.ratio < 1 ? 1 / (1 - p.ratio) : 0)),
        keeping_(call, p.stream, p.ratio),
        keys_last_(p.keys_last),
        rank_(static_cast<int>(p.batch.size())),
        steps_(static_cast<int>(p.steps.size())) {
    for (int d = 0; d < rank_; ++d) batch_[d] = Divider(p.batch[static_cast<std::size_t>(d)]);
    for (std::size_t i = 0; i < 3; ++i) {
      matrices_[i] = call.in<T>(queries + i);
      set_strides(static_cast<int>(i), graph::attention_strides(p, call.in_shape(queries + i), true));
    }
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      const auto& step = p.steps[s];
      step_[s] = {step.kind, static_cast<R>(step.number), nullptr, 0, 0};
      if (step.operand < 0) continue;
      const std::size_t operand = queries + 3 + static_cast<std::size_t>(step.operand);
      const auto strides = graph::attention_strides(p, call.in_shape(operand), false);
      set_strides(kFirstStep + static_cast<int>(s), strides);
      step_[s].operand = call.inputs[operand].data, step_[s].row = strides.row, step_[s].key = strides.key;
    }
    number_weights(queries == 0 ? call.outputs[0] : call.inputs[0], queries == 0 ? call.out_global() : call.in_global(0));
  }

  /// One matrix of scores.
  struct Matrix {
    MatrixView<const T> q, k, v;  ///< k as [keys, depth]
    std::int64_t number, steps[kMostSteps];
    std::uint64_t first_weight;
  };
  REHEARSAL_BODY Matrix matrix(std::int64_t number) const {
    std::int64_t at[kOperands] = {}, rest = number;
    for (int d = rank_ - 1; d >= 0; --d) {
      const std::int64_t index = batch_[d].split(rest);
      for (int o = 0; o < kOperands; ++o) at[o] += index * strides_[o][d];
    }
    const MatrixView<const T> k{matrices_[kK] + at[kK], keys, depth, keys_last_ ? 1 : depth, keys_last_ ? keys : 1};
    Matrix m{{matrices_[kQ] + at[kQ], rows, depth, depth, 1}, k, {matrices_[kV] + at[kV], keys, width, width, 1}, number, {}, 0};
    for (int s = 0; s < kMostSteps; ++s) m.steps[s] = at[kFirstStep + s];
    m.first_weight = first_weight_ + static_cast<std::uint64_t>(at[kWeight]);
    return m;
  }

  /// From a product of q and k to what softmax reads.
  REHEARSAL_BODY R score(const Matrix& m, std::int64_t row, std::int64_t key, R x) const {
    for (int s = 0; s < steps_; ++s) {
      const auto& step = step_[s];
      if (step.kind == Kind::Scale)
        x *= step.number;
      else if (step.kind == Kind::Divide)
        x /= step.number;
      else if (step.kind == Kind::Add)
        x += real(static_cast<const T*>(step.operand)[m.steps[s] + row * step.row + key * step.key]);
      else if (hides(m, s, row, key))
        x = step.number;
    }
    return x;
  }
  /// True where no product changes that the score is as good as none: then whole tiles can be left out.
  REHEARSAL_BODY bool is_hidden(const Matrix& m, std::int64_t row, std::int64_t key) const {
    for (int s = steps_ - 1; s >= 0; --s) {
      const auto& step = step_[s];
      if (step.kind == Kind::Scale || step.kind == Kind::Divide) return false;
      if (step.kind != Kind::Add && hides(m, s, row, key)) return step.number <= R(kHidden);
      if (step.kind == Kind::Add && real(static_cast<const T*>(step.operand)[m.steps[s] + row * step.row + key * step.key]) <= R(kHidden))
        return true;
    }
    return false;
  }
  /// True when every row of a tile has seen keys before (`running`, of every own lane, has the largest score of its rows), and none of
  /// these.
  template <class Running>
  REHEARSAL_BODY bool sees_nothing(const Team& team, const Matrix& m, std::int64_t row, std::int64_t key, const Running* running) const {
    if (!may_hide) return false;
    bool nothing = true;
    for (int own = 0; own < kLanesOfThread; ++own) {
      const Lane lane = lane_of(team, own);
      for (int i = 0; i < kEach<R>; ++i) {
        const std::int64_t r = row + lane.row(i);
        nothing = nothing && (r >= rows || running[own].largest[i] > R(kSeen));
        for (int j = 0; j < kEach<R> && nothing && r < rows; ++j) {
          const std::int64_t k = key + lane.column(j);
          nothing = k >= keys || is_hidden(m, r, k);
        }
      }
    }
    return all_of_team(team, nothing);
  }
  /// Of a gradient of what softmax read, that of what step `until` made; -1: of the product.
  REHEARSAL_BODY R step_back(const Matrix& m, std::int64_t row, std::int64_t key, int until, R dx) const {
    for (int s = steps_ - 1; s > until; --s) {
      const auto& step = step_[s];
      if (step.kind == Kind::Scale) dx *= step.number;
      if (step.kind == Kind::Divide) dx /= step.number;
      if ((step.kind == Kind::HideElse || step.kind == Kind::HideWhere) && hides(m, s, row, key)) dx = R(0);
    }
    return dx;
  }
  /// A weight, or the gradient of a dropped one, behind dropout.
  REHEARSAL_BODY R dropped(const Matrix& m, std::int64_t row, std::int64_t key, R x) const {
    if (!drops) return x;
    const auto index = m.first_weight + static_cast<std::uint64_t>(row * keys + key);
    return keeping_.keeps(index) ? x * kept_factor : R(0);
  }

  std::int64_t rows, keys, depth, width;
  graph::AttentionProblem::Guard guard;
  bool drops, may_hide;  ///< may_hide: is_hidden() can be true
  R kept_factor;

 private:
  REHEARSAL_BODY bool hides(const Matrix& m, int s, std::int64_t row, std::int64_t key) const {
    const auto& step = step_[s];
    return static_cast<const bool*>(step.operand)[m.steps[s] + row * step.row + key * step.key] == (step.kind == Kind::HideWhere);
  }
  void set_strides(int operand, const graph::AttentionStrides& from) {
    for (int d = 0; d < rank_; ++d) strides_[operand][d] = from.batch[static_cast<std::size_t>(d)];
  }
  /// Numbers of weights in the unsplit tensor: all keys of a row stand together.
  void number_weights(const TensorView& view, const graph::Shape& global) {
    const auto origin = [&](int d) { return view.origin ? (*view.origin)[static_cast<std::size_t>(d)] : 0; };
    std::int64_t stride = global[static_cast<std::size_t>(rank_)] * keys, first = origin(rank_) * keys;
    for (int d = rank_ - 1; d >= 0; --d) {
      strides_[kWeight][d] = stride;
      first += origin(d) * stride;
      stride *= global[static_cast<std::size_t>(d)];
    }
    first_weight_ = static_cast<std::uint64_t>(first);
  }

  const T* matrices_[3] = {};
  Keeping keeping_;
  bool keys_last_;
  int rank_, steps_;
  Divider batch_[kMostBatch];
  std::int64_t strides_[kOperands][kMostBatch] = {};
  std::uint64_t first_weight_ = 0;
  ScoreStep<R> step_[kMostSteps] = {};
};

template <class R>
[[nodiscard]] constexpr std::int64_t tiles_along(std::int64_t elements) {
  return (elements + kSide<R> - 1) / kSide<R>;
}

}  // namespace rehearsal::exec::cuda
