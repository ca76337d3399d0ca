#include "cli/metrics.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "exec/resident.hpp"

namespace rehearsal::cli {
namespace {

/// In the order of a table's columns.
enum Column : std::uint8_t {
  kStep,
  kLoss,
  kSeconds,
  kSamplesRate,
  kTokensRate,
  kResident,
  kDataRate,
  kDataSeconds,
  kEvalLoss,
  kEvalAccuracy,
  kColumns
};
constexpr std::array<const char*, kColumns> kNames{
    "step",         "loss",      "seconds",      "samples_per_second", "tokens_per_second", "resident_bytes", "data_bytes_per_second",
    "data_seconds", "eval_loss", "eval_accuracy"};
using Row = std::array<std::string, kColumns>;

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string json_line(const Row& row) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c)
    if (!row[c].empty()) line += (line.empty() ? "{\"" : ", \"") + std::string(kNames[c]) + "\": " + row[c];
  return line + "}";
}

std::string table_line(const Row& row) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c) line += (c == 0 ? "" : ",") + (row[c] == "null" ? "" : row[c]);
  return line;
}

std::string heading() {
  Row names;
  std::copy(kNames.begin(), kNames.end(), names.begin());
  return table_line(names);
}

/// The step that a line is of.
std::optional<std::int64_t> step_of(const std::string& line, bool table) {
  if (table) {
    std::string_view rest = line;
    return take_number<std::int64_t>(rest);
  }
  const auto entry = nlohmann::json::parse(line, nullptr, false);
  if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer()) return std::nullopt;
  return entry["step"].get<std::int64_t>();
}

/// Whole lines of steps that the checkpoint has, too: what was done behind it was lost, and is done again.
std::string lines_up_to(const MetricsOptions& o, bool table) {
  std::ifstream in(o.path, std::ios::binary);
  std::string kept;
  for (std::string line; std::getline(in, line) && !in.eof();)
    if (const auto step = step_of(line, table); step && *step <= *o.after) kept += line + "\n";
  return kept;
}

}  // namespace

Metrics::Metrics(const MetricsOptions& options) : options_(options), table_(options.path.ends_with(".csv")) {
  const auto& path = options_.path;
  if (path.empty()) return;
  const auto kept = options_.after ? lines_up_to(options_, table_) : std::string();
  file_.open(path, std::ios::app);
  if (!file_) throw BadInput("--metrics " + path, "cannot be written");
  file_.close();
  if (kept.empty()) {
    file_.open(path, std::ios::trunc);
    if (table_) write(heading());
  } else {
    write_file_atomically(path, (table_ ? heading() + "\n" : "") + kept);
    file_.open(path, std::ios::app);
  }
}

void Metrics::add(const exec::StepReport& r) {
  if (options_.path.empty()) return;
  constexpr int kLossDigits = 9, kDoubleDigits = 17, kDigits = 6;
  const double rate = r.seconds > 0 ? static_cast<double>(options_.batch) / r.seconds : NAN;
  Row row;
  row[kStep] = std::to_string(r.step);
  row[kLoss] = number_text(r.loss, options_.f64 ? kDoubleDigits : kLossDigits);
  row[kSeconds] = number_text(r.seconds, kDigits);
  row[kSamplesRate] = number_text(rate, kDigits);
  if (options_.tokens > 0) row[kTokensRate] = number_text(rate * static_cast<double>(options_.tokens), kDigits);
  row[kResident] = std::to_string(exec::resident_bytes());
  if (r.data.bytes > 0) row[kDataRate] = number_text(static_cast<double>(r.data.bytes) / r.seconds, kDigits);
  if (r.data.waited > 0) row[kDataSeconds] = number_text(r.data.waited, kDigits);
  write(table_ ? table_line(row) : json_line(row));
}

void Metrics::add(const exec::EvaluationReport& r) {
  if (options_.path.empty()) return;
  constexpr int kDigits = 9;
  Row row;
  row[kStep] = std::to_string(r.step);
  row[kEvalLoss] = number_text(r.result.loss.value_or(NAN), kDigits);
  if (r.result.accuracy) row[kEvalAccuracy] = number_text(*r.result.accuracy, kDigits);
  write(table_ ? table_line(row) : json_line(row));
}

void Metrics::write(const std::string& line) {
  file_ << line + "\n" << std::flush;
  if (!file_) throw EnvironmentFailure("--metrics " + options_.path + ": could not be written (is the disk full?)");
}

}  // namespace rehearsal::cli
