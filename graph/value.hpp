#pragma once
// Values of small tensors, known while a graph is built (shapes, axes, masks), and where the
// values of large ones come from.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "graph/shape.hpp"

namespace rehearsal::graph {

/// A small tensor with values. Integers (and bool) live in `integers`, floats in `reals`; the other is empty.
struct Value {
  TensorType type;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;

  [[nodiscard]] bool integral() const { return is_integer(type.dtype); }
  [[nodiscard]] std::int64_t count() const { return element_count(type.shape); }
  [[nodiscard]] double real(std::int64_t i) const;           ///< element i of either kind as a double
  [[nodiscard]] std::int64_t integer(std::int64_t i) const;  ///< element i of either kind, truncated

  [[nodiscard]] static Value of_integers(std::vector<std::int64_t> values, Shape shape, DType dtype = DType::I64);
  [[nodiscard]] static Value of_reals(std::vector<double> values, Shape shape, DType dtype = DType::F32);
  [[nodiscard]] static Value vector(std::vector<std::int64_t> values);  ///< rank 1, int64
  [[nodiscard]] static Value scalar(double value, DType dtype);
};

/// A byte range of a file, row-major little-endian elements; mapped only when someone asks for the values.
struct FileRegion {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
/// Raw row-major little-endian elements held in memory.
struct InlineBytes {
  std::shared_ptr<const std::vector<std::byte>> data;
};
/// Every element has one value.
struct Fill {
  double value = 0;
};
/// Drawn element by element from random_normal / random_uniform(seed, stream, element index).
struct RandomNormal {
  double mean = 0, deviation = 1;
};
struct RandomUniform {
  double low = 0, high = 1;
};

/// Added to a score, it leaves nothing of what the score would have counted, in any type.
inline constexpr double kHidesScore = -1e30;

/// Where the initial values of a tensor come from. `monostate`: they are not known (initialised by rule, see graph/initialization.cpp).
struct Contents {
  using Source = std::variant<std::monostate, FileRegion, InlineBytes, Fill, RandomNormal, RandomUniform>;
  DType stored = DType::F32;  ///< element type of the file region or bytes; converted on reading
  Source source;
  /// Of masks [1, ..., n, n], where they were looked at: row r lets through elements 0 to r, and no later one. True and false, or what is
  /// added to scores: 0, and at most kHidesScore.
  bool is_causal_mask = false;
  [[nodiscard]] bool known() const { return !std::holds_alternative<std::monostate>(source); }
};

[[nodiscard]] Contents contents_of(const Value&);
/// All elements as doubles (integers exactly below 2^53). `seed` and `stream` feed random sources.
/// Throws BadInput naming the file when a region lies outside its file or a file is missing.
[[nodiscard]] std::vector<double> read_reals(const Contents&, const Shape&, std::uint64_t seed, std::uint64_t stream);
[[nodiscard]] std::vector<std::int64_t> read_integers(const Contents&, const Shape&);
/// What random contents are drawn from.
struct RandomStream {
  std::uint64_t seed = 0, stream = 0;
};
/// True where elements follow from their numbers: filled or drawn, not stored.
[[nodiscard]] bool is_made(const Contents&);
/// Elements first, first + 1, ...
struct ElementRange {
  std::int64_t first = 0, count = 0;
};
/// Writes that part of contents that are made, from `out` on; parts may be made side by side.
void make_into(const Contents&, ElementRange range, DType target, RandomStream random, void* out);
/// Writes the elements in `target` type to `out` (element_count(shape) elements); fast path when stored == target.
void read_into(const Contents&, const Shape&, DType target, RandomStream random, void* out);

}  // namespace rehearsal::graph
