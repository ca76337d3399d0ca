#include "cli/resuming.hpp"

#include "base/error.hpp"
#include "plan/compressors.hpp"

namespace rehearsal::cli {
namespace {

/// What ranks keep for themselves is there where as many replicas wrote it by a plan of the same kind.
void check_kept(const std::string& folder, std::int64_t step, const exec::Training& training, std::vector<std::string>& warnings) {
  const auto& plan = training.program.plan;
  const auto* row = plan::compressor(plan.compression.rule);
  const bool remembers = row != nullptr && row->remembers;
  if (step <= plan.exact_steps || (!remembers && plan.local_steps == 0)) return;
  const auto held = exec::held_kept(folder, training.program, training.graph.graph);
  if (held == exec::HeldKept::All) return;
  const auto where = "--resume " + folder + ": ", of = " for " + plan::to_text(plan);
  if (!remembers)
    return warnings.push_back(where + "what each replica keeps for itself is not in it" + of +
                              ": all go on with the optimizer's state of the first, and an outer momentum that is not there begins at 0");
  if (row->of_moments && held == exec::HeldKept::NotAll)
    throw Refusal(where + "exact_steps=" + std::to_string(plan.exact_steps) +
                  " takes the second moment for that of so many steps, and the " + "checkpoint has one of " + std::to_string(step) +
                  "; use exact_steps=" + std::to_string(step) + ", or the plan that wrote it");
  warnings.push_back(where + "what ranks had not sent of their gradients is not in it" + of + ", and begins at 0");
}

}  // namespace

std::optional<exec::CheckpointHeader> header_to_resume(const std::string& folder, const exec::Training& training,
                                                       std::vector<std::string>& warnings) {
  if (folder.empty()) return std::nullopt;
  const auto header = exec::read_checkpoint_header(folder);
  if (header.batch != training.program.batch)
    warnings.push_back("--resume " + folder + ": the batch was " + std::to_string(header.batch) + " and is " +
                       std::to_string(training.program.batch) + " now; step " + std::to_string(header.step + 1) + " goes on with sample " +
                       std::to_string(header.samples + 1) + ", at the same learning rate");
  check_kept(folder, header.step, training, warnings);
  return header;
}

}  // namespace rehearsal::cli
