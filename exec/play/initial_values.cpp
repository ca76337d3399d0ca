#include "exec/play/initial_values.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "exec/host/block_moves.hpp"

namespace rehearsal::exec {
namespace {

/// By all threads, where elements can be made side by side.
void read(const graph::Tensor& tensor, DType type, const graph::RandomStream& source, std::byte* to) {
  constexpr std::int64_t kOfThread = 1 << 16;
  const auto count = graph::element_count(tensor.type.shape);
  if (!graph::is_made(tensor.contents)) return graph::read_into(tensor.contents, tensor.type.shape, type, source, to);
  const auto step = static_cast<std::int64_t>(size_of(type));
  graph::make_into(tensor.contents, {0, 0}, type, source, to);  // throws here what it would throw on a thread
#pragma omp parallel for schedule(static) if (count > kOfThread)
  for (std::int64_t first = 0; first < count; first += kOfThread)
    graph::make_into(tensor.contents, {first, std::min(kOfThread, count - first)}, type, source, to + first * step);
}

void set_initial_value(const Training& training, const plan::Buffer& b, const graph::RandomStream& source, std::byte* to) {
  const auto& tensor = training.graph.graph[b.tensor];
  if (b.shapes.front() == tensor.type.shape) return read(tensor, b.dtype, source, to);
  std::vector<std::byte> whole(static_cast<std::size_t>(graph::size_of(tensor.type).value()));
  read(tensor, b.dtype, source, whole.data());
  const auto mine = plan::region(training.program, b, plan::position(training.program, training.world.rank(), 0));
  run(plan::BlockCopy(plan::whole_region(tensor.type.shape), mine), size_of(b.dtype), whole.data(), to);
}

struct Target {
  const LocalMemory& memory;
  ComputeDevice& device;
};

/// The memory of a rank is 0 before anything is written.
bool is_zero(const graph::Contents& contents) {
  const auto* fill = std::get_if<graph::Fill>(&contents.source);
  return fill != nullptr && fill->value == 0 && !std::signbit(fill->value);
}

/// Straight into memory of the host: a copy beside it would stay resident.
void set_newest(const Training& training, const plan::Buffer& b, const graph::RandomStream& source, const Target& target) {
  const auto newest = target.memory.stored(b, 0);
  if (target.device.is_host()) return set_initial_value(training, b, source, newest.data());
  std::vector<std::byte> block(newest.size());
  set_initial_value(training, b, source, block.data());
  target.device.upload(newest.data(), block.data(), block.size());
}

}  // namespace

void set_initial_values(const Training& training, std::uint64_t seed, const LocalMemory& memory, ComputeDevice& device) {
  for (const auto& b : training.program.role(training.world.rank()).buffers) {
    if (!is_stored(b)) continue;
    const auto& tensor = training.graph.graph[b.tensor];
    if (!tensor.contents.known()) throw InternalError("tensor " + tensor.name + " has no initial values");
    if (is_zero(tensor.contents)) continue;
    set_newest(training, b, {seed, graph::initial_stream(tensor.name)}, {memory, device});
    const auto newest = memory.stored(b, 0);
    for (int age = 1; age < b.versions; ++age) device.copy(memory.stored(b, -age).data(), newest.data(), newest.size());
  }
}

}  // namespace rehearsal::exec
