#pragma once
// What nccl-tests, rccl-tests and the OSU micro-benchmarks print: how long a collective, or a message, of so many bytes takes.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "costmodel/collective_kind.hpp"

namespace rehearsal::exchange {

struct LogSample {
  Bytes size;  ///< of the full vector (of an all-gather what every rank has behind it)
  Seconds seconds;
};

struct CollectiveLog {
  std::string tool;                               ///< "nccl-tests" or "OSU"
  std::optional<costmodel::CollectiveKind> kind;  ///< nothing: a message from one rank to another and back, halved
  int ranks = 0, nodes = 0;                       ///< 0: the log does not say
  std::vector<LogSample> samples;                 ///< in the order of the log, of more than 0 bytes
  std::set<std::string> devices = {};             ///< as their driver names them; empty: the log does not say
};

/// What a log leaves unsaid.
struct LogHints {
  std::optional<costmodel::CollectiveKind> kind;  ///< older releases of nccl-tests do not name theirs
  std::optional<int> ranks;                       ///< OSU's logs do not say
};

[[nodiscard]] bool is_collective_log(const std::string& text);

/// Reads the out-of-place times. Throws BadInput naming `file`, line and column: a row that is none, a log without rows, a collective that
/// nobody names, ranks that are not known, ranks that do not talk to each other (nccl-tests built without MPI), results that are wrong, and
/// OSU's tests of bandwidth, which keep many messages on their way.
[[nodiscard]] CollectiveLog read_collective_log(const std::string& text, const std::string& file, const LogHints&);

}  // namespace rehearsal::exchange
