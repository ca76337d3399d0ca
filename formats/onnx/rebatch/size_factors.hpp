#pragma once
// Sizes as ordered products. A file that was exported at a fixed batch mixes the batch with other sizes ([batch * heads, rows, 64]);
// the order of the factors says how a Reshape takes them apart again.

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/shape.hpp"

namespace rehearsal::formats {

/// The batch that a file was exported with, and the prime that stands for another one while dependences are found.
struct Batches {
  std::int64_t written = 0, probe = 0;
};

/// A part of a size: a constant, the batch, or another quantity that changes with it (batch + 1), which no Reshape may take apart.
struct Factor {
  enum class Kind : std::uint8_t { Constant, Batch, Other };
  Kind kind = Kind::Constant;
  std::int64_t written = 1, probed = 1;  ///< its size at either batch
  friend bool operator==(const Factor&, const Factor&) = default;
};
/// One dimension: the product, outermost factor first. Empty for 1.
using SizeFactors = std::vector<Factor>;
/// The dimensions of a tensor.
using SizeLaw = std::vector<SizeFactors>;

[[nodiscard]] SizeFactors constant_size(std::int64_t size);
[[nodiscard]] SizeLaw constant_law(const graph::Shape& shape);
[[nodiscard]] bool varies(const SizeFactors& factors);
[[nodiscard]] bool varies(const SizeLaw& law);
[[nodiscard]] std::int64_t written_size(const SizeFactors& factors);
[[nodiscard]] std::int64_t probed_size(const SizeFactors& factors);
[[nodiscard]] graph::Shape written_shape(const SizeLaw& law);
[[nodiscard]] graph::Shape probed_shape(const SizeLaw& law);
/// The size at another batch; quantities of kind Other are taken to be linear. nullopt when no whole number of at least 0 results.
[[nodiscard]] std::optional<std::int64_t> size_at(const SizeFactors& factors, const Batches& batches, std::int64_t batch);

struct Regrouped {
  SizeLaw law;
  bool assumed = false;  ///< the batch was 1 in the file, and more than one place could have been its
};
/// The elements of a tensor of law `from`, in their order, as a tensor that had shape `written` in the file.
/// Where a batch of 1 stands between two dimensions, it is taken for the outermost factor of the second, or with `behind` for the innermost
/// of the first. nullopt when a factor that varies would have to be taken apart.
[[nodiscard]] std::optional<Regrouped> regrouped(const SizeLaw& from, const graph::Shape& written, bool behind = false);

}  // namespace rehearsal::formats
