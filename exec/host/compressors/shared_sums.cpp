#include "exec/host/compressors/shared_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "exec/host/compressors/blocks.hpp"

namespace rehearsal::exec {
namespace {

const BlockCodes& block_codes_of(plan::CompressionRule rule) {
  static const std::array kCodes{one_bit_adam_code(), sparcml_code()};
  const auto found = std::ranges::find(kCodes, rule, &BlockCodes::rule);
  ensure(found != kCodes.end(), "every compressor of blocks has its arithmetic");
  return *found;
}

/// Calls with the arithmetic in float or in double.
template <class Call>
void in_type_of_blocks(const SharedTask& t, const Call& call) {
  ensure(t.dtype == DType::F32 || t.dtype == DType::F64, "compressors take f32 or f64");
  const auto& codes = block_codes_of(t.rule);
  t.dtype == DType::F32 ? call(codes.f32) : call(codes.f64);
}

/// Adds what was kept of it to a block, writes it, and keeps what that does not say.
template <class T>
void write_and_keep(const BlockCode<T>& code, const BlockTask& task, std::span<T> block, T* kept, std::byte* to) {
  const auto elements = static_cast<std::int64_t>(block.size());
  for (std::size_t e = 0; e < block.size(); ++e) block[e] += kept[e];
  code.write(task, block.data(), elements, to);
  if (!std::ranges::all_of(block, [](T x) { return std::isfinite(x); })) return;
  std::array<T, kBlock> said{};
  code.add(task, to, elements, said.data());
  for (std::size_t e = 0; e < block.size(); ++e) kept[e] = block[e] - said[e];
}

/// Adds up what all ranks wrote of one of the blocks of a share.
template <class T>
void add_block(const BlockCode<T>& code, const SharedTask& t, const std::byte* received, std::int64_t at, std::span<T> sum) {
  for (int rank = 0; rank < t.task.ranks; ++rank)
    code.add(t.task, received + rank * t.blocks.piece_bytes() + at * t.blocks.block_bytes, static_cast<std::int64_t>(sum.size()),
             sum.data());
}

}  // namespace

void write_blocks(const SharedTask& t, const PartOfBlocks& part, OwnGradient own, std::byte* sent) {
  in_type_of_blocks(t, [&]<class T>(const BlockCodePair<T>& codes) {
    auto* gradient = static_cast<T*>(own.gradient);
    auto* kept = static_cast<T*>(own.kept);
    each_block(part.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
      write_and_keep<T>(codes.own, t.task, {gradient + first, static_cast<std::size_t>(end - first)}, kept + first,
                        sent + (part.first_block + b) * t.blocks.block_bytes);
    });
  });
}

void sum_share(const SharedTask& t, std::span<const std::int64_t> lengths, OwnShare own, std::byte* share) {
  in_type_of_blocks(t, [&]<class T>(const BlockCodePair<T>& codes) {
#pragma omp parallel for schedule(static)
    for (std::int64_t at = 0; at < t.blocks.of_rank; ++at) {
      const auto block = own.rank * t.blocks.of_rank + at;
      auto* to = share + at * t.blocks.sum_bytes;
      std::memset(to, 0, static_cast<std::size_t>(t.blocks.sum_bytes));  // behind the last block there is nothing
      if (block >= t.blocks.count) continue;
      std::array<T, kBlock> room{};
      const std::span<T> sum(room.data(), static_cast<std::size_t>(lengths[static_cast<std::size_t>(block)]));
      add_block(codes.own, t, own.received, at, sum);
      if (own.kept == nullptr)
        codes.sum.write(t.task, sum.data(), static_cast<std::int64_t>(sum.size()), to);
      else
        write_and_keep(codes.sum, t.task, sum, static_cast<T*>(own.kept) + at * kBlock, to);
    }
  });
}

void read_sum(const SharedTask& t, const PartOfBlocks& part, const std::byte* gathered, void* gradient) {
  in_type_of_blocks(t, [&]<class T>(const BlockCodePair<T>& codes) {
    auto* sum = static_cast<T*>(gradient);
    each_block(part.elements, [&](std::int64_t b, std::int64_t first, std::int64_t end) {
      std::fill(sum + first, sum + end, T(0));
      codes.sum.add(t.task, gathered + (part.first_block + b) * t.blocks.sum_bytes, end - first, sum + first);
    });
  });
}

std::vector<std::int64_t> lengths_of_blocks(std::span<const std::int64_t> elements) {
  std::vector<std::int64_t> lengths;
  for (const auto of_gradient : elements)
    for (std::int64_t first = 0; first < of_gradient; first += kBlock) lengths.push_back(std::min(kBlock, of_gradient - first));
  return lengths;
}

}  // namespace rehearsal::exec
