#include "cli/validation_json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/assessment_json.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;
using validation::ErrorRow;
using validation::Summary;
using validation::Verdict;

Json evidence_json(const Verdict& v) {
  const auto& s = v.step;
  return {{"device", v.device},
          {"arithmetic", v.arithmetic},
          {"framework", v.framework},
          {"assumed", v.assumed},
          {"new_to_us", v.new_to_us},
          {"played", v.played},
          {"breakdown",
           {{"forward", s.forward},
            {"backward", s.backward},
            {"recompute", s.recompute},
            {"bubble", s.bubble},
            {"tensor", s.exchanges},
            {"exposed_communication", s.exposed},
            {"optimizer", s.optimizer},
            {"coordination", s.coordination},
            {"matrix_share", s.matrix_share},
            {"memory_share", s.memory_share}}}};
}

/// A figure of answers that have an interval: nothing where none has.
Json of_intervals(const ErrorRow& row, double figure) { return row.bounded > 0 ? Json(figure) : Json(nullptr); }
Json held_share(const ErrorRow& row) { return of_intervals(row, static_cast<double>(row.held) / std::max(1, row.bounded)); }

/// An error of answers: nothing where none of them was measured.
Json error_of(const ErrorRow& row, double error) { return row.measured > 0 ? Json(error) : Json(nullptr); }

Json row_json(const ErrorRow& row) {
  return {{"family", row.family},
          {"answered", row.answered},
          {"refused", row.refused},
          {"mean_error", error_of(row, row.mean)},
          {"median_error", error_of(row, row.median)},
          {"held_by_interval", held_share(row)},
          {"median_interval_factor", of_intervals(row, row.median_width)}};
}

/// A figure of choices among plans of one job: nothing where too few were answered for a choice.
Json of_choices(const Summary& s, double figure) { return s.choice.sets > 0 ? Json(figure) : Json(nullptr); }

Json score_json(const std::string& who, const Summary& s) {
  return {{"of", who},
          {"answered", s.all.answered},
          {"refused", s.all.refused},
          {"mean_error", error_of(s.all, s.all.mean)},
          {"median_error", error_of(s.all, s.all.median)},
          {"held_by_interval", held_share(s.all)},
          {"mean_regret", of_choices(s, s.choice.mean_regret)},
          {"sets_of_plans", s.choice.sets}};
}

Json shared_score_json(const std::string& who, const Summary& s, int nearer) {
  return {{"of", who},
          {"mean_error", error_of(s.all, s.all.mean)},
          {"median_error", error_of(s.all, s.all.median)},
          {"held_by_interval", held_share(s.all)},
          {"mean_regret", of_choices(s, s.choice.mean_regret)},
          {"nearer", nearer}};
}

Json family_json(const ErrorRow& first, const ErrorRow& second, const validation::Nearer& nearer, const Contestants& who) {
  return {{"family", first.family},
          {"records", first.answered},
          {who.first + "_median_error", first.median},
          {who.second + "_median_error", second.median},
          {who.first + "_nearer", nearer.first},
          {who.second + "_nearer", nearer.second}};
}

Json value_json(const costmodel::Interval& interval) {
  return interval.low == interval.high ? Json(interval.value) : Json(to_json(interval));
}

}  // namespace

std::string reasons_of(std::span<const validation::TaughtNothing> records) {
  constexpr std::size_t kMost = 5;
  std::string text;
  for (const auto& record : records.first(std::min(kMost, records.size()))) text += "; " + record.id + ": " + record.why;
  if (records.size() > kMost)
    text += "; and " + std::to_string(records.size() - kMost) + " others (`rehearse validate --measured` says of each)";
  return text;
}

void warn_of_nothing(const Terminal& terminal, std::span<const validation::TaughtNothing> nothing, std::size_t records) {
  if (nothing.empty()) return;
  terminal.warn(std::to_string(nothing.size()) + " of " + std::to_string(records) + " records teach nothing" + reasons_of(nothing));
}

void warn_of(const Terminal& terminal, const std::string& what, const std::set<std::string>& names) {
  constexpr std::size_t kMost = 12;
  if (names.empty()) return;
  std::string text = what;
  std::size_t said = 0;
  for (const auto& name : names)
    if (said++ < kMost) text += " " + name;
  if (said > kMost) text += " and " + std::to_string(said - kMost) + " more";
  terminal.warn(text);
}

Json verdict_json(const Verdict& v) {
  Json line{{"id", v.id}};
  if (!v.refused.empty()) {
    line["refused"] = v.refused;
    return line;
  }
  for (const auto& [key, interval] : v.predicted) line["predicted"][key] = to_json(interval);
  for (const auto& [key, error] : v.errors) line["error"][key] = error;
  if (!v.framework.empty()) line["evidence"] = evidence_json(v);
  return line;
}

Json summary_json(const Summary& s) {
  Json json{{"schema", 1}, {"all", row_json(s.all)}, {"families", Json::array()}, {"refusals", s.refusals}};
  json["played"] = s.played;
  json["regret"] = {
      {"mean", of_choices(s, s.choice.mean_regret)}, {"worst", of_choices(s, s.choice.worst_regret)}, {"sets", s.choice.sets}};
  json["rank_correlation"] = {{"mean", of_choices(s, s.choice.rank_correlation)}, {"sets", s.choice.sets}};
  json["coverage"] = {{"share", held_share(s.all)}, {"held", s.all.held}, {"answered", s.all.bounded}};
  for (const auto& row : s.families) json["families"].push_back(row_json(row));
  return json;
}

Json duel_json(const validation::Duel& duel, const Contestants& who) {
  return {{"id", duel.id},
          {"quantity", duel.key},
          {"measured", duel.measured},
          {who.first, value_json(duel.first)},
          {who.second, value_json(duel.second)}};
}

Json comparison_json(const validation::AnswerComparison& c, const Contestants& who) {
  Json json{{"schema", 1}};
  json["answers"] = {score_json(who.first, c.first), score_json(who.second, c.second)};
  json["records_that_both_answered"] = c.duels.size();
  if (!c.duels.empty())
    json["of_these"] = {shared_score_json(who.first, c.first_of_both, c.nearer.first),
                        shared_score_json(who.second, c.second_of_both, c.nearer.second)};
  json["families"] = Json::array();
  for (std::size_t i = 0; i < c.first_of_both.families.size(); ++i) {
    const auto& family = c.first_of_both.families[i];
    json["families"].push_back(family_json(family, c.second_of_both.families[i], c.nearer_by_family.at(family.family), who));
  }
  json["refusals"] = {{who.first, c.first.refusals}, {who.second, c.second.refusals}};
  return json;
}

}  // namespace rehearsal::cli
