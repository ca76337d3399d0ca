#include "sim/timetable.hpp"

#include "predict/playing.hpp"
#include "predict/steady.hpp"

namespace rehearsal::sim {
namespace {

constexpr std::uint32_t kNever = 0xFFFFFFFFU;

bool is_message(const plan::Instruction& i) {
  return i.kind == plan::InstructionKind::Send || i.kind == plan::InstructionKind::Receive || i.kind == plan::InstructionKind::Collective;
}

/// Where each instruction ran in each micro-batch.
class Index {
 public:
  Index(const plan::Role& role, int micro_batches) : micro_batches_(static_cast<std::size_t>(micro_batches)) {
    for (const auto& body : role.bodies) {
      first_.push_back(runs_.size());
      runs_.resize(runs_.size() + body.instructions.size() * micro_batches_, kNever);
    }
  }
  std::uint32_t& at(std::size_t body, std::size_t instruction, int micro_batch) {
    return runs_[first_[body] + instruction * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }

 private:
  std::size_t micro_batches_;
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> runs_;
};

void add_dependencies(const plan::Program& program, Timetable& table, Index& index, InstructionRun& run) {
  const auto& slot = table.slot(run);
  run.first_dependency = static_cast<std::uint32_t>(table.dependencies.size());
  for (const auto& d : table.instruction(run).after) {
    const auto needed = index.at(d.body, d.instruction, plan::micro_batch_of(program, *table.role, slot, d));
    if (needed == kNever || table.runs[needed].stream == run.stream) continue;  // does not run in this step; or is in order anyway
    table.runs[needed].awaited = true;
    table.dependencies.push_back(needed);
  }
  run.dependencies = static_cast<std::uint32_t>(table.dependencies.size()) - run.first_dependency;
}

void add_run(const predict::EvaluationRequest& request, std::size_t role, Timetable& table, Index& index, InstructionRun run) {
  const auto& slot = table.slot(run);
  const auto& i = table.instruction(run);
  run.stream = predict::stream_on(request.model, i);
  run.communicates = is_message(i);
  if (!run.communicates || request.costs.with_messages)
    run.cost = predict::launch_of(request.costs.roles[role], *table.role, slot, run.instruction);
  add_dependencies(request.program, table, index, run);
  auto& queue = table.streams[static_cast<std::size_t>(run.stream)];
  if (run.communicates && !queue.empty()) table.runs[queue.back()].awaited = true;
  const auto number = static_cast<std::uint32_t>(table.runs.size());
  queue.push_back(number);
  index.at(slot.body, run.instruction, slot.micro_batch) = number;
  table.runs.push_back(run);
}

}  // namespace

Timetable timetable_of(const predict::EvaluationRequest& request, std::size_t role_index) {
  Timetable table;
  table.role = &request.program.roles[role_index];
  Index index(*table.role, predict::numbered_micro_batches(request.program));
  for (std::uint32_t s = 0; s < table.role->slots.size(); ++s) {
    const auto& slot = table.role->slots[s];
    const auto& instructions = table.role->bodies[slot.body].instructions;
    for (std::uint32_t n = 0; n < instructions.size(); ++n) {
      if (!plan::runs(request.program, *table.role, instructions[n], slot.micro_batch, request.kind)) continue;
      InstructionRun run;
      run.slot = s;
      run.instruction = n;
      add_run(request, role_index, table, index, run);
    }
  }
  return table;
}

}  // namespace rehearsal::sim
