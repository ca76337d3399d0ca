#include "cli/resuming.hpp"

#include "base/error.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::cli {
namespace {

/// A training whose gradients are compressed from the first step on that is left, and that was not before.
void check_unsent(const std::string& folder, std::int64_t step, const plan::Program& program, std::vector<std::string>& warnings) {
  const auto& plan = program.plan;
  const auto* row = plan::compressor(plan.compression.rule);
  if (row == nullptr || !row->remembers || step <= plan.exact_steps) return;
  const auto held = exec::held_unsent(folder, program);
  if (held == exec::HeldUnsent::All) return;
  const auto where = "--resume " + folder, key = "compression=" + to_text(plan.compression);
  if (row->of_moments && held == exec::HeldUnsent::Nothing)
    throw Refusal(where + ": " + key + ",exact_steps=" + std::to_string(plan.exact_steps) +
                  " takes the second moment for that of so many steps, and the checkpoint has one of " + std::to_string(step) +
                  "; use exact_steps=" + std::to_string(step) + ", or the plan that wrote it");
  warnings.push_back(where + ": what ranks had not sent of their gradients is not in it for " + key + " and dp=" + std::to_string(plan.dp) +
                     ", and begins at 0");
}

}  // namespace

std::optional<exec::CheckpointHeader> header_to_resume(const std::string& folder, const plan::Program& program,
                                                       std::vector<std::string>& warnings) {
  if (folder.empty()) return std::nullopt;
  const auto header = exec::read_checkpoint_header(folder);
  if (header.batch != program.batch)
    warnings.push_back("--resume " + folder + ": the batch was " + std::to_string(header.batch) + " and is " +
                       std::to_string(program.batch) + " now; step " + std::to_string(header.step + 1) + " goes on with sample " +
                       std::to_string(header.samples + 1) + ", at the same learning rate");
  check_unsent(folder, header.step, program, warnings);
  return header;
}

}  // namespace rehearsal::cli
