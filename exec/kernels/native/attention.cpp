// Attention and its gradient in f32, by blocks of rows: scores of a block with all keys that its rows may see lie in the cache, and nowhere
// else. After FlashAttention (Dao et al. 2022), but for the blocks of keys: a core's cache holds whole rows of scores, so that softmax
// needs no second part, and the backward pass neither results nor sums of the forward pass.

#include <cmath>
#include <limits>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/attention_rows.hpp"

namespace rehearsal::exec::native {
namespace {

using graph::AttentionProblem;
using reference::AttentionRows;
using Guard = AttentionProblem::Guard;
using Kind = graph::AttentionStep::Kind;

constexpr std::int64_t kLine = 16;  ///< elements of a cache line; rows begin with one
/// Elements of a block of scores: two of them and what they are made of fit into a second-level cache.
constexpr std::int64_t kBlock = 48 << 10;
constexpr std::int64_t kMostRows = 96, kRowsOfTile = 6;
constexpr std::int64_t kFewKeys = 64;  ///< so many cost less than looking for those that are hidden
/// A score that no row with another one sees: e to such a power is 0. Where all scores of a row are near it, every key counts.
constexpr float kHidden = -1e30F, kSeen = -1e29F;

struct Blocking {
  std::int64_t rows;    ///< of a block of scores
  std::int64_t padded;  ///< keys, in whole lines
  std::int64_t stride;  ///< between rows of scores and of transposed keys: no power of two, or they would evict each other

  explicit Blocking(const AttentionProblem& p) : padded((p.keys + kLine - 1) / kLine * kLine), stride(padded + kLine) {
    const std::int64_t wanted = std::max<std::int64_t>(1, kBlock / stride / kRowsOfTile) * kRowsOfTile;
    rows = std::max<std::int64_t>(1, std::min({wanted, kMostRows, p.rows}));
  }
  [[nodiscard]] std::int64_t scores() const { return rows * stride; }
};

constexpr std::int64_t lines(std::int64_t elements) { return (elements + kLine - 1) / kLine * kLine; }

/// A row of one of the matrices of scores.
struct ScoreRow {
  std::int64_t number, row;
};

/// Keys from `first` on that the rows of a block see.
struct Keys {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t count() const { return last - first; }
};

/// One matrix of scores after the other, block of rows by block of rows.
class BlockWalk {
 public:
  BlockWalk(const AttentionRows& rows, float* scratch) : rows_(rows), p_(rows.problem()), b_(p_), scratch_(scratch) {
    keys_ = take(p_.depth * b_.stride);
    weights_ = take(b_.scores());
  }

 protected:
  float* take(std::int64_t elements) {
    float* taken = scratch_;
    scratch_ += lines(elements);
    return taken;
  }

  /// `rows` x `columns` that lie by columns, at b_.stride.
  void lay_out(const float* from, std::int64_t rows, std::int64_t columns, float* to) const {
    loops().attention.transpose(from, columns, to, b_.stride, rows, columns);
  }

  void load_keys(std::int64_t number) {
    if (number == loaded_) return;
    loaded_ = number;
    const auto* k = rows_.k<float>(number);
    if (!p_.keys_last) return lay_out(k, p_.keys, p_.depth, keys_);
    for (std::int64_t d = 0; d < p_.depth; ++d) std::copy_n(k + d * p_.keys, p_.keys, keys_ + d * b_.stride);
  }

  /// What no row of the block sees can be left out, but for rows that see nothing at all.
  [[nodiscard]] Keys seen(std::int64_t number, std::int64_t row, std::int64_t count) const {
    Keys all{0, p_.keys}, found = all;
    if (p_.keys <= kFewKeys) return all;
    bool scaled = false;
    for (std::size_t s = p_.steps.size(); s-- > 0 && !scaled;) {
      const auto& step = p_.steps[s];
      scaled = step.kind == Kind::Scale || step.kind == Kind::Divide;
      if (scaled || rows_.strides_of(s).key == 0 || (step.kind != Kind::Add && static_cast<float>(step.number) > kHidden)) continue;
      const Keys by = seen_by(s, number, row, rows_.strides_of(s).row == 0 ? 1 : count);
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
      if (step.kind == Kind::Add)
        loops().attention.range_above(rows_.elements<float>(s, number, r).first, p_.keys, kHidden, range);
      else
        loops().attention.range_shown(rows_.elements<std::uint8_t>(s, number, r).first, p_.keys, step.kind == Kind::HideWhere, range);
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
      const bool unseen = p_.guard == Guard::AllHidden && sees_nothing(x, keys.count());
      if (!unseen) loops_over<float>().softmax_row(x, x, keys.count());
      if (unseen || (p_.guard == Guard::NoNumber && std::isnan(x[0]))) std::fill_n(x, keys.count(), 0.0F);
    }
    return keys;
  }

  static bool sees_nothing(const float* x, std::int64_t count) {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    return x[0] == kNothing && std::all_of(x, x + count, [](float score) { return score == kNothing; });
  }

  void score(std::int64_t number, std::int64_t row, std::int64_t count, Keys keys) {
    const float* q = rows_.q<float>(number) + row * p_.depth;
    loops().attention.product({count, lines(keys.count()), p_.depth, p_.depth, 1, b_.stride, b_.stride, p_.depth * b_.stride, false}, q,
                              keys_ + keys.first, weights_);
    for (std::size_t s = 0; s < p_.steps.size(); ++s) step(s, {number, row}, keys, {weights_, count, keys.count(), b_.stride});
  }

  void step(std::size_t s, ScoreRow from, Keys keys, const RowBlock& x) const {
    const auto& step = p_.steps[s];
    const auto value = static_cast<float>(step.number);
    const auto& l = loops().attention;
    if (step.kind == Kind::Scale) return l.scale(x, value);
    if (step.kind == Kind::Divide) return l.divide(x, value);
    if (step.kind != Kind::Add) return hide(s, from, keys, x, value);
    const auto added = rows_.elements<float>(s, from.number, from.row);
    l.add(x, added.first + keys.first * added.stride, rows_.strides_of(s).row, added.stride);
  }

  void hide(std::size_t s, ScoreRow from, Keys keys, const RowBlock& x, float value) const {
    const auto flags = rows_.elements<std::uint8_t>(s, from.number, from.row);
    const HiddenBy by{flags.first + keys.first * flags.stride, rows_.strides_of(s).row, flags.stride, p_.steps[s].kind == Kind::HideWhere,
                      value};
    loops().attention.hide(x, by);
  }

  /// y = weights as dropout leaves them.
  void drop(std::int64_t number, std::int64_t row, std::int64_t count, Keys keys, float* y) const {
    for (std::int64_t r = 0; r < count; ++r) {
      const auto first = rows_.first_weight(number, row + r) + static_cast<std::uint64_t>(keys.first);
      for (std::int64_t j = 0; j < keys.count(); ++j) {
        const auto kept = rows_.kept<float>(first, j);
        y[r * b_.stride + j] = kept == 0 ? 0.0F : weights_[r * b_.stride + j] * kept;
      }
    }
  }

  const AttentionRows& rows_;
  const AttentionProblem& p_;
  Blocking b_;
  float *keys_, *weights_;  ///< keys by columns; a block of scores

 private:
  float* scratch_;
  std::int64_t loaded_ = -1;
};

class AttentionForward : BlockWalk {
 public:
  using BlockWalk::BlockWalk;
  static std::int64_t scratch(const AttentionProblem& p) {
    const Blocking b(p);
    return lines(p.depth * b.stride) + lines(b.scores());
  }

  void run(std::int64_t number, std::int64_t row, std::int64_t count) {
    load_keys(number);
    const Keys keys = weigh(number, row, count);
    if (rows_.drops()) drop(number, row, count, keys, weights_);
    const float* v = rows_.v<float>(number) + keys.first * p_.width;
    float* y = rows_.call().out<float>() + (number * p_.rows + row) * p_.width;
    loops().attention.product({count, p_.width, keys.count(), b_.stride, 1, p_.width, p_.width, (p_.keys - keys.first) * p_.width, false},
                              weights_, v, y);
  }
};

class Backward : BlockWalk {
 public:
  Backward(const AttentionRows& rows, float* scratch) : BlockWalk(rows, scratch) {
    values_ = take(p_.width * b_.stride);
    gradient_ = take(b_.scores());
    dropped_ = rows_.drops() ? take(b_.scores()) : weights_;
    if (p_.keys_last) key_rows_ = take(p_.keys * p_.depth);
  }
  static std::int64_t scratch(const AttentionProblem& p) {
    const Blocking b(p);
    return lines(p.depth * b.stride) + lines(p.width * b.stride) + (p.ratio > 0 ? 3 : 2) * lines(b.scores()) +
           (p.keys_last ? lines(p.keys * p.depth) : 0);
  }

  void run(std::int64_t number) {
    load_keys(number);
    lay_out(rows_.v<float>(number), p_.keys, p_.width, values_);
    if (p_.keys_last) loops().attention.transpose(rows_.k<float>(number), p_.keys, key_rows_, p_.depth, p_.depth, p_.keys);
    dk_ = cleared(1, number, p_.keys * p_.depth);
    dv_ = cleared(2, number, p_.keys * p_.width);
    for (std::int64_t row = 0; row < p_.rows; row += b_.rows) differentiate(number, row, std::min(b_.rows, p_.rows - row));
  }

 private:
  /// nullptr: not wanted.
  float* cleared(std::size_t o, std::int64_t number, std::int64_t count) const {
    if (!rows_.call().has_output(o)) return nullptr;
    float* first = rows_.call().out<float>(o) + number * count;
    std::fill_n(first, count, 0.0F);
    return first;
  }

  void differentiate(std::int64_t number, std::int64_t row, std::int64_t count) {
    const Keys keys = weigh(number, row, count);
    if (rows_.drops()) drop(number, row, count, keys, dropped_);
    const auto& product = loops().attention.product;
    const float* dy = rows_.call().in<float>(0) + (number * p_.rows + row) * p_.width;
    if (dv_ != nullptr)
      product({keys.count(), p_.width, count, 1, b_.stride, p_.width, p_.width, (p_.rows - row) * p_.width, true}, dropped_, dy,
              dv_ + keys.first * p_.width);
    product({count, lines(keys.count()), p_.width, p_.width, 1, b_.stride, b_.stride, p_.width * b_.stride, false}, dy,
            values_ + keys.first, gradient_);
    for (std::int64_t r = 0; r < count; ++r) through_softmax(r, keys);
    for (std::size_t s = p_.steps.size(); s-- > 0;) step_back(s, {number, row}, keys, {gradient_, count, keys.count(), b_.stride});
    to_factors(number, row, count, keys);
  }

  void through_softmax(std::int64_t r, Keys keys) const {
    float *dx = gradient_ + r * b_.stride, *w = weights_ + r * b_.stride;
    const std::int64_t n = keys.count();
    if (rows_.drops()) loops().attention.keep(dx, dropped_ + r * b_.stride, n, static_cast<float>(1 / (1 - p_.ratio)));
    // a hidden row whose results were replaced (reference/softmax.cpp)
    if (!std::isnan(w[0]) || !std::all_of(dx, dx + n, [](float d) { return d == 0; }))
      loops_over<float>().softmax_gradient_row(dx, dx, w, n);
  }

  void step_back(std::size_t s, ScoreRow from, Keys keys, const RowBlock& dx) const {
    const auto& step = p_.steps[s];
    const auto value = static_cast<float>(step.number);
    if (step.kind == Kind::Scale) return loops().attention.scale(dx, value);
    if (step.kind == Kind::Divide) return loops().attention.divide(dx, value);
    if (step.kind != Kind::Add) return hide(s, from, keys, dx, 0.0F);
    for (std::int64_t r = 0; step.differentiated && r < dx.rows; ++r) {
      const auto to = rows_.gradient<float>(s, from.number, from.row + r);
      const float* row = dx.first + r * dx.stride;
      if (to.stride == 1)
        loops_over<float>().add(to.first + keys.first, row, dx.columns);
      else
        for (std::int64_t j = 0; j < dx.columns; ++j) *to.first += row[j];
    }
  }

  void to_factors(std::int64_t number, std::int64_t row, std::int64_t count, Keys keys) const {
    const auto& call = rows_.call();
    const auto& product = loops().attention.product;
    if (call.has_output(0)) {
      const float* k = (p_.keys_last ? key_rows_ : rows_.k<float>(number)) + keys.first * p_.depth;
      product({count, p_.depth, keys.count(), b_.stride, 1, p_.depth, p_.depth, (p_.keys - keys.first) * p_.depth, false}, gradient_, k,
              call.out<float>(0) + (number * p_.rows + row) * p_.depth);
    }
    if (dk_ == nullptr) return;
    const float* q = rows_.q<float>(number) + row * p_.depth;
    if (p_.keys_last)
      product({p_.depth, keys.count(), count, 1, p_.depth, b_.stride, p_.keys, b_.scores(), true}, q, gradient_, dk_ + keys.first);
    else
      product({keys.count(), p_.depth, count, 1, b_.stride, p_.depth, p_.depth, (p_.rows - row) * p_.depth, true}, gradient_, q,
              dk_ + keys.first * p_.depth);
  }

  float *values_, *gradient_, *dropped_;  ///< values by columns; gradients of a block of scores; its weights as dropout leaves them
  float* key_rows_ = nullptr;             ///< of keys that lie by columns
  float *dk_ = nullptr, *dv_ = nullptr;
};

void run_attention(const Call& call) {
  const AttentionRows rows(call, 0);
  const auto& p = rows.problem();
  const std::int64_t each = Blocking(p).rows, blocks = (p.rows + each - 1) / each, all = p.matrices() * blocks;
  const std::int64_t parts = std::max<std::int64_t>(1, std::min<std::int64_t>(call.threads(), all)), scratch = AttentionForward::scratch(p);
  parallel_items(static_cast<int>(parts), parts, 1, [&](std::int64_t part) {
    AttentionForward forward(rows, static_cast<float*>(call.context.workspace) + part * scratch);
    for (std::int64_t i = part * all / parts; i < (part + 1) * all / parts; ++i)
      forward.run(i / blocks, i % blocks * each, std::min(each, p.rows - i % blocks * each));
  });
}

/// Matrices that add to one gradient of a bias follow each other.
void run_gradient(const Call& call) {
  const AttentionRows rows(call, 1);
  rows.clear_gradients<float>();
  const auto& p = rows.problem();
  const std::int64_t groups = rows.independent(), each = p.matrices() / std::max<std::int64_t>(1, groups), scratch = Backward::scratch(p);
  const std::int64_t parts = std::max<std::int64_t>(1, std::min<std::int64_t>(call.threads(), groups));
  parallel_items(static_cast<int>(parts), parts, 1, [&](std::int64_t part) {
    Backward backward(rows, static_cast<float*>(call.context.workspace) + part * scratch);
    for (std::int64_t group = part * groups / parts; group < (part + 1) * groups / parts; ++group)
      for (std::int64_t i = 0; i < each; ++i) backward.run(i * groups + group);
  });
}

template <Body kBody, class Walk, std::size_t kQueries>
std::unique_ptr<Kernel> make_attention(const KernelRequest& request, std::string& reason) {
  if (!takes_f32(request, reason)) return nullptr;
  const auto bytes = Walk::scratch(graph::attention_problem(request.view(), kQueries)) * static_cast<std::int64_t>(sizeof(float));
  return make_kernel(request, kBody, request.threads * bytes);
}

constexpr KernelRow kAttentionRows[] = {
    {"Attention", "native:attention", make_attention<run_attention, AttentionForward, 0>},
    {"AttentionGrad", "native:attention", make_attention<run_gradient, Backward, 1>},
};

}  // namespace

std::span<const KernelRow> attention_kernels() { return kAttentionRows; }

}  // namespace rehearsal::exec::native
