#include "cli/metrics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "cli/event_records.hpp"
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
  kEnergy,
  kEvalLoss,
  kEvalAccuracy,
  kGradientSquare,
  kGradientVariance,
  kNoiseScale,
  kStaleness,
  kColumns
};
constexpr std::array<const char*, kColumns> kNames{
    "step",         "loss",          "seconds",   "samples_per_second", "tokens_per_second", "resident_bytes",    "data_bytes_per_second",
    "data_seconds", "energy_joules", "eval_loss", "eval_accuracy",      "gradient_square",   "gradient_variance", "noise_scale",
    "staleness"};
using MetricsRow = std::array<std::string, kColumns>;
constexpr int kDigits = 6;

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

/// Two lists, of one length.
std::string json_of(const std::vector<exec::SampleNorm>& norms) {
  std::string numbers, samples;
  for (const auto& n : norms) {
    numbers += (numbers.empty() ? "" : ", ") + number_text(n.norm, kDigits);
    samples += (samples.empty() ? "" : ", ") + nlohmann::json(n.sample).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return ", \"sample_norms\": [" + numbers + "], \"samples\": [" + samples + "]";
}

std::string json_line(const MetricsRow& row, const std::vector<exec::SampleNorm>& norms) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c)
    if (!row[c].empty()) line += (line.empty() ? "{\"" : ", \"") + std::string(kNames[c]) + "\": " + row[c];
  return line + (norms.empty() ? "" : json_of(norms)) + "}\n";
}

std::string table_line(const MetricsRow& row, const std::vector<exec::SampleNorm>&) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c) line += (c == 0 ? "" : ",") + (row[c] == "null" ? "" : row[c]);
  return line + "\n";
}

std::string table_heading() {
  MetricsRow names;
  std::copy(kNames.begin(), kNames.end(), names.begin());
  return table_line(names, {});
}

double now_of_metrics() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// A number that is none is drawn as one by TensorBoard.
std::string event(const MetricsRow& row, const std::vector<exec::SampleNorm>&) {
  Scalars scalars{now_of_metrics(), parse_number<std::int64_t>(row[kStep]).value_or(0), {}};
  for (std::size_t c = kStep + 1; c < row.size(); ++c)
    if (!row[c].empty()) scalars.values.emplace_back(kNames[c], parse_number<float>(row[c]).value_or(NAN));
  return scalars_event(scalars);
}

/// The step that a line is of.
std::optional<std::int64_t> step_of_json(const std::string& line) {
  const auto entry = nlohmann::json::parse(line, nullptr, false);
  if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer()) return std::nullopt;
  return entry["step"].get<std::int64_t>();
}

std::optional<std::int64_t> step_of_table(const std::string& line) {
  std::string_view rest = line;
  return take_number<std::int64_t>(rest);
}

/// Whole lines of steps up to this one.
template <class StepOf>
std::string lines_up_to(const std::string& file, std::int64_t last, StepOf step_of) {
  std::istringstream in(file);
  std::string kept;
  for (std::string line; std::getline(in, line) && !in.eof();)
    if (const auto step = step_of(line); step && *step <= last) kept += line + "\n";
  return kept;
}

}  // namespace

/// How the figures of a step are written.
struct MetricsForm {
  std::string (*heading)();
  std::string (*record)(const MetricsRow&, const std::vector<exec::SampleNorm>&);
  /// What a file says of steps up to this one: what was done behind a checkpoint was lost, and is done again.
  std::string (*kept)(const std::string& file, std::int64_t last);
};

namespace {

constexpr MetricsForm kLines{[] { return std::string(); }, json_line,
                             [](const std::string& file, std::int64_t last) { return lines_up_to(file, last, step_of_json); }};
constexpr MetricsForm kMetricsTable{table_heading, table_line, [](const std::string& file, std::int64_t last) {
                                      const auto lines = lines_up_to(file, last, step_of_table);
                                      return lines.empty() ? lines : table_heading() + lines;
                                    }};
constexpr MetricsForm kEvents{[] { return first_event(now_of_metrics()); }, event,
                              [](const std::string& file, std::int64_t last) { return events_up_to(file, last); }};

const MetricsForm& form_of(const std::filesystem::path& path) {
  if (lower_case(path.extension().string()) == ".csv") return kMetricsTable;
  return path.filename().string().find("tfevents") != std::string::npos ? kEvents : kLines;
}

std::string whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Metrics::Metrics(const MetricsOptions& options) : options_(options), form_(form_of(options.path)) {
  const auto& path = options_.path;
  if (path.empty()) return;
  const auto kept = options_.after ? form_.kept(whole(path), *options_.after) : std::string();
  file_.open(path, std::ios::app | std::ios::binary);
  if (!file_) throw BadInput("--metrics " + path, "cannot be written");
  file_.close();
  if (kept.empty()) {
    file_.open(path, std::ios::trunc | std::ios::binary);
    write(form_.heading());
  } else {
    write_file_atomically(path, kept);
    file_.open(path, std::ios::app | std::ios::binary);
  }
}

void Metrics::add(const exec::StepReport& r) {
  if (options_.path.empty()) return;
  constexpr int kLossDigits = 9, kDoubleDigits = 17;
  const double rate = r.seconds > 0 ? static_cast<double>(options_.batch) / r.seconds : NAN;
  MetricsRow row;
  row[kStep] = std::to_string(r.step);
  row[kLoss] = number_text(r.loss, options_.f64 ? kDoubleDigits : kLossDigits);
  row[kSeconds] = number_text(r.seconds, kDigits);
  row[kSamplesRate] = number_text(rate, kDigits);
  if (options_.tokens > 0) row[kTokensRate] = number_text(rate * static_cast<double>(options_.tokens), kDigits);
  row[kResident] = std::to_string(exec::resident_bytes());
  if (options_.reads_data) {
    row[kDataRate] = number_text(static_cast<double>(r.data.bytes) / r.seconds, kDigits);
    row[kDataSeconds] = number_text(r.data.waited, kDigits);
  }
  if (r.energy) row[kEnergy] = number_text(r.energy->value(), kDigits);
  if (r.noise) {
    row[kGradientSquare] = number_text(r.noise->square, kDigits);
    row[kGradientVariance] = number_text(r.noise->variance, kDigits);
    row[kNoiseScale] = number_text(r.noise->scale.value_or(NAN), kDigits);
  }
  if (r.staleness) row[kStaleness] = std::to_string(*r.staleness);
  write(form_.record(row, r.sample_norms));
}

void Metrics::add(const exec::EvaluationReport& r) {
  if (options_.path.empty()) return;
  constexpr int kEvalDigits = 9;
  MetricsRow row;
  row[kStep] = std::to_string(r.step);
  row[kEvalLoss] = number_text(r.result.loss.value_or(NAN), kEvalDigits);
  if (r.result.accuracy) row[kEvalAccuracy] = number_text(*r.result.accuracy, kEvalDigits);
  write(form_.record(row, {}));
}

void Metrics::write(const std::string& record) {
  file_ << record << std::flush;
  if (!file_) throw EnvironmentFailure("--metrics " + options_.path + ": could not be written (is the disk full?)");
}

}  // namespace rehearsal::cli
