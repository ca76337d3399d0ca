// What is found wrong with operands of compressors when a Program's file is read, written out: every operand left out, added or of another
// size. "-" where nothing is found: what is gathered says itself how much it is, and results are as many as gradients.
#include "plan/lowering/lowering.hpp"
#include "plan/program/operands_fault.hpp"
#include "tests/plan/lowering/written_program.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using rehearsal::plan::test::written_training;

namespace {

/// A compressor's instruction in the Program that it is of.
struct FaultyInstruction {
  const graph::TrainingGraph& training;
  const Program& program;
  const Instruction& instruction;

  [[nodiscard]] std::string fault(const Role& role, const Instruction& changed) const {
    const auto found = operands_fault(program, role, changed, training.graph);
    return found.empty() ? "-" : found;
  }
  [[nodiscard]] std::string with(const std::function<void(Instruction&)>& change) const {
    auto changed = instruction;
    change(changed);
    return fault(program.roles.front(), changed);
  }
  [[nodiscard]] std::string with_size(BufferIndex buffer) const {
    auto role = program.roles.front();
    role.buffers[buffer].bytes += 1;
    return fault(role, instruction);
  }
  [[nodiscard]] std::string text() const {
    std::string lines = "  " + std::string(name(instruction.kind)) + " of " + std::to_string(instruction.inputs.size()) + " to " +
                        std::to_string(instruction.outputs.size()) + ": " + fault(program.roles.front(), instruction) + "\n";
    const auto row = [&](const std::string& what, const std::string& found) { lines += "    " + what + ": " + found + "\n"; };
    row("one input less", with([](Instruction& i) { i.inputs.pop_back(); }));
    row("one input more", with([](Instruction& i) { i.inputs.push_back(i.inputs.front()); }));
    row("one output less", with([](Instruction& i) { i.outputs.pop_back(); }));
    row("one output more", with([](Instruction& i) { i.outputs.push_back(i.outputs.front()); }));
    row("no input there", with([](Instruction& i) { i.inputs.front() = kNoBuffer; }));
    row("no output there", with([](Instruction& i) { i.outputs.back() = kNoBuffer; }));
    row("no collective", with([](Instruction& i) { i.collective = -1; }));
    row("first input larger", with_size(instruction.inputs.front()));
    row("last input larger", with_size(instruction.inputs.back()));
    row("first output larger", with_size(instruction.outputs.front()));
    row("last output larger", with_size(instruction.outputs.back()));
    return lines;
  }
};

std::string faults_text(const char* plan, const char* how) {
  const auto training = written_training("layers", plan, how);
  const auto program = lower(training, parse_plan(plan), TableBackend(), {});
  std::string text = std::string(plan) + "\n";
  for (const auto& body : program.roles.front().bodies)
    for (const auto& i : body.instructions)
      if (i.kind == InstructionKind::Compress || i.kind == InstructionKind::Decompress || i.kind == InstructionKind::Recompress)
        text += FaultyInstruction{training, program, i}.text();
  return text;
}

}  // namespace

TEST_CASE("faults of compressors' operands are those that are written out") {
  std::string text;
  for (const auto* plan :
       {"dp=2,compression=sign", "dp=2,compression=topk:0.5", "dp=2,compression=powersgd:1", "dp=2,compression=sparcml:0.5"})
    text += faults_text(plan, "");
  text += faults_text("dp=2,compression=1bit-adam,exact_steps=2", "adam");
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/faults.txt", text);
}

TEST_CASE("compressors' instructions are of plans that compress, and kernels have what their nodes read and make") {
  const auto training = written_training("layers", "dp=2", "");
  const auto program = lower(training, parse_plan("dp=2"), TableBackend(), {});
  const auto& role = program.roles.front();
  Instruction compress;
  compress.kind = InstructionKind::Compress;
  CHECK(operands_fault(program, role, compress, training.graph) == "the plan compresses no gradients");
  int kernels = 0;
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      CHECK(operands_fault(program, role, i, training.graph).empty());
      if (i.kind != InstructionKind::Kernel) continue;
      ++kernels;
      auto less = i, nothing = i;
      less.outputs.back() = kNoBuffer;
      nothing.inputs.clear();
      const auto& node = training.graph[i.node];
      CHECK_THAT(operands_fault(program, role, less, training.graph),
                 contains("outputs: " + training.graph[node.outputs.back()].name + " is missing"));
      CHECK_THAT(operands_fault(program, role, nothing, training.graph),
                 contains("inputs: " + training.graph[node.inputs.front()].name + " is missing"));
    }
  CHECK(kernels > 10);
}
