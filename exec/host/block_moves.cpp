#include "exec/host/block_moves.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "exec/host/cpu_backend.hpp"

namespace rehearsal::exec {

using plan::BlockCopy;
using plan::Coordinates;
using plan::PackedBlock;

const std::vector<BlockMove>& BlockMoves::of(const plan::Instruction& i, int micro_batch) {
  const auto [at, fresh] = known_.try_emplace({&i, micro_batch});
  if (!fresh) return at->second;
  const auto position = plan::position(program_, rank_, micro_batch);
  if (i.kind == plan::InstructionKind::Slice) return at->second = slice(i, position);
  if (i.redistribution < 0) {
    const auto& shapes = role_.buffers[i.inputs[0]].shapes;
    const auto& shape = shapes[std::min(plan::variant_of_micro_batch(role_, micro_batch), shapes.size() - 1)];
    const auto all = plan::whole_region({graph::element_count(shape)});
    return at->second = {{0, 0, BlockCopy(all, all)}};
  }
  const bool packs = i.kind != plan::InstructionKind::Unpack;
  const auto first = static_cast<std::size_t>(i.redistribution);
  for (std::size_t n = 0; n < (packs ? i.inputs : i.outputs).size(); ++n)
    packs ? pack(first + n, n, position, at->second) : unpack(first + n, n, position, at->second);
  return at->second;
}

std::vector<BlockMove> BlockMoves::slice(const plan::Instruction& i, const Coordinates& at) const {
  const auto &from = role_.buffers[i.inputs[0]], &to = role_.buffers[i.outputs[0]];
  // A constant lies whole, whatever dimensions its users see in it.
  const auto target = plan::region(program_, to, at);
  auto source = from;
  source.user = to.user;
  source.operand = to.operand;
  const auto whole = plan::region(program_, source, at);
  ensure(plan::contains(whole, target), "a slice is a part of what it is taken from");
  return {{0, 0, BlockCopy(whole, target)}};
}

void BlockMoves::pack(std::size_t redistribution, std::size_t input, const Coordinates& at, std::vector<BlockMove>& moves) const {
  const auto& r = role_.redistributions[redistribution];
  const auto mine = plan::region_before(*program_.sharding, r, at);
  for (const PackedBlock& b : plan::packing_of(*program_.sharding, role_.redistributions, redistribution, at).packed)
    moves.push_back({input, 0, BlockCopy(mine, b.region, 0, b.offset)});
}

void BlockMoves::unpack(std::size_t redistribution, std::size_t output, const Coordinates& at, std::vector<BlockMove>& moves) const {
  const auto& r = role_.redistributions[redistribution];
  const auto& s = *program_.sharding;
  const auto wanted = plan::region_after(s, r, at);
  for (const PackedBlock& b : plan::packing_of(s, role_.redistributions, redistribution, at).unpacked)
    moves.push_back({0, output, BlockCopy(b.region, wanted, b.offset, 0)});
  const bool keeps_own = r.kind == plan::ConversionKind::AllToAll || r.kind == plan::ConversionKind::Halo;
  if (keeps_own) moves.push_back({1, output, BlockCopy(plan::region_before(s, r, at), wanted)});
}

void run(const BlockCopy& copy, std::size_t element_bytes, const void* from, void* to) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  copy.for_each_run([&](std::int64_t first, std::int64_t last, std::int64_t count) {
    std::memcpy(target + static_cast<std::size_t>(last) * element_bytes, source + static_cast<std::size_t>(first) * element_bytes,
                static_cast<std::size_t>(count) * element_bytes);
  });
}

void add(const BlockCopy& copy, const Addition& addition, const void* from, void* to) {
  const auto bytes = static_cast<std::ptrdiff_t>(size_of(addition.dtype)),
             sum_bytes = static_cast<std::ptrdiff_t>(size_of(plan::sum_type(addition.dtype)));
  copy.for_each_run([&](std::int64_t first, std::int64_t last, std::int64_t count) {
    accumulate(static_cast<std::byte*>(to) + last * sum_bytes, static_cast<const std::byte*>(from) + first * bytes, count, addition,
               omp_get_max_threads());
  });
}

}  // namespace rehearsal::exec
