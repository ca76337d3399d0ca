#include "exec/play/compressed_sums.hpp"

#include <vector>

#include "base/random.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "exec/play/on_host.hpp"
#include "graph/training.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {
namespace {

using plan::BufferIndex;
using plan::Instruction;

std::uint64_t seed_of_step(CompressedSums::StepDraw when) {
  constexpr std::uint64_t kSteps = 0x6772616469656E74;
  return random_bits(when.seed, kSteps, static_cast<std::uint64_t>(when.step));
}

}  // namespace

CompressorTask CompressedSums::task_of(BufferIndex gradient, int member, StepDraw when) const {
  constexpr std::uint64_t kOfCompressors = 0x636F6D7072657373, kBetweenRanks = 0x9E3779B97F4A7C15;
  const auto& part = role_.buffers[gradient];
  CompressorTask task{program_.plan.compression.setting, graph::element_count(part.shapes.front())};
  task.step_seed = seed_of_step(when);
  task.shared_stream = graph::initial_stream(graph_[part.tensor].name) ^ kOfCompressors;
  task.own_stream = task.shared_stream + kBetweenRanks * static_cast<std::uint64_t>(member + 1);
  return task;
}

void CompressedSums::play(const Instruction& i, const Address& at, StepDraw when) const {
  const auto sum = plan::compressor(program_.plan.compression.rule)->sum;
  if (sum == plan::CompressedSum::Factors) return play_factors(i, at, when);
  if (sum == plan::CompressedSum::Shares) return play_shares(i, at);
  i.kind == plan::InstructionKind::Compress ? compress(i, at, when) : decompress(i, at, when);
}

void CompressedSums::compress(const Instruction& i, const Address& at, StepDraw when) const {
  const auto& how = program_.plan.compression;
  const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
  const int member = plan::coordinate(program_, rank_, axis);
  const auto share = role_.buffers[i.outputs.front()].bytes / program_.axes[axis].size;
  OnHost own(device_, static_cast<std::byte*>(at(i.outputs.front())) + member * share, share);
  auto* to = own.data();
  const auto gradients = plan::gradients_of(i);
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    const auto& part = role_.buffers[gradients[g]];
    const auto task = task_of(gradients[g], member, when);
    OnHost gradient(device_, at(gradients[g]), part.bytes);
    gradient.fetch();
    if (i.outputs.size() == 1)
      exec::compress(how.rule, part.dtype, task, gradient.data(), to);
    else
      compress_and_keep({i.outputs[1 + g], at(i.outputs[1 + g])}, task, gradient.data(), to);
    to += plan::compressed_bytes(how, task.elements, part.dtype);
  }
  own.store();
}

void CompressedSums::compress_and_keep(BufferData kept, const CompressorTask& task, std::byte* gradient, std::byte* to) const {
  const auto& buffer = role_.buffers[kept.buffer];
  OnHost memory(device_, kept.data, buffer.bytes);
  memory.fetch();
  compress_with_memory(program_.plan.compression.rule, buffer.dtype, task, {gradient, memory.data()}, to);
  memory.store();
}

void CompressedSums::decompress(const Instruction& i, const Address& at, StepDraw when) const {
  const auto& how = program_.plan.compression;
  const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
  const int ranks = program_.axes[axis].size;
  const auto& vector = role_.buffers[i.inputs.front()];
  OnHost gathered(device_, at(i.inputs.front()), vector.bytes);
  gathered.fetch();
  std::vector<const std::byte*> sent;
  for (int rank = 0; rank < ranks; ++rank) sent.push_back(gathered.data() + rank * (vector.bytes / ranks));
  for (const BufferIndex b : i.outputs) {
    const auto& part = role_.buffers[b];
    const auto task = task_of(b, plan::coordinate(program_, rank_, axis), when);
    OnHost sum(device_, at(b), part.bytes);
    exec::decompress(how.rule, part.dtype, task, sent, sum.data());
    sum.store();
    for (auto& from : sent) from += plan::compressed_bytes(how, task.elements, part.dtype);
  }
}

}  // namespace rehearsal::exec
