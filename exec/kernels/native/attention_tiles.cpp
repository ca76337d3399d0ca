#include "exec/kernels/native/attention_tiles.hpp"

namespace rehearsal::exec::native {

template <class Unit>
TileProducts<Unit>::TileProducts(const graph::AttentionProblem& p, Scratch& scratch, bool backward)
    : p_(p),
      b_(p, kRowsOfTile),
      backward_(backward),
      depth_(deep(p.depth)),
      width_(deep(p.width)),
      keys_room_(deep(p.keys) + Unit::kDepth) {
  const auto factor = [&](std::int64_t room, std::int64_t stride, bool columns, bool pairs) {
    Factor f{scratch.take<std::uint16_t>(room * stride), nullptr, nullptr, room, stride};
    if (columns) f.columns = scratch.take<std::uint32_t>(stride / 2 * b_.stride);
    if (pairs) f.pairs = scratch.take<std::uint32_t>(room / 2 * stride);
    return f;
  };
  k_ = factor(keys_room_, depth_, true, backward);
  v_ = factor(keys_room_, width_, backward, !backward);
  q_ = factor(b_.room, depth_, false, backward);
  block_ = scratch.take<std::uint16_t>(b_.room * keys_room_);
  result_ = scratch.take(b_.room * std::max(depth_, width_));
  if (!backward) return;
  dy_ = factor(b_.room, width_, false, true);
  transposed_ = scratch.take<std::uint16_t>(keys_room_ * b_.room);
  dk_ = scratch.take(keys_room_ * depth_);
  dv_ = scratch.take(keys_room_ * width_);
}

/// Zeros behind `rows` rows and `columns` columns.
template <class Unit>
void TileProducts<Unit>::fill(const Factor& f, const Bf16* from, std::int64_t rows, std::int64_t columns) const {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint16_t* to = f.rows + r * f.stride;
    std::copy_n(bits + r * columns, columns, to);
    std::fill(to + columns, to + f.stride, std::uint16_t{0});
  }
  std::fill(f.rows + rows * f.stride, f.rows + f.room * f.stride, std::uint16_t{0});
}

template <class Unit>
void TileProducts<Unit>::lay_out(const Factor& f) const {
  if (f.columns != nullptr)
    loops().transpose32(reinterpret_cast<const std::uint32_t*>(f.rows), f.stride / 2, f.columns, b_.stride, b_.padded, f.stride / 2);
  if (f.pairs != nullptr) loops().pair_rows(f.rows, f.stride, f.pairs, f.stride, f.room / 2, f.stride);
}

template <class Unit>
void TileProducts<Unit>::load_matrix(const reference::AttentionRows& rows, std::int64_t number) {
  rows_ = &rows;
  if (number == number_) return;
  number_ = number;
  if (p_.keys_last) {
    std::fill_n(k_.rows, k_.room * k_.stride, std::uint16_t{0});
    loops().transpose16(reinterpret_cast<const std::uint16_t*>(rows.k<Bf16>(number)), p_.keys, k_.rows, k_.stride, p_.depth, p_.keys);
  } else {
    fill(k_, rows.k<Bf16>(number), p_.keys, p_.depth);
  }
  fill(v_, rows.v<Bf16>(number), p_.keys, p_.width);
  lay_out(k_);
  lay_out(v_);
  if (!backward_) return;
  std::fill_n(dk_, keys_room_ * depth_, 0.0F);
  std::fill_n(dv_, keys_room_ * width_, 0.0F);
}

template <class Unit>
void TileProducts<Unit>::load_rows(std::int64_t row, std::int64_t count) {
  row_ = row;
  count_ = count;
  fill(q_, rows_->q<Bf16>(number_) + row * p_.depth, count, p_.depth);
  lay_out(q_);
  if (!backward_) return;
  fill(dy_, rows_->call().in<Bf16>(0) + (number_ * p_.rows + row) * p_.width, count, p_.width);
  lay_out(dy_);
}

/// x = q k'
template <class Unit>
void TileProducts<Unit>::scores(Keys keys, float* x) const {
  Unit::product({tall(count_), wide(keys.count()), depth_, depth_, b_.stride, b_.stride, false}, q_.rows, k_.columns + keys.first, x);
}

template <class Unit>
void TileProducts<Unit>::round_block(Keys keys, const float* block, bool transposed) const {
  const std::int64_t columns = deep(keys.count()), rows = deep(count_);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint16_t* to = block_ + r * keys_room_;
    if (r < count_) loops().bf16.from_f32(reinterpret_cast<Bf16*>(to), block + r * b_.stride, keys.count());
    std::fill(to + (r < count_ ? keys.count() : 0), to + columns, std::uint16_t{0});
  }
  if (transposed) loops().transpose16(block_, keys_room_, transposed_, b_.room, rows, columns);
}

template <class Unit>
void TileProducts<Unit>::store_rows(const float* from, std::int64_t stride, Bf16* to, std::int64_t rows, std::int64_t columns) const {
  for (std::int64_t r = 0; r < rows; ++r) loops().bf16.from_f32(to + r * columns, from + r * stride, columns);
}

/// y = weights v
template <class Unit>
void TileProducts<Unit>::result(Keys keys, const float* weights) const {
  round_block(keys, weights, false);
  Unit::product({tall(count_), wide(p_.width), deep(keys.count()), keys_room_, width_, width_, false}, block_,
                v_.pairs + keys.first / 2 * width_, result_);
  store_rows(result_, width_, rows_->call().out<Bf16>() + (number_ * p_.rows + row_) * p_.width, count_, p_.width);
}

/// dv += weights' dy
template <class Unit>
void TileProducts<Unit>::gradient_of_values(Keys keys, const float* weights) const {
  if (!wants(2)) return;
  round_block(keys, weights, true);
  Unit::product({tall(keys.count()), wide(p_.width), deep(count_), b_.room, width_, width_, true}, transposed_, dy_.pairs,
                dv_ + keys.first * width_);
}

/// dweights = dy v'
template <class Unit>
void TileProducts<Unit>::gradient_of_weights(Keys keys, float* gradient) const {
  Unit::product({tall(count_), wide(keys.count()), width_, width_, b_.stride, b_.stride, false}, dy_.rows, v_.columns + keys.first,
                gradient);
}

/// dq = dscores k, dk += dscores' q
template <class Unit>
void TileProducts<Unit>::gradients_of_factors(Keys keys, const float* gradient) const {
  round_block(keys, gradient, wants(1));
  if (wants(0)) {
    Unit::product({tall(count_), wide(p_.depth), deep(keys.count()), keys_room_, depth_, depth_, false}, block_,
                  k_.pairs + keys.first / 2 * depth_, result_);
    store_rows(result_, depth_, rows_->call().out<Bf16>(0) + (number_ * p_.rows + row_) * p_.depth, count_, p_.depth);
  }
  if (wants(1))
    Unit::product({tall(keys.count()), wide(p_.depth), deep(count_), b_.room, depth_, depth_, true}, transposed_, q_.pairs,
                  dk_ + keys.first * depth_);
}

template <class Unit>
void TileProducts<Unit>::store_gradients() const {
  const auto& call = rows_->call();
  if (wants(2)) store_rows(dv_, width_, call.out<Bf16>(2) + number_ * p_.keys * p_.width, p_.keys, p_.width);
  if (!wants(1)) return;
  Bf16* dk = call.out<Bf16>(1) + number_ * p_.keys * p_.depth;
  if (!p_.keys_last) return store_rows(dk_, depth_, dk, p_.keys, p_.depth);
  store_rows(dk_, depth_, reinterpret_cast<Bf16*>(k_.rows), p_.keys, depth_);  // the keys are not read again
  loops().transpose16(k_.rows, depth_, reinterpret_cast<std::uint16_t*>(dk), p_.keys, p_.keys, p_.depth);
}

template class TileProducts<ByTiles>;
template class TileProducts<ByDots>;

}  // namespace rehearsal::exec::native
