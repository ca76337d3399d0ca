#pragma once
#include <optional>
#include <string>

#include "graph/graph.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::property {

/// The first collective in which what one rank sends is not what another awaits, or of which the ranks of a group do not agree; none where
/// all messages of a step match. No rank is started.
[[nodiscard]] std::optional<std::string> unmatched_message(const plan::Program&, const graph::Graph&);

}  // namespace rehearsal::property
