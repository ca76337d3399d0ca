#include "traces/page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "plan/schedules/chunks.hpp"
#include "platforms/strict_json.hpp"
#include "traces/compare.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

constexpr double kPageWidth = 1100, kLeft = 130, kRow = 20, kGap = 5;
constexpr std::array<std::string_view, 4> kPageColours{"#9d9d9d", "#4c78a8", "#f58518", "#54a24b"};  // by BodyKind
constexpr std::string_view kMessageColour = "#e45756";

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rehearsal: traces</title><style>
body{font:14px/1.4 system-ui,sans-serif;margin:24px auto;max-width:1160px;padding:0 12px;color:#222;background:#fff}
h1{font-size:22px}h2{font-size:17px;margin-top:28px}p{color:#555}
table{border-collapse:collapse}td,th{padding:2px 12px 2px 0;text-align:right;border-bottom:1px solid #eee}
td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}.frame{overflow-x:auto}
svg text{font-size:11px;fill:#444}rect:hover{stroke:#000;stroke-width:1}
.key span{display:inline-block;width:11px;height:11px;margin:0 5px 0 14px}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}p,svg text{color:#aaa;fill:#aaa}td,th{border-color:#333}rect:hover{stroke:#fff}}
</style></head><body><h1>Training steps</h1>
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string seconds_text(double seconds) { return escaped(rehearsal::to_text(Seconds(seconds))); }

std::string heading(const Trace& t) {
  const auto note = t.plan.empty() ? std::string() : plan::other_mathematics(plan::parse_plan(t.plan));
  return "<h2>" + escaped(t.kind) + ": " + escaped(t.model) + ", " + escaped(t.plan) + ", batch " + std::to_string(t.batch) + "</h2>\n" +
         (note.empty() ? "" : "<p>" + escaped(note) + "</p>\n");
}

/// Of the counted steps the one of median duration.
StepRecord typical_step(const Trace& trace) {
  auto steps = counted_steps(trace);
  std::stable_sort(steps.begin(), steps.end(), [](const StepRecord& a, const StepRecord& b) { return a.end - a.begin < b.end - b.begin; });
  return steps[steps.size() / 2];
}

std::string rectangle(const EventKind& kind, const Event& e, double x, double width, double y) {
  const auto colour = communicates(kind) ? kMessageColour : kPageColours[static_cast<std::size_t>(kind.identity.body)];
  return "<rect x=\"" + fixed(x) + "\" y=\"" + fixed(y) + "\" width=\"" + fixed(std::max(width, 0.2)) + "\" height=\"" + fixed(kRow) +
         "\" fill=\"" + std::string(colour) + "\"><title>" + escaped(kind.kernel.op) + " " + escaped(kind.name) + ", micro-batch " +
         std::to_string(e.micro_batch) + ": " + seconds_text(e.end - e.begin) + "</title></rect>\n";
}

/// Streams of a rank that have events in a step, in order.
std::vector<plan::Stream> used_streams(const RankTrace& rank, std::int32_t step) {
  std::array<bool, static_cast<std::size_t>(plan::Stream::Count)> used{};
  for (const auto& e : rank.events)
    if (e.step == step) used[static_cast<std::size_t>(e.stream)] = true;
  std::vector<plan::Stream> streams;
  for (std::size_t s = 0; s < used.size(); ++s)
    if (used[s]) streams.push_back(static_cast<plan::Stream>(s));
  return streams;
}

std::string timeline(const Trace& trace, double longest) {
  const auto step = typical_step(trace);
  const double scale = (kPageWidth - kLeft) / longest;
  std::string rows;
  double y = 0;
  for (const auto& rank : trace.ranks)
    for (const auto stream : used_streams(rank, step.step)) {
      rows += "<text x=\"0\" y=\"" + fixed(y + kRow * 0.7) + "\">rank " + std::to_string(rank.rank) + " " +
              std::string(plan::name(stream)) + "</text>\n";
      for (const auto& e : rank.events)
        if (e.step == step.step && e.stream == stream)
          rows += rectangle(rank.kinds[e.kind], e, kLeft + (e.begin - step.begin) * scale, (e.end - e.begin) * scale, y);
      y += kRow + kGap;
    }
  return "<p>Step " + std::to_string(step.step) + ": " + seconds_text(step.end - step.begin) + "</p>\n<div class=\"frame\"><svg width=\"" +
         fixed(kPageWidth) + "\" height=\"" + fixed(y) + "\">\n" + rows + "</svg></div>\n";
}

std::string cells(const ComparedRow& row, bool both, double step) {
  std::string text = "<tr><td>" + escaped(row.phase) + "</td><td>" + escaped(row.op) + "</td><td>" + std::to_string(row.instructions) +
                     "</td><td>" + seconds_text(row.predicted) + "</td>";
  if (both)
    text += "<td>" + seconds_text(row.measured) + "</td><td>" + seconds_text(row.error()) + "</td>";
  else
    text += "<td>" + fixed(step > 0 ? 100 * row.predicted / step : 0) + " %</td>";
  return text + "</tr>\n";
}

std::string table(Comparison c, bool both, const std::array<std::string, 2>& kinds) {
  if (!both)
    std::stable_sort(c.rows.begin(), c.rows.end(), [](const ComparedRow& a, const ComparedRow& b) { return a.predicted > b.predicted; });
  std::string text = "<table><tr><th>phase</th><th>operator</th><th>instructions</th><th>" + escaped(kinds[0]) + "</th><th>" +
                     (both ? escaped(kinds[1]) + "</th><th>difference" : "share") + "</th></tr>\n";
  for (const auto& row : c.rows) text += cells(row, both, c.predicted_step);
  return text + cells({"step", "sum", c.predicted_step, c.measured_step, 0}, both, c.predicted_step) + "</table>\n";
}

std::string key() {
  std::string text = "<p class=\"key\">";
  const std::pair<std::string_view, std::string_view> entries[] = {{"before the micro-batches", kPageColours[0]},
                                                                   {"forward", kPageColours[1]},
                                                                   {"backward", kPageColours[2]},
                                                                   {"update", kPageColours[3]},
                                                                   {"messages", kMessageColour}};
  for (const auto& [name, colour] : entries) text += "<span style=\"background:" + std::string(colour) + "\"></span>" + std::string(name);
  return text + "</p>\n";
}

/// Bars of one scale: where a step goes under every plan.
std::string plans_table(std::span<const FoundPlan> plans) {
  constexpr double kBar = 360;
  double longest = 1e-12;
  for (const auto& p : plans) longest = std::max(longest, p.step_seconds);
  std::string text = "<h2>Plans that were found</h2>\n<p class=\"key\">";
  const std::array<std::pair<std::string_view, std::string_view>, 4> parts{{{"computing", kPageColours[1]},
                                                                            {"exposed communication", kMessageColour},
                                                                            {"pipeline bubble", kPageColours[0]},
                                                                            {"the rest", kPageColours[3]}}};
  for (const auto& [name, colour] : parts) text += "<span style=\"background:" + std::string(colour) + "\"></span>" + std::string(name);
  text +=
      "</p>\n<table><tr><th>plan</th><th>where a step goes</th><th>step</th><th>90 % interval</th><th>memory</th><th>why not</th></tr>\n";
  for (const auto& p : plans) {
    const double seconds[] = {p.compute, p.communication, p.bubble, p.rest};
    std::string bar;
    double x = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double width = seconds[i] / longest * kBar;
      bar += "<rect x=\"" + fixed(x) + "\" y=\"2\" width=\"" + fixed(width) + "\" height=\"12\" fill=\"" + std::string(parts[i].second) +
             "\"><title>" + std::string(parts[i].first) + ": " + seconds_text(seconds[i]) + "</title></rect>";
      x += width;
    }
    text += "<tr><td>" + escaped(p.plan) + "</td><td><svg width=\"" + fixed(kBar) + "\" height=\"16\">" + bar + "</svg></td><td>" +
            seconds_text(p.step_seconds) + "</td><td>" + seconds_text(p.low) + " to " + seconds_text(p.high) + "</td><td>" +
            escaped(rehearsal::to_text(Bytes(p.memory_bytes))) + "</td><td>" + escaped(p.why_not) + "</td></tr>\n";
  }
  return text + "</table>\n";
}

std::string traces_text(std::span<const Trace> traces) {
  double longest = 0;
  for (const auto& t : traces) {
    const auto step = typical_step(t);
    longest = std::max(longest, step.end - step.begin);
  }
  std::string text = traces.empty() ? "" : key();
  for (const auto& t : traces) {
    text += heading(t) + timeline(t, std::max(longest, 1e-12));
    if (traces.size() != 2) text += table(compare(t, t), false, {t.kind, ""});
  }
  if (traces.size() == 2)
    text += "<h2>Where the two differ</h2>\n" + table(compare(traces[0], traces[1]), true, {traces[0].kind, traces[1].kind});
  return text;
}

}  // namespace

std::string to_page(std::span<const Trace> traces) { return to_page({}, traces); }

std::string to_page(std::span<const FoundPlan> plans, std::span<const Trace> traces) {
  if (traces.empty() && plans.empty()) throw BadInput("report", "needs at least one trace, or a search");
  return std::string(kHead) + (plans.empty() ? "" : plans_table(plans)) + traces_text(traces) + "</body></html>\n";
}

std::vector<FoundPlan> read_search(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read");
  try {
    std::vector<FoundPlan> plans;
    const auto search = nlohmann::json::parse(in);
    for (const auto& p : search.at("plans")) {
      const auto& step = p.at("step_seconds");
      const auto& parts = p.at("breakdown");
      FoundPlan found;
      found.plan = p.at("plan").get<std::string>();
      found.why_not = p.value("why_not", "");
      found.step_seconds = step.at("value").get<double>();
      found.low = step.at("low").get<double>();
      found.high = step.at("high").get<double>();
      found.compute = parts.at("compute").get<double>();
      found.communication = parts.at("exposed_communication").get<double>();
      found.bubble = parts.at("bubble").get<double>();
      found.rest = parts.at("recompute").get<double>() + parts.at("optimizer").get<double>() + parts.at("io").get<double>();
      found.memory_bytes = p.at("memory_bytes").at("value").get<double>();
      plans.push_back(std::move(found));
    }
    if (plans.empty()) throw BadInput(path, "holds no plan");
    return plans;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path, std::string("is no result of `rehearse search --format json`: ") + platforms::reason_of(error));
  }
}

}  // namespace rehearsal::traces
