#pragma once
#include "plan/program/program.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::plan {

/// Sets Role::slots, and Role::opening where steps follow each other without a flush: which body runs for which micro-batch, in the
/// schedule's order. Empty bodies have no slot.
void set_slots(Role& role, const ScheduleRow& schedule, const PipelineShape& shape);

}  // namespace rehearsal::plan
