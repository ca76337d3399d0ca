#pragma once
// The six products of attention and its gradient in bf16, by the processor's tiles or dot products. Factors are copied into whole tiles,
// zeros behind them; weights and gradients of scores, f32 in between, are rounded to bf16 when they become factors, as in FlashAttention
// (Dao et al. 2022).

#include "exec/kernels/native/amx_tiles.hpp"
#include "exec/kernels/native/attention_blocks.hpp"
#include "exec/kernels/native/bf16_dots.hpp"
#include "exec/kernels/native/native.hpp"
#include "exec/kernels/reference/attention_rows.hpp"

namespace rehearsal::exec::native {

/// What multiplies, and the rows and depth of which a product has a multiple.
struct ByTiles {
  static constexpr std::int64_t kRows = kTileRows, kDepth = kTileDepth;
  static bool here(std::string& reason) { return has_tiles(reason); }
  static void product(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) { tile_product(p, a, b, c); }
};
struct ByDots {
  static constexpr std::int64_t kRows = 1, kDepth = kLine;
  static bool here(std::string& reason) { return has_bf16_dots(reason); }
  static void product(const TileProduct& p, const std::uint16_t* a, const std::uint32_t* b, float* c) { dot_product(p, a, b, c); }
};

/// Of one matrix of scores after the other, block of rows by block of rows: as WideProducts.
template <class Unit>
class TileProducts {
 public:
  using Number = Bf16;
  static constexpr std::int64_t kRowsOfTile = Unit::kDepth;

  TileProducts(const graph::AttentionProblem& p, Scratch& scratch, bool backward);

  [[nodiscard]] const Blocking& blocking() const { return b_; }
  void load_matrix(const reference::AttentionRows& rows, std::int64_t number);
  void load_rows(std::int64_t row, std::int64_t count);
  void scores(Keys keys, float* x) const;
  void result(Keys keys, const float* weights) const;
  void gradient_of_values(Keys keys, const float* weights) const;
  void gradient_of_weights(Keys keys, float* gradient) const;
  void gradients_of_factors(Keys keys, const float* gradient) const;
  void store_gradients() const;

 private:
  /// A factor of `rows` x `columns` in whole tiles, with what the products read of it.
  struct Factor {
    std::uint16_t* rows = nullptr;     ///< [room][stride]
    std::uint32_t* columns = nullptr;  ///< its transpose by pairs: [stride / 2][stride of scores]
    std::uint32_t* pairs = nullptr;    ///< by pairs of rows: [room / 2][stride]
    std::int64_t room = 0, stride = 0;
  };
  void fill(const Factor& factor, const Bf16* from, std::int64_t rows, std::int64_t columns) const;
  void lay_out(const Factor& factor) const;
  /// A block of f32 as a factor: rows for its keys, and transposed.
  void round_block(Keys keys, const float* block, bool transposed) const;
  void store_rows(const float* from, std::int64_t stride, Bf16* to, std::int64_t rows, std::int64_t columns) const;
  [[nodiscard]] static constexpr std::int64_t tall(std::int64_t count) { return whole(count, Unit::kRows); }
  [[nodiscard]] static constexpr std::int64_t wide(std::int64_t count) { return whole(count, kTileColumns); }
  [[nodiscard]] static constexpr std::int64_t deep(std::int64_t count) { return whole(count, Unit::kDepth); }
  [[nodiscard]] bool wants(std::size_t o) const { return rows_->call().has_output(o); }

  graph::AttentionProblem p_;
  Blocking b_;
  bool backward_;
  std::int64_t depth_, width_, keys_room_;  ///< in whole tiles
  Factor k_, v_, q_, dy_;
  std::uint16_t *block_, *transposed_ = nullptr;  ///< [rows][keys], [keys][rows]
  float *result_, *dk_ = nullptr, *dv_ = nullptr;
  const reference::AttentionRows* rows_ = nullptr;
  std::int64_t number_ = -1, row_ = 0, count_ = 0;
};

}  // namespace rehearsal::exec::native
