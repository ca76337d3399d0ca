#include "jobs/jobs_json.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "jobs/job_arrivals.hpp"
#include "platforms/object_reader.hpp"
#include "platforms/schema_check.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::jobs {
namespace {

using platforms::Bounds;
using platforms::ObjectReader;

constexpr int kMostKinds = 100;
constexpr double kMostSteps = 1e15;
constexpr Bounds<Seconds> kTimes{Seconds(0), Seconds(1e10)}, kLengths{Seconds(1e-9), Seconds(1e10)};
constexpr Bounds<Bytes> kSizes{Bytes(0), Bytes(1e18)};
constexpr Bounds<Watts> kPowers{Watts(0), Watts(1e9)};

std::optional<Seconds> time_or_none(ObjectReader& r, std::string_view key, Bounds<Seconds> bounds) {
  return r.has(key) ? std::optional(r.quantity(key, bounds).value) : std::nullopt;
}

int devices_of(ObjectReader& r, std::string_view key, int otherwise) {
  return r.has(key) ? static_cast<int>(r.integer(key, 1, kMostDevicesOfJob)) : otherwise;
}

/// A job whose step is known goes to no other number of devices than those whose steps are known, too.
void require_sizes(ObjectReader& r, const Job& job) {
  constexpr const char* kNeeds = "needs `steps_on`, steps on so many: a step that is known says nothing of other numbers of devices";
  if (job.least < job.devices && job.paces.begin()->first == job.devices) r.refuse("least_devices", kNeeds);
  if (job.most > job.devices && job.paces.rbegin()->first == job.devices) r.refuse("most_devices", kNeeds);
}

/// Steps that are known: of the devices asked for, and of other numbers.
void read_paces(ObjectReader& r, Job& job) {
  Pace pace;
  pace.step = r.quantity("step", kLengths).value;
  const double network = r.has("network") ? r.number("network", 0, 1).value : 0;
  pace.on_network = pace.step * network;
  if (r.has("power")) pace.power = r.quantity("power", kPowers).value;
  job.paces[job.devices] = pace;
  if (!r.has("steps_on")) return require_sizes(r, job);
  auto on = r.object("steps_on");
  for (const auto& key : on.keys()) {
    const auto devices = parse_number<int>(key);
    if (!devices || *devices < 1) on.refuse(key, "must be a number of devices");
    if (*devices < job.least || *devices > job.most)
      on.refuse(key, std::string("is of ") + (*devices < job.least ? "fewer" : "more") + " devices than the job may be given; set `" +
                         (*devices < job.least ? "least" : "most") + "_devices`");
    Pace other = pace;
    other.step = on.quantity(key, kLengths).value;
    other.on_network = other.step * network;
    if (*devices == job.devices && other.step != pace.step)
      on.refuse(key, "is another time than `step`, which is of as many devices; leave one of the two out");
    if (pace.power) other.power = *pace.power * (static_cast<double>(*devices) / job.devices);
    if (*devices != job.devices) job.paces[*devices] = other;
  }
  on.finish();
  require_sizes(r, job);
}

TrainingOfJob read_training(ObjectReader& r) {
  TrainingOfJob t;
  t.model = r.text("model");
  t.dtype = r.text_or("dtype", t.dtype);
  t.optimizer = r.text_or("optimizer", t.optimizer);
  t.framework = r.text_or("framework", "");
  t.plan = r.text_or("plan", "");
  if (r.has("batch")) t.batch = r.integer("batch", 1, 1'000'000'000);
  if (r.has("tokens")) t.tokens = r.number("tokens", 1, 1e18).value;
  return t;
}

void read_sizes(ObjectReader& r, Job& job) {
  job.devices = devices_of(r, "devices", 0);
  if (job.devices == 0) job.devices = static_cast<int>(r.integer("devices", 1, kMostDevicesOfJob));  // says that it is missing
  job.least = devices_of(r, "least_devices", job.devices);
  job.most = devices_of(r, "most_devices", job.devices);
  if (job.least > job.devices) r.refuse("least_devices", "is more than devices");
  if (job.most < job.devices) r.refuse("most_devices", "is less than devices");
}

JobEntry read_job(ObjectReader& r) {
  JobEntry entry;
  auto& job = entry.job;
  job.name = r.text("name");
  job.user = r.text_or("user", job.name);
  job.weight = r.has("weight") ? r.number("weight", 1e-9, 1e9).value : 1;
  job.arrival = r.quantity_or("arrival", kTimes, Seconds(0)).value;
  read_sizes(r, job);
  job.estimate = time_or_none(r, "estimate", kLengths);
  job.checkpoint = r.quantity_or("checkpoint", kSizes, Bytes(0)).value;
  job.checkpoint_every = time_or_none(r, "checkpoint_every", kLengths);
  job.restart = time_or_none(r, "restart", kTimes);
  if (r.has("step")) {
    if (job.checkpoint_every && !r.has("checkpoint"))
      r.refuse("checkpoint_every", "needs `checkpoint`, the bytes of one: a step that is known says nothing of the model");
    if (r.has("model")) r.refuse("model", "and step exclude each other: a step that is known is not predicted");
    read_paces(r, job);
  } else {
    entry.training = read_training(r);
  }
  if (!entry.training && r.has("tokens"))
    r.refuse("tokens", "need a `model`, which says how many a step has; beside a `step` that is known give `steps`");
  const bool has_tokens = entry.training && entry.training->tokens;
  if (has_tokens && r.has("steps")) r.refuse("tokens", "and steps exclude each other");
  if (!has_tokens) job.steps = r.number("steps", 1e-9, kMostSteps).value;
  r.finish();
  return entry;
}

Arrivals read_arrivals(ObjectReader& r) {
  Arrivals a;
  a.count = static_cast<int>(r.integer("count", 1, kMostJobs));
  a.every = r.quantity("every", kLengths).value;
  if (r.has("seed")) a.seed = static_cast<std::uint64_t>(r.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  if (r.has("spread")) a.spread = r.number("spread", 0, 5).value;
  for (auto& kind : r.objects("of", 1, kMostKinds)) {
    if (kind.has("arrival")) kind.refuse("arrival", "is drawn, from `every`; leave it out, or move the job to `jobs`");
    a.of.push_back(read_job(kind));
  }
  r.finish();
  return a;
}

void require_names(const std::vector<JobEntry>& jobs, const std::string& where) {
  std::set<std::string> names;
  for (const auto& entry : jobs)
    if (!names.insert(entry.job.name).second)
      throw BadInput(where, "jobs: two are called '" + entry.job.name + "'; give each a name of its own");
}

std::string as_text(double number) { return nlohmann::json(number).dump(); }

/// Of jobs that are listed: of those that are drawn it is how often a kind is.
void require_one_weight(const std::vector<JobEntry>& jobs, const std::string& where) {
  std::map<std::string, double> weights;
  for (const auto& [job, training] : jobs) {
    const double known = weights.emplace(job.user, job.weight).first->second;
    if (known != job.weight)
      throw BadInput(where, "jobs: user '" + job.user + "' has two weights, " + as_text(known) + " and " + as_text(job.weight) +
                                "; say the same in each of the jobs");
  }
}

/// Whoever has jobs in the list has one weight in all of its jobs, those that are drawn included.
void give_weights_of_users(const std::vector<JobEntry>& listed, std::vector<JobEntry>& drawn_ones) {
  std::map<std::string_view, double> weights;
  for (const auto& entry : listed) weights[entry.job.user] = entry.job.weight;
  for (auto& entry : drawn_ones)
    if (const auto known = weights.find(entry.job.user); known != weights.end()) entry.job.weight = known->second;
}

}  // namespace

std::vector<JobEntry> read_jobs(const nlohmann::json& value, const std::string& where) {
  constexpr int kVersion = 1;
  ObjectReader r(value, where, "");
  static_cast<void>(r.text_or("$schema", ""));
  static_cast<void>(r.integer("schema", kVersion, kVersion));
  std::vector<JobEntry> jobs;
  if (r.has("jobs"))
    for (auto& job : r.objects("jobs", 1, kMostJobs)) jobs.push_back(read_job(job));
  require_one_weight(jobs, where);
  if (r.has("arrivals")) {
    auto reader = r.object("arrivals");
    auto more = drawn(read_arrivals(reader));
    give_weights_of_users(jobs, more);
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  r.finish();
  if (jobs.empty()) throw BadInput(where, "has neither jobs nor arrivals; `rehearse jobs --schema` says what may stand there");
  require_names(jobs, where);
  platforms::check_against_schema(value, where, {"jobs", jobs_schema()});
  std::ranges::stable_sort(jobs, {}, [](const JobEntry& e) { return e.job.arrival; });
  return jobs;
}

std::vector<JobEntry> read_jobs_file(const std::string& path) { return read_jobs(platforms::read_json_file(path), path); }

}  // namespace rehearsal::jobs
