#include "traces/learn.hpp"

#include <fstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "platforms/json.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> traces;
  std::string machine;
};

/// The whole machine file, so that what learning does not touch stays as it was.
Json read_machine_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read; `rehearse calibrate -o " + path + "` writes it");
  try {
    auto json = Json::parse(in);
    if (!json.is_object()) throw BadInput(path, "must be an object, as `rehearse calibrate` writes it");
    return json;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(path, std::string("is not JSON: ") + error.what());
  }
}

std::vector<traces::Trace> read_traces(const std::vector<std::string>& paths) {
  std::vector<traces::Trace> result;
  for (const auto& path : paths) {
    if (!std::ifstream(path)) throw BadInput(path, "cannot be read");
    if (!traces::is_trace_file(path))
      throw Refusal(path + ": is no trace; learning from records is not possible yet, only from traces of `rehearse run --trace`");
    result.push_back(traces::read_trace(path));
  }
  return result;
}

Json json_of(const traces::LearnOutcome& outcome, const Options& o) {
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

int learn(const Options& o, Terminal& terminal) {
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
  auto o = std::make_shared<Options>();
  app.add_option("TRACE", o->traces, "traces that `rehearse run --trace` measured on this machine")->required();
  app.add_option("--into", o->machine, "the machine file that calibrate wrote; changed in place")->required();
  return [o](Terminal& terminal) { return learn(*o, terminal); };
}

}  // namespace rehearsal::cli
