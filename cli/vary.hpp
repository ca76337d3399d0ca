#pragma once
// --vary: what an estimate becomes when one figure of platform, device, plan or batch is another.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/fidelity.hpp"
#include "cli/goodput_options.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// What can be varied beside keys of the plan and figures of the platform.
inline constexpr std::array<std::string_view, 3> kVariedSizes{"batch", "devices", "nodes"};

/// One figure and the values that it takes.
struct Variation {
  std::string key;
  std::vector<std::string> values;
};
/// "V1,V2,..." or "A..B" (A, twice that, and so on, and B). Throws BadInput about `asked` ("--sizes 8B..1B") saying what would be right.
[[nodiscard]] std::vector<std::string> listed_values(const std::string& asked, const std::string& text);
/// "KEY=V1,V2,..." or "KEY=A..B" (A, twice that, and so on, and B). Throws BadInput saying what would be right.
[[nodiscard]] Variation parse_variation(const std::string& text);

/// A quantity or number in SI units; nothing for other texts.
[[nodiscard]] std::optional<double> si_number(const std::string& text);

/// Slope of ln(y) over ln(x) by least squares; nothing with less than two different x, or with values that have no logarithm.
struct Point {
  double x = 0, y = 0;
};
[[nodiscard]] std::optional<double> elasticity(const std::vector<Point>&);

/// What is varied.
struct VaryQuestion {
  const ModelOptions& model;
  const PlatformOptions& platform;
  const JobSetup& setup;
  const plan::Plan& plan;           ///< of the estimate that all is compared with
  const predict::Assessment* base;  ///< nullptr: that is refused itself
  Fidelity fidelity = Fidelity::Closed;
  const GoodputOptions& goodput;

  /// As which the estimate is answered, or would be.
  [[nodiscard]] const std::string& framework() const { return base != nullptr ? base->framework : setup.predictor().framework().name; }
};
/// Adds `vary`, a row for every value (refused ones with the reason), `elasticities` of the step, and `without_effect`, the keys on which
/// nothing of this answer depends. Returns why the first value is refused where all are, else nothing. Throws BadInput for an unknown key
/// with the nearest, and where no value is one that its key can have.
std::optional<Refusal> add_variations(nlohmann::ordered_json& result, const VaryQuestion&, const std::vector<std::string>& variations);

}  // namespace rehearsal::cli
