#include "exec/play/initial_values.hpp"

#include <cstring>

#include "base/error.hpp"
#include "exec/host/block_moves.hpp"

namespace rehearsal::exec {
namespace {

void set_initial_value(const Training& training, const plan::Buffer& b, const graph::RandomStream& source, std::byte* to) {
  const auto& tensor = training.graph.graph[b.tensor];
  if (b.shapes.front() == tensor.type.shape) return graph::read_into(tensor.contents, tensor.type.shape, b.dtype, source, to);
  std::vector<std::byte> whole(static_cast<std::size_t>(graph::size_of(tensor.type).value()));
  graph::read_into(tensor.contents, tensor.type.shape, b.dtype, source, whole.data());
  const auto mine = plan::region(training.program, b, plan::position(training.program, training.world.rank(), 0));
  run(plan::BlockCopy(plan::whole_region(tensor.type.shape), mine), size_of(b.dtype), whole.data(), to);
}

struct Target {
  const LocalMemory& memory;
  Device& device;
};

/// Straight into memory of the host: a copy beside it would stay resident.
void set_newest(const Training& training, const plan::Buffer& b, const graph::RandomStream& source, const Target& target) {
  const auto newest = target.memory.stored(b, 0);
  if (target.device.is_host()) return set_initial_value(training, b, source, newest.data());
  std::vector<std::byte> block(newest.size());
  set_initial_value(training, b, source, block.data());
  target.device.upload(newest.data(), block.data(), block.size());
}

}  // namespace

void set_initial_values(const Training& training, std::uint64_t seed, const LocalMemory& memory, Device& device) {
  for (const auto& b : training.program.role(training.world.rank()).buffers) {
    if (!is_stored(b)) continue;
    const auto& tensor = training.graph.graph[b.tensor];
    if (!tensor.contents.known()) throw InternalError("tensor " + tensor.name + " has no initial values");
    set_newest(training, b, {seed, graph::initial_stream(tensor.name)}, {memory, device});
    const auto newest = memory.stored(b, 0);
    for (int age = 1; age < b.versions; ++age) device.copy(memory.stored(b, -age).data(), newest.data(), newest.size());
  }
}

}  // namespace rehearsal::exec
