#include "plan/program/operands_fault.hpp"

#include <algorithm>

#include "plan/compressors.hpp"

namespace rehearsal::plan {
namespace {

/// Of a kernel that is its node alone: the node's tensors; of others only the first is known to be there.
std::string missing(const std::vector<BufferIndex>& given, const std::vector<graph::TensorId>& tensors, bool alone,
                    const graph::Graph& graph) {
  const auto needed = alone ? tensors.size() : std::min<std::size_t>(1, tensors.size());
  for (std::size_t n = 0; n < needed; ++n)
    if (tensors[n] != graph::TensorId::None && (n >= given.size() || given[n] == kNoBuffer)) return graph[tensors[n]].name + " is missing";
  return {};
}

std::string fault_of_kernel(const Role& role, const Instruction& i, const graph::Graph& graph) {
  const auto& op = role.kernels[static_cast<std::size_t>(i.kernel)].op;
  const bool alone = op.empty();
  const bool reads = op != "ConstantOfShape";  // zeros of a ring's first turn: of attributes alone
  const auto& node = graph[i.node];
  if (auto fault = missing(i.inputs, node.inputs, alone, graph); reads && !fault.empty()) return "inputs: " + fault;
  if (auto fault = missing(i.outputs, node.outputs, alone, graph); !fault.empty()) return "outputs: " + fault;
  return {};
}

bool there(const std::vector<BufferIndex>& list) { return !list.empty() && std::ranges::find(list, kNoBuffer) == list.end(); }

std::string fault_of_gradients(const Program& program, const Instruction& i) {
  const auto* row = compressor(program.plan.compression.rule);
  if (row == nullptr) return "the plan compresses no gradients";
  if (i.collective < 0) return "collective is missing";
  if (!there(i.inputs) || !there(i.outputs)) return "inputs and outputs are gradients and what is sent of them, and some are missing";
  if (i.kind == InstructionKind::Decompress) return i.inputs.size() == 1 ? "" : "inputs are what is gathered, and nothing else";
  const auto kept = row->remembers ? i.inputs.size() / 2 : 0;
  if (i.outputs.size() == 1 + kept && (!row->remembers || i.inputs.size() == 2 * kept)) return {};
  return std::string("outputs are what is gathered") + (row->remembers ? ", and what is kept of each gradient" : ", and nothing else");
}

}  // namespace

std::string operands_fault(const Program& program, const Role& role, const Instruction& i, const graph::Graph& graph) {
  if (i.kind == InstructionKind::Kernel) return fault_of_kernel(role, i, graph);
  const bool compresses = i.kind == InstructionKind::Compress || i.kind == InstructionKind::Decompress;
  return compresses ? fault_of_gradients(program, i) : std::string();
}

}  // namespace rehearsal::plan
