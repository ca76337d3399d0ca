#include "jobs/schedule_picture.hpp"

#include <algorithm>
#include <cmath>

#include "base/xml.hpp"

namespace rehearsal::jobs {
namespace {

constexpr double kWidth = 960, kLeft = 90, kRight = 12, kHead = 26, kFoot = 26;
constexpr double kHighestDevice = 10, kPanel = 480;

/// Neighbouring jobs differ: hues go round by the golden angle.
std::string colour(std::size_t job) {
  constexpr double kGoldenAngle = 137.508, kRound = 360;
  return "hsl(" + std::to_string(static_cast<int>(std::fmod(static_cast<double>(job) * kGoldenAngle, kRound))) + " 55% 55%)";
}

class Panel {
 public:
  Panel(std::span<const Job> jobs, const platforms::Platform& platform, Seconds end, double top)
      : jobs_(jobs), node_(platform.nodes.front()), end_(end), top_(top + kHead) {
    devices_ = node_.count * node_.devices;
    device_ = std::min(kHighestDevice, kPanel / devices_);
  }

  [[nodiscard]] double bottom() const { return top_ + device_ * devices_ + kFoot; }

  [[nodiscard]] std::string drawn(const ScheduleOutcome& outcome) const {
    std::string svg = "<text class=\"title\" x=\"" + two_decimals(kLeft) + "\" y=\"" + two_decimals(top_ - 8) + "\">" +
                      xml_escaped(outcome.policy) + "</text>\n";
    svg += "<rect class=\"idle\" x=\"" + two_decimals(kLeft) + "\" y=\"" + two_decimals(top_) + "\" width=\"" +
           two_decimals(kWidth - kLeft - kRight) + "\" height=\"" + two_decimals(device_ * devices_) + "\"/>\n";
    for (const auto& stay : outcome.stays) svg += bars(stay);
    return svg + names_of_nodes() + clock();
  }

 private:
  [[nodiscard]] double x(Seconds t) const { return kLeft + (kWidth - kLeft - kRight) * (end_.value() > 0 ? t / end_ : 0); }
  [[nodiscard]] double y(int device) const { return top_ + device_ * device; }

  [[nodiscard]] std::string bar(Seconds from, Seconds to, int first, int count, const std::string& fill) const {
    if (!(to > from)) return {};
    return "<rect x=\"" + two_decimals(x(from)) + "\" y=\"" + two_decimals(y(first)) + "\" width=\"" +
           two_decimals(std::max(x(to) - x(from), 0.3)) + "\" height=\"" + two_decimals(device_ * count) + "\" fill=\"" + fill + "\"/>";
  }

  /// Devices side by side are one bar.
  [[nodiscard]] std::string bars(const Stay& stay) const {
    const auto& job = jobs_[stay.job];
    std::string svg = "<g><title>" + xml_escaped(job.name) + ": " + std::to_string(stay.devices.size()) + " devices, " +
                      to_text(stay.from) + " to " + to_text(stay.to) + "</title>";
    for (std::size_t n = 0; n < stay.devices.size();) {
      std::size_t end = n + 1;
      while (end < stay.devices.size() && stay.devices[end] == stay.devices[end - 1] + 1) ++end;
      const auto count = static_cast<int>(end - n);
      svg += bar(stay.from, stay.to, stay.devices[n], count, colour(stay.job));
      svg += bar(stay.from, stay.trains_from, stay.devices[n], count, "url(#starts)");
      n = end;
    }
    const double room = x(stay.to) - x(stay.from);
    constexpr double kLetter = 6;
    if (room > kLetter * static_cast<double>(job.name.size()) && device_ * static_cast<double>(stay.devices.size()) >= kHighestDevice)
      svg += "<text class=\"job\" x=\"" + two_decimals(x(stay.from) + 3) + "\" y=\"" +
             two_decimals(y(stay.devices.front()) + kHighestDevice - 1) + "\">" + xml_escaped(job.name) + "</text>";
    return svg + "</g>\n";
  }

  [[nodiscard]] std::string names_of_nodes() const {
    constexpr double kLine = 12;
    const int every = std::max(1, static_cast<int>(std::ceil(kLine / (device_ * node_.devices))));
    std::string svg;
    for (int node = 0; node < node_.count; ++node) {
      const auto at = two_decimals(y(node * node_.devices));
      if (node > 0) svg += "<path class=\"line\" d=\"M" + two_decimals(kLeft) + " " + at + "H" + two_decimals(kWidth - kRight) + "\"/>";
      if (node % every == 0)
        svg += "<text x=\"" + two_decimals(kLeft - 6) + "\" y=\"" + two_decimals(y(node * node_.devices) + kLine - 2) +
               "\" text-anchor=\"end\">node " + std::to_string(node) + "</text>";
    }
    return svg + "\n";
  }

  [[nodiscard]] std::string clock() const {
    constexpr int kTicks = 6;
    std::string svg;
    for (int n = 0; n <= kTicks; ++n) {
      const Seconds at = end_ * (static_cast<double>(n) / kTicks);
      svg += "<text x=\"" + two_decimals(x(at)) + "\" y=\"" + two_decimals(bottom() - kFoot + 14) + "\" text-anchor=\"" +
             (n == 0        ? "start"
              : n == kTicks ? "end"
                            : "middle") +
             "\">" + to_text(at) + "</text>";
    }
    return svg + "\n";
  }

  std::span<const Job> jobs_;
  const platforms::NodeGroup& node_;
  Seconds end_;
  double top_, device_ = 1;
  int devices_ = 1;
};

}  // namespace

std::string to_svg(std::span<const Job> jobs, std::span<const ScheduleOutcome> outcomes, const platforms::Platform& platform) {
  Seconds end;
  for (const auto& outcome : outcomes) end = std::max(end, outcome.makespan);
  std::string body;
  double bottom = 0;
  for (const auto& outcome : outcomes) {
    const Panel panel(jobs, platform, end, bottom);
    body += panel.drawn(outcome);
    bottom = panel.bottom();
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + two_decimals(kWidth) + " " + two_decimals(bottom) +
         "\" font-family=\"system-ui, sans-serif\" font-size=\"11\">\n"
         "<style>text{fill:#444}.title{font-size:14px;font-weight:600}.job{fill:#fff}.idle{fill:#eee}.line{stroke:#fff;stroke-width:.5;"
         "fill:none}"
         "</style>\n<defs><pattern id=\"starts\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
         "<rect width=\"2\" height=\"5\" fill=\"#fff\" fill-opacity=\".7\"/></pattern></defs>\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"#fff\"/>\n" +
         body + "</svg>\n";
}

}  // namespace rehearsal::jobs
