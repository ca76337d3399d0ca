#include "traces/learn.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "platforms/json.hpp"
#include "platforms/strict_json.hpp"
#include "validation/site_lessons.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LearnOptions {
  std::vector<std::string> traces;
  std::string machine;
};

/// The whole machine file, so that what learning does not touch stays as it was.
Json read_machine_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read; `rehearse calibrate -o " + path + "` writes it");
  if (!platforms::read_json_file(path).is_object()) throw BadInput(path, "must be an object, as `rehearse calibrate` writes it");
  return Json::parse(in);  // once more, since the order of keys is kept here
}

std::vector<traces::Trace> read_traces(const std::vector<std::string>& paths) {
  std::vector<traces::Trace> result;
  for (const auto& path : paths) {
    if (!std::ifstream(path)) throw BadInput(path, "cannot be read");
    if (!traces::is_trace_file(path))
      throw BadInput(path, "is no trace of `rehearse run --trace`; give records and traces to separate calls");
    result.push_back(traces::read_trace(path));
  }
  return result;
}

Json json_of(const traces::LearnOutcome& outcome, const LearnOptions& o) {
  Json result{{"schema", 1}, {"into", o.machine}};
  result["learned"] = Json::array();
  for (std::size_t n = 0; n < o.traces.size(); ++n) {
    const auto& t = outcome.traces[n];
    result["learned"].push_back({{"trace", o.traces[n]},
                                 {"known_before", t.known},
                                 {"measured_step_seconds", t.measured},
                                 {"predicted_before_seconds", t.before},
                                 {"predicted_after_seconds", t.after},
                                 {"error_before", t.error_before()},
                                 {"error_after", t.error_after()}});
  }
  result["corrections"] = Json::array();
  for (const auto& c : outcome.corrections)
    result["corrections"].push_back({{"scope", c.after.scope},
                                     {"threads", c.after.threads},
                                     {"factor_before", c.before.factor},
                                     {"factor", c.after.factor},
                                     {"log_error", c.after.log_error},
                                     {"observations", c.after.observations}});
  result["samples_added"] = outcome.samples_added;
  result["samples_merged"] = outcome.samples_merged;
  return result;
}

/// Records of published or own runs, one JSON object a line: what they say about the site they come from.
int learn_from_records(const LearnOptions& o, Terminal& terminal) {
  namespace pub = validation;
  std::vector<pub::Record> records;
  for (const auto& path : o.traces) {
    auto file = pub::read_record_file(path);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(records));
  }
  const auto before = std::ifstream(o.machine) ? costmodel::read_site(o.machine) : costmodel::Site{};
  const auto site = pub::learn_records(before, records, costmodel::published_constants());
  if (site.runs.size() == before.runs.size() && site.runs.empty())
    throw Refusal("none of " + std::to_string(records.size()) +
                  " records has a measured value that could be predicted; nothing was learned");
  costmodel::write_site(o.machine, site);
  Json result{{"schema", 1}, {"into", o.machine}, {"records", records.size()}, {"runs", site.runs.size()}, {"corrections", Json::array()}};
  for (const auto& c : site.corrections) {
    Json factors = Json::object();
    for (std::size_t i = 0; i < costmodel::kSiteFeatures; ++i) factors[std::string(costmodel::kSiteMechanisms[i])] = std::exp(c.mean[i]);
    result["corrections"].push_back({{"device", c.device}, {"group", c.group}, {"runs", c.runs}, {"factors", factors}});
  }
  terminal.print(result);
  return 0;
}

int learn(const LearnOptions& o, Terminal& terminal) {
  const auto is_trace = [](const std::string& path) { return std::ifstream(path) && traces::is_trace_file(path); };
  if (std::all_of(o.traces.begin(), o.traces.end(), [&](const auto& path) { return std::ifstream(path) && !is_trace(path); }))
    return learn_from_records(o, terminal);
  auto file = read_machine_file(o.machine);
  const auto platform = platforms::read_platform_file(o.machine);
  auto calibration = costmodel::read_calibration(o.machine);
  const auto outcome = traces::learn(calibration, platform, read_traces(o.traces));
  for (std::size_t n = 0; n < o.traces.size(); ++n)
    if (outcome.traces[n].known) terminal.warn(o.traces[n] + " was learned before: nothing was taken from it again");
  file["calibration"] = Json::parse(costmodel::to_json_text(calibration));
  write_file_atomically(o.machine, file.dump(1) + "\n");
  terminal.print(json_of(outcome, o));
  return 0;
}

}  // namespace

Action add_learn(CLI::App& app) {
  auto o = std::make_shared<LearnOptions>();
  app.add_option("TRACE", o->traces,
                 "traces that `rehearse run --trace` measured on this machine, or records of runs of a site, one JSON object a line")
      ->required();
  app.add_option("--into", o->machine, "the machine file that calibrate wrote; changed in place")->required();
  return [o](Terminal& terminal) { return learn(*o, terminal); };
}

}  // namespace rehearsal::cli
