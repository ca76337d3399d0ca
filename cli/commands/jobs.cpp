#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/job_paces.hpp"
#include "jobs/contention.hpp"
#include "jobs/jobs_json.hpp"
#include "jobs/schedule_picture.hpp"
#include "jobs/trace_csv.hpp"
#include "platforms/usual_figures.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct JobsOptions {
  std::string file, slice, picture;
  std::vector<std::string> policies;
  PlatformOptions platform;
  bool schema = false;
};

std::vector<const jobs::PolicyRow*> policies_of(const JobsOptions& o) {
  const auto table = jobs::policy_table();
  std::vector<const jobs::PolicyRow*> rows;
  for (const auto& name : o.policies) {
    const auto found = known_name("--policy", name, names_of_rows(table, &jobs::PolicyRow::name));
    const auto* row = &*std::ranges::find(table, found, &jobs::PolicyRow::name);
    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
  }
  if (rows.empty())
    for (const auto& row : table) rows.push_back(&row);
  return rows;
}

Json job_json(const jobs::Job& job, const jobs::Contention& contention) {
  const auto& pace = job.pace(job.devices);
  Json j{{"job", job.name},
         {"user", job.user},
         {"devices", job.devices},
         {"arrival_seconds", job.arrival.value()},
         {"steps", job.steps},
         {"step_seconds", pace.step.value()},
         {"network_share", pace.on_network / pace.step},
         {"alone_seconds", contention.alone(job).value()}};
  if (!pace.plan.empty()) j["plan"] = pace.plan;
  if (!pace.framework.empty()) j["framework"] = pace.framework;
  return j;
}

Json outcome_json(const jobs::ScheduleOutcome& o, const std::vector<jobs::Job>& jobs, const platforms::Platform& platform) {
  double waited = 0, completion = 0, worst = 0;
  int restarts = 0;
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    waited += o.jobs[n].waited.value();
    completion += (o.jobs[n].finish - jobs[n].arrival).value();
    worst = std::max(worst, o.jobs[n].fairness);
    restarts += o.jobs[n].restarts;
  }
  const auto count = static_cast<double>(jobs.size());
  return {{"policy", o.policy},
          {"makespan_seconds", o.makespan.value()},
          {"mean_waited_seconds", waited / count},
          {"mean_completion_seconds", completion / count},
          {"worst_rho", worst},
          {"jain", o.jain},
          {"utilisation_share", o.utilisation},
          {"restarts", restarts},
          {"energy_joules", o.energy.value()},
          {"cost_dollars", o.money.value()},
          {"carbon_kg", o.energy.value() * platform.carbon_intensity.value.value()}};
}

void add_outcomes(Json& rows, const jobs::ScheduleOutcome& o, const std::vector<jobs::Job>& jobs) {
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    const auto& j = o.jobs[n];
    rows.push_back({{"policy", o.policy},
                    {"job", jobs[n].name},
                    {"start_seconds", j.start.value()},
                    {"finish_seconds", j.finish.value()},
                    {"waited_seconds", j.waited.value()},
                    {"device_seconds", j.served.value()},
                    {"rho", j.fairness},
                    {"slowed", j.slowed},
                    {"restarts", j.restarts}});
  }
}

std::string what_it_rests_on(const platforms::Platform& platform) {
  return "jobs are placed on as few nodes as hold them, as their steps were predicted; of a job on several nodes the communication that "
         "its "
         "step shows is taken to be between nodes, and to be drawn out by what others send over the same links between switches; a job "
         "that gets other devices trains again after its restart (" +
         to_text(platforms::restart_time_of(platform).value) +
         " where it says none), and its checkpoint is written and read; rho is the time a job takes over that alone on an n-th of the "
         "cluster, n jobs being there in the mean; the cluster is paid for and powered until the last job ends";
}

jobs::PolicySettings settings_of(const JobsOptions& o, const std::vector<const jobs::PolicyRow*>& policies) {
  jobs::PolicySettings settings;
  if (o.slice.empty()) return settings;
  try {
    settings.slice = parse_quantity<Seconds>(o.slice);
  } catch (const BadInput& e) {
    throw BadInput("--slice " + o.slice, e.what());
  }
  if (!(settings.slice.value() > 0)) throw BadInput("--slice " + o.slice, "must be a time above 0, such as 1h");
  if (std::ranges::none_of(policies, [](const auto* row) { return row->slices; }))
    throw BadInput("--slice " + o.slice, "means nothing to the policies that are asked for; leave it out, or ask for gang or themis");
  return settings;
}

std::vector<jobs::JobEntry> jobs_in(const std::string& path, Terminal& terminal) {
  if (!jobs::is_job_trace_file(path)) return jobs::read_jobs_file(path);
  auto trace = jobs::read_job_trace_file(path);
  const auto left_out = [&](int rows, const char* why) {
    if (rows > 0) terminal.warn(path + ": " + std::to_string(rows) + (rows > 1 ? " rows are" : " row is") + " left out, " + why);
  };
  left_out(trace.without_devices, "for no device or a part of one");
  left_out(trace.without_length, "without a length: never run, or not at an end");
  return std::move(trace.jobs);
}

/// What is wrong with a job is said with the file that it stands in.
template <class Ask>
auto asked_of_file(const std::string& file, const Ask& ask) {
  try {
    return ask();
  } catch (const Error& error) {
    if (!std::string_view(error.what()).starts_with("job ")) throw;
    throw Error(error.status(), file + ": " + error.what());
  }
}

int play_jobs(const JobsOptions& o, Terminal& terminal) {
  if (o.schema) {
    terminal.out() << jobs::jobs_schema();
    return 0;
  }
  if (o.file.empty()) throw WrongUsage("JOBS", "give a file of jobs; `rehearse jobs --schema` says what stands in one");
  if (o.platform.platform.empty()) throw WrongUsage("--platform", "say on which cluster the jobs run; `rehearse platform list` has some");
  if (!o.picture.empty()) require_place(o.picture);
  const auto policies = policies_of(o);
  const auto settings = settings_of(o, policies);
  const auto platform = load_platform(o.platform);
  const bool sizes = std::ranges::any_of(policies, [](const auto* row) { return row->resizes; });
  const auto entries = jobs_in(o.file, terminal);
  const auto all = asked_of_file(o.file, [&] { return with_paces(entries, o.platform, sizes, *terminal.progress("predicting")); });
  std::vector<jobs::ScheduleOutcome> outcomes;
  for (const auto* row : policies) outcomes.push_back(asked_of_file(o.file, [&] { return jobs::play(all, platform, *row, settings); }));
  Json result{{"schema", 1},
              {"platform", platform.name},
              {"nodes", platforms::node_count(platform)},
              {"devices", platforms::device_count(platform)},
              {"price_basis", costmodel::price_basis(platform, "all nodes are paid until the last job ends")}};
  for (const char* list : {"jobs", "policies", "outcomes"}) result[list] = Json::array();
  const jobs::Contention contention(platform);
  for (const auto& job : all) result["jobs"].push_back(job_json(job, contention));
  for (const auto& outcome : outcomes) {
    result["policies"].push_back(outcome_json(outcome, all, platform));
    add_outcomes(result["outcomes"], outcome, all);
  }
  result["rests_on"] = what_it_rests_on(platform);
  if (!o.picture.empty()) {
    write_file_atomically(o.picture, jobs::to_svg(all, outcomes, platform));
    result["picture"] = o.picture;
  }
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_jobs(CLI::App& app) {
  auto o = std::make_shared<JobsOptions>();
  app.add_option("JOBS", o->file,
                 "a JSON file of jobs: arrivals, devices, and models or steps (--schema); or a trace of a cluster, CSV with a row for "
                 "every job (docs/jobs.md)");
  app.add_option("--platform", o->platform.platform, kPlatformHelp);
  app.add_option("--nodes", o->platform.nodes, "how many nodes of it");
  const auto names = joined(jobs::policy_table(), ", ", &jobs::PolicyRow::name);
  app.add_option("--policy", o->policies, "who runs when: " + names + "; may be given several times, all of them without it")->take_all();
  app.add_option("--slice", o->slice, "time after which themis and gang give devices anew; 1h without it");
  app.add_option("--svg", o->picture, "where to draw who had which devices when");
  app.add_flag("--schema", o->schema, "prints the JSON Schema of files of jobs");
  o->platform.add_costs_to(app);
  return [o](Terminal& terminal) { return play_jobs(*o, terminal); };
}

}  // namespace rehearsal::cli
