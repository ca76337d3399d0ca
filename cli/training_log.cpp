#include "cli/training_log.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ostream>

namespace rehearsal::cli {
namespace {

constexpr double kLineSeconds = 1, kDrawSeconds = 0.2;

double now_of_training_log() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[80];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// Hours, minutes and seconds, with days before them where there are some.
std::string duration_text(double seconds) {
  constexpr long long kMinute = 60, kHour = 3600, kDay = 86400;
  const auto s = std::llround(std::min(seconds, 1e12));
  const auto days = s / kDay;
  return (days > 0 ? std::to_string(days) + (days == 1 ? " day " : " days ") : "") +
         formatted("%lld:%02lld:%02lld", s % kDay / kHour, s % kHour / kMinute, s % kMinute);
}

std::string rate_text(double rate) { return formatted(rate < 10 ? "%.2f" : rate < 100 ? "%.1f" : "%.0f", rate); }

}  // namespace

std::string loss_text(double loss) {
  if (!std::isfinite(loss)) return "not finite";
  return formatted(std::abs(loss) >= 1e-3 && std::abs(loss) < 1e6 ? "%.4f" : "%.3e", loss);
}

TrainingLog::TrainingLog(const Terminal& terminal, const LogOptions& options)
    : terminal_(terminal),
      options_(options),
      draws_(terminal.draws() && options.every == 0),
      throttle_(draws_ ? kDrawSeconds : kLineSeconds),
      since_(now_of_training_log()) {
  (void)throttle_.due();  // the first line comes when there is something to tell
}

TrainingLog::~TrainingLog() { clear(); }

void TrainingLog::clear() {
  if (drawn_) terminal_.err() << "\r\033[K" << std::flush;
  drawn_ = false;
}

bool TrainingLog::due(std::int64_t step) {
  if (options_.every > 0) return step % options_.every == 0;
  return throttle_.due() || (step == options_.last_step && !draws_);
}

void TrainingLog::add(const exec::StepReport& report) {
  ++steps_;
  samples_ += options_.batch;
  if (!due(report.step)) return;
  const auto text = line(report);
  drawn_ = draws_;
  terminal_.err() << (draws_ ? "\r" + text + "\033[K" : text + "\n") << std::flush;
}

void TrainingLog::add(const exec::EvaluationReport& report) {
  clear();
  auto text = "eval: step " + std::to_string(report.step) + " of " + std::to_string(options_.last_step) + "  loss " +
              loss_text(report.result.loss.value_or(NAN));
  if (report.result.accuracy) text += "  accuracy " + formatted("%.1f", 100 * *report.result.accuracy) + " %";
  if (report.best) text += "  best so far";
  terminal_.err() << text + "\n" << std::flush;
}

std::string TrainingLog::line(const exec::StepReport& report) {
  const double seconds = std::max(now_of_training_log() - since_, 1e-9);
  const double rate = static_cast<double>(samples_) / seconds;
  auto text = "step: " + std::to_string(report.step) + " of " + std::to_string(options_.last_step) + "  loss " + loss_text(report.loss) +
              "  " + rate_text(rate) + " samples/s";
  if (options_.tokens > 0) text += "  " + rate_text(rate * static_cast<double>(options_.tokens)) + " tokens/s";
  if (report.step < options_.last_step)
    text += "  ETA " + duration_text(seconds / static_cast<double>(steps_) * static_cast<double>(options_.last_step - report.step));
  steps_ = samples_ = 0;
  since_ = now_of_training_log();
  return text;
}

}  // namespace rehearsal::cli
