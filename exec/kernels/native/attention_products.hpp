#pragma once
// The six products of attention and its gradient, in f32. Operands of 16 bits are widened a matrix or a block of rows at a time.

#include "exec/kernels/native/attention_blocks.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/attention_rows.hpp"

namespace rehearsal::exec::native {

/// Of one matrix of scores after the other, block of rows by block of rows.
template <class T>
class WideProducts {
 public:
  using Number = T;
  static constexpr std::int64_t kRowsOfTile = 6;

  WideProducts(const graph::AttentionProblem& p, Scratch& scratch, bool backward)
      : p_(p), b_(p, kRowsOfTile), backward_(backward), keys_(scratch.take(p.depth * b_.stride)) {
    if (backward) values_ = scratch.take(p.width * b_.stride);
    if (backward && p.keys_last) key_rows_ = scratch.take(p.keys * p.depth);
    if constexpr (kWidens) {
      room_ = {scratch.take(b_.rows * p.depth), scratch.take(p.keys * p.depth), scratch.take(p.keys * p.width),
               scratch.take(b_.rows * p.width)};
      if (backward) gradients_ = {scratch.take(b_.rows * p.depth), scratch.take(p.keys * p.depth), scratch.take(p.keys * p.width), nullptr};
    }
  }

  [[nodiscard]] const Blocking& blocking() const { return b_; }

  void load_matrix(const reference::AttentionRows& rows, std::int64_t number) {
    rows_ = &rows;
    if (number == number_) return;
    number_ = number;
    k_ = wide(rows.k<T>(number), p_.keys * p_.depth, room_.k);
    v_ = wide(rows.v<T>(number), p_.keys * p_.width, room_.v);
    if (p_.keys_last)
      for (std::int64_t d = 0; d < p_.depth; ++d) std::copy_n(k_ + d * p_.keys, p_.keys, keys_ + d * b_.stride);
    else
      lay_out(k_, p_.depth, keys_);
    if (!backward_) return;
    lay_out(v_, p_.width, values_);
    if (p_.keys_last) loops().attention.transpose(k_, p_.keys, key_rows_, p_.depth, p_.depth, p_.keys);
    dk_ = cleared(1, p_.keys * p_.depth, gradients_.k);
    dv_ = cleared(2, p_.keys * p_.width, gradients_.v);
  }

  void load_rows(std::int64_t row, std::int64_t count) {
    row_ = row;
    count_ = count;
    q_ = wide(rows_->q<T>(number_) + row * p_.depth, count * p_.depth, room_.q);
    if (backward_) dy_ = wide(rows_->call().in<T>(0) + (number_ * p_.rows + row) * p_.width, count * p_.width, room_.y);
  }

  /// x = q k'
  void scores(Keys keys, float* x) const {
    product({count_, whole(keys.count(), kLine), p_.depth, p_.depth, 1, b_.stride, b_.stride, p_.depth * b_.stride, false}, q_,
            keys_ + keys.first, x);
  }

  /// y = weights v
  void result(Keys keys, const float* weights) const {
    T* to = rows_->call().out<T>() + (number_ * p_.rows + row_) * p_.width;
    float* y = in_f32(to, room_.y);
    product({count_, p_.width, keys.count(), b_.stride, 1, p_.width, p_.width, (p_.keys - keys.first) * p_.width, false}, weights,
            v_ + keys.first * p_.width, y);
    store(y, to, count_ * p_.width);
  }

  /// dv += weights' dy
  void gradient_of_values(Keys keys, const float* weights) const {
    if (dv_ == nullptr) return;
    product({keys.count(), p_.width, count_, 1, b_.stride, p_.width, p_.width, count_ * p_.width, true}, weights, dy_,
            dv_ + keys.first * p_.width);
  }

  /// dweights = dy v'
  void gradient_of_weights(Keys keys, float* gradient) const {
    product({count_, whole(keys.count(), kLine), p_.width, p_.width, 1, b_.stride, b_.stride, p_.width * b_.stride, false}, dy_,
            values_ + keys.first, gradient);
  }

  /// dq = dscores k, dk += dscores' q
  void gradients_of_factors(Keys keys, const float* gradient) const {
    if (rows_->call().has_output(0)) {
      T* to = rows_->call().out<T>(0) + (number_ * p_.rows + row_) * p_.depth;
      float* dq = in_f32(to, gradients_.q);
      product({count_, p_.depth, keys.count(), b_.stride, 1, p_.depth, p_.depth, (p_.keys - keys.first) * p_.depth, false}, gradient,
              (p_.keys_last ? key_rows_ : k_) + keys.first * p_.depth, dq);
      store(dq, to, count_ * p_.depth);
    }
    if (dk_ == nullptr) return;
    if (p_.keys_last)
      product({p_.depth, keys.count(), count_, 1, p_.depth, b_.stride, p_.keys, b_.scores(), true}, q_, gradient, dk_ + keys.first);
    else
      product({keys.count(), p_.depth, count_, 1, b_.stride, p_.depth, p_.depth, count_ * p_.depth, true}, gradient, q_,
              dk_ + keys.first * p_.depth);
  }

  /// Of the matrix that was loaded, when all its rows are done.
  void store_gradients() const {
    const auto& call = rows_->call();
    if (dk_ != nullptr) store(dk_, call.out<T>(1) + number_ * p_.keys * p_.depth, p_.keys * p_.depth);
    if (dv_ != nullptr) store(dv_, call.out<T>(2) + number_ * p_.keys * p_.width, p_.keys * p_.width);
  }

 private:
  static constexpr bool kWidens = !std::is_same_v<T, float>;
  struct Room {
    float *q = nullptr, *k = nullptr, *v = nullptr, *y = nullptr;
  };

  static void product(const PlainProduct& m, const float* a, const float* b, float* c) { loops().attention.product(m, a, b, c); }
  static const float* wide(const T* from, std::int64_t count, float* room) {
    if constexpr (!kWidens) return from;
    loops_over<T>().to_f32(room, from, count);
    return room;
  }
  /// Where a result is made: in its place, or in f32 beside it.
  static float* in_f32(T* place, float* room) {
    if constexpr (kWidens)
      return room;
    else
      return place;
  }
  static void store(const float* from, T* to, std::int64_t count) {
    if constexpr (kWidens) loops_over<T>().from_f32(to, from, count);
  }

  /// Keys or values of `columns` numbers by columns, at b_.stride.
  void lay_out(const float* from, std::int64_t columns, float* to) const {
    loops().attention.transpose(from, columns, to, b_.stride, p_.keys, columns);
  }

  /// nullptr: not wanted.
  float* cleared(std::size_t o, std::int64_t count, float* room) const {
    const auto& call = rows_->call();
    if (!call.has_output(o)) return nullptr;
    float* first = in_f32(call.out<T>(o) + number_ * count, room);
    std::fill_n(first, count, 0.0F);
    return first;
  }

  graph::AttentionProblem p_;
  Blocking b_;
  bool backward_;
  const reference::AttentionRows* rows_ = nullptr;
  std::int64_t number_ = -1, row_ = 0, count_ = 0;
  Room room_, gradients_;            ///< of operands of 16 bits and their results
  float *keys_, *values_ = nullptr;  ///< by columns
  float* key_rows_ = nullptr;        ///< of keys that lie by columns
  const float *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *dy_ = nullptr;
  float *dk_ = nullptr, *dv_ = nullptr;
};

}  // namespace rehearsal::exec::native
