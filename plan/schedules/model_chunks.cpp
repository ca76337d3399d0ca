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
  }
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
