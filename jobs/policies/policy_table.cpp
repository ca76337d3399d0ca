#include "base/table.hpp"
#include "jobs/policies/policy_rows.hpp"

namespace rehearsal::jobs {

std::span<const PolicyRow> policy_table() {
  static const auto kTable = rows_of(kPolicies);
  return kTable;
}

}  // namespace rehearsal::jobs
