#include <fnmatch.h>

#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/run_history.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct HistoryOptions {
  std::string machine = "machine.json", model;
  std::int64_t last = 20;
};

Json row_of(const RunRecord& r) {
  return {{"time", r.time},    {"model", r.model},           {"plan", r.plan},
          {"dtype", r.dtype},  {"batch", r.batch},           {"steps", r.steps},
          {"loss", r.loss},    {"step_seconds", r.measured}, {"predicted_step_seconds", to_json(r.predicted)},
          {"error", r.error()}};
}

int history(const HistoryOptions& o, Terminal& terminal) {
  if (o.last < 1) throw BadInput("--last " + std::to_string(o.last), "must be at least 1");
  std::vector<std::int64_t> broken;
  auto records = read_history(history_of(o.machine), &broken);
  if (records.empty() && !broken.empty()) throw BadInput(history_of(o.machine), "line 1 is no record of a run, and no other is");
  for (const auto line : broken)
    terminal.warn(history_of(o.machine) + ": line " + std::to_string(line) + " is no record of a run, and is left out");
  if (!o.model.empty()) std::erase_if(records, [&](const RunRecord& r) { return ::fnmatch(o.model.c_str(), r.model.c_str(), 0) != 0; });
  Json runs = Json::array(), weeks = Json::array();
  const auto first = records.size() - std::min(records.size(), static_cast<std::size_t>(o.last));
  for (auto n = first; n < records.size(); ++n) runs.push_back(row_of(records[n]));
  for (const auto& w : by_week(records)) weeks.push_back({{"week", w.week}, {"runs", w.runs}, {"median_error", w.error}});
  terminal.print({{"schema", 1}, {"history", history_of(o.machine)}, {"runs", runs}, {"weeks", weeks}});
  return 0;
}

}  // namespace

Action add_history(CLI::App& app) {
  auto o = std::make_shared<HistoryOptions>();
  app.add_option("MACHINE", o->machine, "the calibration that runs were given as --machine (default machine.json)");
  app.add_option("--model", o->model, "only runs of models whose name matches this glob");
  app.add_option("--last", o->last, "so many of the latest runs are listed (default 20); weeks count all");
  return [o](Terminal& terminal) { return history(*o, terminal); };
}

}  // namespace rehearsal::cli
