#pragma once
// What the kernels of attention have in common: where the operands of a row lie, and which weights dropout keeps.

#include <vector>

#include "base/random.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/attention.hpp"

namespace rehearsal::exec::reference {

/// Attention or AttentionGrad as it runs on a rank.
class AttentionRows {
 public:
  /// `queries`: which operand q is, 0 forward, 1 backward. Operands and results stand in the order of graph/ops/attention.hpp.
  AttentionRows(const Call& call, std::size_t queries);

  [[nodiscard]] const graph::AttentionProblem& problem() const { return p_; }
  [[nodiscard]] const Call& call() const { return call_; }

  // First elements of the matrices that matrix `number` of the scores is made of.
  template <class T>
  [[nodiscard]] const T* q(std::int64_t number) const {
    return call_.in<T>(queries_) + strides_[0].offset(number, p_.batch);
  }
  template <class T>
  [[nodiscard]] const T* k(std::int64_t number) const {
    return call_.in<T>(queries_ + 1) + strides_[1].offset(number, p_.batch);
  }
  template <class T>
  [[nodiscard]] const T* v(std::int64_t number) const {
    return call_.in<T>(queries_ + 2) + strides_[2].offset(number, p_.batch);
  }

  /// Elements of a step's operand that belong to the keys of a row: the first, and how far they are apart (0: the same for all keys).
  template <class T>
  struct Elements {
    T* first;
    std::int64_t stride;
  };
  template <class T>
  [[nodiscard]] Elements<const T> elements(std::size_t step, std::int64_t number, std::int64_t row) const {
    return {call_.in<T>(operand_of(step)) + at(step, number, row), steps_[step].key};
  }
  /// The same of the gradient that a step wants of its operand, where that is result `gradient_of(step)` or summed from `sums` on.
  template <class T>
  [[nodiscard]] Elements<T> gradient(T* sums, std::size_t step, std::int64_t number, std::int64_t row) const {
    return {sums + at(step, number, row), steps_[step].key};
  }
  [[nodiscard]] std::size_t gradient_of(std::size_t step) const { return gradients_[step]; }
  [[nodiscard]] const graph::AttentionStrides& strides_of(std::size_t step) const { return steps_[step]; }
  /// Sets wanted gradients of added operands to 0.
  template <class T>
  void clear_gradients() const {
    for (std::size_t s = 0; s < p_.steps.size(); ++s)
      if (p_.steps[s].differentiated) std::fill_n(call_.out<T>(gradients_[s]), graph::element_count(call_.out_shape(gradients_[s])), T(0));
  }
  /// Matrices of which no two add to the same element of such a gradient: their numbers modulo this. 1 where that is not so simple.
  [[nodiscard]] std::int64_t independent() const;

  [[nodiscard]] bool drops() const { return p_.ratio > 0; }
  /// Of a weight for one key of a row: 0, or what a kept weight grows by.
  template <class T>
  [[nodiscard]] T kept(std::uint64_t first, std::int64_t key) const {
    const auto index = first + static_cast<std::uint64_t>(key);
    return random_uniform(seed_, static_cast<std::uint64_t>(p_.stream), index) >= p_.ratio ? static_cast<T>(factor_) : T(0);
  }
  /// Index in the unsplit tensor of weights of the first key of a row.
  [[nodiscard]] std::uint64_t first_weight(std::int64_t number, std::int64_t row) const;

 private:
  [[nodiscard]] std::size_t operand_of(std::size_t step) const { return queries_ + 3 + static_cast<std::size_t>(p_.steps[step].operand); }
  [[nodiscard]] std::int64_t at(std::size_t step, std::int64_t number, std::int64_t row) const {
    return steps_[step].offset(number, p_.batch) + row * steps_[step].row;
  }

  const Call& call_;
  graph::AttentionProblem p_;
  std::size_t queries_;
  std::vector<graph::AttentionStrides> strides_;  ///< of q, k, v
  std::vector<graph::AttentionStrides> steps_;    ///< by step; nothing where a step reads no operand
  std::vector<std::size_t> gradients_;            ///< by step: which result its operand's gradient is
  std::uint64_t seed_;
  double factor_;
};

}  // namespace rehearsal::exec::reference
