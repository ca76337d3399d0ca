#include "plan/describe.hpp"

#include "graph/op_schema.hpp"

namespace rehearsal::plan {
namespace {

std::string buffers_text(const Role& role, const std::vector<BufferIndex>& buffers) {
  std::string text;
  for (auto b : buffers) {
    text += text.empty() ? "" : ", ";
    if (b == kNoBuffer) {
      text += "-";
      continue;
    }
    const auto& buffer = role.buffers[b];
    text += buffer.name + graph::to_text(buffer.shapes.front()) +
            (buffer.format == Format::Plain ? "" : ":" + std::string(name(buffer.format))) + "@" + std::to_string(buffer.offset);
  }
  return text;
}

std::string what(const Program& program, const Role& role, const Instruction& i, const graph::Graph& g) {
  switch (i.kind) {
    case InstructionKind::Kernel:
      return std::string(graph::schema(g[i.node]).name) + " " + g[i.node].name + " by " +
             role.kernels[static_cast<std::size_t>(i.kernel)].implementation;
    case InstructionKind::Collective: {
      const auto& c = role.collectives[static_cast<std::size_t>(i.collective)];
      return std::string(name(c.kind)) + " (" + c.algorithm + ") over " + program.axes[c.axis].name;
    }
    case InstructionKind::Send:
    case InstructionKind::Receive:
      return std::string(name(i.kind)) + (i.kind == InstructionKind::Send ? " to" : " from") + " stage " +
             std::to_string(role.stage + role.messages[static_cast<std::size_t>(i.message)].stage_offset);
    default:
      return std::string(name(i.kind));
  }
}

}  // namespace

std::string to_text(const Program& program, const Role& role, const graph::Graph& g) {
  std::string text = "stage " + std::to_string(role.stage) + ", arena " +
                     rehearsal::to_text(Bytes(static_cast<double>(role.memory.arena_bytes))) + ", " +
                     std::to_string(role.memory.in_flight) + " micro-batches in flight\n";
  for (const auto& body : role.bodies) {
    text += " " + std::string(name(body.kind)) + "\n";
    for (std::size_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      text += "  " + std::to_string(n) + " " + what(program, role, i, g) + ": " + buffers_text(role, i.inputs) + " -> " +
              buffers_text(role, i.outputs);
      if (i.when == When::LastMicroBatch) text += " (last micro-batch)";
      if (i.again) text += " (again)";
      for (const auto& d : i.after) text += " after " + std::string(name(role.bodies[d.body].kind)) + "." + std::to_string(d.instruction);
      text += '\n';
    }
  }
  return text;
}

}  // namespace rehearsal::plan
