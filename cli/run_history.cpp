#include "cli/run_history.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "traces/trace.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTimeForm = "%Y-%m-%dT%H:%M:%SZ";

std::string formatted(const char* form, std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, form, &parts)};
}

RunRecord record_of(const Json& j) {
  RunRecord r;
  r.time = j.at("time").get<std::string>();
  r.model = j.at("model").get<std::string>();
  r.plan = j.at("plan").get<std::string>();
  r.dtype = j.at("dtype").get<std::string>();
  r.batch = j.at("batch").get<std::int64_t>();
  r.ranks = j.at("ranks").get<std::int64_t>();
  r.steps = j.at("steps").get<std::int64_t>();
  const auto& p = j.at("predicted_step_seconds");
  r.predicted = {p.at("value").get<double>(), p.at("low").get<double>(), p.at("high").get<double>()};
  r.measured = j.at("step_seconds").get<double>();
  r.loss = j.at("loss").is_null() ? NAN : j.at("loss").get<double>();
  return r;
}

/// The week that a time is of; empty when it is none.
std::string week_of(const std::string& time) {
  std::tm parts{};
  const auto* end = ::strptime(time.c_str(), kTimeForm, &parts);
  if (end == nullptr || *end != '\0') return {};
  return formatted("%G-W%V", ::timegm(&parts));
}

/// A run before was stopped while it wrote its line, or the disk was full.
bool ends_within_line(int file) {
  const auto size = ::lseek(file, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

std::string history_of(const std::string& machine) {
  constexpr std::string_view kEnd = ".json";
  return machine.substr(0, machine.size() - (machine.ends_with(kEnd) ? kEnd.size() : 0)) + ".history.jsonl";
}

std::string time_text(std::int64_t seconds) { return formatted(kTimeForm, seconds); }

void add_to_history(const std::string& path, const RunRecord& r) {
  const Json j{{"time", r.time},
               {"model", r.model},
               {"plan", r.plan},
               {"dtype", r.dtype},
               {"batch", r.batch},
               {"ranks", r.ranks},
               {"steps", r.steps},
               {"predicted_step_seconds", {{"value", r.predicted.value}, {"low", r.predicted.low}, {"high", r.predicted.high}}},
               {"step_seconds", r.measured},
               {"loss", r.loss}};
  // One write at the end of the file: runs that end at once do not mix their lines.
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const auto line = (file >= 0 && ends_within_line(file) ? "\n" : "") + j.dump() + "\n";
  const bool written = file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) ::close(file);
  if (!written) throw EnvironmentFailure(path + ": could not be written");
}

std::vector<RunRecord> read_history(const std::string& path, std::vector<std::int64_t>* broken) {
  std::ifstream in(path);
  if (!in)
    throw BadInput(path, "does not exist; `rehearse run ... --machine` with its calibration and at least " +
                             std::to_string(traces::kWarmUpSteps + 1) + " steps writes it");
  std::vector<RunRecord> records;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    ++number;
    try {
      records.push_back(record_of(Json::parse(line)));
    } catch (const Json::exception&) {
      if (broken != nullptr) {
        broken->push_back(number);
        continue;
      }
      throw BadInput(path, "line " + std::to_string(number) + " is no record of a run");
    }
    const auto& r = records.back();
    if (week_of(r.time).empty() || !(r.predicted.value > 0) || !(r.measured > 0))
      throw BadInput(path, "line " + std::to_string(number) + ": time must be as 2026-11-23T04:05:06Z, and steps take more than 0 s");
  }
  return records;
}

std::vector<WeekOfRuns> by_week(const std::vector<RunRecord>& records) {
  std::map<std::string, std::vector<double>> errors;
  for (const auto& r : records)
    if (std::cmp_greater(r.steps, traces::kWarmUpSteps)) errors[week_of(r.time)].push_back(r.error());
  std::vector<WeekOfRuns> weeks;
  for (auto& [week, all] : errors) {
    std::sort(all.begin(), all.end());
    const auto middle = all.size() / 2;
    // The middle one, or half-way between the middle two.
    const double median = all.size() % 2 == 1 ? all[middle] : (all[middle - 1] + all[middle]) / 2;
    weeks.push_back({week, static_cast<std::int64_t>(all.size()), median});
  }
  return weeks;
}

}  // namespace rehearsal::cli
