#pragma once
// Traces for other programs: the Trace Event Format of Chrome and Perfetto, and a table.

#include <span>
#include <string>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// JSON of the Trace Event Format (Google, "Trace Event Format", 2016: complete events "X", metadata "M"; times in microseconds).
/// A process is a rank, a thread a stream; of several traces the n-th one's ranks are processes 1000·n + rank.
[[nodiscard]] std::string to_chrome_json(std::span<const Trace> traces);

/// One line an event: trace, rank, step, micro_batch, stream, phase, op, name, begin_seconds, end_seconds, busy_seconds, message_bytes.
/// Quoted as RFC 4180 says.
[[nodiscard]] std::string to_csv(std::span<const Trace> traces);

}  // namespace rehearsal::traces
