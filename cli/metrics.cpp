#include "cli/metrics.hpp"

#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

/// Whole lines of steps that the checkpoint has, too: what was done behind it was lost, and is done again.
std::string lines_up_to(const std::string& path, std::int64_t step) {
  std::ifstream in(path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains("step") && entry["step"].is_number_integer() && entry["step"] <= step) kept += line + "\n";
  }
  return kept;
}

std::string loss_text(double loss, bool f64) {
  if (!std::isfinite(loss)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", f64 ? 17 : 9, loss);
  return text;
}

}  // namespace

Metrics::Metrics(const std::string& path, bool f64, std::optional<std::int64_t> after) : path_(path), f64_(f64) {
  if (path.empty()) return;
  const auto kept = after ? lines_up_to(path, *after) : std::string();
  file_.open(path, std::ios::app);
  if (!file_) throw BadInput("--metrics " + path, "cannot be written");
  file_.close();
  if (kept.empty()) {
    file_.open(path, std::ios::trunc);
  } else {
    write_file_atomically(path, kept);
    file_.open(path, std::ios::app);
  }
}

void Metrics::add(const exec::StepReport& r) {
  if (path_.empty()) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.6g", r.seconds);
  file_ << "{\"step\": " + std::to_string(r.step) + ", \"loss\": " + loss_text(r.loss, f64_) + ", \"seconds\": " + seconds + "}\n"
        << std::flush;
  if (!file_) throw EnvironmentFailure("--metrics " + path_ + ": could not be written (is the disk full?)");
}

}  // namespace rehearsal::cli
