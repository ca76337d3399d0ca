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

/// A norm for every block, and a sign and a level for every element.
std::int64_t qsgd_bytes(std::int64_t elements, std::int64_t element_bytes, double levels) {
  return compressed_blocks(elements) * element_bytes + bytes_of_bits(elements * qsgd_bits(levels));
}

/// Of every block the means of what is negative and what is not, and which elements are.
std::int64_t one_bit_bytes(std::int64_t elements, std::int64_t element_bytes, double /*setting*/) {
  return 2 * compressed_blocks(elements) * element_bytes + bytes_of_bits(elements);
}

/// Which elements is drawn by all ranks alike, and need not be sent.
std::int64_t random_k_bytes(std::int64_t elements, std::int64_t element_bytes, double share) {
  return sent_elements(elements, share) * element_bytes;
}

/// Each with its index in 32 bits.
std::int64_t top_k_bytes(std::int64_t elements, std::int64_t element_bytes, double share) {
  return sent_elements(elements, share) * (element_bytes + static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

/// The size that all of a block have, and their signs.
std::int64_t scaled_sign_bytes(std::int64_t elements, std::int64_t element_bytes, double /*setting*/) {
  return element_bytes + bytes_of_bits(elements);
}
std::int64_t scaled_sign_sum_bytes(int /*ranks*/, std::int64_t element_bytes, double setting) {
  return scaled_sign_bytes(kCompressedBlock, element_bytes, setting);
}

/// Each with its place in the block in 16 bits.
std::int64_t pair_bytes(std::int64_t element_bytes) { return element_bytes + static_cast<std::int64_t>(sizeof(std::uint16_t)); }
std::int64_t largest_of_block_bytes(std::int64_t elements, std::int64_t element_bytes, double share) {
  return sent_elements(elements, share) * pair_bytes(element_bytes);
}
/// Ranks send other elements each: as many pairs as there may be, or all elements where these are fewer bytes.
std::int64_t sparse_sum_bytes(int ranks, std::int64_t element_bytes, double share) {
  return std::min(ranks * largest_of_block_bytes(kCompressedBlock, element_bytes, share), kCompressedBlock * element_bytes);
}

constexpr double kUsualShare = 0.01, kLeastShare = 1e-4;
constexpr std::string_view kShare = "the share of elements that is sent, from 0.0001 to 1";

constexpr std::string_view kLateElements =
    "small elements wait until they have added up to large ones, some for one over the share of steps; momentum piles up on updates that "
    "come late, and wants a smaller rate or none";

constexpr double kMostLevels = 127, kUsualLevels = 4;

constexpr std::array kRows{
    CompressorRow{.rule = CompressionRule::Sign,
                  .bytes = sign_bytes,
                  .compressing = 3.5,
                  .decoding = 5,
                  .caveat = "every element moves by the learning rate, whatever its size: it wants a rate about a hundredth of SGD's, and "
                            "may not converge where gradients are skewed",
                  .source = "Bernstein et al., \"signSGD with majority vote is communication efficient and fault tolerant\", ICLR 2019"},
    CompressorRow{
        .rule = CompressionRule::TernGrad,
        .bytes = terngrad_bytes,
        .compressing = 23,
        .decoding = 2.5,
        .caveat =
            "sums are right on average, with a variance that grows with the largest element of each gradient: more steps to the same loss",
        .source = "Wen et al., \"TernGrad: ternary gradients to reduce communication in distributed deep learning\", NeurIPS 2017"},
    CompressorRow{.rule = CompressionRule::Qsgd,
                  .setting = "a number of levels from 1 to 127",
                  .usual = kUsualLevels,
                  .least = 1,
                  .most = kMostLevels,
                  .whole = true,
                  .bytes = qsgd_bytes,
                  .compressing = 24,
                  .decoding = 6,
                  .caveat = "sums are right on average, with a variance that falls with the number of levels: more steps to the same loss",
                  .source = "Alistarh et al., \"QSGD: communication-efficient SGD via gradient quantization and encoding\", NeurIPS 2017"},
    CompressorRow{
        .rule = CompressionRule::RandomK,
        .setting = kShare,
        .usual = kUsualShare,
        .least = kLeastShare,
        .most = 1,
        .bytes = random_k_bytes,
        .compressing = 2.4,
        .decoding = 0.3,
        .caveat = "sums are right on average, with a variance that grows as one over the share: it wants a smaller rate and more steps to "
                  "the same loss",
        .source = "Konecny et al., \"Federated learning: strategies for improving communication efficiency\", 2016 (random mask)"},
    CompressorRow{.rule = CompressionRule::OneBit,
                  .bytes = one_bit_bytes,
                  .remembers = true,
                  .compressing = 15,
                  .decoding = 2.5,
                  .caveat = "what a bit does not say is added to the next gradient: losses are near those of the same steps without, but "
                            "momentum piles up on updates that come late, and wants a smaller rate or none",
                  .source = "Seide et al., \"1-bit stochastic gradient descent and its application to data-parallel distributed training "
                            "of speech DNNs\", Interspeech 2014"},
    CompressorRow{.rule = CompressionRule::TopK,
                  .setting = kShare,
                  .usual = kUsualShare,
                  .least = kLeastShare,
                  .most = 1,
                  .bytes = top_k_bytes,
                  .remembers = true,
                  .compressing = 13.5,
                  .decoding = 0.3,
                  .caveat = kLateElements,
                  .source = "Stich et al., \"Sparsified SGD with memory\", NeurIPS 2018"},
    CompressorRow{.rule = CompressionRule::RandomKMemory,
                  .setting = kShare,
                  .usual = kUsualShare,
                  .least = kLeastShare,
                  .most = 1,
                  .bytes = random_k_bytes,
                  .remembers = true,
                  .compressing = 5.5,
                  .decoding = 0.3,
                  .caveat = "elements wait until they are drawn, on average for one over the share of steps: it wants a smaller rate, more "
                            "steps and no momentum",
                  .source = "Stich et al., \"Sparsified SGD with memory\", NeurIPS 2018"},
    CompressorRow{.rule = CompressionRule::PowerSgd,
                  .setting = "a rank from 1 to 64",
                  .usual = 2,
                  .least = 1,
                  .most = 64,
                  .whole = true,
                  .sum = CompressedSum::Factors,
                  .remembers = true,
                  .compressing = 11.5,
                  .decoding = 5,
                  .caveat = "sums have a few columns' worth of each matrix, and what they lack is added to the next gradient: losses are "
                            "near those of the same steps without",
                  .source = "Vogels, Karimireddy, Jaggi, \"PowerSGD: practical low-rank gradient compression for distributed "
                            "optimization\", NeurIPS 2019"},
    CompressorRow{.rule = CompressionRule::OneBitAdam,
                  .sum = CompressedSum::Shares,
                  .bytes = scaled_sign_bytes,
                  .sum_bytes = scaled_sign_sum_bytes,
                  .of_moments = true,
                  .remembers = true,
                  .remembers_sum = true,
                  .compressing = 6.5,
                  .decoding = 1.1,
                  .caveat =
                      "Adam's second moment stays as it is from then on, and what a bit does not say of the first is added to the next "
                      "one: losses are near those of Adam where the second moment had settled before",
                  .source = "Tang et al., \"1-bit Adam: communication efficient large-scale training with Adam's convergence speed\", ICML "
                            "2021"},
    CompressorRow{.rule = CompressionRule::SparCml,
                  .setting = "the share of elements of each block of 512 that is sent, from 0.002 to 1",
                  .usual = kUsualShare,
                  .least = 0.002,
                  .most = 1,
                  .sum = CompressedSum::Shares,
                  .bytes = largest_of_block_bytes,
                  .sum_bytes = sparse_sum_bytes,
                  .remembers = true,
                  .compressing = 24,
                  .decoding = 0.4,
                  .caveat = kLateElements,
                  .source = "Renggli et al., \"SparCML: high-performance sparse communication for machine learning\", SC 2019"}};

}  // namespace

std::span<const CompressorRow> compressors() { return kRows; }

const CompressorRow* compressor(CompressionRule rule) {
  const auto* found = std::ranges::find(kRows, rule, &CompressorRow::rule);
  return found == kRows.end() ? nullptr : found;
}

std::int64_t compressed_bytes(const Compression& compression, std::int64_t elements, DType dtype) {
  const auto* row = compressor(compression.rule);
  ensure(row != nullptr && row->sum == CompressedSum::Gather, "a compressor whose messages are gathered");
  return 1 + row->bytes(elements, static_cast<std::int64_t>(size_of(dtype)), compression.setting);
}

SharedBlocks shared_blocks(const Compression& compression, std::span<const std::int64_t> elements, DType dtype, int ranks) {
  const auto* row = compressor(compression.rule);
  ensure(row != nullptr && row->sum == CompressedSum::Shares, "a compressor whose ranks sum a share each");
  const auto element_bytes = static_cast<std::int64_t>(size_of(dtype));
  SharedBlocks blocks;
  for (const auto of_gradient : elements) blocks.count += compressed_blocks(of_gradient);
  blocks.of_rank = (blocks.count + ranks - 1) / ranks;
  blocks.block_bytes = row->bytes(kCompressedBlock, element_bytes, compression.setting);
  blocks.sum_bytes = row->sum_bytes(ranks, element_bytes, compression.setting);
  return blocks;
}

int qsgd_bits(double levels) { return 1 + static_cast<int>(std::bit_width(static_cast<unsigned>(levels))); }

std::int64_t sent_elements(std::int64_t elements, double share) {
  return std::min(elements, std::max<std::int64_t>(1, std::llround(share * static_cast<double>(elements))));
}

}  // namespace rehearsal::plan
