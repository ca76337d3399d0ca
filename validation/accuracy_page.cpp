#include "validation/accuracy_page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/statistics.hpp"
#include "base/units.hpp"
#include "base/xml.hpp"

namespace rehearsal::validation {
namespace {

constexpr double kPanelSide = 200, kHistogramWidth = 460, kHistogramHeight = 180;
constexpr int kBins = 40;
constexpr double kWidestError = 1;  // of the histogram; larger ones stand in its last bins
constexpr std::size_t kWorst = 10;

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Rehearsal: published runs</title><style>
:root{--ground:#fff;--ink:#222;--soft:#666;--line:#ddd;--held:#2f6db0;--missed:#d1671a}
@media(prefers-color-scheme:dark){:root{--ground:#161616;--ink:#ddd;--soft:#a5a5a5;--line:#444;--held:#79aee3;--missed:#f2a44b}}
body{font:14px/1.4 system-ui,sans-serif;margin:24px auto;max-width:min(96vw,2400px);padding:0 12px;color:var(--ink);background:var(--ground)}
td,th{padding:2px 12px 2px 0;text-align:right;border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left;overflow-wrap:anywhere}
table{border-collapse:collapse}.frame{overflow-x:auto}p{color:var(--soft)}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(200px,1fr));gap:18px}figure{margin:0}figcaption{font-size:13px;min-height:2.8em}
svg text{fill:var(--soft);font-size:11px}.key i{display:inline-block;width:10px;height:10px;margin:0 5px 0 12px}
.errors{max-width:480px;width:100%}
</style></head><body><h1>Predictions against published training runs</h1>
)";

struct RecordPoint {
  double measured, predicted;
  std::size_t family;
  const Verdict* verdict;
  std::string key;
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

std::string text_of(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string percent(double share) { return text_of("%.1f %%", 100 * share); }

std::vector<RecordPoint> points_of(std::span<const Verdict> verdicts, std::span<const Record> records, const Summary& summary) {
  std::vector<RecordPoint> points;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const auto key = scored_key(verdicts[i]);
    if (key.empty() || !verdicts[i].errors.contains(key)) continue;
    const auto family =
        std::find_if(summary.families.begin(), summary.families.end(), [&](const auto& f) { return f.family == verdicts[i].family; });
    points.push_back({*records[i].measured.number(key), verdicts[i].predicted.at(key).value,
                      static_cast<std::size_t>(family - summary.families.begin()), &verdicts[i], key});
  }
  return points;
}

/// By the end of a record's key.
std::string with_unit(std::string_view key, double value) {
  constexpr double kMicro = 1e-6;
  if (key.ends_with("_per_s")) return text_of("%.4g", value) + " /s";
  if (key.ends_with("_us")) return to_text(Seconds(value * kMicro));
  if (key.ends_with("_s")) return to_text(Seconds(value));
  if (key.ends_with("_gib")) return text_of("%.3g", value) + " GiB";
  if (key.find("_kwh") != std::string_view::npos) return text_of("%.3g", value) + " kWh";
  return text_of("%.3g", value);
}

/// Runs of one family of which one quantity was published: they share a picture.
struct Panel {
  std::string family, key;
  std::vector<const RecordPoint*> points;
};

std::vector<Panel> panels_of(const std::vector<RecordPoint>& points, const Summary& summary) {
  std::map<std::pair<std::size_t, std::string>, std::vector<const RecordPoint*>> groups;
  for (const auto& p : points) groups[{p.family, p.key}].push_back(&p);
  std::vector<Panel> panels;
  for (auto& [group, of] : groups) panels.push_back({summary.families[group.first].family, group.second, std::move(of)});
  return panels;
}

bool is_held(const RecordPoint& p) {
  const auto& predicted = p.verdict->predicted.at(p.key);
  return predicted.low <= p.measured && p.measured <= predicted.high;
}

/// A logarithmic axis of `kPanelSide` pixels; both axes of a panel are the same one.
struct Decades {
  double low, high;
  [[nodiscard]] double at(double value) const { return (std::log10(value) - low) / (high - low) * kPanelSide; }
};

Decades decades_of(const Panel& panel) {
  constexpr double kMargin = 0.08;  // of a decade
  double low = 1e300, high = 1e-300;
  for (const auto* p : panel.points) {
    low = std::min({low, p->measured, p->predicted});
    high = std::max({high, p->measured, p->predicted});
  }
  return {std::log10(low) - kMargin, std::log10(high) + kMargin};
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return "<line x1='" + text_of("%.1f", x1) + "' y1='" + text_of("%.1f", y1) + "' x2='" + text_of("%.1f", x2) + "' y2='" +
         text_of("%.1f", y2) + "' " + style + "/>";
}

/// One run: where it was published (across), predicted (up), and the interval.
std::string mark(const RecordPoint& p, const Decades& axis) {
  const double x = axis.at(p.measured), y = kPanelSide - axis.at(p.predicted);
  const auto& predicted = p.verdict->predicted.at(p.key);
  const auto up = [&](double value) { return kPanelSide - std::clamp(axis.at(std::max(value, 1e-300)), 0.0, kPanelSide); };
  const std::string colour = is_held(p) ? "var(--held)" : "var(--missed)";
  return line(x, up(predicted.low), x, up(predicted.high), ("stroke='" + colour + "' stroke-opacity='0.25'").c_str()) + "<circle cx='" +
         text_of("%.1f", x) + "' cy='" + text_of("%.1f", y) + "' r='3' fill='" + colour + "' fill-opacity='0.7'><title>" +
         xml_escaped(p.verdict->id) + "\nmeasured " + with_unit(p.key, p.measured) + "\npredicted " + with_unit(p.key, p.predicted) + " (" +
         with_unit(p.key, predicted.low) + " to " + with_unit(p.key, predicted.high) + ")\n" + (p.error() > 0 ? "+" : "") +
         percent(p.error()) + "</title></circle>";
}

std::string median_error(const Panel& panel) {
  std::vector<double> errors;
  for (const auto* p : panel.points) errors.push_back(std::fabs(p->error()));
  return percent(median_of(errors));
}

/// A picture of its own scale: the diagonal is a right prediction, the dotted lines are 20 % off.
std::string picture(const Panel& panel) {
  constexpr double kOff = 1.2;
  const auto axis = decades_of(panel);
  const double off = std::log10(kOff) / (axis.high - axis.low) * kPanelSide;
  std::string svg = "<figure><figcaption><b>" + xml_escaped(panel.family) + "</b> " + xml_escaped(panel.key) + "<br>" +
                    std::to_string(panel.points.size()) + (panel.points.size() == 1 ? " run" : " runs") + ", median error " +
                    median_error(panel) + "</figcaption><svg viewBox='-4 -4 " + text_of("%.0f", kPanelSide + 8) + " " +
                    text_of("%.0f", kPanelSide + 26) + "' role='img'>";
  svg +=
      "<rect width='" + text_of("%.0f", kPanelSide) + "' height='" + text_of("%.0f", kPanelSide) + "' fill='none' stroke='var(--line)'/>";
  svg += line(0, kPanelSide, kPanelSide, 0, "stroke='var(--soft)'");
  if (off < kPanelSide)
    svg += line(0, kPanelSide - off, kPanelSide - off, 0, "stroke='var(--soft)' stroke-dasharray='2 4'") +
           line(off, kPanelSide, kPanelSide, off, "stroke='var(--soft)' stroke-dasharray='2 4'");
  for (const auto* p : panel.points) svg += mark(*p, axis);
  const auto end = [&](double x, const char* anchor, double value) {
    return "<text x='" + text_of("%.0f", x) + "' y='" + text_of("%.0f", kPanelSide + 15) + "' text-anchor='" + anchor + "'>" +
           with_unit(panel.key, value) + "</text>";
  };
  return svg + end(0, "start", std::pow(10, axis.low)) + end(kPanelSide, "end", std::pow(10, axis.high)) + "</svg></figure>\n";
}

std::string histogram(const std::vector<RecordPoint>& points) {
  std::array<double, kBins> bins{};
  for (const auto& p : points) {
    const double place = (std::clamp(p.error(), -kWidestError, kWidestError) + kWidestError) / (2 * kWidestError);
    ++bins[static_cast<std::size_t>(std::min<double>(kBins - 1, std::floor(place * kBins)))];
  }
  const double most = std::max(1.0, *std::max_element(bins.begin(), bins.end())), width = kHistogramWidth / kBins;
  std::string svg =
      "<svg class='errors' viewBox='0 0 " + text_of("%.0f", kHistogramWidth) + " " + text_of("%.0f", kHistogramHeight + 20) + "'>";
  for (int b = 0; b < kBins; ++b) {
    const double height = bins[static_cast<std::size_t>(b)] / most * kHistogramHeight;
    svg += "<rect x='" + text_of("%.1f", b * width) + "' y='" + text_of("%.1f", kHistogramHeight - height) + "' width='" +
           text_of("%.1f", width - 1) + "' height='" + text_of("%.1f", height) + "' fill='var(--held)'/>";
  }
  return svg + "<text x='0' y='" + text_of("%.0f", kHistogramHeight + 16) + "' font-size='11'>-100 %</text><text x='" +
         text_of("%.0f", kHistogramWidth / 2 - 8) + "' y='" + text_of("%.0f", kHistogramHeight + 16) +
         "' font-size='11'>0</text><text x='" + text_of("%.0f", kHistogramWidth - 50) + "' y='" + text_of("%.0f", kHistogramHeight + 16) +
         "' font-size='11'>+100 %</text></svg>";
}

/// Blank where it is a share of nothing.
std::string share_of(double value, int count) { return count > 0 ? percent(value) : std::string(); }

std::string family_table(const Summary& summary) {
  std::string html = "<table><tr><th>family</th><th>answered</th><th>refused</th><th>mean</th><th>median</th><th>in interval</th></tr>";
  auto rows = summary.families;
  rows.push_back(summary.all);
  for (const auto& f : rows)
    html += "<tr><td>" + xml_escaped(f.family) + "</td><td>" + std::to_string(f.answered) + "</td><td>" + std::to_string(f.refused) +
            "</td><td>" + share_of(f.mean, f.answered) + "</td><td>" + share_of(f.median, f.answered) + "</td><td>" +
            share_of(static_cast<double>(f.held) / std::max(1, f.bounded), f.bounded) + "</td></tr>";
  return html + "</table>";
}

std::string worst_table(std::vector<RecordPoint> points) {
  const auto badness = [](const RecordPoint& p) { return std::fabs(std::log(p.predicted / p.measured)); };
  const auto count = std::min(kWorst, points.size());
  std::partial_sort(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(count), points.end(),
                    [&](const RecordPoint& a, const RecordPoint& b) { return badness(a) > badness(b); });
  std::string html = "<table><tr><th>record</th><th>quantity</th><th>measured</th><th>predicted</th><th>error</th></tr>";
  for (std::size_t i = 0; i < count; ++i)
    html += "<tr><td>" + xml_escaped(points[i].verdict->id) + "</td><td>" + points[i].key + "</td><td>" +
            text_of("%.4g", points[i].measured) + "</td><td>" + text_of("%.4g", points[i].predicted) + "</td><td>" +
            percent(points[i].error()) + "</td></tr>";
  return html + "</table>";
}

}  // namespace

std::string validation_page(std::span<const Verdict> verdicts, std::span<const Record> records) {
  const auto summary = summarise(verdicts, records);
  const auto points = points_of(verdicts, records, summary);
  std::string html(kHead);
  html += "<p>" + std::to_string(summary.all.answered) + " records answered, " + std::to_string(summary.all.refused) +
          " refused; mean error " + percent(summary.all.mean) + ", median " + percent(summary.all.median) +
          ".</p><p class='key'>Measured across, predicted up, each family on a scale of its own."
          "<i style='background:var(--held)'></i>within the 90 % interval (thin line)<i style='background:var(--missed)'></i>outside. "
          "Dotted: 20 % off.</p><div class='panels'>\n";
  for (const auto& panel : panels_of(points, summary)) html += picture(panel);
  html += "</div>";
  if (!points.empty()) html += "<h2>Errors</h2>" + histogram(points);
  return html + "<h2>Families</h2><div class='frame'>" + family_table(summary) + "</div><h2>The worst ten</h2><div class='frame'>" +
         worst_table(points) + "</div></body></html>\n";
}

}  // namespace rehearsal::validation
