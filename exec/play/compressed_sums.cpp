#include "exec/play/compressed_sums.hpp"

#include <vector>

#include "base/random.hpp"
#include "exec/host/compressors/compressor.hpp"
#include "graph/training.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::exec {
namespace {

using plan::BufferIndex;
using plan::Instruction;

/// Memory of the device as the host sees it: itself, or a copy.
class OnHost {
 public:
  OnHost(Device& device, void* data, std::int64_t bytes) : device_(device), data_(static_cast<std::byte*>(data)) {
    if (!device_.is_host()) copy_.resize(static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] std::byte* data() { return device_.is_host() ? data_ : copy_.data(); }
  void fetch() {
    if (!device_.is_host()) device_.download(copy_.data(), data_, copy_.size());
  }
  void store() {
    if (!device_.is_host()) device_.upload(data_, copy_.data(), copy_.size());
  }

 private:
  Device& device_;
  std::byte* data_;
  std::vector<std::byte> copy_;
};

/// Different for every tensor, and for the ranks of a group where each draws by itself.
CompressorTask task_of(const plan::Buffer& part, const graph::Graph& graph, double setting, int member) {
  constexpr std::uint64_t kOfCompressors = 0x636F6D7072657373, kBetweenRanks = 0x9E3779B97F4A7C15;
  CompressorTask task{setting, graph::element_count(part.shapes.front())};
  task.shared_stream = graph::initial_stream(graph[part.tensor].name) ^ kOfCompressors;
  task.own_stream = task.shared_stream + kBetweenRanks * static_cast<std::uint64_t>(member + 1);
  return task;
}

std::uint64_t seed_of_step(CompressedSums::When when) {
  constexpr std::uint64_t kSteps = 0x6772616469656E74;
  return random_bits(when.seed, kSteps, static_cast<std::uint64_t>(when.step));
}

}  // namespace

void CompressedSums::play(const Instruction& i, const Address& at, When when) const {
  i.kind == plan::InstructionKind::Compress ? compress(i, at, when) : decompress(i, at, when);
}

void CompressedSums::compress(const Instruction& i, const Address& at, When when) const {
  const auto& how = program_.plan.compression;
  const auto axis = role_.collectives[static_cast<std::size_t>(i.collective)].axis;
  const int member = plan::coordinate(program_, rank_, axis);
  const auto share = role_.buffers[i.outputs.front()].bytes / program_.axes[axis].size;
  OnHost own(device_, static_cast<std::byte*>(at(i.outputs.front())) + member * share, share);
  auto* to = own.data();
  const auto gradients = plan::gradients_of(i);
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    const auto& part = role_.buffers[gradients[g]];
    auto task = task_of(part, graph_, how.setting, member);
    task.step_seed = seed_of_step(when);
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

void CompressedSums::compress_and_keep(Place kept, const CompressorTask& task, std::byte* gradient, std::byte* to) const {
  const auto& buffer = role_.buffers[kept.buffer];
  OnHost memory(device_, kept.data, buffer.bytes);
  memory.fetch();
  compress_with_memory(program_.plan.compression.rule, buffer.dtype, task, {gradient, memory.data()}, to);
  memory.store();
}

void CompressedSums::decompress(const Instruction& i, const Address& at, When when) const {
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
    auto task = task_of(part, graph_, how.setting, plan::coordinate(program_, rank_, axis));
    task.step_seed = seed_of_step(when);
    OnHost sum(device_, at(b), part.bytes);
    exec::decompress(how.rule, part.dtype, task, sent, sum.data());
    sum.store();
    for (auto& from : sent) from += plan::compressed_bytes(how, task.elements, part.dtype);
  }
}

}  // namespace rehearsal::exec
