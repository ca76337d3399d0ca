#pragma once
// Traces as one self-contained HTML page: a timeline of one step per rank and stream, and where the time goes.

#include <span>
#include <string>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// The page shows, of every trace, the step of median duration, all on one scale of time; and seconds per phase and operator kind: of two
/// traces of one program predicted beside measured (see compare), else of each trace alone. Throws BadInput without a step or a trace.
[[nodiscard]] std::string to_page(std::span<const Trace> traces);

}  // namespace rehearsal::traces
