#pragma once
// Sums of which each rank has a share (plan::CompressedSum::Shares), on the host. Blocks of gradients that travel together are numbered one
// behind the other, and lie in that order in what is sent: rank r sums those from r * SharedBlocks::of_rank on.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "exec/host/compressors/block_code.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {

struct SharedTask {
  plan::CompressionRule rule;
  DType dtype;
  BlockTask task;
  plan::SharedBlocks blocks;
};

/// A gradient of so many elements, whose first block has that number.
struct PartOfBlocks {
  std::int64_t first_block = 0, elements = 0;
};

/// Adds what was kept to the gradient, writes its blocks to `sent`, where block 0 of all gradients lies, and keeps what they do not say. A
/// block that is not all numbers keeps what it had.
struct OwnGradient {
  void *gradient, *kept;
};
void write_blocks(const SharedTask&, const PartOfBlocks&, OwnGradient, std::byte* sent);

/// What one rank sums: `received` has its share of each rank, by rank. What is kept of the share is added and kept anew; nullptr: nothing
/// is.
struct OwnShare {
  int rank = 0;
  const std::byte* received;
  void* kept = nullptr;
};
/// Writes the blocks of the sum to `share`. `lengths`: elements of every block.
void sum_share(const SharedTask&, std::span<const std::int64_t> lengths, OwnShare, std::byte* share);

/// The sum over the ranks, from what all have written of it.
void read_sum(const SharedTask&, const PartOfBlocks&, const std::byte* gathered, void* gradient);

/// Elements of every block of gradients of so many elements.
[[nodiscard]] std::vector<std::int64_t> lengths_of_blocks(std::span<const std::int64_t> elements);

}  // namespace rehearsal::exec
