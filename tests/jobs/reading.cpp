// Files of jobs: what they may say, and how they are refused.

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "jobs/job_arrivals.hpp"
#include "jobs/jobs_json.hpp"
#include "tests/jobs/cluster.hpp"

using namespace rehearsal;
using namespace rehearsal::jobs;
using nlohmann::json;

namespace {

const json kOne = json::parse(R"({"schema": 1, "jobs": [{"name": "a", "devices": 2, "steps": 10, "step": "2 s"}]})");

json with(const char* key, const json& value) {
  auto file = kOne;
  file["jobs"][0][key] = value;
  return file;
}
std::vector<JobEntry> read(const json& file) { return read_jobs(file, "jobs.json"); }

}  // namespace

TEST_CASE("a job with its step") {
  const auto jobs = read(json::parse(R"({"$schema": "jobs.schema.json", "schema": 1, "jobs": [
      {"name": "b", "user": "ann", "weight": 2, "arrival": "3 h", "devices": 4, "least_devices": 2, "most_devices": 8, "steps": 100,
       "step": "2 s", "network": 0.25, "steps_on": {"2": "4 s", "8": "1 s"}, "power": "1 kW", "estimate": "10 min", "checkpoint": "10 GB",
       "checkpoint_every": "30 min", "restart": "1 min"},
      {"name": "a", "devices": 1, "model": "zoo:gpt2", "batch": 8, "dtype": "bf16", "optimizer": "adamw", "framework": "pytorch",
       "plan": "auto", "tokens": 1e9}]})"));
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].job.name == "a");  // in order of arrival
  REQUIRE(jobs[0].training);
  CHECK(jobs[0].training->plan == "auto");
  CHECK(jobs[0].training->tokens == 1e9);
  CHECK(jobs[0].job.user == "a");
  const auto& b = jobs[1].job;
  CHECK_FALSE(jobs[1].training);
  CHECK(b.user == "ann");
  CHECK(b.arrival.value() == 10'800);
  CHECK(b.pace(4).on_network.value() == 0.5);
  CHECK(b.pace(8).step.value() == 1);
  CHECK(b.pace(8).on_network.value() == 0.25);
  CHECK(b.pace(2).power->value() == 500);
  CHECK(b.estimate->value() == 600);
  CHECK(b.pace(4).step.value() == 2);
}

TEST_CASE("bad keys are refused by name") {
  CHECK_THROWS_WITH(read(with("device", 2)), contains("jobs.json: jobs[0]: unknown key \"device\"") && contains("devices"));
  CHECK_THROWS_WITH(read(with("devices", 0)), contains("jobs[0].devices"));
  CHECK_THROWS_WITH(read(with("steps", -1)), contains("jobs[0].steps"));
  CHECK_THROWS_WITH(read(with("step", "2")), contains("jobs[0].step"));
  CHECK_THROWS_WITH(read(with("step", "2 GB")), contains("jobs[0].step"));
  CHECK_THROWS_WITH(read(with("arrival", "-1 s")), contains("jobs[0].arrival"));
  CHECK_THROWS_WITH(read(with("weight", 0)), contains("jobs[0].weight"));
  CHECK_THROWS_WITH(read(with("network", 1.5)), contains("jobs[0].network"));
  CHECK_THROWS_WITH(read(with("model", "zoo:gpt2")), contains("jobs[0].model") && contains("step"));
  CHECK_THROWS_WITH(read(with("least_devices", 4)), contains("jobs[0].least_devices"));
  CHECK_THROWS_WITH(read(with("most_devices", 1)), contains("jobs[0].most_devices"));
  CHECK_THROWS_WITH(read(with("steps_on", {{"two", "1 s"}})), contains("steps_on.two"));
  CHECK_THROWS_WITH(read(with("steps_on", {{std::to_string(kOne["jobs"][0]["devices"].get<int>()), "77 s"}})),
                    contains("is another time than `step`"));
  CHECK_THROWS_WITH(read(with("steps_on", {{"4", "1 s"}})), contains("jobs[0].steps_on.4") && contains("set `most_devices`"));
  CHECK_THROWS_WITH(read(with("steps_on", {{"1", "4 s"}})), contains("jobs[0].steps_on.1") && contains("set `least_devices`"));
  CHECK_THROWS_WITH(read(with("most_devices", 4)), contains("jobs[0].most_devices") && contains("`steps_on`"));
  CHECK_THROWS_WITH(read(with("least_devices", 1)), contains("jobs[0].least_devices") && contains("`steps_on`"));
  CHECK_THROWS_WITH(read(with("tokens", 1e9)), contains("jobs[0].tokens") && contains("`model`"));
  CHECK_THROWS_WITH(read(with("batch", 8)), contains("unknown key \"batch\""));  // of a model, and there is none
  CHECK_THROWS_WITH(read(json::parse(R"({"schema": 2, "jobs": []})")), contains("schema"));
  CHECK_THROWS_WITH(read(json::parse(R"({"schema": 1})")), contains("neither jobs nor arrivals"));
  CHECK_THROWS_WITH(read(json::parse(R"({"schema": 1, "jobs": [{"name": "a", "devices": 1, "steps": 1}]})")), contains("jobs[0].model"));
  CHECK_THROWS_WITH(read(with("checkpoint_every", "1 h")), contains("jobs[0].checkpoint_every") && contains("`checkpoint`"));
  CHECK_THROWS_WITH(read(json::parse(R"({"schema": 1, "arrivals": {"count": 2, "every": "1 h", "of":
      [{"name": "a", "devices": 1, "steps": 1, "step": "1 s", "arrival": "1 h"}]}})")),
                    contains("arrivals.of[0].arrival") && contains("every"));
  auto weights = kOne;
  weights["jobs"][0]["user"] = "ann";
  weights["jobs"].push_back(weights["jobs"][0]);
  weights["jobs"][1]["name"] = "b";
  CHECK(read(weights).size() == 2);
  weights["jobs"][1]["weight"] = 3;
  CHECK_THROWS_WITH(read(weights), contains("user 'ann' has two weights, 1.0 and 3.0"));
  auto twice = kOne;
  twice["jobs"].push_back(twice["jobs"][0]);
  CHECK_THROWS_WITH(read(twice), contains("two are called 'a'"));
  CHECK_THROWS_AS(read_jobs_file("no-such-file.json"), BadInput);
}

TEST_CASE("jobs at random come as often as they should, and the same for the same seed") {
  Arrivals a{.count = 4000, .every = Seconds(100), .seed = 7, .spread = 1, .of = {}};
  a.of = {{job_of("often", 0, 2, 1000), {}}, {job_of("seldom", 0, 4, 100), {}}};
  a.of[0].job.weight = 3;
  const auto jobs = drawn(a);
  REQUIRE(jobs.size() == 4000);
  // The mean of 4,000 exponential times is within 5 % (3 standard deviations), three of four are of the first kind within 0.025, and the
  // mean of their steps is that of the kind within 8 %.
  CHECK(jobs.back().job.arrival.value() / 4000 == Approx(100).epsilon(0.05));
  double often = 0, steps = 0, squares = 0;
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    if (n > 0) {
      CHECK(jobs[n].job.arrival >= jobs[n - 1].job.arrival);
      const double between = (jobs[n].job.arrival - jobs[n - 1].job.arrival).value();
      squares += between * between;
    }
    if (!jobs[n].job.name.starts_with("often")) continue;
    ++often;
    steps += jobs[n].job.steps;
  }
  CHECK(often / 4000 == Approx(0.75).margin(0.025));
  CHECK(steps / often == Approx(1000).epsilon(0.08));
  CHECK(squares / 4000 == Approx(2 * 100 * 100).epsilon(0.15));  // as exponential times have it
  CHECK(drawn(a).back().job.arrival == jobs.back().job.arrival);
  a.seed = 8;
  CHECK(drawn(a).back().job.arrival != jobs.back().job.arrival);
}

TEST_CASE("a file with arrivals") {
  const auto jobs = read(json::parse(R"({"schema": 1, "arrivals": {"count": 5, "every": "10 min", "seed": 3, "spread": 0.5,
      "of": [{"name": "a", "devices": 2, "steps": 100, "step": "1 s"}]}})"));
  REQUIRE(jobs.size() == 5);
  CHECK(jobs[4].job.name == "a-5");
  CHECK_THROWS_WITH(read(json::parse(R"({"schema": 1, "arrivals": {"count": 5, "every": "10 min", "speed": 3,
      "of": [{"name": "a", "devices": 2, "steps": 100, "step": "1 s"}]}})")),
                    contains("arrivals: unknown key \"speed\""));
}

TEST_CASE("a user has one weight, in jobs that are drawn, too") {
  const auto jobs = read(json::parse(R"({"schema": 1, "jobs": [{"name": "listed", "user": "ann", "weight": 4, "devices": 2, "steps": 1,
      "step": "1 s"}], "arrivals": {"count": 20, "every": "10 min", "of": [
      {"name": "hers", "user": "ann", "weight": 9, "devices": 2, "steps": 100, "step": "1 s"},
      {"name": "his", "user": "bob", "weight": 5, "devices": 2, "steps": 100, "step": "1 s"}]}})"));
  REQUIRE(jobs.size() == 21);
  // There a weight says how often a kind is drawn; bob, of whom no job is listed, has 1.
  for (const auto& entry : jobs) CHECK(entry.job.weight == (entry.job.user == "ann" ? 4 : 1));
}
