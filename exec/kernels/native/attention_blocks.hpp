#pragma once
// How kernels of attention cut a matrix of scores into blocks of rows, and where what they work on lies.

#include <algorithm>
#include <cstdint>

#include "graph/ops/attention.hpp"

namespace rehearsal::exec::native {

inline constexpr std::int64_t kLine = 16;  ///< f32 of a cache line; rows begin with one

/// The next multiple of `unit`.
[[nodiscard]] constexpr std::int64_t whole(std::int64_t count, std::int64_t unit) { return (count + unit - 1) / unit * unit; }

struct Blocking {
  std::int64_t rows;    ///< of a block of scores
  std::int64_t room;    ///< rows that there is room for: whole tiles
  std::int64_t padded;  ///< keys, in whole lines
  std::int64_t stride;  ///< between rows of scores and of transposed keys: no power of two, or they would evict each other

  /// Products make `tile` rows at a time.
  Blocking(const graph::AttentionProblem& p, std::int64_t tile) : padded(whole(p.keys, kLine)), stride(padded + kLine) {
    constexpr std::int64_t kBlock = 48 << 10;  // elements: two blocks and what they are made of fit into a second-level cache
    constexpr std::int64_t kMostRows = 96;
    const std::int64_t wanted = std::max<std::int64_t>(1, kBlock / stride / tile) * tile;
    rows = std::max<std::int64_t>(1, std::min({wanted, kMostRows, p.rows}));
    room = whole(rows, tile);
  }
  [[nodiscard]] std::int64_t scores() const { return room * stride; }
};

/// Keys from `first` on that the rows of a block see.
struct Keys {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] std::int64_t count() const { return last - first; }
};

/// Hands out parts of a kernel's workspace, each on a cache line; without memory it only counts.
class Scratch {
 public:
  explicit Scratch(float* memory = nullptr) : memory_(memory) {}
  /// `count` elements of 4 bytes, or as many of 2 bytes as they are.
  template <class T = float>
  [[nodiscard]] T* take(std::int64_t count) {
    const auto first = elements_;
    elements_ += whole((count * static_cast<std::int64_t>(sizeof(T)) + 3) / 4, kLine);
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + first);
  }
  [[nodiscard]] std::int64_t elements() const { return elements_; }  ///< f32 taken so far

 private:
  float* memory_;
  std::int64_t elements_ = 0;
};

}  // namespace rehearsal::exec::native
