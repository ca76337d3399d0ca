#pragma once
// Options of what failures make of a training, and the answer (docs/goodput.md).

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "predict/assessment.hpp"

namespace CLI {
class App;
}

namespace rehearsal::cli {

/// "50" are steps, "10min" is a time. Throws BadInput naming --checkpoint-every.
[[nodiscard]] predict::CheckpointEvery checkpoint_every(const std::string& text);

struct GoodputOptions {
  std::optional<double> failures;
  std::string every, wait, restart, replacement, storage;
  std::int64_t spares = 0;

  void add_to(CLI::App&);  ///< --failures, --checkpoint-every, --checkpoint-wait, --restart, --replacement, --storage, --spares
  /// Whether any of them is.
  [[nodiscard]] bool given() const;
  /// About a training of so many steps. Throws BadInput naming the option that is no quantity.
  [[nodiscard]] predict::GoodputQuestion question(double steps) const;
  /// The same where the steps follow from something else, "--budget 3days": Refusal with that where it is one step, of which these options
  /// say nothing.
  [[nodiscard]] predict::GoodputQuestion question(double steps, const std::string& steps_follow_from) const;
};

/// `goodput` of estimate, of an assessment that has one.
[[nodiscard]] nlohmann::ordered_json goodput_json(const predict::Assessment&);

}  // namespace rehearsal::cli
