#pragma once
// What happened in training steps: timed events of every rank and stream, keyed by instruction identity. One schema for
// simulated and measured; it embeds what it was made from, so that it can be compared and learned from alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/calibration.hpp"
#include "costmodel/interval.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::traces {

/// What an instruction is, apart from when it ran: stored once, referred to by events.
struct EventKind {
  plan::InstructionIdentity identity;  ///< micro_batch 0
  std::string name;                    ///< node or tensor name
  costmodel::KernelCase kernel;        ///< kernels and reorders: what the cost model is asked for; op "all-reduce", "send" ... otherwise
  std::int64_t message_bytes = 0;      ///< of communication
  int message_ranks = 0;               ///< of collectives
  costmodel::Estimate predicted;       ///< what the cost model said (seconds 0 when nobody asked)
  friend bool operator==(const EventKind& a, const EventKind& b) { return a.identity == b.identity && a.name == b.name; }
};

struct Event {
  std::uint32_t kind = 0;  ///< into RankTrace::kinds
  std::int32_t micro_batch = 0;
  std::int32_t step = 0;
  plan::Stream stream = plan::Stream::Compute;
  double begin = 0, end = 0;  ///< seconds since the beginning of step 0 of the trace, on a clock common to the ranks
  double busy = 0;            ///< thread CPU seconds of the instruction where measured, else end - begin
  std::int64_t in_use = 0;    ///< bytes of the device's memory that hold something meanwhile; 0: not known
};

struct RankTrace {
  int rank = 0;
  std::vector<EventKind> kinds;
  std::vector<Event> events;  ///< in the order in which they were issued
};

/// The first steps of a training take longer: so many are marked, all of a training that has no more.
inline constexpr std::size_t kWarmUpSteps = 2;

struct StepRecord {
  std::int32_t step = 0;
  double begin = 0, end = 0;                   ///< over all ranks
  double loss = 0;                             ///< measured traces only
  bool warm_up = false;                        ///< excluded from statistics
  std::optional<std::int64_t> staleness = {};  ///< Plan::staleness: the most meetings that one replica was behind another
};

struct Trace {
  int schema = 1;
  std::string kind;       ///< "simulated" or "measured"
  std::string framework;  ///< that ran the step, or as which it was predicted; traces of earlier versions do not say
  std::string model, model_hash;
  std::string plan;  ///< compact text
  std::int64_t batch = 0;
  std::string dtype;
  std::string platform;                                      ///< JSON text of the platform
  std::string calibration;                                   ///< JSON text of the calibration that predicted it, may be empty
  int threads = 1;                                           ///< per rank
  std::vector<std::pair<std::string, std::string>> context;  ///< machine, date, load: of measured traces
  std::vector<StepRecord> steps;
  std::vector<RankTrace> ranks;  ///< simulated traces of large jobs may hold one rank per role
  std::int64_t arena_bytes = 0;
};

/// Reads a trace file. Throws BadInput naming file and key.
[[nodiscard]] Trace read_trace(const std::string& path);
/// Writes atomically. Throws EnvironmentFailure when the disk is full.
void write_trace(const std::string& path, const Trace&);
/// True when the file is a trace rather than something else (records, a plan): by its "schema" and "trace" keys.
[[nodiscard]] bool is_trace_file(const std::string& path);

/// False where both traces say what ran them, and it is not the same.
[[nodiscard]] bool of_one_framework(const Trace&, const Trace&);
/// "measured", "simulated as megatron-core"
[[nodiscard]] std::string named(const Trace&);

}  // namespace rehearsal::traces
