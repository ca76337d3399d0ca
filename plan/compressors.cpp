#include "plan/compressors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.hpp"

namespace rehearsal::plan {
namespace {

constexpr std::int64_t kBitsInByte = 8;

std::int64_t bytes_of_bits(std::int64_t bits) { return (bits + kBitsInByte - 1) / kBitsInByte; }

std::int64_t sign_bytes(std::int64_t elements, std::int64_t /*element_bytes*/, double /*setting*/) { return bytes_of_bits(elements); }

/// The largest of the gradient, and 2 bits for each of -1, 0 and 1.
std::int64_t terngrad_bytes(std::int64_t elements, std::int64_t element_bytes, double /*setting*/) {
  return element_bytes + bytes_of_bits(2 * elements);
}

std::int64_t blocks(std::int64_t elements) { return (elements + kCompressedBlock - 1) / kCompressedBlock; }

/// A norm for every block, and a sign and a level for every element.
std::int64_t qsgd_bytes(std::int64_t elements, std::int64_t element_bytes, double levels) {
  return blocks(elements) * element_bytes + bytes_of_bits(elements * qsgd_bits(levels));
}

/// Of every block the means of what is negative and what is not, and which elements are.
std::int64_t one_bit_bytes(std::int64_t elements, std::int64_t element_bytes, double /*setting*/) {
  return 2 * blocks(elements) * element_bytes + bytes_of_bits(elements);
}

/// Which elements is drawn by all ranks alike, and need not be sent.
std::int64_t random_k_bytes(std::int64_t elements, std::int64_t element_bytes, double share) {
  return sent_elements(elements, share) * element_bytes;
}

/// Each with its index in 32 bits.
std::int64_t top_k_bytes(std::int64_t elements, std::int64_t element_bytes, double share) {
  return sent_elements(elements, share) * (element_bytes + static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

constexpr double kMostLevels = 127;
constexpr double kUsualShare = 0.01, kLeastShare = 1e-4;
constexpr std::string_view kShare = "the share of elements that is sent, from 0.0001 to 1";

CompressorRow sign() {
  CompressorRow row{CompressionRule::Sign};
  row.bytes = sign_bytes;
  row.caveat =
      "every element moves by the learning rate, whatever its size: it wants a rate about a hundredth of SGD's, and may not converge where "
      "gradients are skewed";
  row.source = "Bernstein et al., \"signSGD with majority vote is communication efficient and fault tolerant\", ICLR 2019";
  row.compressing = 3.5, row.decoding = 5;
  return row;
}

CompressorRow terngrad() {
  CompressorRow row{CompressionRule::TernGrad};
  row.bytes = terngrad_bytes;
  row.caveat =
      "sums are right on average, with a variance that grows with the largest element of each gradient: more steps to the same loss";
  row.source = "Wen et al., \"TernGrad: ternary gradients to reduce communication in distributed deep learning\", NeurIPS 2017";
  row.compressing = 23, row.decoding = 2.5;
  return row;
}

CompressorRow qsgd() {
  constexpr double kUsualLevels = 4;
  CompressorRow row{CompressionRule::Qsgd, "a number of levels from 1 to 127", kUsualLevels, 1, kMostLevels, true};
  row.bytes = qsgd_bytes;
  row.caveat = "sums are right on average, with a variance that falls with the number of levels: more steps to the same loss";
  row.source = "Alistarh et al., \"QSGD: communication-efficient SGD via gradient quantization and encoding\", NeurIPS 2017";
  row.compressing = 24, row.decoding = 6;
  return row;
}

CompressorRow random_k() {
  CompressorRow row{CompressionRule::RandomK, kShare, kUsualShare, kLeastShare, 1};
  row.bytes = random_k_bytes;
  row.caveat =
      "sums are right on average, with a variance that grows as one over the share: it wants a smaller rate and more steps to the same "
      "loss";
  row.source = "Konecny et al., \"Federated learning: strategies for improving communication efficiency\", 2016 (random mask)";
  row.compressing = 2.4, row.decoding = 0.3;
  return row;
}

CompressorRow one_bit() {
  CompressorRow row{CompressionRule::OneBit};
  row.bytes = one_bit_bytes;
  row.remembers = true;
  row.caveat =
      "what a bit does not say is added to the next gradient: losses are near those of the same steps without, but momentum piles up on "
      "updates "
      "that come late, and wants a smaller rate or none";
  row.source =
      "Seide et al., \"1-bit stochastic gradient descent and its application to data-parallel distributed training of speech "
      "DNNs\", Interspeech 2014";
  row.compressing = 15, row.decoding = 2.5;
  return row;
}

CompressorRow top_k() {
  CompressorRow row{CompressionRule::TopK, kShare, kUsualShare, kLeastShare, 1};
  row.bytes = top_k_bytes;
  row.remembers = true;
  row.caveat =
      "small elements wait until they have added up to large ones, some for one over the share of steps; momentum piles up on updates that "
      "come late, and wants a smaller rate or none";
  row.source = "Stich et al., \"Sparsified SGD with memory\", NeurIPS 2018";
  row.compressing = 13.5, row.decoding = 0.3;
  return row;
}

CompressorRow random_k_with_memory() {
  CompressorRow row{CompressionRule::RandomKMemory, kShare, kUsualShare, kLeastShare, 1};
  row.bytes = random_k_bytes;
  row.remembers = true;
  row.caveat =
      "elements wait until they are drawn, on average for one over the share of steps: it wants a smaller rate, more steps and no momentum";
  row.source = "Stich et al., \"Sparsified SGD with memory\", NeurIPS 2018";
  row.compressing = 5.5, row.decoding = 0.3;
  return row;
}

}  // namespace

std::span<const CompressorRow> compressors() {
  static const std::array kRows{sign(), terngrad(), qsgd(), random_k(), one_bit(), top_k(), random_k_with_memory()};
  return kRows;
}

const CompressorRow* compressor(CompressionRule rule) {
  const auto rows = compressors();
  const auto found = std::ranges::find(rows, rule, &CompressorRow::rule);
  return found == rows.end() ? nullptr : &*found;
}

std::int64_t compressed_bytes(const Compression& compression, std::int64_t elements, DType dtype) {
  const auto* row = compressor(compression.rule);
  ensure(row != nullptr, "a compressor of gradients");
  return 1 + row->bytes(elements, static_cast<std::int64_t>(size_of(dtype)), compression.setting);
}

int qsgd_bits(double levels) { return 1 + static_cast<int>(std::bit_width(static_cast<unsigned>(levels))); }

std::int64_t sent_elements(std::int64_t elements, double share) {
  return std::min(elements, std::max<std::int64_t>(1, std::llround(share * static_cast<double>(elements))));
}

}  // namespace rehearsal::plan
