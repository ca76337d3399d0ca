#pragma once
// Records against predictions: intervals, errors, and which plan would have been chosen.

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "costmodel/evidence.hpp"
#include "costmodel/interval.hpp"
#include "validation/predict.hpp"
#include "validation/site_lessons.hpp"

namespace rehearsal::validation {

/// What became of one record.
struct Verdict {
  std::string id, family, source;
  std::string refused;                                                ///< empty: answered
  std::map<std::string, costmodel::Interval, std::less<>> predicted;  ///< the keys of `measured` that can be answered
  std::map<std::string, double, std::less<>> errors;                  ///< predicted / measured - 1, where a value is given
  std::string device, framework, arithmetic;
  std::vector<std::string> new_to_us;  ///< why its interval is wider than those of runs like published ones
  std::vector<std::string> assumed;
  predict::frameworks::StepTime step;
  bool played = false;   ///< `step` was; otherwise it is the closed form
  std::string plan_set;  ///< records with equal text differ in their plan alone
};

/// A verdict of this record that predicts nothing yet.
[[nodiscard]] Verdict unanswered(const Record&);
/// Enters a prediction of one of the record's measured quantities, and its error where a value was measured.
void predict_as(Verdict&, const Record&, const std::string& key, const costmodel::Interval&);

/// Makes what plays steps; nullptr where none is wanted.
using PlayerOf = std::function<std::unique_ptr<predict::StepEvaluator>()>;

/// Answers every record, on all cores, in their order. Without `player` by the closed form.
[[nodiscard]] std::vector<Verdict> validate(std::span<const Record>, const costmodel::ConstantsFile&, const costmodel::Site&, Progress&,
                                            const PlayerOf& player = {});

/// The quantity by which a record is scored: the first of time, energy, memory, rates that it has; empty: none.
[[nodiscard]] std::string scored_key(const Verdict&);
/// The first measured quantity of time, and whether it is a rate; empty: none.
[[nodiscard]] std::string time_key(const Record&);
[[nodiscard]] bool is_rate(std::string_view key);
/// Throws Refusal naming the key where nothing is measured, or a value is below 0.
void require_measured(const Record&);
/// What a record measures, for a sentence: "iteration_time_ms (did you mean "iteration_time_s"?), notes".
[[nodiscard]] std::string measured_keys(const Record&);
/// The quantities of time by which a record is scored and learned from, the first that it has.
[[nodiscard]] std::span<const std::string_view> time_keys();
/// How much wider an interval is for what a record does not say, device and framework aside.
[[nodiscard]] double assumed_widening(const Prepared&);
/// The same of quantities that are no times, for an unknown device or framework, too.
[[nodiscard]] double widening_of(const Prepared&, const costmodel::FittedEvidence&);
/// By which its error is compared with those of other runs.
[[nodiscard]] costmodel::RunTraits traits_of(const Prepared&);
/// Group of FittedEvidence that a quantity's interval comes from.
[[nodiscard]] std::string evidence_group(const Prepared&, std::string_view key);

/// Errors of a family, or of all.
struct ErrorRow {
  std::string family;
  int answered = 0, refused = 0;
  int measured = 0;                               ///< answered, and measured as well
  int bounded = 0, held = 0;                      ///< answered with an interval; measured inside it
  double mean = 0, median = 0, median_width = 0;  ///< of |error|; of high / value
};
/// How much slower than the best measured plan the one is that predictions choose, over sets of at least three plans.
struct PlanChoice {
  int sets = 0;
  double mean_regret = 0, worst_regret = 0, rank_correlation = 0;
};
struct Summary {
  std::vector<ErrorRow> families;
  ErrorRow all;
  PlanChoice choice;
  int played = 0;                       ///< records whose step was
  std::map<std::string, int> refusals;  ///< reason -> records
};
[[nodiscard]] Summary summarise(std::span<const Verdict>, std::span<const Record>);

}  // namespace rehearsal::validation
