#pragma once
// Compressors of gradients: what a rank sends of a gradient to the others, how many bytes that is, and what it changes. Every rank gathers
// what all of them send and decodes the same sum from it. exec/host/compressors/ has the arithmetic of each.

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/choices.hpp"

namespace rehearsal::plan {

/// Elements that share a norm of QSGD (Alistarh et al. 2017, section 5: buckets of 512 at 4 bits), or means of 1-bit SGD. A whole number of
/// bytes whatever their bits.
inline constexpr std::int64_t kCompressedBlock = 512;

struct CompressorRow {
  CompressionRule rule;
  std::string_view setting = {};  ///< what the number behind the name may be; empty: there is none
  double usual = 0, least = 0, most = 0;
  bool whole = false;  ///< the number is one
  bool factors = false;  ///< ranks sum two factors (plan/factors.hpp) instead of gathering what each sends
  /// Bytes that a rank sends of a gradient of so many elements, of so many bytes each; nullptr: of factors, which depend on its shape.
  std::int64_t (*bytes)(std::int64_t elements, std::int64_t element_bytes, double setting) = nullptr;
  /// What a rank did not send is added to its next gradient: error feedback, for which it keeps as many elements as the gradient has.
  bool remembers = false;
  /// Time of a core per element of compressing, and of decoding for each rank that sent (of factors: once), over that of copying an element:
  /// measured, see docs/compression.md.
  double compressing = 1, decoding = 1;
  std::string_view caveat = {};  ///< how training differs
  std::string_view source = {};
};

[[nodiscard]] std::span<const CompressorRow> compressors();
/// Null when the rule is none of a compressor of gradients.
[[nodiscard]] const CompressorRow* compressor(CompressionRule);
/// What a rank sends of a gradient, in bytes, the first of which says whether it is all numbers; of a compression that is of_sums().
[[nodiscard]] std::int64_t compressed_bytes(const Compression&, std::int64_t elements, DType);
/// Bits of one of QSGD's numbers: the sign, and a level from 0 to `levels`.
[[nodiscard]] int qsgd_bits(double levels);
/// Elements that top-k and random-k send: at least one.
[[nodiscard]] std::int64_t sent_elements(std::int64_t elements, double share);

}  // namespace rehearsal::plan
