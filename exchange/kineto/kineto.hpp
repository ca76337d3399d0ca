#pragma once
// Traces of the PyTorch profiler (Kineto's JSON).

#include <iosfwd>
#include <string>

#include "exchange/profile/profile.hpp"

namespace rehearsal::exchange {

/// Kernels, copies and waits of streams that were started in the steps that the profiler marked (ProfilerStep#N), the last of several left
/// out because its work may be cut off; all of them where nothing is marked. Names decide which are communication and memory. Rounding,
/// names and the choice of steps are those of Holistic Trace Analysis (hta/common/types.py, trace.py, trace_parser.py in release 0.6.1), so
/// that times are equal. Events are read one by one: memory is for those that are kept.
/// Throws BadInput naming `file`, the event's number and the key: no JSON, no "traceEvents", a time that is no number, and a trace
/// without work of a GPU.
[[nodiscard]] GpuProfile read_kineto(std::istream&, const std::string& file);
/// Whether a file that begins so can be one: a JSON object or list.
[[nodiscard]] bool is_kineto(const std::string& beginning);

}  // namespace rehearsal::exchange
