#include "traces/html_page.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.hpp"
#include "base/short_number.hpp"
#include "base/xml.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "traces/compare.hpp"
#include "traces/page_parts.hpp"
#include "traces/timeline.hpp"
#include "traces/timeline_data.hpp"

namespace rehearsal::traces {
namespace {

std::string heading(const Trace& t) {
  const auto note = t.plan.empty() ? std::string() : plan::other_mathematics(plan::parse_plan(t.plan));
  return "<h2>" + xml_escaped(named(t)) + ": " + xml_escaped(t.model) + ", " + xml_escaped(t.plan) + ", batch " + std::to_string(t.batch) +
         "</h2>\n" + (note.empty() ? "" : "<p>" + xml_escaped(note) + "</p>\n");
}

/// " Computing, longest first: rank 1 422 ms, rank 0 355 ms.", where ranks that do the same differ.
std::string about_paces(std::vector<RankRole> roles) {
  constexpr std::size_t kTold = 6;
  if (std::ranges::none_of(roles, &RankRole::again)) return {};
  std::ranges::stable_sort(roles, std::greater<>(), &RankRole::computing);
  std::string text;
  for (std::size_t n = 0; n < std::min(kTold, roles.size()); ++n)
    text += (n == 0 ? " Computing, longest first: " : ", ") + label(roles[n]) + " " + seconds_text(roles[n].computing);
  return text + (roles.size() > kTold ? ", and others." : ".");
}

/// What the timeline shows of the ranks.
std::string about_ranks(const Trace& trace, const StepRecord& step) {
  const auto roles = rank_roles(trace, step);
  const auto seconds = "Step " + std::to_string(step.step) + ": " + seconds_text(step.end - step.begin);
  const auto ranks = trace.plan.empty() ? trace.ranks.size() : static_cast<std::size_t>(plan::parse_plan(trace.plan).ranks());
  if (trace.ranks.size() < ranks)
    return "<p>" + seconds + ". The trace has " + std::to_string(trace.ranks.size()) + " of the plan's " + std::to_string(ranks) +
           " ranks, one of those that do the same.</p>\n";
  const auto paces = about_paces(roles);
  if (roles.size() == trace.ranks.size()) return "<p>" + seconds + "." + paces + "</p>\n";
  const bool measured = trace.kind == "measured";
  const std::string in_time = measured ? " in the same time (within " + short_number(kPercent * kAlikeWithin, 2) + " %)" : "";
  return "<p>" + seconds + ". Of " + std::to_string(trace.ranks.size()) + " ranks those that do the same" + in_time + " are shown once, " +
         (measured ? "by the slowest of them, " : "") + std::to_string(roles.size()) + " in all." + paces + "</p>\n";
}

std::string cells(const ComparedRow& row, bool both, double step) {
  std::string text = "<tr><td class=\"text\">" + xml_escaped(row.phase) + "</td><td class=\"text\">" + xml_escaped(row.op) + "</td><td>" +
                     std::to_string(row.instructions) + "</td><td>" + seconds_text(row.predicted) + "</td>";
  if (both)
    text += "<td>" + seconds_text(row.measured) + "</td><td>" + seconds_text(row.error()) + "</td>";
  else
    text += "<td>" + two_decimals(step > 0 ? 100 * row.predicted / step : 0) + " %</td>";
  return text + "</tr>\n";
}

/// The rows that take most of the time; the others are folded away.
std::string table(Comparison c, bool both, const std::array<std::string, 2>& kinds) {
  constexpr std::size_t kShown = 12;
  if (!both) std::ranges::stable_sort(c.rows, std::greater<>(), &ComparedRow::predicted);
  const std::string head = "<table><tr><th class=\"text\">phase</th><th class=\"text\">operator</th><th>instructions</th><th>" +
                           xml_escaped(kinds[0]) + "</th><th>" + (both ? xml_escaped(kinds[1]) + "</th><th>difference" : "share") +
                           "</th></tr>\n";
  std::string shown = head, folded = head;
  for (std::size_t n = 0; n < c.rows.size(); ++n) (n < kShown ? shown : folded) += cells(c.rows[n], both, c.predicted_rows);
  shown += cells({"step", "sum", c.predicted_rows, c.measured_rows, 0}, both, c.predicted_rows) + "</table>\n";
  if (c.rows.size() > kShown)
    shown +=
        "<details><summary>" + std::to_string(c.rows.size() - kShown) + " more that take less</summary>" + folded + "</table></details>\n";
  return "<div class=\"frame\">" + shown + "</div>\n";
}

/// A step in the mean over the central ones and over ranks, as tables of instructions have it.
struct MeanStep {
  StepAccount account;
  std::size_t steps = 0;
  RankRole of;
};

MeanStep mean_step(const Trace& trace, const std::set<int>& ranks) {
  const auto steps = central_steps(trace);
  MeanStep mean{{}, steps.size(), {{ranks.begin(), ranks.end()}}};
  const double share = 1.0 / (static_cast<double>(steps.size()) * static_cast<double>(ranks.size()));
  for (const auto& rank : trace.ranks)
    if (ranks.contains(rank.rank))
      for (const auto& a : accounts(rank, steps)) {
        mean.account.seconds += share * a.seconds;
        mean.account.compute += share * a.compute;
        mean.account.exposed += share * a.exposed;
        mean.account.idle += share * a.idle;
      }
  return mean;
}

std::string text_of(const MeanStep& mean) { return label(mean.of) + (mean.steps > 1 ? ", " + std::to_string(mean.steps) + " steps" : ""); }

std::string share_of(double seconds, double step) {
  return "<td>" + seconds_text(seconds) + "</td><td>" + two_decimals(step > 0 ? kPercent * seconds / step : 0) + " %</td>";
}

/// Of the fullest rank.
std::string most_memory(const Trace& trace, const StepRecord& step) {
  std::int64_t most = 0;
  for (const auto& rank : trace.ranks)
    for (const auto& e : rank.events)
      if (e.step == step.step) most = std::max(most, e.in_use);
  return most > 0 ? to_text(Bytes(static_cast<double>(most))) : "not known";
}

std::string key() {
  std::string text = "<p class=\"key\">";
  constexpr std::pair<const char*, const char*> kEntries[] = {{"before the micro-batches", "prologue"},
                                                              {"forward, with its micro-batch", "forward"},
                                                              {"backward", "backward"},
                                                              {"update", "update"},
                                                              {"memory in use", "memory"},
                                                              {"at its fullest", "fullest"},
                                                              {"messages", "message"},
                                                              {"launching kernels", "host"},
                                                              {"nothing is computed", "idle"}};
  for (const auto& [name, colour] : kEntries) text += std::string("<span style=\"background:var(--") + colour + ")\"></span>" + name;
  return text + "</p>\n<div class=\"buttons\"><button data-does=\"in\">zoom in</button><button data-does=\"out\">zoom out</button>" +
         "<button data-does=\"whole\">whole step</button><button data-does=\"messages\">messages</button>" +
         "<span>wheel or + and − zoom, dragging or arrow keys move, 0 shows the whole step, m folds messages away</span></div>\n" +
         "<div class=\"buttons\"><button id=\"play\">play</button><input id=\"clock\" type=\"range\" min=\"0\" max=\"1000\" value=\"0\" "
         "aria-label=\"time in the step\"><span>micro-batches as tokens: those that wait for a pass, lie in it, and are kept for their "
         "backward "
         "pass</span></div>\n";
}

/// Whether two traces are of one program, so that its instructions can be compared.
bool comparable(std::span<const Trace> traces) {
  return traces.size() == 2 && traces[0].model == traces[1].model && traces[0].plan == traces[1].plan &&
         traces[0].batch == traces[1].batch && of_one_framework(traces[0], traces[1]);
}

/// Several traces beside each other: what their steps take, and where it goes.
std::string summary(std::span<const Trace> traces) {
  std::vector<MeanStep> means;
  for (const auto& t : traces) means.push_back(mean_step(t, comparable(traces) ? common_ranks(traces[0], traces[1]) : common_ranks(t, t)));
  const auto seconds_of = [](const MeanStep& m) { return m.account.seconds; };
  const double best = seconds_of(*std::ranges::min_element(means, {}, seconds_of));
  std::string text =
      "<h2>Side by side</h2>\n<div class=\"frame\"><table><tr><th class=\"text\">trace</th><th "
      "class=\"text\">plan</th><th class=\"text\">mean of</th><th>step</th><th>over the "
      "shortest</th><th>computing</th><th></th><th>waiting for messages</th><th></th><th>nothing to do</th><th></th><th>memory at "
      "most</th></tr>\n";
  for (std::size_t n = 0; n < traces.size(); ++n) {
    const auto& t = traces[n];
    const auto& account = means[n].account;
    text += std::string("<tr") + (account.seconds == best ? " class=\"best\"" : "") + "><td class=\"text\">" + xml_escaped(named(t)) +
            "</td><td class=\"text\">" + xml_escaped(t.plan) + "</td><td class=\"text\">" + text_of(means[n]) + "</td><td>" +
            seconds_text(account.seconds) + "</td><td>" + two_decimals(best > 0 ? kPercent * (account.seconds / best - 1) : 0) + " %</td>" +
            share_of(account.compute, account.seconds) + share_of(account.exposed, account.seconds) +
            share_of(account.idle, account.seconds) + "<td>" + most_memory(t, typical_step(t)) + "</td></tr>\n";
  }
  return text + "</table></div>\n";
}

std::string traces_section(std::span<const Trace> traces) {
  if (traces.empty()) return {};
  std::string text = (traces.size() > 1 ? summary(traces) : "") + key();
  const bool both = comparable(traces);
  for (std::size_t n = 0; n < traces.size(); ++n) {
    const auto& t = traces[n];
    text += heading(t) + about_ranks(t, typical_step(t)) + "<div class=\"timeline\" id=\"timeline-" + std::to_string(n) +
            "\"></div>\n<div class=\"tokens\" data-of=\"timeline-" + std::to_string(n) + "\"></div>\n";
    if (!both) text += table(compare(t, t), false, {named(t), ""});
  }
  if (both) text += "<h2>Where the two differ</h2>\n" + table(compare(traces[0], traces[1]), true, {named(traces[0]), named(traces[1])});
  return text + "<div id=\"hint\"></div><script type=\"application/json\" id=\"data\">" + timeline_data(traces) + "</script>\n<script>" +
         std::string(timeline_script()) + "</script>\n<script>" + std::string(tokens_script()) + "</script>\n";
}

std::string title_of(const FoundPlans* found, std::span<const Trace> traces) {
  return traces.empty() ? "Plans for " + found->model : "Training steps of " + traces.front().model;
}

}  // namespace

std::string seconds_text(double seconds) { return xml_escaped(rehearsal::to_text(Seconds(seconds))); }

std::string to_page(std::span<const Trace> traces) { return to_page(nullptr, traces); }

std::string to_page(const FoundPlans* found, std::span<const Trace> traces) {
  if (traces.empty() && found == nullptr) throw BadInput("report", "needs at least one trace, or a search");
  const auto title = xml_escaped(title_of(found, traces));
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width,initial-scale=1\">"
         "<title>" +
         title + "</title><style>\n" + std::string(page_style()) + "</style></head><body><h1>" + title + "</h1>\n" +
         (found == nullptr ? "" : plans_section(*found)) + traces_section(traces) + "</body></html>\n";
}

}  // namespace rehearsal::traces
