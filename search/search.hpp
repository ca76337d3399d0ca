#pragma once
// Finds the plan that is best for an objective. First one plan of every kind is assessed, then plans one change away from the best, then
// every plan of the space that bounds do not rule out; the best few are played before they are ranked.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "search/objective.hpp"
#include "search/space.hpp"

namespace rehearsal::search {

struct SearchOptions {
  std::string objective = "time";     ///< a row of objective_table(), or "pareto" (time, energy, cost and memory)
  std::optional<double> seconds;      ///< budget of wall-clock time, playing included
  std::optional<std::int64_t> plans;  ///< budget of assessed plans: reproducible
  std::size_t top = 5;
  plan::Plan fixed;  ///< what the user fixed; keys in `fixed.searched` and those in `free` are searched
  std::vector<std::string> free = searchable_keys();
  std::vector<std::string> allowed;  ///< other mathematics that may be chosen: of allowed_words()
  std::optional<int> ranks;          ///< of every plan; nothing: of as many devices as are best
  std::vector<Limit> limits;
  double steps = 1;  ///< of the training that limits are about
  /// What a plan gets done while devices fail; nothing: they do not. Throws Refusal where that is nothing.
  std::function<std::optional<predict::Goodput>(const predict::Assessment&)> goodput;
  predict::StepEvaluator* player = nullptr;  ///< plays the best plans; nullptr: the closed form ranks them
  std::size_t confirm = 3;                   ///< plans to play
  bool folds = true;                         ///< plans that differ in nothing that matters are one
};

struct RankedPlan {
  predict::Assessment answer;
  predict::Assessment closed;  ///< by the closed form; equal to `answer` where that was not played
  bool played = false;
  std::string why_not;            ///< of runners-up: why the winner won
  std::vector<plan::Plan> alike;  ///< that differ from it in nothing that matters
};

struct RefusedPlan {
  std::string plan, reason;
};

struct SearchResult {
  std::vector<RankedPlan> plans;               ///< best first; those on the front for "pareto"
  std::int64_t searched = 0;                   ///< plans assessed
  std::map<std::string, std::int64_t> pruned;  ///< reason -> plans that were not assessed, or did not fit
  std::vector<RefusedPlan> refused;            ///< of plans that were given
  bool exhausted = false;                      ///< every plan of the space was assessed or pruned
  std::string not_played;                      ///< why the best were not; empty: they were, or nobody asked for it
  double seconds = 0;
  /// Assessed or pruned.
  [[nodiscard]] std::int64_t looked_at() const {
    auto sum = searched;
    for (const auto& [reason, count] : pruned) sum += count;
    return sum;
  }
};

/// Predictors of several platforms are a choice of hardware: their plans are ranked together, the budget is shared out equally.
/// Throws Refusal when no plan can run or keeps the limits, saying which came nearest and by how much it fails.
[[nodiscard]] SearchResult search(std::span<predict::Predictor* const>, const SearchOptions&, Progress&);
[[nodiscard]] SearchResult search(predict::Predictor&, const SearchOptions&, Progress&);
/// Ranks these plans alone. Throws Refusal when none of them can run.
[[nodiscard]] SearchResult ranked(std::span<predict::Predictor* const>, std::span<const plan::Plan>, const SearchOptions&, Progress&);
/// The plan with the best value for every key that is `auto` in it, the others as they are. Throws as search() does.
[[nodiscard]] plan::Plan with_best_values(predict::Predictor&, const plan::Plan&);

}  // namespace rehearsal::search
