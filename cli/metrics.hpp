#pragma once
// What `run --metrics` writes.

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "exec/trainer.hpp"

namespace rehearsal::cli {

/// One line a step; a line is written whole, so that an interrupted run leaves what was finished.
class Metrics {
 public:
  /// `path` empty: nothing is written. A training that goes on behind step `after` adds to what the file says of the steps up to there;
  /// another one begins it again. Throws BadInput when it cannot be written.
  Metrics(const std::string& path, bool f64, std::optional<std::int64_t> after);
  void add(const exec::StepReport&);

 private:
  std::string path_;
  bool f64_;
  std::ofstream file_;
};

}  // namespace rehearsal::cli
