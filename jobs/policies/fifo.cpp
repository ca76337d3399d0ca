// First in, first out: nobody overtakes, so a large job at the head keeps devices idle.

#include "jobs/policies/policy_rows.hpp"

namespace rehearsal::jobs {
namespace {

class Fifo final : public Policy {
 public:
  void decide(Schedule& schedule) override {
    for (const auto job : schedule.waiting())
      if (!schedule.start_where_room(job)) return;
  }
};

}  // namespace

PolicyRow fifo() {
  return {.name = "fifo",
          .description = "in order of arrival; nobody overtakes",
          .make = [](const PolicySettings&) -> std::unique_ptr<Policy> { return std::make_unique<Fifo>(); }};
}

}  // namespace rehearsal::jobs
