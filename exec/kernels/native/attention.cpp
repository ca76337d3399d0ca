// Attention and its gradient, by blocks of rows: scores of a block with all keys that its rows may see lie in the cache, and nowhere
// else. After FlashAttention (Dao et al. 2022), but for the blocks of keys: a core's cache holds whole rows of scores, so that softmax
// needs no second part, and the backward pass neither results nor sums of the forward pass.

#include <cmath>
#include <limits>
#include <utility>

#include "exec/kernels/native/attention_products.hpp"
#include "exec/kernels/native/attention_tiles.hpp"
#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

using graph::AttentionProblem;
using reference::AttentionRows;
using AttentionGuard = AttentionProblem::Guard;
using AttentionKind = graph::AttentionStep::Kind;

constexpr std::int64_t kFewKeys = 64;  ///< so many cost less than looking for those that are hidden
/// A score that no row with another one sees: e to such a power is 0. Where all scores of a row are near it, every key counts.
constexpr float kHidden = static_cast<float>(graph::kHidesScore), kSeen = -1e29F;

/// With the gradients of added operands, summed in f32: where they lie, or in `room` where they lie in 16 bits.
template <class T>
class SummingRows : public AttentionRows {
 public:
  SummingRows(const Call& call, std::size_t queries, float* room) : AttentionRows(call, queries) {
    for (std::size_t o = kFirstOfAdded; o < call.outputs.size(); ++o) {
      const std::int64_t count = graph::element_count(call.out_shape(o));
      if constexpr (std::is_same_v<T, float>)
        sums_.push_back(call.out<float>(o));
      else
        sums_.push_back(std::exchange(room, room + whole(count, kLine)));
      std::fill_n(sums_.back(), count, 0.0F);
    }
  }

  [[nodiscard]] Elements<float> gradient(std::size_t step, std::int64_t number, std::int64_t row) const {
    return AttentionRows::gradient(sums_[gradient_of(step) - kFirstOfAdded], step, number, row);
  }

  /// Rounds them, once.
  void store_sums() const {
    if constexpr (!std::is_same_v<T, float>)
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        const auto o = i + kFirstOfAdded;
        loops_over<T>().from_f32(call().out<T>(o), sums_[i], graph::element_count(call().out_shape(o)));
      }
  }

  /// Elements of the room that the gradients among these results want.
  [[nodiscard]] static std::int64_t room(std::span<const std::optional<graph::TensorType>> results) {
    std::int64_t elements = 0;
    for (std::size_t o = kFirstOfAdded; o < results.size() && !std::is_same_v<T, float>; ++o)
      elements += whole(graph::element_count(results[o]->shape), kLine);
    return elements;
  }

 private:
  static constexpr std::size_t kFirstOfAdded = 3;  ///< results before: dq, dk, dv

  std::vector<float*> sums_;
};

/// A row of one of the matrices of scores.
struct ScoreRow {
  std::int64_t number, row;
};

/// One matrix of scores after the other, block of rows by block of rows. Products makes the scores, and what follows from weights.
template <class Products>
class BlockWalk {
 public:
  using T = typename Products::Number;

  BlockWalk(const AttentionProblem& p, Scratch& scratch, bool backward)
      : p_(p),
        products_(p, scratch, backward),
        b_(products_.blocking()),
        weights_(scratch.take(b_.scores())),
        addends_(scratch.take(std::is_same_v<T, float> ? 0 : b_.padded)) {}

 protected:
  /// What no row of the block sees can be left out, but for rows that see nothing at all.
  [[nodiscard]] Keys seen(std::int64_t number, std::int64_t row, std::int64_t count) const {
    Keys all{0, p_.keys}, found = all;
    if (p_.keys <= kFewKeys) return all;
    bool scaled = false;
    for (std::size_t s = p_.steps.size(); s-- > 0 && !scaled;) {
      const auto& step = p_.steps[s];
      scaled = step.kind == AttentionKind::Scale || step.kind == AttentionKind::Divide;
      if (scaled || rows_->strides_of(s).key == 0 || (step.kind != AttentionKind::Add && static_cast<float>(step.number) > kHidden))
        continue;
      const Keys by = seen_by(s, number, row, rows_->strides_of(s).row == 0 ? 1 : count);
      if (by.count() <= 0) return all;
      found = {std::max(found.first, by.first), std::min(found.last, by.last)};
    }
    if (found.count() <= 0) return all;
    found.first -= found.first % kLine;
    return found;
  }

  [[nodiscard]] Keys seen_by(std::size_t s, std::int64_t number, std::int64_t row, std::int64_t count) const {
    const auto& step = p_.steps[s];
    Keys found{p_.keys, 0};
    for (std::int64_t r = row; r < row + count; ++r) {
      std::int64_t range[2];
      if (step.kind == AttentionKind::Add)
        loops().attention.range_above(addends(rows_->template elements<T>(s, number, r).first, p_.keys), p_.keys, kHidden, range);
      else
        loops().attention.range_shown(rows_->template elements<std::uint8_t>(s, number, r).first, p_.keys,
                                      step.kind == AttentionKind::HideWhere, range);
      if (range[0] == range[1]) return {0, 0};
      found = {std::min(found.first, range[0]), std::max(found.last, range[1])};
    }
    return found;
  }

  /// Weights of the rows of a block, dropout aside, for the keys that they see.
  Keys weigh(std::int64_t number, std::int64_t row, std::int64_t count) {
    Keys keys = seen(number, row, count);
    score(number, row, count, keys);
    bool hidden = false;
    for (std::int64_t r = 0; r < count && keys.count() < p_.keys; ++r)
      hidden = hidden || !(loops().attention.largest(weights_ + r * b_.stride, keys.count()) > kSeen);
    if (hidden) score(number, row, count, keys = {0, p_.keys});
    for (std::int64_t r = 0; r < count; ++r) {
      float* x = weights_ + r * b_.stride;
      const bool unseen = p_.guard == AttentionGuard::AllHidden && sees_nothing(x, keys.count());
      if (!unseen) loops_over<float>().softmax_row(x, x, keys.count());
      if (unseen || (p_.guard == AttentionGuard::NoNumber && std::isnan(x[0]))) std::fill_n(x, keys.count(), 0.0F);
    }
    return keys;
  }

  static bool sees_nothing(const float* x, std::int64_t count) {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    return x[0] == kNothing && std::all_of(x, x + count, [](float score) { return score == kNothing; });
  }

  void score(std::int64_t number, std::int64_t row, std::int64_t count, Keys keys) {
    products_.scores(keys, weights_);
    for (std::size_t s = 0; s < p_.steps.size(); ++s) step(s, {number, row}, keys, {weights_, count, keys.count(), b_.stride});
  }

  void step(std::size_t s, ScoreRow from, Keys keys, const ScoreRows& x) const {
    const auto& step = p_.steps[s];
    const auto value = static_cast<float>(step.number);
    const auto& l = loops().attention;
    if (step.kind == AttentionKind::Scale) return l.scale(x, value);
    if (step.kind == AttentionKind::Divide) return l.divide(x, value);
    if (step.kind != AttentionKind::Add) return hide(s, from, keys, x, value);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const auto added = rows_->template elements<T>(s, from.number, from.row + r);
      const float* row = addends(added.first + keys.first * added.stride, added.stride == 0 ? 1 : x.columns);
      l.add({x.first + r * x.stride, 1, x.columns, x.stride}, row, 0, added.stride);
    }
  }

  /// Numbers of an added operand in f32.
  [[nodiscard]] const float* addends(const T* from, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) return from;
    loops_over<T>().to_f32(addends_, from, count);
    return addends_;
  }

  void hide(std::size_t s, ScoreRow from, Keys keys, const ScoreRows& x, float value) const {
    const auto flags = rows_->template elements<std::uint8_t>(s, from.number, from.row);
    const HiddenBy by{flags.first + keys.first * flags.stride, rows_->strides_of(s).row, flags.stride,
                      p_.steps[s].kind == AttentionKind::HideWhere, value};
    loops().attention.hide(x, by);
  }

  /// y = weights as dropout leaves them.
  void drop(std::int64_t number, std::int64_t row, std::int64_t count, Keys keys, float* y) const {
    for (std::int64_t r = 0; r < count; ++r) {
      const auto first = rows_->first_weight(number, row + r) + static_cast<std::uint64_t>(keys.first);
      for (std::int64_t j = 0; j < keys.count(); ++j) {
        const auto kept = rows_->template kept<float>(first, j);
        y[r * b_.stride + j] = kept == 0 ? 0.0F : weights_[r * b_.stride + j] * kept;
      }
    }
  }

  const AttentionProblem& p_;
  const SummingRows<T>* rows_ = nullptr;
  Products products_;
  Blocking b_;
  float *weights_, *addends_;  ///< a block of scores; a row of an added operand of 16 bits
};

template <class Products>
class AttentionForward : BlockWalk<Products> {
  using Walk = BlockWalk<Products>;
  using Walk::b_, Walk::p_, Walk::products_, Walk::rows_, Walk::weights_;

 public:
  using Number = typename Products::Number;
  AttentionForward(const AttentionProblem& p, Scratch& scratch) : Walk(p, scratch, false) {}

  /// All blocks of all matrices, in `parts` of which this is one.
  void run(const SummingRows<Number>& rows, std::int64_t part, std::int64_t parts) {
    rows_ = &rows;
    const std::int64_t each = b_.rows, blocks = (p_.rows + each - 1) / each, all = p_.matrices() * blocks;
    for (std::int64_t i = part * all / parts; i < (part + 1) * all / parts; ++i)
      run_block(i / blocks, i % blocks * each, std::min(each, p_.rows - i % blocks * each));
  }

 private:
  void run_block(std::int64_t number, std::int64_t row, std::int64_t count) {
    products_.load_matrix(*rows_, number);
    products_.load_rows(row, count);
    const Keys keys = this->weigh(number, row, count);
    if (rows_->drops()) this->drop(number, row, count, keys, weights_);
    products_.result(keys, weights_);
  }
};

template <class Products>
class Backward : BlockWalk<Products> {
  using Walk = BlockWalk<Products>;
  using Walk::b_, Walk::p_, Walk::products_, Walk::rows_, Walk::weights_;

 public:
  using Number = typename Products::Number;
  Backward(const AttentionProblem& p, Scratch& scratch)
      : Walk(p, scratch, true), gradient_(scratch.take(b_.scores())), dropped_(p.ratio > 0 ? scratch.take(b_.scores()) : weights_) {}

  /// Of `parts` this one. Matrices that add to one gradient of a bias follow each other.
  void run(const SummingRows<Number>& rows, std::int64_t part, std::int64_t parts) {
    rows_ = &rows;
    const std::int64_t groups = rows.independent(), each = p_.matrices() / std::max<std::int64_t>(1, groups);
    for (std::int64_t group = part * groups / parts; group < (part + 1) * groups / parts; ++group)
      for (std::int64_t i = 0; i < each; ++i) run_matrix(i * groups + group);
  }

 private:
  void run_matrix(std::int64_t number) {
    products_.load_matrix(*rows_, number);
    for (std::int64_t row = 0; row < p_.rows; row += b_.rows) differentiate(number, row, std::min(b_.rows, p_.rows - row));
    products_.store_gradients();
  }

  void differentiate(std::int64_t number, std::int64_t row, std::int64_t count) {
    products_.load_rows(row, count);
    const Keys keys = this->weigh(number, row, count);
    if (rows_->drops()) this->drop(number, row, count, keys, dropped_);
    products_.gradient_of_values(keys, dropped_);
    products_.gradient_of_weights(keys, gradient_);
    for (std::int64_t r = 0; r < count; ++r) through_softmax(r, keys);
    for (std::size_t s = p_.steps.size(); s-- > 0;) step_back(s, {number, row}, keys, {gradient_, count, keys.count(), b_.stride});
    products_.gradients_of_factors(keys, gradient_);
  }

  void through_softmax(std::int64_t r, Keys keys) const {
    float *dx = gradient_ + r * b_.stride, *w = weights_ + r * b_.stride;
    const std::int64_t n = keys.count();
    if (rows_->drops()) loops().attention.keep(dx, dropped_ + r * b_.stride, n, static_cast<float>(1 / (1 - p_.ratio)));
    // a hidden row whose results were replaced (reference/softmax.cpp)
    if (!std::isnan(w[0]) || !std::all_of(dx, dx + n, [](float d) { return d == 0; }))
      loops_over<float>().softmax_gradient_row(dx, dx, w, n);
  }

  void step_back(std::size_t s, ScoreRow from, Keys keys, const ScoreRows& dx) const {
    const auto& step = p_.steps[s];
    const auto value = static_cast<float>(step.number);
    if (step.kind == AttentionKind::Scale) return loops().attention.scale(dx, value);
    if (step.kind == AttentionKind::Divide) return loops().attention.divide(dx, value);
    if (step.kind != AttentionKind::Add) return this->hide(s, from, keys, dx, 0.0F);
    for (std::int64_t r = 0; step.differentiated && r < dx.rows; ++r) {
      const auto to = rows_->gradient(s, from.number, from.row + r);
      const float* row = dx.first + r * dx.stride;
      if (to.stride == 1)
        loops_over<float>().add(to.first + keys.first, row, dx.columns);
      else
        for (std::int64_t j = 0; j < dx.columns; ++j) *to.first += row[j];
    }
  }

  float *gradient_, *dropped_;  ///< of a block of scores; its weights as dropout leaves them
};

template <class Walk>
std::int64_t elements_of(const AttentionProblem& p) {
  Scratch counting;
  const Walk walk(p, counting);
  return counting.elements();
}

/// Of so many threads, each with a part of the workspace behind the sums that all add to.
template <class Walk, std::size_t kQueries>
struct Run {
  using T = typename Walk::Number;

  static void run(const Call& call) {
    auto* workspace = static_cast<float*>(call.context.workspace);
    const SummingRows<T> rows(call, kQueries, workspace);
    const auto& p = rows.problem();
    const std::int64_t elements = elements_of<Walk>(p), first = SummingRows<T>::room(call.problem.outputs);
    const std::int64_t parts = std::max(1, call.threads());
    parallel_items(static_cast<int>(parts), parts, 1, [&](std::int64_t part) {
      Scratch scratch(workspace + first + part * elements);
      Walk(p, scratch).run(rows, part, parts);
    });
    rows.store_sums();
  }

  static std::unique_ptr<Kernel> make(const KernelRequest& request) {
    const auto elements = request.threads * elements_of<Walk>(graph::attention_problem(request.view(), kQueries));
    return make_kernel(request, run, (elements + SummingRows<T>::room(request.outputs)) * static_cast<std::int64_t>(sizeof(float)));
  }
};

template <template <class> class Walk, std::size_t kQueries>
std::unique_ptr<Kernel> make_attention(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const DType type = request.view().input(0).dtype;
  if (type == DType::F32) return Run<Walk<WideProducts<float>>, kQueries>::make(request);
  if (type == DType::BF16) return Run<Walk<WideProducts<Bf16>>, kQueries>::make(request);
  return Run<Walk<WideProducts<F16>>, kQueries>::make(request);
}

template <class Unit, template <class> class Walk, std::size_t kQueries>
std::unique_ptr<Kernel> make_tiled(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  if (const DType type = request.view().input(0).dtype; type != DType::BF16) {
    reason = "only bf16, not " + std::string(name(type));
    return nullptr;
  }
  return Unit::here(reason) ? Run<Walk<TileProducts<Unit>>, kQueries>::make(request) : nullptr;
}

constexpr KernelRow kAttentionRows[] = {
    {"Attention", "amx:attention", make_tiled<ByTiles, AttentionForward, 0>},
    {"AttentionGrad", "amx:attention", make_tiled<ByTiles, Backward, 1>},
    {"Attention", "dots:attention", make_tiled<ByDots, AttentionForward, 0>},
    {"AttentionGrad", "dots:attention", make_tiled<ByDots, Backward, 1>},
    {"Attention", "native:attention", make_attention<AttentionForward, 0>},
    {"AttentionGrad", "native:attention", make_attention<Backward, 1>},
};

}  // namespace

std::span<const KernelRow> attention_kernels() { return kAttentionRows; }

}  // namespace rehearsal::exec::native
