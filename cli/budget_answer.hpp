#pragma once
// --budget: what so much compute, money, time or energy buys of a model, or of a family of models in all sizes (docs/scaling.md).

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/goodput_options.hpp"
#include "cli/platform_options.hpp"
#include "predict/scaling/law.hpp"

namespace rehearsal::cli {

struct BudgetOptions {
  std::vector<std::string> budgets;
  std::string sizes, law{predict::scaling::kUsualLaw};

  void add_to(CLI::App&);  ///< --budget, --sizes, --law
  [[nodiscard]] bool given() const { return !budgets.empty(); }
  /// Throws BadInput where --sizes or --law stand without --budget.
  void require_budget() const;
};

/// Parameters: "1.3B,7B" or "1B..64B", every doubling. Throws BadInput naming --sizes.
[[nodiscard]] std::vector<double> sizes_of(const std::string& text);

/// Scaling laws are of models of which everything is trained, from the beginning. Throws BadInput naming --lora, --freeze or --train.
void require_training_of_all(const std::string& option, const ModelOptions&);

/// What is asked beside the budget.
struct BudgetQuestion {
  const ModelOptions& model;
  const PlatformOptions& platform;
  const GoodputOptions& goodput;
};
/// The answer of estimate. Throws Refusal where laws know nothing of the model, and where nothing can be trained.
[[nodiscard]] nlohmann::ordered_json budget_answer(const BudgetOptions&, const BudgetQuestion&, Terminal&);

}  // namespace rehearsal::cli
