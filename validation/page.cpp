#include "validation/page.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rehearsal::validation {
namespace {

constexpr double kSide = 460, kLeft = 60, kBottom = 40, kHistogramHeight = 180;
constexpr int kBins = 40;
constexpr double kWidestError = 1;  // of the histogram; larger ones stand in its last bins
constexpr std::size_t kWorst = 10;

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rehearsal: published runs</title><style>
body{font:14px/1.4 system-ui,sans-serif;margin:24px auto;max-width:1100px;padding:0 12px;color:#222;background:#fff}
td,th{padding:2px 12px 2px 0;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
table{border-collapse:collapse}.row{display:flex;flex-wrap:wrap;gap:24px}.key i{display:inline-block;width:10px;height:10px;margin:0 5px 0 12px}
@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}td,th{border-color:#333}svg text{fill:#aaa}}
</style></head><body><h1>Predictions against published training runs</h1>
)";

struct Point {
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

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

std::vector<Point> points_of(std::span<const Verdict> verdicts, std::span<const Record> records, const Summary& summary) {
  std::vector<Point> points;
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

/// Hues a golden angle apart, in two lightnesses: neighbours in the legend look different however many families there are.
std::string colour(std::size_t family) {
  constexpr double kGoldenAngle = 137.508;
  return "hsl(" + text_of("%.0f", std::fmod(210 + kGoldenAngle * static_cast<double>(family), 360)) +
         (family % 2 == 0 ? ",60%,42%)" : ",65%,62%)");
}

/// Both axes logarithmic, in the unit of each record's own quantity.
std::string scatter(const std::vector<Point>& points) {
  double low = 1e300, high = 1e-300;
  for (const auto& p : points) {
    low = std::min({low, p.measured, p.predicted});
    high = std::max({high, p.measured, p.predicted});
  }
  const double from = std::floor(std::log10(low)), to = std::max(from + 1, std::ceil(std::log10(high)));
  const auto at = [&](double v) { return (std::log10(v) - from) / (to - from) * kSide; };
  std::string svg =
      "<svg style='overflow:visible' width='" + text_of("%.0f", kSide + kLeft) + "' height='" + text_of("%.0f", kSide + kBottom) + "'>";
  for (double e = from; e <= to; ++e) {
    const double x = (e - from) / (to - from) * kSide;
    svg += "<text x='" + text_of("%.1f", kLeft + x - 12) + "' y='" + text_of("%.1f", kSide + 16) + "' font-size='11'>1e" +
           text_of("%.0f", e) + "</text>";
    svg += "<text x='8' y='" + text_of("%.1f", kSide - x + 4) + "' font-size='11'>1e" + text_of("%.0f", e) + "</text>";
  }
  svg += "<line x1='" + text_of("%.0f", kLeft) + "' y1='" + text_of("%.0f", kSide) + "' x2='" + text_of("%.0f", kLeft + kSide) +
         "' y2='0' stroke='#999'/>";
  for (const auto& p : points)
    svg += "<circle cx='" + text_of("%.1f", kLeft + at(p.measured)) + "' cy='" + text_of("%.1f", kSide - at(p.predicted)) +
           "' r='2.5' fill='" + colour(p.family) + "' fill-opacity='0.6'><title>" + escaped(p.verdict->id) + " " + percent(p.error()) +
           "</title></circle>";
  return svg + "<text x='200' y='" + text_of("%.0f", kSide + 34) + "' font-size='12'>measured (across), predicted (up)</text></svg>";
}

std::string histogram(const std::vector<Point>& points) {
  std::array<double, kBins> bins{};
  for (const auto& p : points) {
    const double place = (std::clamp(p.error(), -kWidestError, kWidestError) + kWidestError) / (2 * kWidestError);
    ++bins[static_cast<std::size_t>(std::min<double>(kBins - 1, std::floor(place * kBins)))];
  }
  const double most = std::max(1.0, *std::max_element(bins.begin(), bins.end())), width = kSide / kBins;
  std::string svg = "<svg width='" + text_of("%.0f", kSide) + "' height='" + text_of("%.0f", kHistogramHeight + 20) + "'>";
  for (int b = 0; b < kBins; ++b) {
    const double height = bins[static_cast<std::size_t>(b)] / most * kHistogramHeight;
    svg += "<rect x='" + text_of("%.1f", b * width) + "' y='" + text_of("%.1f", kHistogramHeight - height) + "' width='" +
           text_of("%.1f", width - 1) + "' height='" + text_of("%.1f", height) + "' fill='#4c78a8'/>";
  }
  return svg + "<text x='0' y='" + text_of("%.0f", kHistogramHeight + 16) + "' font-size='11'>-100 %</text><text x='" +
         text_of("%.0f", kSide / 2 - 8) + "' y='" + text_of("%.0f", kHistogramHeight + 16) + "' font-size='11'>0</text><text x='" +
         text_of("%.0f", kSide - 50) + "' y='" + text_of("%.0f", kHistogramHeight + 16) + "' font-size='11'>+100 %</text></svg>";
}

std::string family_table(const Summary& summary) {
  std::string html = "<table><tr><th>family</th><th>answered</th><th>refused</th><th>mean</th><th>median</th><th>in interval</th></tr>";
  auto rows = summary.families;
  rows.push_back(summary.all);
  for (const auto& f : rows)
    html += "<tr><td>" + escaped(f.family) + "</td><td>" + std::to_string(f.answered) + "</td><td>" + std::to_string(f.refused) +
            "</td><td>" + percent(f.mean) + "</td><td>" + percent(f.median) + "</td><td>" +
            percent(f.answered > 0 ? static_cast<double>(f.held) / f.answered : 0) + "</td></tr>";
  return html + "</table>";
}

std::string worst_table(std::vector<Point> points) {
  const auto badness = [](const Point& p) { return std::fabs(std::log(p.predicted / p.measured)); };
  const auto count = std::min(kWorst, points.size());
  std::partial_sort(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(count), points.end(),
                    [&](const Point& a, const Point& b) { return badness(a) > badness(b); });
  std::string html = "<table><tr><th>record</th><th>quantity</th><th>measured</th><th>predicted</th><th>error</th></tr>";
  for (std::size_t i = 0; i < count; ++i)
    html += "<tr><td>" + escaped(points[i].verdict->id) + "</td><td>" + points[i].key + "</td><td>" + text_of("%.4g", points[i].measured) +
            "</td><td>" + text_of("%.4g", points[i].predicted) + "</td><td>" + percent(points[i].error()) + "</td></tr>";
  return html + "</table>";
}

}  // namespace

std::string validation_page(std::span<const Verdict> verdicts, std::span<const Record> records) {
  const auto summary = summarise(verdicts, records);
  const auto points = points_of(verdicts, records, summary);
  std::string html(kHead);
  html += "<p>" + std::to_string(summary.all.answered) + " records answered, " + std::to_string(summary.all.refused) +
          " refused; mean error " + percent(summary.all.mean) + ", median " + percent(summary.all.median) + "</p><p class='key'>";
  for (std::size_t f = 0; f < summary.families.size(); ++f)
    html += "<i style='background:" + colour(f) + "'></i>" + escaped(summary.families[f].family);
  html += "</p><div class='row'>";
  if (!points.empty()) html += scatter(points) + "<div><h2>Errors</h2>" + histogram(points) + "</div>";
  return html + "</div><h2>Families</h2>" + family_table(summary) + "<h2>The worst ten</h2>" + worst_table(points) + "</body></html>\n";
}

}  // namespace rehearsal::validation
