// The plans of a search, on the page.
#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text_lines.hpp"
#include "base/units.hpp"
#include "base/xml.hpp"
#include "platforms/strict_json.hpp"
#include "traces/html_page.hpp"
#include "traces/page_parts.hpp"

namespace rehearsal::traces {
namespace {

std::string bytes_text(double bytes) { return xml_escaped(to_text(Bytes(bytes))); }

/// "12.0 % more time"; nothing where they are the same.
std::string against(double value, double best, const char* more, const char* less) {
  constexpr double kSame = 1e-3;  // as the sentences of a search have it
  if (best <= 0 || std::abs(value / best - 1) < kSame) return {};
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %% %s", kPercent * std::abs(value / best - 1), value > best ? more : less);
  return text;
}

/// What one gains and gives up by taking the plan instead of the first one.
std::string trade(const FoundPlan& plan, const FoundPlan& first) {
  std::string text;
  for (const auto& part : {against(plan.compared_seconds(), first.compared_seconds(), "more time", "less time"),
                           against(plan.memory_bytes, first.memory_bytes, "more memory", "less memory"),
                           against(plan.cost_dollars, first.cost_dollars, "more money", "less money")})
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  return text.empty() ? "as the first one" : text;
}

/// Whether no other plan is as good in time and in memory, and better in one.
bool on_front(const FoundPlan& plan, std::span<const FoundPlan> plans) {
  return std::ranges::none_of(plans, [&](const FoundPlan& other) {
    return other.step_seconds <= plan.step_seconds && other.memory_bytes <= plan.memory_bytes &&
           (other.step_seconds < plan.step_seconds || other.memory_bytes < plan.memory_bytes);
  });
}

struct Axis {
  double least = 0, most = 0, from = 0, to = 0;  ///< values, pixels
  [[nodiscard]] double at(double value) const { return from + (value - least) / (most - least) * (to - from); }
};

/// A tenth wider than what it shows.
Axis axis_of(std::span<const FoundPlan> plans, double FoundPlan::*value, double from, double to) {
  const auto [least, most] = std::ranges::minmax(plans, {}, value);
  const double margin = std::max(0.1 * (most.*value - least.*value), 0.02 * most.*value + 1e-12);
  return {std::max(0.0, least.*value - margin), most.*value + margin, from, to};
}

std::string label_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + two_decimals(x) + "\" y=\"" + two_decimals(y) + "\" text-anchor=\"" + anchor + "\">" + text + "</text>";
}

/// Time and memory of every plan; those that nothing beats in both are joined.
std::string front(std::span<const FoundPlan> plans) {
  constexpr double kWidth = 560, kHeight = 260, kLeft = 80, kBottom = 40, kMargin = 12, kRight = 36;
  const auto x = axis_of(plans, &FoundPlan::step_seconds, kLeft, kWidth - kRight);
  const auto y = axis_of(plans, &FoundPlan::memory_bytes, kHeight - kBottom, kMargin);
  std::string svg = "<svg class=\"front\" viewBox=\"0 0 " + two_decimals(kWidth) + " " + two_decimals(kHeight) +
                    "\" style=\"width:100%;max-width:700px\" role=\"img\">";
  svg += "<path d=\"M" + two_decimals(kLeft) + " " + two_decimals(kMargin) + "V" + two_decimals(kHeight - kBottom) + "H" +
         two_decimals(kWidth - kRight) + "\" fill=\"none\" stroke=\"var(--line)\"/>";
  constexpr int kTicks = 4;
  for (int n = 0; n <= kTicks; ++n) {
    const double time = x.least + (x.most - x.least) * n / kTicks, memory = y.least + (y.most - y.least) * n / kTicks;
    svg += label_at(x.at(time), kHeight - kBottom + 16, "middle", seconds_text(time)) +
           label_at(kLeft - 6, y.at(memory) + 4, "end", bytes_text(memory));
  }
  svg += label_at((kLeft + kWidth) / 2, kHeight - 6, "middle", "a step") + label_at(kLeft + 6, kMargin + 6, "start", "memory of a device");
  std::vector<const FoundPlan*> best;
  for (const auto& plan : plans)
    if (on_front(plan, plans)) best.push_back(&plan);
  std::ranges::sort(best, {}, [](const FoundPlan* p) { return p->step_seconds; });
  std::string line;
  for (const auto* plan : best)
    line += (line.empty() ? "M" : "L") + two_decimals(x.at(plan->step_seconds)) + " " + two_decimals(y.at(plan->memory_bytes));
  svg += "<path d=\"" + line + "\" fill=\"none\" stroke=\"var(--forward)\"/>";
  for (const auto& plan : plans)
    svg += "<circle cx=\"" + two_decimals(x.at(plan.step_seconds)) + "\" cy=\"" + two_decimals(y.at(plan.memory_bytes)) +
           "\" r=\"5\" fill=\"var(--" + (on_front(plan, plans) ? "forward" : "prologue") + ")\"><title>" + xml_escaped(plan.plan) + ": " +
           seconds_text(plan.step_seconds) + ", " + bytes_text(plan.memory_bytes) + "</title></circle>";
  return svg + "</svg>\n<p>Plans on the line are quicker than all that need no more memory.</p>\n";
}

struct DrawnPart {
  const char *name, *colour;
  double FoundPlan::*seconds;
};
constexpr std::array kParts{
    DrawnPart{"computing", "forward", &FoundPlan::compute}, DrawnPart{"exposed communication", "message", &FoundPlan::communication},
    DrawnPart{"pipeline bubble", "prologue", &FoundPlan::bubble}, DrawnPart{"the rest", "update", &FoundPlan::rest}};

/// Where a step goes, in shares of it.
std::string bar(const FoundPlan& plan) {
  const double step = plan.compute + plan.communication + plan.bubble + plan.rest;
  std::string text = "<span class=\"bar\">";
  for (const auto& part : kParts)
    text += "<i style=\"width:" + two_decimals(step > 0 ? kPercent * plan.*part.seconds / step : 0) + "%;background:var(--" + part.colour +
            ")\" title=\"" + part.name + ": " + seconds_text(plan.*part.seconds) + "\"></i>";
  return text + "</span>";
}

/// `best`: what the first one is.
std::string row(const FoundPlan& plan, const FoundPlan& first, const char* best) {
  const bool is_first = &plan == &first;
  return std::string("<tr") + (is_first ? " class=\"best\"" : "") + "><td class=\"text\">" + xml_escaped(plan.plan) + "</td><td>" +
         bar(plan) + "</td><td>" + seconds_text(plan.step_seconds) + "</td><td>" + seconds_text(plan.low) + " to " +
         seconds_text(plan.high) + "</td><td>" + bytes_text(plan.memory_bytes) + "</td><td>" +
         xml_escaped(to_text(Dollars(plan.cost_dollars))) + "</td><td class=\"text\">" + (is_first ? best : trade(plan, first)) +
         "</td><td class=\"text\">" + xml_escaped(plan.why_not) + "</td></tr>\n";
}

bool is_front(const FoundPlans& found) { return found.objective == "pareto"; }

/// Why the plans stand in this order, and what comparisons count.
std::string order_of(const FoundPlans& found) {
  const bool disturbed = std::ranges::any_of(found.plans, [](const FoundPlan& p) { return p.stretch > 1; });
  return (is_front(found) ? "none is beaten in time, energy, money and memory at once; the quickest first"
                          : "least " + found.objective + " first") +
         (disturbed ? ". Money, and time where plans are compared, count failures and checkpoints" : "");
}

FoundPlan found_plan(const nlohmann::json& p) {
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
  const auto goodput = p.value("goodput", nlohmann::json::object());
  const auto& costs = goodput.contains("cost_dollars") ? goodput : p;
  if (const auto cost = costs.find("cost_dollars"); cost != costs.end() && cost->is_object())
    found.cost_dollars = cost->value("value", 0.0);
  if (const double effective = goodput.value("effective", 1.0); effective > 0) found.stretch = 1 / effective;
  return found;
}

}  // namespace

std::string plans_section(const FoundPlans& found) {
  const auto& plans = found.plans;
  std::string text = "<h2>Plans for " + xml_escaped(found.model) + " on " + xml_escaped(found.platform) + "</h2>\n<p>batch " +
                     std::to_string(found.batch) + ", " + xml_escaped(found.dtype) + ", as " + xml_escaped(found.framework) + " runs it; " +
                     xml_escaped(order_of(found)) + "</p>\n";
  if (!found.price_basis.empty()) text += "<p>Money: " + xml_escaped(found.price_basis) + "</p>\n";
  if (plans.size() > 1) text += front(plans);
  text += "<p class=\"key\">";
  for (const auto& part : kParts) text += std::string("<span style=\"background:var(--") + part.colour + ")\"></span>" + part.name;
  text +=
      "</p>\n<div class=\"frame\"><table><tr><th class=\"text\">plan</th><th class=\"text\">where a step goes</th><th>step</th><th>90 % "
      "interval</th><th>memory</th><th>money</th><th class=\"text\">instead of the first</th><th class=\"text\">why not</th></tr>\n";
  for (const auto& p : plans) text += row(p, plans.front(), is_front(found) ? "the quickest" : "the best");
  return text + "</table></div>\n";
}

FoundPlans read_search(const std::string& path) {
  auto in = open_text(path);
  try {
    FoundPlans all;
    const auto search = nlohmann::json::parse(in);
    all.model = search.value("model", "");
    all.platform = search.value("platform", "");
    all.dtype = search.value("dtype", "");
    all.framework = search.value("framework", "");
    all.objective = search.value("objective", "time");
    all.batch = search.value("batch", std::int64_t{0});
    all.price_basis = search.value("price_basis", "");
    for (const auto& other : search.value("other_price_bases", nlohmann::json::array()))
      all.price_basis += ". On " + other.value("platform", "") + ": " + other.value("price_basis", "");
    for (const auto& p : search.at("plans")) all.plans.push_back(found_plan(p));
    if (all.plans.empty()) throw BadInput(path, "holds no plan");
    return all;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path, std::string("is no result of `rehearse search --format json`: ") + platforms::reason_of(error));
  }
}

}  // namespace rehearsal::traces
