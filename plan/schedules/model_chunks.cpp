#include "plan/schedules/model_chunks.hpp"

namespace rehearsal::plan {

const ScheduleRow& schedule_of(const Plan& plan) {
  if (plan.pp == 1) return schedule("1f1b");
  return schedule(plan.interleave > 1 && plan.schedule == "1f1b" ? "interleaved" : plan.schedule);
}

PipelineShape pipeline_shape(const Plan& plan, int micro_batches) {
  const auto& row = schedule_of(plan);
  return {plan.pp, micro_batches, row.chunks == 0 ? plan.interleave : row.chunks};
}

namespace {

/// Cuts are named for one number of parts: the same plan with other stages or chunks needs other ones.
void add_cuts_of_others(const Plan& plan, int micro_batches, std::vector<Violation>& violations) {
  if (plan.pp == 1 || plan.cuts.empty()) return;
  const auto& row = schedule_of(plan);
  const int wanted = parts(row.placement, pipeline_shape(plan, micro_batches)) - 1;
  const auto named = static_cast<int>(plan.cuts.size());
  if (named == wanted) return;
  const std::string of_schedule = wanted + 1 == plan.pp ? "" : " with schedule=" + std::string(row.name);
  violations.push_back(
      {"cuts",
       std::to_string(named) + " cuts for pp=" + std::to_string(plan.pp) + of_schedule + "; there must be " + std::to_string(wanted),
       "leave cuts out to have stages balanced by cost"});
}

}  // namespace

std::vector<Violation> schedule_violations(const Plan& plan, int micro_batches) {
  std::vector<Violation> violations;
  const auto& row = schedule_of(plan);
  const std::string name(row.name);
  if (plan.pp == 1 && plan.interleave > 1)
    violations.push_back(
        {"interleave", std::to_string(plan.interleave) + " chunks on each of one stage", "use pp=2 or more, or interleave=1"});
  if (plan.pp > 1 && row.chunks != 0 && plan.interleave > 1 && plan.interleave != row.chunks)
    violations.push_back({"interleave",
                          std::to_string(plan.interleave) + " chunks, but schedule " + name + " has " + std::to_string(row.chunks),
                          "leave it out, or use schedule=interleaved"});
  const bool alone = plan.pp == 1 && schedule(plan.schedule).asynchronous;
  if (alone)
    violations.push_back({"schedule", plan.schedule + " lets steps overlap on several stages, and there is one", "use pp=2 or more"});
  if (const auto reason = row.refusal == nullptr ? std::string() : row.refusal(pipeline_shape(plan, micro_batches)); !reason.empty()) {
    const auto remedy = reason.find("; ");
    violations.push_back({"schedule", reason.substr(0, remedy), reason.substr(remedy + 2)});
    return violations;
  }
  add_cuts_of_others(plan, micro_batches, violations);
  return violations;
}

std::string other_mathematics(const Plan& plan) {
  const auto& row = schedule_of(plan);
  if (!row.asynchronous) return {};
  return "schedule=" + std::string(row.name) + ": steps follow each other without a flush, and " + std::string(row.gradients) +
         ": different mathematics from those of one process";
}

std::vector<PartPlace> places_of_parts(const ScheduleRow& row, const PipelineShape& shape) {
  std::vector<PartPlace> places(static_cast<std::size_t>(parts(row.placement, shape)));
  for (int stage = 0; stage < shape.stages; ++stage)
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      places[static_cast<std::size_t>(part_of(row.placement, shape, stage, chunk))] = {stage, chunk};
  return places;
}

}  // namespace rehearsal::plan
