#include "plan/program/operands_fault.hpp"

#include <algorithm>

#include "plan/compressors.hpp"
#include "plan/low_rank.hpp"

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

/// The two factors of gradients (plan/low_rank.hpp): what is kept stands in the order of the gradients that have some, and vectors are as
/// long as what lies in them.
std::string fault_of_factors(const Program& program, const Role& role, const Instruction& i) {
  const std::string wrong =
      "inputs and outputs are gradients, their factors and what is kept of them, and some are missing or of another size";
  const bool compresses = i.kind == InstructionKind::Compress, sums = i.kind == InstructionKind::Decompress;
  if (compresses && i.outputs.size() > i.inputs.size()) return wrong;
  if (i.kind == InstructionKind::Recompress && i.outputs.size() != 1) return wrong;
  if (sums && i.inputs.size() > 1 && i.inputs.size() - 2 > i.outputs.size()) return wrong;
  const auto gradients = gradients_of(i);
  std::size_t next = compresses ? 1 : gradients.size();
  std::int64_t first = 0, second = 0;
  for (const auto g : gradients) {
    const auto f = factors_of(role.buffers[g].shapes.front(), program.plan.compression.setting);
    const auto element = static_cast<std::int64_t>(size_of(role.buffers[g].dtype));
    first += f.first() * element, second += f.second() * element;
    if (!f.any() || i.kind == InstructionKind::Recompress) continue;
    if (next == i.outputs.size() || role.buffers[i.outputs[next++]].bytes != f.kept() * element) return wrong;
  }
  if (i.kind != InstructionKind::Recompress && next != i.outputs.size()) return wrong;
  const bool both = second > 0;
  if (sums && both != (i.inputs.size() > 1)) return wrong;
  if (role.buffers[compresses ? i.outputs.front() : i.inputs.front()].bytes != first) return wrong;
  const auto second_vector = sums                                    ? (both ? i.inputs[1] : kNoBuffer)
                             : i.kind == InstructionKind::Recompress ? i.outputs.front()
                                                                     : kNoBuffer;
  return second_vector != kNoBuffer && role.buffers[second_vector].bytes != second ? wrong : std::string();
}

/// Vectors of the compressor's sizes, and what is kept of each gradient and of a rank's share of the sum.
std::string fault_of_shares(const Program& program, const Role& role, const Instruction& i) {
  const auto& row = *compressor(program.plan.compression.rule);
  const std::string wrong =
      "inputs and outputs are gradients, what is sent of them and what is kept, and some are missing or of another size";
  const bool compresses = i.kind == InstructionKind::Compress, sums = i.kind == InstructionKind::Recompress;
  if (compresses && i.inputs.size() != 2 * (i.outputs.size() - 1)) return wrong;
  if (sums && (i.outputs.size() != (row.remembers_sum ? 2 : 1) || i.inputs.size() <= i.outputs.size())) return wrong;
  if (!compresses && !sums && i.inputs.size() != 1) return wrong;
  std::vector<std::int64_t> elements;
  const auto gradients = gradients_of(i);
  for (std::size_t n = 0; n < gradients.size(); ++n) {
    const auto& gradient = role.buffers[gradients[n]];
    elements.push_back(graph::element_count(gradient.shapes.front()));
    if (compresses && role.buffers[i.outputs[1 + n]].bytes != elements.back() * static_cast<std::int64_t>(size_of(gradient.dtype)))
      return wrong;
  }
  const int ranks = program.axes[role.collectives[static_cast<std::size_t>(i.collective)].axis].size;
  const auto dtype = role.buffers[gradients.front()].dtype;
  const auto blocks = shared_blocks(program.plan.compression, elements, dtype, ranks);
  const auto sent = 2 * ranks * blocks.piece_bytes(), gathered = ranks * blocks.share_bytes();
  const auto size = [&](BufferIndex b) { return role.buffers[b].bytes; };
  if (compresses) return size(i.outputs.front()) == sent ? "" : wrong;
  if (!sums) return size(i.inputs.front()) == gathered ? "" : wrong;
  const auto kept = blocks.of_rank * kCompressedBlock * static_cast<std::int64_t>(size_of(dtype));
  const bool keeps = i.outputs.size() == 1 || (size(i.outputs[1]) == kept && i.inputs.back() == i.outputs[1]);
  return size(i.inputs.front()) == sent && size(i.outputs.front()) == gathered && keeps ? "" : wrong;
}

std::string fault_of_gradients(const Program& program, const Role& role, const Instruction& i) {
  const auto* row = compressor(program.plan.compression.rule);
  if (row == nullptr) return "the plan compresses no gradients";
  if (i.collective < 0) return "collective is missing";
  if (!there(i.inputs) || !there(i.outputs)) return "inputs and outputs are gradients and what is sent of them, and some are missing";
  if (row->sum == CompressedSum::Factors) return fault_of_factors(program, role, i);
  if (row->sum == CompressedSum::Shares) return fault_of_shares(program, role, i);
  if (i.kind == InstructionKind::Recompress) return "the plan's compressor gathers, and makes nothing twice";
  if (i.kind == InstructionKind::Decompress) return i.inputs.size() == 1 ? "" : "inputs are what is gathered, and nothing else";
  const auto kept = row->remembers ? i.inputs.size() / 2 : 0;
  if (i.outputs.size() == 1 + kept && (!row->remembers || i.inputs.size() == 2 * kept)) return {};
  return std::string("outputs are what is gathered") + (row->remembers ? ", and what is kept of each gradient" : ", and nothing else");
}

}  // namespace

std::string operands_fault(const Program& program, const Role& role, const Instruction& i, const graph::Graph& graph) {
  if (i.kind == InstructionKind::Kernel) return fault_of_kernel(role, i, graph);
  const bool compresses =
      i.kind == InstructionKind::Compress || i.kind == InstructionKind::Decompress || i.kind == InstructionKind::Recompress;
  return compresses ? fault_of_gradients(program, role, i) : std::string();
}

}  // namespace rehearsal::plan
