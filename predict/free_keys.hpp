#pragma once
// Keys of a plan that can take other values while its degrees stay as they are: what a search varies, and what is proposed for a plan that
// is slow or does not fit.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "predict/predictor.hpp"

namespace rehearsal::predict {

struct FreeKey {
  std::string_view key;
  /// Of a plan that has the neutral value: a plan for every value of the key (and of `interleave` with `schedule`).
  std::vector<plan::Plan> (*values)(Predictor&, const plan::Plan&);
  void (*reset)(plan::Plan&);  ///< to the neutral value
  bool searched = true;        ///< by searches that are not told otherwise
  /// Other mathematics: searched where the user allows it by this word, never proposed.
  std::string_view allowed_by = {};
};
/// In the order in which a search varies them.
[[nodiscard]] std::span<const FreeKey> free_keys();

/// A plan with another value of one key.
struct ChangedPlan {
  plan::Plan plan;
  std::string_view key;                                      ///< of its row
  std::vector<std::pair<std::string, std::string>> changes;  ///< keys of the plan, and their new values
  [[nodiscard]] std::string text() const;                    ///< "schedule=interleaved,interleave=2"
};
/// Every one of them, row by row.
[[nodiscard]] std::vector<ChangedPlan> changed_plans(Predictor&, const plan::Plan&);
/// What makes the second plan of the first: "micro_batch=1", "zero=2".
[[nodiscard]] std::vector<std::string> changes_between(const Predictor&, const plan::Plan& from, const plan::Plan& to);

template <auto plan::Plan::*member>
void reset_member(plan::Plan& plan) {
  plan.*member = plan::Plan().*member;
}
/// The same plan with each of several values of a member.
template <auto plan::Plan::*member, class Values>
[[nodiscard]] std::vector<plan::Plan> with_each(const plan::Plan& plan, const Values& values) {
  std::vector<plan::Plan> plans;
  for (const auto& value : values) {
    plans.push_back(plan);
    plans.back().*member = value;
  }
  return plans;
}
/// Divisors of n that are at most `most`, the smallest first.
[[nodiscard]] std::vector<int> divisors(std::int64_t n, std::int64_t most);

}  // namespace rehearsal::predict
