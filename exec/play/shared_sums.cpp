// Compress, Recompress and Decompress of gradients of which each rank sums a share (exec/host/compressors/shared_sums.hpp).
#include "exec/host/compressors/shared_sums.hpp"

#include <cstring>

#include "exec/play/compressed_sums.hpp"
#include "exec/play/on_host.hpp"

namespace rehearsal::exec {

using plan::Instruction;

namespace {

std::vector<std::int64_t> elements_of_parts(const plan::Role& role, std::span<const plan::BufferIndex> gradients) {
  std::vector<std::int64_t> elements;
  for (const auto g : gradients) elements.push_back(graph::element_count(role.buffers[g].shapes.front()));
  return elements;
}

/// Calls use(gradient's place among them, its blocks).
template <class Use>
void each_part(std::span<const std::int64_t> elements, const Use& use) {
  PartOfBlocks part;
  for (std::size_t n = 0; n < elements.size(); ++n) {
    part.elements = elements[n];
    use(n, part);
    part.first_block += plan::compressed_blocks(elements[n]);
  }
}

}  // namespace

void CompressedSums::play_shares(const Instruction& i, const Address& at) const {
  const auto gradients = plan::gradients_of(i);
  const auto elements = elements_of_parts(role_, gradients);
  const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
  const auto& how = program_.plan.compression;
  const int ranks = program_.axes[axis].size;
  const auto dtype = role_.buffers[gradients.front()].dtype;
  const SharedTask task{how.rule, dtype, {how.setting, ranks}, plan::shared_blocks(how, elements, dtype, ranks)};
  if (i.kind == plan::InstructionKind::Compress) return write_own(i, at, task, elements);
  if (i.kind == plan::InstructionKind::Recompress) return sum_own(i, at, task, lengths_of_blocks(elements));
  OnHost gathered(device_, at(i.inputs.front()), ranks * task.blocks.share_bytes());
  gathered.fetch();
  each_part(elements, [&](std::size_t n, const PartOfBlocks& part) {
    OnHost sum(device_, at(gradients[n]), role_.buffers[gradients[n]].bytes);
    read_sum(task, part, gathered.data(), sum.data());
    sum.store();
  });
}

void CompressedSums::write_own(const Instruction& i, const Address& at, const SharedTask& task,
                               std::span<const std::int64_t> elements) const {
  const auto bytes = task.task.ranks * task.blocks.piece_bytes(), written = task.blocks.count * task.blocks.block_bytes;
  OnHost sent(device_, at(i.outputs.front()), bytes);
  std::memset(sent.data() + written, 0, static_cast<std::size_t>(bytes - written));
  each_part(elements, [&](std::size_t n, const PartOfBlocks& part) {
    OnHost gradient(device_, at(i.inputs[n]), role_.buffers[i.inputs[n]].bytes);
    OnHost kept(device_, at(i.outputs[1 + n]), role_.buffers[i.outputs[1 + n]].bytes);
    gradient.fetch();
    kept.fetch();
    write_blocks(task, part, {gradient.data(), kept.data()}, sent.data());
    kept.store();
  });
  sent.store();
}

void CompressedSums::sum_own(const Instruction& i, const Address& at, const SharedTask& task, std::span<const std::int64_t> lengths) const {
  const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
  const int member = plan::coordinate(program_, rank_, axis);
  const auto half = task.task.ranks * task.blocks.piece_bytes();
  OnHost received(device_, static_cast<std::byte*>(at(i.inputs.front())) + half, half);
  received.fetch();
  OnHost share(device_, static_cast<std::byte*>(at(i.outputs.front())) + member * task.blocks.share_bytes(), task.blocks.share_bytes());
  const bool keeps = i.outputs.size() > 1;
  OnHost kept(device_, keeps ? at(i.outputs[1]) : nullptr, keeps ? role_.buffers[i.outputs[1]].bytes : 0);
  if (keeps) kept.fetch();
  sum_share(task, lengths, {member, received.data(), keeps ? kept.data() : nullptr}, share.data());
  if (keeps) kept.store();
  share.store();
}

}  // namespace rehearsal::exec
