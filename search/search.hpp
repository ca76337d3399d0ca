#pragma once
// Finds the plan that is best for an objective: enumerates, prunes what cannot win or cannot run (and counts why), assesses the rest.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::search {

/// One row per objective: what a smaller value of is better.
struct ObjectiveRow {
  std::string_view name;  ///< as in --objective
  std::string_view description;
  double (*value)(const predict::Assessment&);
  std::string_view unit;  ///< of the sentence that says why a plan lost: "s", "J", "$", "B"
};
/// time, energy, cost, memory.
[[nodiscard]] std::span<const ObjectiveRow> objective_table();

/// Keys of a plan that a search varies.
[[nodiscard]] std::vector<std::string> searchable_keys();

struct SearchOptions {
  std::string objective = "time";     ///< a row of objective_table(), or "pareto" (time, energy, cost and memory)
  std::optional<double> seconds;      ///< budget of wall-clock time
  std::optional<std::int64_t> plans;  ///< budget of assessed plans: reproducible
  std::size_t top = 5;
  plan::Plan fixed;  ///< what the user fixed; keys in `fixed.searched` and those in `free` are searched
  std::vector<std::string> free = searchable_keys();
  /// Splits samples (cp, spatial) wherever it can. Otherwise where the batch is too small for the ranks, for the objectives memory and
  /// pareto, and when nothing else fits.
  bool splits_samples = false;
};

struct SearchResult {
  std::vector<predict::Assessment> plans;      ///< best first; those on the front for "pareto"
  std::int64_t searched = 0;                   ///< plans assessed
  std::map<std::string, std::int64_t> pruned;  ///< reason -> plans that were not assessed, or did not fit
  bool exhausted = false;                      ///< every plan of the space was assessed or pruned
  double seconds = 0;
};

/// Jobs of several platforms are a choice of hardware: their plans are ranked together, the budget is shared out equally.
/// Throws Refusal when no plan can run, saying which came nearest and by how much it fails.
[[nodiscard]] SearchResult search(std::span<predict::Predictor* const>, const SearchOptions&, Progress&);
[[nodiscard]] SearchResult search(predict::Predictor&, const SearchOptions&, Progress&);
/// The plan with the best value for every key that is `auto` in it, the others as they are. Throws as search() does.
[[nodiscard]] plan::Plan with_best_values(predict::Predictor&, const plan::Plan&);

/// All plans of the space, in a fixed order: those of most ranks first. Throws BadInput when a key is free that cannot be searched.
[[nodiscard]] std::vector<plan::Plan> enumerate_plans(predict::Predictor&, const SearchOptions&);

}  // namespace rehearsal::search
