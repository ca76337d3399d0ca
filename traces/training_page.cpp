#include "traces/training_page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "base/text_lines.hpp"
#include "base/xml.hpp"

namespace rehearsal::traces {
namespace {

using Field = std::optional<double> MetricsEntry::*;
struct Column {
  const char* name;
  Field field;
};
constexpr std::array kColumns{Column{"loss", &MetricsEntry::loss},
                              Column{"seconds", &MetricsEntry::seconds},
                              Column{"samples_per_second", &MetricsEntry::samples_per_second},
                              Column{"tokens_per_second", &MetricsEntry::tokens_per_second},
                              Column{"resident_bytes", &MetricsEntry::resident_bytes},
                              Column{"eval_loss", &MetricsEntry::eval_loss},
                              Column{"eval_accuracy", &MetricsEntry::eval_accuracy},
                              Column{"gradient_square", &MetricsEntry::gradient_square},
                              Column{"gradient_variance", &MetricsEntry::gradient_variance}};

[[noreturn]] void refuse(const std::string& path, std::size_t line, const std::string& why) {
  throw BadInput(path, "line " + std::to_string(line) + ": " + why + "; give a file that run --metrics wrote");
}

MetricsEntry entry_of(const std::string& path, std::size_t number, const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    refuse(path, number, "is no JSON object with a step");
  MetricsEntry entry;
  entry.step = json["step"].get<std::int64_t>();
  for (const auto& column : kColumns) {
    const auto at = json.find(column.name);
    if (at != json.end() && at->is_null() && column.field == &MetricsEntry::loss) entry.loss_not_finite = true;
    if (at == json.end() || at->is_null()) continue;
    if (!at->is_number()) refuse(path, number, std::string(column.name) + " must be a number or null");
    entry.*column.field = at->get<double>();
  }
  return entry;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream text(line + ",");
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}

MetricsEntry entry_of(const std::string& path, std::size_t number, const std::vector<std::string>& names, const std::string& line) {
  const auto cells = cells_of(line);
  if (cells.size() != names.size())
    refuse(path, number, "has " + std::to_string(cells.size()) + " cells, the heading " + std::to_string(names.size()));
  MetricsEntry entry;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (cells[c].empty()) continue;
    const auto value = parse_number<double>(cells[c]);
    if (!value) refuse(path, number, names[c] + " is no number");
    if (names[c] == "step") entry.step = static_cast<std::int64_t>(*value);
    for (const auto& column : kColumns)
      if (names[c] == column.name) entry.*column.field = *value;
  }
  // Evaluations take no seconds, and have a loss of their own.
  const bool left_out = std::ranges::find(names, "loss") != names.end() && !entry.loss && entry.seconds;
  entry.loss_not_finite = left_out || (entry.loss && !std::isfinite(*entry.loss));
  if (entry.loss_not_finite) entry.loss.reset();
  return entry;
}

// ---- drawing

constexpr double kTrainingPageWidth = 760, kPlotHeight = 200, kLeftMargin = 70, kBottomMargin = 24, kTopMargin = 10;
constexpr std::array kTrainingPageColours{"#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#475569"};
constexpr std::size_t kMostPoints = 1500;  ///< of a curve: more than a page has pixels

struct CurvePoint {
  double x = 0, y = 0;
};
struct Curve {
  std::vector<CurvePoint> points;
  std::string colour;
  bool dotted = false;
};
struct Chart {
  std::string title;
  std::vector<Curve> curves;
  bool from_zero = false;
};

std::string number_text(double value) {
  std::array<char, 32> text{};
  const double size = std::abs(value);
  constexpr double kUnnamed = 1e12;
  if (size >= kUnnamed) {
    std::snprintf(text.data(), text.size(), "%.4g", value);
    std::string written = text.data();
    if (const auto sign = written.find("e+"); sign != std::string::npos) written.erase(sign + 1, 1);
    return written;
  }
  if (size >= 1e9)
    std::snprintf(text.data(), text.size(), "%.4g G", value / 1e9);
  else if (size >= 1e6)
    std::snprintf(text.data(), text.size(), "%.4g M", value / 1e6);
  else if (size >= 1e4)
    std::snprintf(text.data(), text.size(), "%.4g k", value / 1e3);
  else
    std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

/// Of neighbours that fall on one pixel the lowest and the highest stay, so that a spike is seen.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<CurvePoint> few;
  const auto size = 2 * points.size() / kMostPoints + 1;
  for (std::size_t at = 0; at < points.size(); at += size) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), at + size));
    auto [low, high] = std::minmax_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    few.push_back(*std::min(low, high));
    if (low != high) few.push_back(*std::max(low, high));
  }
  return few;
}

struct AxisRange {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(double v) { low = std::min(low, v), high = std::max(high, v); }
  [[nodiscard]] double size() const { return high > low ? high - low : 1; }
};

/// Round distances between lines of a grid: about `wanted` of them.
double tick_distance(double size, int wanted) {
  const double rough = size / wanted, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::string svg_number(double v) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%.1f", v);
  return text.data();
}

std::string label(double x, double y, const char* anchor, double value) {
  return "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\" text-anchor=\"" + anchor + "\">" + number_text(value) + "</text>";
}

/// `xs`: the steps that all charts of the page show.
std::string drawn(const Chart& chart, const AxisRange& xs) {
  AxisRange ys;
  for (const auto& curve : chart.curves)
    for (const auto& p : curve.points) ys.add(p.y);
  if (chart.from_zero) ys.add(0);
  const auto x_of = [&](double x) { return kLeftMargin + (x - xs.low) / xs.size() * (kTrainingPageWidth - kLeftMargin - 10); };
  const auto y_of = [&](double y) {
    return kPlotHeight - kBottomMargin - (y - ys.low) / ys.size() * (kPlotHeight - kBottomMargin - kTopMargin);
  };
  std::string svg = "<h2>" + xml_escaped(chart.title) + "</h2>\n<svg viewBox=\"0 0 " + svg_number(kTrainingPageWidth) + " " +
                    svg_number(kPlotHeight) + "\">";
  const double y_step = tick_distance(ys.size(), 4), x_step = std::max(1.0, tick_distance(xs.size(), 8));
  for (double y = std::ceil(ys.low / y_step) * y_step; y <= ys.low + ys.size() * 1.0001; y += y_step)
    svg += "<line x1=\"" + svg_number(kLeftMargin) + "\" x2=\"" + svg_number(kTrainingPageWidth - 10) + "\" y1=\"" + svg_number(y_of(y)) +
           "\" y2=\"" + svg_number(y_of(y)) + "\"/>" + label(kLeftMargin - 6, y_of(y) + 4, "end", std::abs(y) < y_step / 1e6 ? 0 : y);
  for (double x = std::ceil(xs.low / x_step) * x_step; x <= xs.low + xs.size() * 1.0001; x += x_step)
    svg += label(x_of(x), kPlotHeight - 6, "middle", x);
  for (const auto& curve : chart.curves) {
    if (curve.points.empty()) continue;
    std::string points;
    for (const auto& p : thinned(curve.points)) {
      points += svg_number(x_of(p.x)) + "," + svg_number(y_of(p.y)) + " ";
      if (curve.dotted)
        svg += "<circle r=\"3\" cx=\"" + svg_number(x_of(p.x)) + "\" cy=\"" + svg_number(y_of(p.y)) + "\" fill=\"" + curve.colour +
               "\"><title>step " + number_text(p.x) + ": " + number_text(p.y) + "</title></circle>";
    }
    svg += "<polyline points=\"" + points + "\" stroke=\"" + curve.colour + "\"" + (curve.dotted ? " stroke-dasharray=\"4 3\"" : "") + "/>";
  }
  return svg + "</svg>\n";
}

Curve curve_of(const MetricsFile& training, Field field, std::size_t number) {
  Curve curve{{}, kTrainingPageColours[number % kTrainingPageColours.size()], field == &MetricsEntry::eval_loss};
  for (const auto& e : training.entries)
    if (e.*field && std::isfinite(*(e.*field))) curve.points.push_back({static_cast<double>(e.step), *(e.*field)});
  return curve;
}

Chart chart_of(std::span<const MetricsFile> trainings, const std::string& title, std::initializer_list<Field> fields) {
  Chart chart{title, {}, *fields.begin() != &MetricsEntry::loss};
  for (std::size_t n = 0; n < trainings.size(); ++n)
    for (const auto field : fields)
      if (auto curve = curve_of(trainings[n], field, n); !curve.points.empty()) chart.curves.push_back(std::move(curve));
  return chart;
}

/// The steps of trainings.
AxisRange steps_of(std::span<const MetricsFile> trainings) {
  AxisRange steps;
  for (const auto& training : trainings)
    for (const auto& e : training.entries) steps.add(static_cast<double>(e.step));
  return steps;
}

/// "not finite from step 4 on", "not finite at 3 steps, the first of them step 4": of losses.
std::string about_losses_not_finite(const MetricsFile& training) {
  std::int64_t first = 0, last_finite = -1, count = 0;
  for (const auto& e : training.entries) {
    if (e.loss) last_finite = std::max(last_finite, e.step);
    if (e.loss_not_finite && count++ == 0) first = e.step;
  }
  if (count == 0) return {};
  if (last_finite < first) return "not finite from step " + std::to_string(first) + " on";
  return "not finite at " + std::to_string(count) + (count == 1 ? " step, step " : " steps, the first of them step ") +
         std::to_string(first);
}

std::string summary(const MetricsFile& training, std::size_t number) {
  std::string text = "<li><b style=\"color:" + std::string(kTrainingPageColours[number % kTrainingPageColours.size()]) + "\">" +
                     xml_escaped(training.name) + "</b>";
  const auto losses = curve_of(training, &MetricsEntry::loss, number).points;
  const auto [first, last] = std::ranges::minmax(training.entries, {}, &MetricsEntry::step);
  text += ": steps " + std::to_string(first.step) + " to " + std::to_string(last.step);
  if (!losses.empty()) text += ", loss from " + number_text(losses.front().y) + " to " + number_text(losses.back().y);
  if (const auto lost = about_losses_not_finite(training); !lost.empty()) text += (losses.empty() ? ", loss " : ", ") + lost;
  const auto evaluated = curve_of(training, &MetricsEntry::eval_loss, number).points;
  const auto lowest = std::ranges::min_element(evaluated, {}, &CurvePoint::y);
  if (lowest != evaluated.end()) text += ", lowest on held-out data " + number_text(lowest->y) + " at step " + number_text(lowest->x);
  return text + "</li>\n";
}

}  // namespace

MetricsFile read_metrics(const std::string& path) {
  auto in = open_text(path);
  MetricsFile file{path, {}};
  const bool table = path.ends_with(".csv");
  std::vector<std::string> names;
  TextLines lines(in);
  for (std::string line; lines.next(line);) {
    if (in.eof()) break;  // no end of line: it is being written
    const auto number = static_cast<std::size_t>(lines.number());
    if (line.empty()) continue;
    if (table && names.empty()) {
      names = cells_of(line);
      if (std::ranges::find(names, "step") == names.end()) refuse(path, number, "names no column step");
      continue;
    }
    file.entries.push_back(table ? entry_of(path, number, names, line) : entry_of(path, number, line));
  }
  if (file.entries.empty()) throw BadInput(path, "has no line of a step");
  return file;
}

std::string to_page(std::span<const MetricsFile> trainings) {
  const std::array charts{chart_of(trainings, "loss by step (dots: on held-out data)", {&MetricsEntry::loss, &MetricsEntry::eval_loss}),
                          chart_of(trainings, "samples per second", {&MetricsEntry::samples_per_second}),
                          chart_of(trainings, "tokens per second", {&MetricsEntry::tokens_per_second}),
                          chart_of(trainings, "memory of rank 0 in bytes", {&MetricsEntry::resident_bytes})};
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
      "<title>Training</title><style>body{font:15px system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#1f2937;"
      "background:#fff}h2{font-size:16px;margin:1.4em 0 .3em}svg{width:100%;height:auto}svg text{font-size:11px;fill:#6b7280}"
      "svg line{stroke:#e5e7eb}polyline{fill:none;stroke-width:1.5}@media(prefers-color-scheme:dark){body{background:#111827;color:#e5e7eb}"
      "svg line{stroke:#374151}}</style></head><body>\n<h1>Training</h1>\n<ul>\n";
  for (std::size_t n = 0; n < trainings.size(); ++n) page += summary(trainings[n], n);
  page += "</ul>\n";
  for (const auto& chart : charts)
    if (!chart.curves.empty()) page += drawn(chart, steps_of(trainings));
  return page + "</body></html>\n";
}

}  // namespace rehearsal::traces
