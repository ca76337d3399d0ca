#include "tests/sim/sample.hpp"

#include "graph/shape.hpp"

namespace rehearsal::sim::sample {

using namespace plan;
using namespace predict;

platforms::Platform cluster(int nodes, int devices, int cards) {
  platforms::NodeGroup group;
  group.name = "box";
  group.count = nodes;
  group.devices = devices;
  group.device.name = "chip";
  group.device.peaks.emplace("f32", FlopsPerSecond(1e12));
  group.device.memory = Bytes(16e9);
  group.device.memory_bandwidth = BytesPerSecond(3e12);  // additions at a third of it: 1 TB/s
  group.device.idle_power = Watts(50);
  group.device.busy_power = Watts(300);
  group.intra.kind = platforms::IntraKind::Nvswitch;
  group.intra.bandwidth = BytesPerSecond(kPort);
  group.intra.latency = Seconds(kInside);
  group.nic.count = nodes > 1 ? cards : 0;
  group.nic.bandwidth = BytesPerSecond(nodes > 1 ? kCard : 0);
  group.nic.latency = Seconds(nodes > 1 ? 1.5e-6 : 0);
  group.host_memory = Bytes(256e9);
  platforms::Platform platform;
  platform.name = "sample";
  platform.nodes = {group};
  if (nodes > 1) {
    platform.topology.kind = "switch";
    platform.topology.parameters = {{"ports", {nodes}}};
    platform.topology.latency = Seconds(1e-6);
  }
  return platform;
}

Job::Job(std::vector<MeshAxisInfo> axes, int micro_batches) {
  program.axes = std::move(axes);
  for (const auto& axis : program.axes) program.ranks *= axis.size;
  program.micro_batches = micro_batches;
  program.batch = program.ranks * micro_batches;
  program.role_of.assign(static_cast<std::size_t>(program.ranks), 0);
}

std::uint32_t Job::add_role(int stage, const std::vector<int>& ranks) {
  const auto index = static_cast<std::uint32_t>(program.roles.size());
  auto& made = program.roles.emplace_back();
  made.stage = stage;
  made.variant_samples = {1};
  made.variant_of.assign(static_cast<std::size_t>(program.micro_batches), 0);
  for (const int rank : ranks) program.role_of[static_cast<std::size_t>(rank)] = index;
  costs.roles.emplace_back();
  return index;
}

std::uint16_t Job::add_body(std::uint32_t index, BodyKind kind) {
  role(index).bodies.push_back({kind, 0, {}});
  costs.roles[index].seconds.emplace_back();
  return static_cast<std::uint16_t>(role(index).bodies.size() - 1);
}

std::uint32_t Job::add(std::uint32_t index, std::uint16_t body, Instruction i, double seconds) {
  auto& instructions = role(index).bodies[body].instructions;
  instructions.push_back(std::move(i));
  costmodel::Estimate estimate;
  estimate.seconds = Seconds(seconds);
  costs.roles[index].seconds[body].push_back({estimate});
  return static_cast<std::uint32_t>(instructions.size() - 1);
}

BufferIndex Job::add_buffer(std::uint32_t index, std::int64_t floats) {
  Buffer buffer;
  buffer.shapes = {{floats}};
  buffer.bytes = floats * 4;
  role(index).buffers.push_back(std::move(buffer));
  return static_cast<BufferIndex>(role(index).buffers.size() - 1);
}

std::uint32_t Job::add_kernel(std::uint32_t index, std::uint16_t body, double seconds, std::vector<Dependency> after) {
  Instruction i;
  i.after = std::move(after);
  return add(index, body, std::move(i), seconds);
}

std::uint32_t Job::add_collective(std::uint32_t index, std::uint16_t body, const CollectiveInfo& info, std::int64_t floats,
                                  std::vector<Dependency> after) {
  Instruction i;
  i.kind = InstructionKind::Collective;
  i.stream = Stream::Collective;
  i.after = std::move(after);
  i.inputs = i.outputs = {add_buffer(index, floats)};
  i.collective = static_cast<std::int32_t>(role(index).collectives.size());
  role(index).collectives.push_back(info);
  return add(index, body, std::move(i), 0);
}

std::uint32_t Job::add_message(std::uint32_t index, std::uint16_t body, const Message& message, std::vector<Dependency> after) {
  Instruction i;
  i.kind = message.sends ? InstructionKind::Send : InstructionKind::Receive;
  i.stream = message.sends ? Stream::Send : Stream::Receive;
  i.after = std::move(after);
  (message.sends ? i.inputs : i.outputs).push_back(add_buffer(index, message.floats));
  i.message = static_cast<std::int32_t>(role(index).messages.size());
  role(index).messages.push_back({message.stage_offset, message.channel});
  return add(index, body, std::move(i), 0);
}

StepCost Job::play(StepEvaluator& evaluator, const platforms::Platform& platform, bool keep_timeline) const {
  auto device = platform.nodes.front().device;
  if (host_progressed) device.kind = platforms::DeviceKind::Cpu;
  const costmodel::CostModel model(device, calibration, "f32");
  return evaluator.evaluate({program, costs, platform, model, keep_timeline});
}

double Job::closed_form(const platforms::Platform& platform) const { return play(*closed_form_evaluator(), platform).step.value(); }
double Job::simulated(const platforms::Platform& platform) const { return play(*full_evaluator(), platform).step.value(); }

Job one_collective(int ranks, const std::string& algorithm, CollectiveKind kind, std::int64_t floats) {
  Job job({{"dp", ranks, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Update);
  job.add_collective(role, body, {kind, algorithm, 0}, floats);
  job.role(role).slots = {{body, 0}};
  return job;
}

Job pipeline(const PipelineShape& shape) {
  Job job({{"pp", shape.stages, 1}}, shape.micro_batches);
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto role = job.add_role(stage, {stage});
    const auto forward = job.add_body(role, BodyKind::Forward), backward = job.add_body(role, BodyKind::Backward);
    std::vector<Dependency> input, gradient;
    if (stage > 0) input = {{forward, job.add_message(role, forward, {false, -1, 0, shape.floats})}};
    const auto output = job.add_kernel(role, forward, shape.forward, input);
    if (stage + 1 < shape.stages) {
      job.add_message(role, forward, {true, 1, 0, shape.floats}, {{forward, output}});
      gradient = {{backward, job.add_message(role, backward, {false, 1, 1, shape.floats})}};
    }
    const auto result = job.add_kernel(role, backward, shape.backward, gradient);
    if (stage > 0) job.add_message(role, backward, {true, -1, 1, shape.floats}, {{backward, result}});
    for (const auto& slot : schedule(shape.schedule).slots(stage, shape.stages, shape.micro_batches))
      job.role(role).slots.push_back({slot.backward ? backward : forward, slot.micro_batch});
    for (int m = 0; m < schedule(shape.schedule).ahead(stage, {shape.stages, shape.micro_batches, 1}); ++m)
      job.role(role).opening.push_back({forward, m});
  }
  return job;
}

platforms::Platform chain(int devices) {
  auto platform = cluster(1, devices, 0);
  auto& intra = platform.nodes.front().intra;
  intra.kind = platforms::IntraKind::NvlinkMesh;
  for (int d = 0; d + 1 < devices; ++d) intra.wires.push_back({d, d + 1, 1});
  return platform;
}

}  // namespace rehearsal::sim::sample
