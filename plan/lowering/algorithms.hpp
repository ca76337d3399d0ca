#pragma once
// By which algorithm a message's ranks exchange it, as a plan names it: Plan::algorithms.

#include <string>
#include <vector>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// What goes along an axis of a Program.
struct MessageKind {
  CollectiveKind kind = CollectiveKind::AllReduce;
  std::string axis;
  std::int64_t bytes = 0;  ///< of the vector on one rank
};
/// Empty: the plan names none for it.
[[nodiscard]] std::string named_algorithm(const Plan&, const MessageKind&);

/// Those of all messages for which the plan left it open, in order: with them the plan gives the same Program on ranks that know nothing of
/// their links.
[[nodiscard]] std::vector<std::string> algorithms_of(const Program&);

}  // namespace rehearsal::plan
