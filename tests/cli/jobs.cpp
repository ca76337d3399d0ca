// Several jobs on one cluster, as a user asks for them.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/rehearse.hpp"

namespace {

struct JobsFile {
  explicit JobsFile(const std::string& jobs) { std::ofstream(path) << jobs; }
  ~JobsFile() {
    std::filesystem::remove(path);
    std::filesystem::remove(picture);
  }
  std::string path = "jobs-of-test.json", picture = "jobs-of-test.svg";
};

constexpr const char* kMixed = R"({"schema": 1, "jobs": [
  {"name": "known", "devices": 16, "steps": 1000, "step": "1 s", "network": 0.2},
  {"name": "predicted", "arrival": "1 min", "devices": 8, "model": "zoo:resnet18", "batch": 256, "plan": "dp=8", "steps": 1000},
  {"name": "elastic", "arrival": "2 min", "devices": 8, "least_devices": 4, "most_devices": 16, "model": "zoo:resnet18", "batch": 256,
   "steps": 1000}]})";

std::string played(const std::string& file, const std::string& options) {
  return "jobs " + file + " --platform dgx-a100 --nodes 2 --carbon 500 --format json " + options;
}

}  // namespace

TEST_CASE("jobs are played under every policy, and drawn") {
  const JobsFile file(kMixed);
  const auto all = result_of(rehearse(played(file.path, "--svg " + file.picture)));
  CHECK(all.at("policies").size() == 6);
  CHECK(all.at("outcomes").size() == 18);
  const auto step = result_of(rehearse("estimate zoo:resnet18 --batch 256 --plan dp=8 --platform dgx-a100 --devices 8 --format json"));
  CHECK(all.at("jobs")[1].at("step_seconds") == step.at("step_seconds").at("value"));
  CHECK(all.at("jobs")[0].at("network_share") == 0.2);
  CHECK(all.at("jobs")[1].at("framework") == step.at("framework"));
  CHECK_FALSE(all.at("jobs")[0].contains("framework"));
  // Two nodes: known holds both until 1000 s, the others start side by side.
  const auto& outcomes = all.at("outcomes");
  CHECK(outcomes[0].at("policy") == "fifo");
  CHECK(outcomes[0].at("finish_seconds").get<double>() == Approx(1000));
  CHECK(outcomes[1].at("start_seconds").get<double>() == Approx(1000));
  CHECK(outcomes[2].at("waited_seconds").get<double>() == Approx(880));
  const auto basis = all.at("price_basis").get<std::string>();
  CHECK_THAT(basis, contains("all nodes are paid until the last job ends") && !contains("nodes in use"));
  for (const auto& policy : all.at("policies")) {  // both nodes at 40.97 $/h, as long as it takes
    CHECK(policy.at("utilisation_share").get<double>() <= 1);
    CHECK(policy.at("cost_dollars").get<double>() == Approx(2 * 40.97 * policy.at("makespan_seconds").get<double>() / 3600).epsilon(1e-3));
    CHECK(policy.at("carbon_kg").get<double>() == Approx(policy.at("energy_joules").get<double>() / 3.6e6 * 0.5));
  }
  std::stringstream svg;
  svg << std::ifstream(file.picture).rdbuf();
  CHECK_THAT(svg.str(), contains("<title>predicted:"));
}

TEST_CASE("one policy of several, and the schema") {
  const JobsFile file(kMixed);
  const auto some = result_of(rehearse(played(file.path, "--policy easy --policy FIFO")));
  REQUIRE(some.at("policies").size() == 2);
  CHECK(some.at("policies")[1].at("policy") == "fifo");
  const auto schema = nlohmann::json::parse(rehearse("jobs --schema").out);
  CHECK(schema.at("definitions").at("job").at("properties").contains("least_devices"));
}

TEST_CASE("a job's number type and optimizer are written as on the command line") {
  const auto step = [](const std::string& keys) {
    const JobsFile file(R"({"schema": 1, "jobs": [{"name": "a", "devices": 8, "model": "zoo:resnet18", "batch": 256, "plan": "dp=8",
                        "steps": 10, )" +
                        keys + "}]}");
    return rehearse(played(file.path, "--policy fifo"));
  };
  const auto seconds = [&](const std::string& keys) { return result_of(step(keys)).at("jobs")[0].at("step_seconds").get<double>(); };
  CHECK(seconds(R"("dtype": "BFloat16")") == seconds(R"("dtype": "bf16")"));
  CHECK(seconds(R"("optimizer": "AdamW:beta1=0.8")") == seconds(R"("optimizer": "adamw")"));
  check_failure(step(R"("dtype": "bf17")"), 1, {"bf17", "bf16"});
  check_failure(step(R"("optimizer": "adamw:foo=1")"), 1, {"adamw", "foo"});
}

TEST_CASE("jobs that cannot be played are refused by name") {
  const JobsFile file(kMixed);
  check_failure(rehearse(played(file.path, "--policy fair")), 1, {"--policy", "fair-share"});
  check_failure(rehearse(played(file.path, "--slice 0s")), 1, {"--slice 0s"});
  check_failure(rehearse(played(file.path, "--slice 10")), 1, {"--slice 10", "unit"});
  check_failure(rehearse(played(file.path, "--slice 1us --policy gang")), 3, {"the schedule has not ended", "to start again", "--slice"});
  check_failure(rehearse(played(file.path, "--slice 5min --policy fifo --policy easy")), 1, {"--slice 5min", "gang or themis"});
  check_failure(rehearse(played("no-such-file.json", "")), 1, {"no-such-file.json"});
  check_failure(rehearse("jobs " + file.path + " --format json"), 2, {"--platform"});
  check_failure(rehearse("jobs --format json"), 2, {"JOBS"});
  check_failure(rehearse("jobs " + file.path + " --platform dgx-a100 --nodes 1 --format json"), 3,
                {file.path + ": job known", "16 devices"});
  const JobsFile wrong(R"({"schema": 1, "jobs": [{"name": "a", "devices": 8, "steps": 1, "model": "zoo:resnet19"}]})");
  check_failure(rehearse(played(wrong.path, "")), 1, {wrong.path + ": job a", "resnet19"});
  const JobsFile fixed(R"({"schema": 1, "jobs": [{"name": "a", "devices": 8, "most_devices": 16, "steps": 1, "model": "zoo:resnet18",
      "plan": "dp=8"}]})");
  check_failure(rehearse(played(fixed.path, "--policy elastic")), 1, {"job a", "plan dp=8", "auto"});
  CHECK(rehearse(played(fixed.path, "--policy fifo")).status == 0);
  const JobsFile other(
      R"({"schema": 1, "jobs": [{"name": "a", "devices": 8, "steps": 5, "model": "zoo:resnet18", "batch": 256, "plan": "dp=4"}]})");
  check_failure(rehearse(played(other.path, "")), 1, {"job a", "plan dp=4", "is for 4 devices, the job has 8"});
  const JobsFile uneven(R"({"schema": 1, "jobs": [{"name": "a", "devices": 3, "steps": 10, "model": "zoo:resnet18", "batch": 8}]})");
  check_failure(rehearse(played(uneven.path, "")), 1, {"job a: devices: a batch of 8 keeps 2 of 3 busy", "a batch that they share evenly"});
  // Where a job names no batch the model has one.
  const JobsFile own(R"({"schema": 1, "jobs": [{"name": "a", "model": "zoo:gpt2?batch=4", "devices": 8, "steps": 10}]})");
  check_failure(rehearse(played(own.path, "")), 1, {"job a: devices: a batch of 4 (the model's own) keeps 4 of 8 busy"});
}
