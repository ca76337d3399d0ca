#include "plan/program/describe.hpp"

#include <map>

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

/// Operator, node, and whose kernel it is. Kernels of other frameworks need be no operator of ours ("update"), and belong to no node then.
std::string kernel_text(const Program& program, const Role& role, const Instruction& i, const graph::Graph& g) {
  const auto& kernel = role.kernels[static_cast<std::size_t>(i.kernel)];
  const bool has_node = i.node != graph::NodeId::None;
  std::string text = kernel.op.empty() ? std::string(schema_of(role, i, g[i.node]).name) : kernel.op;
  if (has_node) text += " " + g[i.node].name;
  if (i.collective >= 0) {
    const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
    text += " on " + std::to_string(info.root) + " of " + program.axes[info.axis].name;
  }
  return kernel.implementation.empty() ? text : text + " by " + kernel.implementation;
}

}  // namespace

std::string describe(const Program& program, const Role& role, const Instruction& i, const graph::Graph& g) {
  switch (i.kind) {
    case InstructionKind::Kernel:
      return kernel_text(program, role, i, g);
    case InstructionKind::Collective: {
      const auto& c = role.collectives[static_cast<std::size_t>(i.collective)];
      return std::string(name(c.kind)) + " (" + c.algorithm + ") over " + program.axes[c.axis].name +
             (c.kind == CollectiveKind::Broadcast ? " from " + std::to_string(c.root) : "");
    }
    case InstructionKind::Send:
    case InstructionKind::Receive:
      return std::string(name(i.kind)) + (i.kind == InstructionKind::Send ? " to" : " from") + " stage " +
             std::to_string(role.stage + role.messages[static_cast<std::size_t>(i.message)].stage_offset);
    default:
      return std::string(name(i.kind));
  }
}

std::string to_text(const Program& program, const Role& role, const graph::Graph& g) {
  std::string text =
      "stage " + std::to_string(role.stage) + ", arena " + rehearsal::to_text(Bytes(static_cast<double>(role.memory.arena_bytes))) + ", " +
      std::to_string(role.memory.in_flight) + " micro-batches in flight" +
      (role.delay > 0 ? ", computes with the weights of " + std::to_string(role.delay) + " updates ago" : "") +
      (role.opening.empty() ? "" : ", forward passes " + std::to_string(role.opening.size()) + " micro-batches ahead") + "\n";
  for (const auto& body : role.bodies) {
    text += " " + std::string(name(body.kind)) + "\n";
    for (std::size_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      text += "  " + std::to_string(n) + " " + describe(program, role, i, g) + ": " + buffers_text(role, i.inputs) + " -> " +
              buffers_text(role, i.outputs);
      if (i.when == When::LastMicroBatch) text += " (last micro-batch)";
      if (i.when == When::AllButLastMicroBatch) text += " (not the last micro-batch)";
      if (i.during != During::Training) text += " (" + std::string(kDuringNames[static_cast<std::size_t>(i.during)]) + ")";
      if (i.again) text += " (again)";
      for (const auto& d : i.after) text += " after " + std::string(name(role.bodies[d.body].kind)) + "." + std::to_string(d.instruction);
      text += '\n';
    }
  }
  return text;
}

namespace {

std::string quoted(const std::string& text) {
  std::string safe = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe + "\"";
}

/// One role in Graphviz's language.
class RoleDrawing {
 public:
  RoleDrawing(const Program& program, std::size_t number, const graph::Graph& g)
      : program_(program), role_(program.roles[number]), number_(std::to_string(number)), g_(g) {}

  std::string draw() && {
    for (std::size_t b = 0; b < role_.bodies.size(); ++b) add_body(b);
    return "  subgraph cluster_r" + number_ + " {\n    label=" + quoted("role " + number_ + ", stage " + std::to_string(role_.stage)) +
           ";\n" + boxes_ + "  }\n" + edges_;
  }

 private:
  [[nodiscard]] std::string id(std::size_t body, std::size_t instruction) const {
    return "r" + number_ + "_" + std::to_string(body) + "_" + std::to_string(instruction);
  }

  void add_body(std::size_t b) {
    const auto& body = role_.bodies[b];
    if (body.instructions.empty()) return;
    boxes_ += "    subgraph cluster_r" + number_ + "_" + std::to_string(b) + " {\n      label=" +
              quoted(std::string(name(body.kind)) + (role_.bodies.size() > 4 ? " " + std::to_string(body.chunk) : "")) + ";\n";
    for (std::size_t n = 0; n < body.instructions.size(); ++n) {
      const auto& i = body.instructions[n];
      std::string label = describe(program_, role_, i, g_);
      if (i.kind != InstructionKind::Kernel && i.tensor != graph::TensorId::None) label += "\n" + g_[i.tensor].name;
      boxes_ += "      " + id(b, n) + " [shape=" + (i.stream == Stream::Compute ? "box" : "ellipse") + ", label=" + quoted(label) + "];\n";
      add_edges(i, id(b, n));
    }
    boxes_ += "    }\n";
  }

  void add_edges(const Instruction& i, const std::string& to) {
    for (auto b : i.inputs)
      if (b != kNoBuffer)
        if (const auto from = writers_.find(base_of(role_, b)); from != writers_.end())
          edges_ += "  " + from->second + " -> " + to + " [label=" + quoted(role_.buffers[b].name) + "];\n";
    for (const auto& d : i.after) edges_ += "  " + id(d.body, d.instruction) + " -> " + to + " [style=dashed];\n";
    for (auto b : i.outputs)
      if (b != kNoBuffer) writers_[base_of(role_, b)] = to;
  }

  const Program& program_;
  const Role& role_;
  std::string number_;
  const graph::Graph& g_;
  std::string boxes_, edges_;
  std::map<BufferIndex, std::string> writers_;
};

}  // namespace

std::string to_dot(const Program& program, const graph::Graph& g) {
  std::string text = "digraph program {\n  rankdir=TB;\n  node [fontsize=10];\n  edge [fontsize=8];\n";
  for (std::size_t r = 0; r < program.roles.size(); ++r) text += RoleDrawing(program, r, g).draw();
  return text + "}\n";
}

}  // namespace rehearsal::plan
