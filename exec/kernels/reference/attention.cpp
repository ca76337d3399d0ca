// Attention and its gradient, row by row: what they mean.

#include <cmath>
#include <limits>
#include <vector>

#include "exec/kernels/reference/attention_rows.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/partial_sums.hpp"

namespace rehearsal::exec::reference {
namespace {

using AttentionGuard = graph::AttentionProblem::Guard;
using AttentionKind = graph::AttentionStep::Kind;

template <class T>
T dropped(T x, T factor) {
  return factor == 0 ? T(0) : x * factor;
}

/// One row of one matrix of the scores.
template <class T>
class AttentionRow {
 public:
  AttentionRow(const AttentionRows& rows, std::int64_t number, std::int64_t row)
      : rows_(rows), p_(rows.problem()), number_(number), row_(row) {}

  /// Weights of all keys, dropout aside.
  void weigh(std::vector<T>& x) const {
    x.assign(static_cast<std::size_t>(p_.keys), T(0));
    multiply_keys(x);
    for (std::size_t s = 0; s < p_.steps.size(); ++s) step(s, x);
    if (x.empty()) return;
    T largest = x[0];
    for (const T score : x) largest = std::max(largest, score);
    if (p_.guard == AttentionGuard::AllHidden &&
        std::all_of(x.begin(), x.end(), [](T score) { return score == -std::numeric_limits<T>::infinity(); }))
      return x.assign(x.size(), T(0));
    for (T& score : x) score = std::exp(score - largest);
    const double sum = sum_of(p_.keys, [&](std::int64_t j) { return static_cast<double>(x[static_cast<std::size_t>(j)]); });
    const T factor = static_cast<T>(1.0 / sum);
    for (T& weight : x) weight = p_.guard == AttentionGuard::NoNumber && std::isnan(weight * factor) ? T(0) : weight * factor;
  }

  /// What dropout multiplies weights by; what it drops is 0, even of no number.
  void keep(std::vector<T>& factors) const {
    factors.assign(static_cast<std::size_t>(p_.keys), T(1));
    if (!rows_.drops()) return;
    const auto first = rows_.first_weight(number_, row_);
    for (std::int64_t j = 0; j < p_.keys; ++j) factors[static_cast<std::size_t>(j)] = rows_.kept<T>(first, j);
  }

  /// From gradients of scores as softmax read them to those of the product, with what is added up on the way.
  void step_back(std::vector<T>& dx) const {
    for (std::size_t s = p_.steps.size(); s-- > 0;) {
      const auto& step = p_.steps[s];
      if (step.kind == AttentionKind::Scale) std::for_each(dx.begin(), dx.end(), [&](T& d) { d *= static_cast<T>(step.number); });
      if (step.kind == AttentionKind::Divide) std::for_each(dx.begin(), dx.end(), [&](T& d) { d /= static_cast<T>(step.number); });
      if (step.kind == AttentionKind::HideElse || step.kind == AttentionKind::HideWhere) hide(s, dx, T(0));
      if (step.differentiated) {
        const auto to = rows_.gradient(rows_.call().template out<T>(rows_.gradient_of(s)), s, number_, row_);
        for (std::size_t j = 0; j < dx.size(); ++j) to.first[static_cast<std::int64_t>(j) * to.stride] += dx[j];
      }
    }
  }

  /// Between neighbours along the keys and along the depth of k.
  [[nodiscard]] std::int64_t key_step() const { return p_.keys_last ? 1 : p_.depth; }
  [[nodiscard]] std::int64_t depth_step() const { return p_.keys_last ? p_.keys : 1; }

 private:
  void multiply_keys(std::vector<T>& x) const {
    const T *q = rows_.q<T>(number_) + row_ * p_.depth, *k = rows_.k<T>(number_);
    for (std::int64_t d = 0; d < p_.depth; ++d)
      for (std::int64_t j = 0; j < p_.keys; ++j) x[static_cast<std::size_t>(j)] += q[d] * k[d * depth_step() + j * key_step()];
  }

  void step(std::size_t s, std::vector<T>& x) const {
    const auto& step = p_.steps[s];
    const T number = static_cast<T>(step.number);
    if (step.kind == AttentionKind::Scale) std::for_each(x.begin(), x.end(), [&](T& score) { score *= number; });
    if (step.kind == AttentionKind::Divide) std::for_each(x.begin(), x.end(), [&](T& score) { score /= number; });
    if (step.kind == AttentionKind::HideElse || step.kind == AttentionKind::HideWhere) hide(s, x, number);
    if (step.kind != AttentionKind::Add) return;
    const auto added = rows_.elements<T>(s, number_, row_);
    for (std::size_t j = 0; j < x.size(); ++j) x[j] += added.first[static_cast<std::int64_t>(j) * added.stride];
  }

  void hide(std::size_t s, std::vector<T>& x, T number) const {
    const auto flags = rows_.elements<bool>(s, number_, row_);
    const bool hidden = p_.steps[s].kind == AttentionKind::HideWhere;
    for (std::size_t j = 0; j < x.size(); ++j)
      if (flags.first[static_cast<std::int64_t>(j) * flags.stride] == hidden) x[j] = number;
  }

  const AttentionRows& rows_;
  const graph::AttentionProblem& p_;
  std::int64_t number_, row_;
};

struct ReferenceAttention {
  template <class T>
  static void run(const Call& call) {
    const AttentionRows rows(call, 0);
    const auto& p = rows.problem();
    parallel_ranges(call.threads(), p.matrices() * p.rows, 1, [&](std::int64_t first, std::int64_t last) {
      std::vector<T> weights, kept;
      for (std::int64_t i = first; i < last; ++i) {
        const AttentionRow<T> row(rows, i / p.rows, i % p.rows);
        row.weigh(weights);
        row.keep(kept);
        const T* v = rows.v<T>(i / p.rows);
        T* y = call.out<T>() + i * p.width;
        std::fill_n(y, p.width, T(0));
        for (std::int64_t j = 0; j < p.keys; ++j) {
          const T weight = dropped(weights[static_cast<std::size_t>(j)], kept[static_cast<std::size_t>(j)]);
          for (std::int64_t c = 0; c < p.width; ++c) y[c] += weight * v[j * p.width + c];
        }
      }
    });
  }
};

template <class T>
class Gradient {
 public:
  explicit Gradient(const AttentionRows& rows) : rows_(rows), p_(rows.problem()), call_(rows.call()) {}

  /// Of one matrix of the scores.
  void run(std::int64_t number) {
    dq_ = result(0, number, p_.rows * p_.depth);
    dk_ = result(1, number, p_.keys * p_.depth);
    dv_ = result(2, number, p_.keys * p_.width);
    for (std::int64_t r = 0; r < p_.rows; ++r) differentiate(number, r);
  }

 private:
  /// nullptr: not wanted.
  T* result(std::size_t o, std::int64_t number, std::int64_t count) {
    if (!call_.has_output(o)) return nullptr;
    T* first = call_.out<T>(o) + number * count;
    std::fill_n(first, count, T(0));
    return first;
  }

  void differentiate(std::int64_t number, std::int64_t r) {
    const AttentionRow<T> row(rows_, number, r);
    row.weigh(weights_);
    row.keep(kept_);
    const T *dy = call_.in<T>(0) + (number * p_.rows + r) * p_.width, *v = rows_.v<T>(number);
    dx_.resize(weights_.size());
    for (std::size_t j = 0; j < dx_.size(); ++j) {
      const auto at = static_cast<std::int64_t>(j) * p_.width;
      T product = 0;
      for (std::int64_t c = 0; c < p_.width; ++c) product += dy[c] * v[at + c];
      if (dv_ != nullptr)
        for (std::int64_t c = 0; c < p_.width; ++c) dv_[at + c] += dropped(weights_[j], kept_[j]) * dy[c];
      dx_[j] = dropped(product, kept_[j]);
    }
    through_softmax();
    row.step_back(dx_);
    to_factors(row, number, r);
  }

  /// dx = w (dw - sum of dw w); 0 of a row that sees no key and whose results nobody used.
  void through_softmax() {
    if (dx_.empty()) return;
    const bool unused = std::all_of(dx_.begin(), dx_.end(), [](T d) { return d == 0; });
    if (unused && std::isnan(weights_[0])) return;
    const T sum = static_cast<T>(sum_of(p_.keys, [&](std::int64_t j) {
      const auto at = static_cast<std::size_t>(j);
      return static_cast<double>(dx_[at]) * static_cast<double>(weights_[at]);
    }));
    for (std::size_t j = 0; j < dx_.size(); ++j) dx_[j] = weights_[j] * (dx_[j] - sum);
  }

  void to_factors(const AttentionRow<T>& row, std::int64_t number, std::int64_t r) {
    const T *q = rows_.q<T>(number) + r * p_.depth, *k = rows_.k<T>(number);
    for (std::int64_t d = 0; d < p_.depth; ++d) {
      const std::int64_t first = d * row.depth_step();
      T sum = 0;
      for (std::int64_t j = 0; j < p_.keys; ++j) sum += dx_[static_cast<std::size_t>(j)] * k[first + j * row.key_step()];
      if (dq_ != nullptr) dq_[r * p_.depth + d] = sum;
      if (dk_ == nullptr) continue;
      for (std::int64_t j = 0; j < p_.keys; ++j) dk_[first + j * row.key_step()] += dx_[static_cast<std::size_t>(j)] * q[d];
    }
  }

  const AttentionRows& rows_;
  const graph::AttentionProblem& p_;
  const Call& call_;
  T *dq_ = nullptr, *dk_ = nullptr, *dv_ = nullptr;
  std::vector<T> weights_, kept_, dx_;
};

struct AttentionGrad {
  template <class T>
  static void run(const Call& call) {
    const AttentionRows rows(call, 1);
    rows.clear_gradients<T>();
    const std::int64_t groups = rows.independent(), each = rows.problem().matrices() / std::max<std::int64_t>(1, groups);
    parallel_items(call.threads(), groups, 1, [&](std::int64_t group) {
      Gradient<T> gradient(rows);
      for (std::int64_t i = 0; i < each; ++i) gradient.run(i * groups + group);
    });
  }
};

constexpr KernelRow kAttentionRows[] = {
    {"Attention", "reference:any", make_by_output<ReferenceAttention, Floats>},
    {"AttentionGrad", "reference:any", make_by_input<AttentionGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> attention_kernels() { return kAttentionRows; }

}  // namespace rehearsal::exec::reference
