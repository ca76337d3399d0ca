#pragma once
// What may be spent on a training: "1e23FLOP", "$50k", "3days", "20MWh".

#include <span>
#include <string>
#include <string_view>

#include "predict/assessment.hpp"

namespace rehearsal::predict::scaling {

/// What a training of so many steps takes of something that may be spent.
struct Spending {
  const Assessment& assessment;  ///< with its goodput, where devices fail and are known to
  double flops_of_step = 0;
  double steps = 1;
};

/// One row per kind of budget.
struct BudgetRow {
  std::string_view key;        ///< of the answer: "flops", "dollars", "seconds", "joules"
  std::string_view noun;       ///< "compute"
  std::string_view objective;  ///< of the search for the plan that makes most of it
  double (*spent)(const Spending&);
};
[[nodiscard]] std::span<const BudgetRow> budget_table();

struct Budget {
  const BudgetRow* row = nullptr;
  double amount = 0;  ///< in SI units
  std::string text;   ///< as it was given
};
/// Throws BadInput naming `option` and what would be right.
[[nodiscard]] Budget parse_budget(const std::string& option, const std::string& text);

}  // namespace rehearsal::predict::scaling
