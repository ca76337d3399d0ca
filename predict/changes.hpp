#pragma once
// What other values of single keys would do to a plan: which of them make it quicker, and with which it fits.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// Nothing below this share of a step is worth a word.
inline constexpr double kWorthSaying = 1e-3;

/// The same plan with something changed.
struct Change {
  std::string change;  ///< "overlap=on", or "zero=3 (as composer runs it)" where that is another framework than the plan's
  double quicker = 0;  ///< share of the step that it saves
  std::int64_t memory_bytes = 0;
};
/// " (as composer runs it)" where a changed plan is run by another framework than the one that it is compared with; else nothing.
[[nodiscard]] std::string as_another_runs_it(const Assessment& changed, const Assessment& now);

/// Single changes of keys that fit and save at least kWorthSaying of the step, the best first; of those that are tried in kTimeForRemedies.
[[nodiscard]] std::vector<Change> helpful_changes(Predictor&, const Assessment&);

/// What a changed plan has to reach.
enum class Goal : std::uint8_t {
  Fits,        ///< is predicted to need no more than there is
  FitsSafely,  ///< fits, and runs out of memory with a chance of at most kSafe
};

/// How a plan that does not reach the goal can be made to.
struct FittingPlan {
  Assessment assessment;
  std::vector<std::string> changes;  ///< "zero=1", "micro_batch=1"
};
/// The changes with which the plan reaches the goal and takes least time, of all combinations of values of the keys that save memory; of
/// those that differ by less than kWorthSaying the one that changes fewest keys.
struct Remedy {
  std::optional<FittingPlan> plan = {};  ///< none where no changes reach the goal
  bool all_tried = true;                 ///< false: there were too many, or plans take long to predict, and the time for it was over
};
inline constexpr Seconds kTimeForRemedies{10};
[[nodiscard]] Remedy cheapest_remedy(Predictor&, const plan::Plan&, Goal = Goal::Fits, Seconds patience = kTimeForRemedies);

/// A plan as the framework's recipes have it.
struct UsualPlan {
  plan::Plan plan;
  std::vector<std::string> changes;  ///< "zero=1"
};
/// Into how many chunks recipes that interleave cut a stage: two blocks each, at most 8 chunks (those of NeMo and of submissions to MLPerf
/// for GPT-3 175B, Llama 3 70B and 405B have 4 to 12).
[[nodiscard]] int usual_chunks(int blocks, int pp);
/// The same with its stages in chunks, where the framework's recipes have them (FrameworkProfile::interleaves), neither schedule nor chunks
/// are among `named`, and blocks and micro-batches can be cut so; else nothing.
[[nodiscard]] std::optional<UsualPlan> with_usual_chunks(Predictor&, const UsualPlan&, std::span<const std::string_view> named);
/// The keys that they set (FrameworkProfile::usual_keys) and that are not among `named`. Nothing where the plan has them all.
[[nodiscard]] std::optional<UsualPlan> with_usual_keys(const Predictor&, const plan::Plan&, std::span<const std::string_view> named);
/// The keys that the framework's recipes set (FrameworkProfile::usual_keys) and that are not among `named`, for a plan that cannot fit
/// without them and may with them; with chunks, where it may fit so, too. Nothing otherwise.
[[nodiscard]] std::optional<FittingPlan> usual_remedy(Predictor&, const plan::Plan&, std::span<const std::string_view> named);

}  // namespace rehearsal::predict
