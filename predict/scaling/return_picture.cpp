#include "predict/scaling/return_picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/units.hpp"
#include "base/xml.hpp"

namespace rehearsal::predict::scaling {
namespace {

constexpr double kPictureWidth = 720, kPanelHeight = 200, kLeftEdge = 90, kRightEdge = 36, kTopEdge = 34, kBetween = 46;

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return "<text x=\"" + two_decimals(x) + "\" y=\"" + two_decimals(y) + "\" text-anchor=\"" + anchor + "\">" + text + "</text>\n";
}

std::string duration(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  const auto in = [&](double unit, const char* name) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3g %s", seconds / unit, name);
    return std::string(text);
  };
  if (seconds < 10 * kMinute) return to_text(Seconds(seconds));
  return seconds < 2 * kHour ? in(kMinute, "min") : seconds < 2 * kDay ? in(kHour, "h") : in(kDay, "days");
}

struct LogAxis {
  double low, high, from, to;  ///< values, and where they are drawn
  [[nodiscard]] double at(double value) const {
    return high > low ? from + (to - from) * std::log(value / low) / std::log(high / low) : (from + to) / 2;
  }
};

class ReturnPanel {
 public:
  ReturnPanel(std::span<const BatchPoint> points, double BatchPoint::*value, double top)
      : points_(points),
        value_(value),
        x_{points.front().batch, points.back().batch, kLeftEdge, kPictureWidth - kRightEdge},
        y_{low(), std::max(high(), 1.25 * low()), top + kPanelHeight, top} {}

  [[nodiscard]] std::string drawn(const std::string& title, std::string (*written)(double)) const {
    std::string svg =
        "<text class=\"title\" x=\"" + two_decimals(kLeftEdge) + "\" y=\"" + two_decimals(y_.to - 10) + "\">" + title + "</text>\n";
    svg += "<path class=\"frame\" d=\"M" + two_decimals(x_.from) + " " + two_decimals(y_.to) + "V" + two_decimals(y_.from) + "H" +
           two_decimals(x_.to) + "\"/>\n";
    for (const double value : {y_.low, y_.high}) svg += text_at(x_.from - 8, y_.at(value) + 4, "end", written(value));
    for (const auto& p : points_) svg += text_at(x_.at(p.batch), y_.from + 16, "middle", std::to_string(static_cast<long long>(p.batch)));
    std::string line;
    for (const auto& p : points_) line += (line.empty() ? "" : " ") + two_decimals(x_.at(p.batch)) + "," + two_decimals(y_.at(p.*value_));
    svg += "<polyline class=\"line\" points=\"" + line + "\"/>\n";
    for (const auto& p : points_)
      svg += "<circle cx=\"" + two_decimals(x_.at(p.batch)) + "\" cy=\"" + two_decimals(y_.at(p.*value_)) + "\" r=\"3.5\"><title>batch " +
             std::to_string(static_cast<long long>(p.batch)) + ": " + written(p.*value_) + "</title></circle>\n";
    return svg;
  }

  /// From the first point on, half for every doubling, as far as the panel goes.
  [[nodiscard]] std::string halving() const {
    const auto& first = points_.front();
    const double last = std::min(x_.high, x_.low * (first.*value_ / y_.low));
    return "<path class=\"ideal\" d=\"M" + two_decimals(x_.at(first.batch)) + " " + two_decimals(y_.at(first.*value_)) + "L" +
           two_decimals(x_.at(last)) + " " + two_decimals(y_.at(first.*value_ * first.batch / last)) +
           "\"><title>half of the time for twice the batch</title></path>\n";
  }

  [[nodiscard]] std::string mark(double batch) const {
    if (batch < x_.low || batch > x_.high) return {};
    return "<path class=\"critical\" d=\"M" + two_decimals(x_.at(batch)) + " " + two_decimals(y_.to) + "V" + two_decimals(y_.from) +
           "\"><title>critical batch</title></path>\n";
  }

 private:
  [[nodiscard]] double low() const { return (*std::ranges::min_element(points_, {}, value_)).*value_; }
  [[nodiscard]] double high() const { return (*std::ranges::max_element(points_, {}, value_)).*value_; }

  std::span<const BatchPoint> points_;
  double BatchPoint::*value_;
  LogAxis x_, y_;
};

}  // namespace

std::string to_svg(std::span<const BatchPoint> points, std::optional<double> critical, const std::string& target) {
  const double second = kTopEdge + kPanelHeight + kBetween + 20, height = second + kPanelHeight + 30;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + two_decimals(kPictureWidth) + " " + two_decimals(height) +
                    "\" font-family=\"system-ui, sans-serif\" font-size=\"11\">\n"
                    "<style>text{fill:#444}.title{font-size:13px;font-weight:600}.frame{stroke:#999;fill:none}.line{stroke:#2563eb;"
                    "stroke-width:2;fill:none}.ideal{stroke:#999;stroke-dasharray:5 4;fill:none}.critical{stroke:#d97706;"
                    "stroke-dasharray:2 3;fill:none}circle{fill:#2563eb}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  if (points.empty()) return svg + "</svg>\n";
  const ReturnPanel time(points, &BatchPoint::seconds, kTopEdge), money(points, &BatchPoint::dollars, second);
  svg += time.drawn("time to " + xml_escaped(target) + " by batch", duration) + time.halving();
  svg += text_at(kPictureWidth - kRightEdge, kTopEdge - 10, "end", "dashed: half for twice the batch; dotted: critical batch");
  svg += money.drawn("cost by batch", [](double v) { return to_text(Dollars(v)); });
  if (critical) svg += time.mark(*critical) + money.mark(*critical);
  return svg + "</svg>\n";
}

}  // namespace rehearsal::predict::scaling
