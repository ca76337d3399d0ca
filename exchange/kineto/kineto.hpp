#pragma once
// Traces of the PyTorch profiler (Kineto's JSON): what a GPU did, and how its time divides.

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace rehearsal::exchange {

/// Other: a stream waits for an event or for another stream.
enum class GpuWork : std::uint8_t { Compute, Communication, Memory, Other };

struct GpuEvent {
  std::string name;
  GpuWork work = GpuWork::Compute;
  std::int64_t begin = 0, end = 0;  ///< whole microseconds: begins rounded up, ends rounded down; end may be begin - 1
  /// Of communication, where the profiler wrote it; empty and 0 otherwise.
  std::string collective;
  std::string unreadable;  ///< why it is not known, where it was written in another way
  std::int64_t bytes = 0;  ///< of the larger of what a rank gives and gets
  int group = 0;           ///< ranks
};

struct KinetoTrace {
  std::optional<int> rank, ranks;  ///< as the profiler wrote them
  std::vector<GpuEvent> events;
  /// Of the steps whose work is in `events`: from one step's mark to that of the next, or the only step's length. Empty: nothing is marked.
  std::vector<double> step_seconds;
};

/// Kernels, copies and waits of streams that were started in the steps that the profiler marked (ProfilerStep#N), the last of several left
/// out because its work may be cut off; all of them where nothing is marked. Names decide which are communication and memory. Rounding,
/// names and the choice of steps are those of Holistic Trace Analysis (hta/common/types.py, trace.py, trace_parser.py in release 0.6.1), so
/// that times are equal. Events are read one by one: memory is for those that are kept.
/// Throws BadInput naming `file`, the event's number and the key: no JSON, no "traceEvents", a time that is no number, and a trace
/// without work of a GPU.
[[nodiscard]] KinetoTrace read_kineto(std::istream&, const std::string& file);
/// Whether a file that begins so can be one: a JSON object or list.
[[nodiscard]] bool is_kineto(const std::string& beginning);

/// From the first kernel to the end of the last, in microseconds: nothing runs, something computes, only others run.
struct TimeBreakdown {
  std::int64_t idle = 0, compute = 0, non_compute = 0;
  std::int64_t communication = 0;  ///< something communicates
  std::int64_t overlap = 0;        ///< of it, beside something that computes
  [[nodiscard]] std::int64_t total() const { return idle + compute + non_compute; }
};
[[nodiscard]] TimeBreakdown breakdown(const KinetoTrace&);

struct CollectiveSum {
  std::string name;
  int group = 0;
  std::int64_t bytes = 0;  ///< of each
  std::int64_t count = 0;
  std::int64_t microseconds = 0;  ///< of all together
};
/// By name, ranks and size, longest first. Throws Refusal naming the first kernel of communication about which the trace says
/// nothing, or nothing that is understood.
[[nodiscard]] std::vector<CollectiveSum> collectives(const KinetoTrace&);

}  // namespace rehearsal::exchange
