#pragma once
// Compressors of gradients: what a rank sends of a gradient to the others, how many bytes that is, and what it changes.
// exec/host/compressors/ has the arithmetic of each.

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/choices.hpp"

namespace rehearsal::plan {

/// Elements that share a norm of QSGD (Alistarh et al. 2017, section 5: buckets of 512 at 4 bits), or means of 1-bit SGD. A whole number of
/// bytes whatever their bits.
inline constexpr std::int64_t kCompressedBlock = 512;

/// How ranks come to the sum of what each has compressed.
enum class CompressedSum : std::uint8_t {
  Gather,   ///< every rank gathers what all send, and decodes the sum from it
  Factors,  ///< ranks sum two factors (plan/low_rank.hpp), one after the other
  Shares,   ///< each rank gets its share of all gradients from all others, sums it, and compresses the sum, which all ranks gather
};

/// How names of what a compressor has not sent yet begin.
inline constexpr std::string_view kNotSent = "not sent:";

struct CompressorRow {
  CompressionRule rule;
  std::string_view setting = {};  ///< what the number behind the name may be; empty: there is none
  double usual = 0, least = 0, most = 0;
  bool whole = false;  ///< the number is one
  CompressedSum sum = CompressedSum::Gather;
  /// Gather: bytes that a rank sends of a gradient of so many elements, of so many bytes each. Shares: of a block of kCompressedBlock
  /// elements.
  std::int64_t (*bytes)(std::int64_t elements, std::int64_t element_bytes, double setting) = nullptr;
  /// Shares: bytes of a block of the sum over so many ranks.
  std::int64_t (*sum_bytes)(int ranks, std::int64_t element_bytes, double setting) = nullptr;
  /// What travels is Adam's first moment as a rank would have it, and the second moment stays as it is once gradients are compressed.
  bool of_moments = false;
  /// What a rank did not send is added to its next gradient: error feedback, for which it keeps as many elements as the gradient has.
  bool remembers = false;
  bool remembers_sum = false;  ///< Shares: and what a rank did not send of its share of the sum, to the next one
  /// Time of a core per element of compressing, and of decoding for each rank that sent (of factors: once), over that of copying an
  /// element: measured, see docs/compression.md. Shares: a rank compresses its gradient and its share of the sum, and decodes its share
  /// from each rank and the whole sum once.
  double compressing = 1, decoding = 1;
  std::string_view caveat = {};  ///< how training differs
  std::string_view source = {};
};

[[nodiscard]] std::span<const CompressorRow> compressors();
/// Null when the rule is none of a compressor of gradients.
[[nodiscard]] const CompressorRow* compressor(CompressionRule);
/// What a rank sends of a gradient, in bytes, the first of which says whether it is all numbers; of a compression that is of_sums().
[[nodiscard]] std::int64_t compressed_bytes(const Compression&, std::int64_t elements, DType);
/// Of CompressedSum::Shares: gradients lie behind each other in blocks of kCompressedBlock elements, the last of each not always full, and
/// a rank sums as many blocks as any other; what is behind the last one is not looked at.
struct SharedBlocks {
  std::int64_t count = 0, of_rank = 0;          ///< all blocks; those that a rank sums
  std::int64_t block_bytes = 0, sum_bytes = 0;  ///< sent of a block, and of a block of the sum
  [[nodiscard]] std::int64_t piece_bytes() const { return of_rank * block_bytes; }
  [[nodiscard]] std::int64_t share_bytes() const { return of_rank * sum_bytes; }
};
[[nodiscard]] SharedBlocks shared_blocks(const Compression&, std::span<const std::int64_t> elements, DType, int ranks);
[[nodiscard]] constexpr std::int64_t compressed_blocks(std::int64_t elements) {
  return (elements + kCompressedBlock - 1) / kCompressedBlock;
}
/// Bits of one of QSGD's numbers: the sign, and a level from 0 to `levels`.
[[nodiscard]] int qsgd_bits(double levels);
/// Elements that top-k and random-k send, sparcml of a block: at least one.
[[nodiscard]] std::int64_t sent_elements(std::int64_t elements, double share);

}  // namespace rehearsal::plan
