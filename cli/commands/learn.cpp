#include "traces/learn.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <span>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/validation_json.hpp"
#include "platforms/json.hpp"
#include "platforms/strict_json.hpp"
#include "validation/site_lessons.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct LearnOptions {
  std::vector<std::string> traces;
  std::string machine;
  bool forget = false;
};

/// From which share of kernels' time that they waited for a core a run is said to have been disturbed: a quiet machine stays below a tenth.
constexpr double kDisturbed = 0.25;

/// Whether records are learned from, not traces.
bool given_records(const LearnOptions& o) {
  const std::string *trace = nullptr, *other = nullptr;
  for (const auto& path : o.traces) {
    if (!std::ifstream(path)) throw BadInput(path, "cannot be read");
    (traces::is_trace_file(path) ? trace : other) = &path;
  }
  if (trace != nullptr && other != nullptr)
    throw BadInput(*other, "is no trace of `rehearse run --trace`, and " + *trace +
                               " is one; give records and traces to separate calls: they correct different files");
  return other != nullptr;
}

[[noreturn]] void refuse_to_forget(const std::string& site) {
  throw WrongUsage("--forget", "is for what traces taught a machine file; to forget what records said, remove " + site);
}

/// Records correct another file than traces do.
void refuse_site_file(const LearnOptions& o) {
  if (!costmodel::holds_site(o.machine) || costmodel::holds_calibration(o.machine)) return;
  if (o.forget) refuse_to_forget(o.machine);
  throw BadInput(
      o.machine,
      "is the file of a site, which records correct; traces correct one that `rehearse calibrate -o FILE` wrote: give that as --into");
}

/// The whole machine file, so that what learning does not touch stays as it was.
Json read_machine_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path, "cannot be read; `rehearse calibrate -o " + path + "` writes it");
  if (!platforms::read_json_file(path).is_object()) throw BadInput(path, "must be an object, as `rehearse calibrate` writes it");
  return Json::parse(in);  // once more, since the order of keys is kept here
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
                                 {"error_after", t.error_after()},
                                 {"waiting_for_cores_share", t.waiting}});
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

void warn_of_traces(const traces::LearnOutcome& outcome, const LearnOptions& o, const Terminal& terminal) {
  for (std::size_t n = 0; n < o.traces.size(); ++n) {
    const auto& trace = outcome.traces[n];
    if (trace.known) terminal.warn(o.traces[n] + " was learned before: nothing was taken from it again");
    if (trace.waiting > kDisturbed)
      terminal.warn(
          o.traces[n] + ": " + std::to_string(std::lround(100 * trace.waiting)) +
          " % of its kernels' time they waited for a core that something else had; predictions now expect as much. If that was not "
          "usual, `rehearse learn --forget --into " +
          o.machine + "` takes back what was learned");
  }
}

void warn_of_odd(const costmodel::SiteRun& run, const Terminal& terminal) {
  std::ostringstream times;
  times << std::setprecision(2) << std::exp(std::fabs(run.log_ratio));
  terminal.warn(run.id + ": " + run.group + " is " + times.str() + " times " + (run.log_ratio > 0 ? "more" : "less") +
                " than was predicted: little is learned of it, and intervals become wider; is it what its record says?");
}

/// What was learned before. Throws BadInput for a file that is read, or is of another kind: it would be another file afterwards.
costmodel::Site learned_before(const LearnOptions& o) {
  if (!std::filesystem::exists(o.machine)) return {};
  for (const auto& path : o.traces)
    if (std::filesystem::equivalent(path, o.machine))
      throw BadInput("--into " + o.machine, "is one of the files that are read; name another one, which learn writes");
  auto site = costmodel::read_site(o.machine);
  if (!costmodel::holds_site(o.machine) && !costmodel::holds_calibration(o.machine))
    throw BadInput("--into " + o.machine,
                   "is neither what `rehearse learn` wrote before nor what `rehearse calibrate` writes; name a new file");
  return site;
}

/// Records of published or own runs, one JSON object a line: what they say about the site they come from.
int learn_from_records(const LearnOptions& o, Terminal& terminal) {
  namespace pub = validation;
  std::vector<pub::Record> records;
  std::vector<pub::TaughtNothing> nothing;
  for (const auto& path : o.traces) {
    auto file = pub::read_record_file(path);
    pub::require_records(file, path);
    warn_of(terminal, path + ": unknown keys are ignored:", file.unknown_keys);
    warn_of(terminal, path + ": several lines have one id, of which the last counts:", file.repeated_ids);
    std::move(file.records.begin(), file.records.end(), std::back_inserter(records));
  }
  const auto before = learned_before(o);
  const auto site = pub::learn_records(before, records, costmodel::published_constants(), &nothing);
  if (nothing.size() == records.size())
    throw Refusal("none of " + std::to_string(records.size()) +
                  " records has a measured value that could be predicted; nothing was learned" + reasons_of(nothing));
  warn_of_nothing(terminal, nothing, records.size());
  for (const auto& run : site.runs)
    if (costmodel::is_odd(run) && std::ranges::find(before.runs, run.id, &costmodel::SiteRun::id) == before.runs.end())
      warn_of_odd(run, terminal);
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

/// What was learned from the traces that are given; of none, when what was learned before is only taken back.
traces::LearnOutcome learn_from_traces(const LearnOptions& o, costmodel::Calibration& calibration, const Terminal& terminal) {
  const auto platform = platforms::read_platform_file(o.machine);
  std::vector<traces::Trace> measured;
  for (const auto& path : o.traces) measured.push_back(traces::read_trace(path));
  const auto outcome = traces::learn(calibration, platform, measured);
  warn_of_traces(outcome, o, terminal);
  return outcome;
}

int learn(const LearnOptions& o, Terminal& terminal) {
  if (o.traces.empty() && !o.forget)
    throw WrongUsage("learn", "TRACE is missing, what to learn from; or --forget, which takes back what was learned");
  if (given_records(o)) {
    if (o.forget) refuse_to_forget(o.machine);
    return learn_from_records(o, terminal);
  }
  refuse_site_file(o);
  auto file = read_machine_file(o.machine);
  auto calibration = costmodel::read_calibration(o.machine);
  const auto forgotten = o.forget ? traces::forget(calibration) : 0;
  auto result = json_of(learn_from_traces(o, calibration, terminal), o);
  if (o.forget) result["traces_forgotten"] = forgotten;
  file["calibration"] = Json::parse(costmodel::to_json_text(calibration));
  write_file_atomically(o.machine, file.dump(1) + "\n");
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_learn(CLI::App& app) {
  auto o = std::make_shared<LearnOptions>();
  app.add_option("TRACE", o->traces,
                 "traces that `rehearse run --trace` measured on this machine, or records of runs of a site, one JSON object a line");
  app.add_option("--into", o->machine, "the machine file that calibrate wrote; changed in place")->required();
  app.add_flag("--forget", o->forget, "takes back first what all traces taught until now; calibrate's measurements stay");
  return [o](Terminal& terminal) { return learn(*o, terminal); };
}

}  // namespace rehearsal::cli
