#include <array>

#include "jobs/policies/rows.hpp"

namespace rehearsal::jobs {

std::span<const PolicyRow> policy_table() {
  static const std::array kPolicies{fifo(), easy(), fair_share(), themis(), gang(), elastic()};
  return kPolicies;
}

}  // namespace rehearsal::jobs
