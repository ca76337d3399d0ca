#pragma once
#include "jobs/policy.hpp"

namespace rehearsal::jobs {

[[nodiscard]] PolicyRow fifo();
[[nodiscard]] PolicyRow easy();
[[nodiscard]] PolicyRow fair_share();
[[nodiscard]] PolicyRow themis();
[[nodiscard]] PolicyRow gang();
[[nodiscard]] PolicyRow elastic();

/// In the order of policy_table().
inline constexpr PolicyRow (*kPolicies[])() = {fifo, easy, fair_share, themis, gang, elastic};

}  // namespace rehearsal::jobs
