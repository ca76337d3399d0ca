#pragma once
// --to-loss, --to-accuracy: what batches of several sizes take until a training has come to a target (docs/targets.md).

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/fidelity.hpp"
#include "cli/goodput_options.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {

struct TargetOptions {
  std::optional<double> loss;
  std::string accuracy, reached, batches, picture;
  std::vector<std::string> curves;
  bool devices_follow = false;

  void add_to(CLI::App&);
  [[nodiscard]] bool given() const { return loss || !accuracy.empty() || !reached.empty(); }
  /// Throws BadInput where what is asked beside a target stands without one.
  void require_target() const;
};

/// What is asked beside the target.
struct TargetQuestion {
  const ModelOptions& model;
  const PlatformOptions& platform;
  const GoodputOptions& goodput;
  Fidelity fidelity = Fidelity::Closed;
  std::string law = {};  ///< of language models that no curve is given for
};
/// The answer of estimate. Throws BadInput for targets and curves that cannot be, Refusal where a curve does not come to the target, where
/// nothing is known of the model, and where no batch can be trained.
[[nodiscard]] nlohmann::ordered_json target_answer(const TargetOptions&, const TargetQuestion&, Terminal&);

}  // namespace rehearsal::cli
