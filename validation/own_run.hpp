#pragma once
// A run of one's own as a record: written down as `estimate` was asked for it, so that a prediction and the record mean the same.

#include <cstdint>
#include <string>
#include <vector>

#include "traces/compare.hpp"
#include "validation/record.hpp"

namespace rehearsal::validation {

/// Seconds of a step on a rank. compute, exposed, copies and idle sum to `step`.
struct StepSeconds {
  double step = 0, deviation = 0;  ///< mean, standard deviation
  double compute = 0;              ///< something computes
  double communication = 0;        ///< something communicates
  double exposed = 0;              ///< of it, while nothing computes
  double copies = 0;               ///< only copies and waits of streams
  double idle = 0;                 ///< nothing runs
};

/// What `estimate` was asked, and what was measured.
struct OwnRun {
  std::string id, source;
  std::string model;     ///< "zoo:NAME?key=value&..."
  std::string platform;  ///< name or file
  std::string plan;      ///< compact text, nothing left to "auto"
  std::string framework, precision, optimizer;
  int devices = 1;         ///< ranks of the plan
  std::int64_t batch = 0;  ///< global samples of a step
  StepSeconds measured;
};

/// One line, without its end. Keys: docs/records.md. Throws Refusal where no prediction can be asked by it.
[[nodiscard]] std::string record_line(const OwnRun&);
/// Of a record that record_line() wrote. Throws Refusal naming the record and the key that is missing.
[[nodiscard]] OwnRun own_run(const Record&);

/// What `estimate --format json` said.
struct PredictedRun {
  OwnRun asked;           ///< `platform` is a name; without id, source, optimizer and what was measured
  StepSeconds predicted;  ///< compute: with recomputation and update; idle: waiting for other stages and for input; no copies
};
/// Throws BadInput naming file and key.
[[nodiscard]] PredictedRun read_prediction(const std::string& path);

/// Where a prediction and a run are not of the same training, key by key; empty: they are. The platform's name and device count.
[[nodiscard]] std::vector<std::string> differences(const PredictedRun&, const OwnRun&);
/// Rows of phase "step".
[[nodiscard]] traces::Comparison comparison(const PredictedRun&, const OwnRun&);

}  // namespace rehearsal::validation
