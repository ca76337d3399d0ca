#pragma once
// The arithmetic of compressors of gradients (plan/compressors.hpp), on the host: one file each. What is decoded is the same on every rank,
// since all decode the same bytes in the same order.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "plan/choices.hpp"

namespace rehearsal::exec {

/// One gradient on one rank in one step.
struct CompressorTask {
  double setting = 0;
  std::int64_t elements = 0;
  std::uint64_t step_seed = 0;      ///< the same on all ranks
  std::uint64_t shared_stream = 0;  ///< of random numbers that all ranks draw alike
  std::uint64_t own_stream = 0;     ///< of those that each draws by itself
};

/// Arithmetic in the gradient's type T: float or double, of gradients that are all numbers.
template <class T>
struct CompressorCode {
  void (*compress)(const CompressorTask&, const T* gradient, std::byte* sent);
  /// The sum over the ranks, from what each has sent, in order of ranks.
  void (*decompress)(const CompressorTask&, std::span<const std::byte* const> sent, T* sum);
};

struct CompressorCodes {
  plan::CompressionRule rule;
  CompressorCode<float> f32;
  CompressorCode<double> f64;
};
[[nodiscard]] CompressorCodes sign_code();
[[nodiscard]] CompressorCodes terngrad_code();
[[nodiscard]] CompressorCodes qsgd_code();
[[nodiscard]] CompressorCodes random_k_code();
[[nodiscard]] CompressorCodes random_k_with_memory_code();
[[nodiscard]] CompressorCodes one_bit_code();
[[nodiscard]] CompressorCodes top_k_code();

/// Writes plan::compressed_bytes() bytes. What compressors make of NaN is nothing that a sum shows: of a gradient with such elements one
/// byte says so, and all that is decoded is NaN.
void compress(plan::CompressionRule, DType, const CompressorTask&, const void* gradient, std::byte* sent);
void decompress(plan::CompressionRule, DType, const CompressorTask&, std::span<const std::byte* const> sent, void* sum);
/// Of a compressor that remembers: adds to the gradient what was kept, compresses that, and keeps what was not sent of it. Of a gradient
/// with NaN or infinity nothing is kept that was not kept before.
struct WithMemory {
  void *gradient, *kept;
};
void compress_with_memory(plan::CompressionRule, DType, const CompressorTask&, WithMemory, std::byte* sent);

}  // namespace rehearsal::exec
