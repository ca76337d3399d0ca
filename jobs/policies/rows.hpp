#pragma once
#include "jobs/policy.hpp"

namespace rehearsal::jobs {

[[nodiscard]] PolicyRow fifo();
[[nodiscard]] PolicyRow easy();
[[nodiscard]] PolicyRow fair_share();
[[nodiscard]] PolicyRow themis();
[[nodiscard]] PolicyRow gang();
[[nodiscard]] PolicyRow elastic();

}  // namespace rehearsal::jobs
