#pragma once
// Devices in turn: at the end of every slice they are given anew, all of a job's at once, to jobs in an order that the policy says.

#include "jobs/policies/policy_rows.hpp"

namespace rehearsal::jobs {

class TimeSharing : public Policy {
 public:
  explicit TimeSharing(const PolicySettings& settings) : slice_(settings.slice) {}
  void decide(Schedule&) final;
  [[nodiscard]] std::optional<Seconds> wake(const Schedule&) const final;

 protected:
  /// Unfinished jobs, those first that are to have devices.
  [[nodiscard]] virtual std::vector<std::size_t> order(const Schedule&) const = 0;

 private:
  void give_anew(Schedule&);

  Seconds slice_, next_;
};

}  // namespace rehearsal::jobs
