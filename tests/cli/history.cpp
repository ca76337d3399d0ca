// What was predicted, what came, and how that drifts.
#include "base/error.hpp"
#include "cli/run_history.hpp"
#include "costmodel/calibration.hpp"
#include "tests/cli/rehearse.hpp"

using namespace rehearsal;
using namespace rehearsal::cli;

namespace {

RunRecord run_of(const std::string& time, double measured) {
  return {time, "zoo:gpt", "dp=2", "f32", 8, 2, 100, {0.2, 0.1, 0.4}, measured, 1.5};
}

void check_refused(const std::string& path, const std::string& words) {
  try {
    (void)read_history(path);
    FAIL("it was read");
  } catch (const BadInput& error) {
    CHECK_THAT(error.what(), contains(path) && contains(words));
  }
}

/// A server as its datasheet has it, of which nothing was measured; `context` says on what that was.
void write_server(const std::string& path, const std::map<std::string, std::string>& context = {}) {
  costmodel::Calibration calibration;
  calibration.context.items = context;
  const nlohmann::json server{{"schema", 1},
                              {"platform", nlohmann::json::parse(rehearse("platform show xeon-2s-10gbe").out)},
                              {"calibration", nlohmann::json::parse(costmodel::to_json_text(calibration))}};
  write_text(path, server.dump());
}

}  // namespace

TEST_CASE("records come back, and the week of each is known") {
  const TemporaryFolder folder;
  const auto path = history_of(folder / "machine.json");
  CHECK(path == folder / "machine.history.jsonl");
  CHECK(time_text(0) == "1970-01-01T00:00:00Z");
  // The first of January 2027 is a Friday, so it belongs to the last week of 2026; Monday the fourth begins the first of 2027.
  add_to_history(path, run_of("2026-12-28T10:00:00Z", 0.3));
  add_to_history(path, run_of("2027-01-01T10:00:00Z", 0.2));
  add_to_history(path, run_of("2027-01-03T10:00:00Z", 0.4));
  add_to_history(path, run_of("2027-01-04T10:00:00Z", 0.1));
  add_to_history(path, run_of("2027-01-05T10:00:00Z", 0.2));
  const auto records = read_history(path);
  REQUIRE(records.size() == 5);
  CHECK(records[2].time == "2027-01-03T10:00:00Z");
  CHECK(records[2].error() == Approx(-0.5));  // 0.2 s were predicted where it took 0.4 s
  const auto weeks = by_week(records);
  REQUIRE(weeks.size() == 2);
  CHECK((weeks[0].week == "2026-W53" && weeks[0].runs == 3));
  CHECK(weeks[0].error == Approx(-1.0 / 3));  // of -1/3, 0 and -1/2
  CHECK((weeks[1].week == "2027-W01" && weeks[1].runs == 2));
  CHECK(weeks[1].error == Approx(0.5));  // between 1 and 0
  // The first two steps of a training are its warm-up.
  auto cold = run_of("2027-01-06T10:00:00Z", 50);
  cold.steps = 2;
  add_to_history(path, cold);
  CHECK(by_week(read_history(path))[1].runs == 2);
}

TEST_CASE("a history that is none") {
  const TemporaryFolder folder;
  check_refused(folder / "h.jsonl", "does not exist");
  write_text(folder / "h.jsonl", "hello\n");
  check_refused(folder / "h.jsonl", "line 1");
  add_to_history(folder / "g.jsonl", run_of("yesterday", 0.3));
  check_refused(folder / "g.jsonl", "line 1: time");
  add_to_history(folder / "f.jsonl", run_of("2026-12-28T10:00:00Z", 0.3));
  write_text(folder / "f.jsonl", text_of(folder / "f.jsonl") + "{\"time\": \"2026");  // cut off while it was written
  CHECK(read_history(folder / "f.jsonl").size() == 1);
  // the next run leaves the half line alone, and is not lost with it
  add_to_history(folder / "f.jsonl", run_of("2026-12-29T10:00:00Z", 0.3));
  std::vector<std::int64_t> broken;
  CHECK(read_history(folder / "f.jsonl", &broken).size() == 2);
  CHECK(broken == std::vector<std::int64_t>{2});
}

TEST_CASE("a training with a calibration is kept beside it") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine);
  const auto run = std::string("run ") + kGpt + " --batch 4 --steps 5 --format json --machine " + machine;
  const auto first = result_of(rehearse(run));
  CHECK(first.at("predicted_step_seconds").at("low") <= first.at("predicted_step_seconds").at("value"));
  (void)result_of(rehearse(run + " --plan dp=2", 2));
  const auto history = result_of(rehearse("history " + machine + " --format json"));
  REQUIRE(history.at("runs").size() == 2);
  CHECK(history.at("runs")[0].at("predicted_step_seconds") == first.at("predicted_step_seconds"));
  CHECK(history.at("runs")[1].at("plan").get<std::string>().find("dp=2") != std::string::npos);
  CHECK(history.at("weeks")[0].at("runs") == 2);
  CHECK(result_of(rehearse("history " + machine + " --last 1 --format json")).at("runs").size() == 1);
  for (const char* other : {" --backend reference", " --dtype f64"}) {
    const auto unknown = rehearse(run + other);
    CHECK_THAT(unknown.err, contains("nothing is predicted") && contains("reference"));
    CHECK(!result_of(unknown).contains("predicted_step_seconds"));
  }
  CHECK(result_of(rehearse("history " + machine + " --format json")).at("runs").size() == 2);
  CHECK(result_of(rehearse("history " + machine + " --model 'zoo:bert*' --format json")).at("runs").empty());
  write_text(folder / "none.history.jsonl", "hello\n");
  check_failure(rehearse("history " + (folder / "none.json")), 1, {"none.history.jsonl", "line 1 is no record"});
  // As many threads are predicted with as it has, and more ranks than the machine has devices are not predicted.
  const auto wide =
      std::string("run \"zoo:gpt?layers=1&hidden=128&heads=4&seq=16&vocab=20000\" --batch 4 --steps 1 --format json --machine ") + machine;
  const auto alone = result_of(rehearse(wide, 0, "OMP_NUM_THREADS=1 ")).at("predicted_step_seconds");
  const auto both = result_of(rehearse(wide, 0, "OMP_NUM_THREADS=2 ")).at("predicted_step_seconds");
  CHECK(alone.at("value") > both.at("value"));
  auto small = nlohmann::json::parse(text_of(machine));
  small.at("platform").at("nodes")[0].at("count") = 1;
  small.at("platform").at("nodes")[0].at("devices") = 1;
  write_text(folder / "small.json", small.dump());
  const auto unpredicted =
      rehearse(std::string("run ") + kGpt + " --batch 4 --steps 1 --format json --machine " + (folder / "small.json"), 2);
  CHECK_FALSE(result_of(unpredicted).contains("predicted_step_seconds"));
  CHECK_THAT(unpredicted.err, contains("nothing is predicted"));
  check_failure(rehearse("history " + (folder / "other.json")), 1, {"other.history.jsonl", "--machine"});
  check_failure(rehearse(std::string("run ") + kGpt + " --steps 1 --machine " + (folder / "no.json")), 1, {"no.json"});
}

TEST_CASE("the first steps of a training are neither kept nor learned") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json", trace = folder / "trace.json";
  write_server(machine);
  const auto untaught = text_of(machine);
  const auto run = std::string("run ") + kGpt + " --batch 4 --format json --machine " + machine + " --trace " + trace + " --steps ";
  for (const std::string steps : {"1", "2"}) {
    CHECK(result_of(rehearse(run + steps)).contains("predicted_step_seconds"));
    for (const auto& step : nlohmann::json::parse(text_of(trace)).at("steps")) CHECK(step.at("warm_up") == true);
    check_failure(rehearse("learn " + trace + " --into " + machine), 1, {"holds no step after its warm-up; run at least 3 steps"});
    CHECK(text_of(machine) == untaught);
    // Such a trace is shown and compared all the same.
    CHECK(result_of(rehearse("compare " + trace + " " + trace + " --format json")).at("step").at("measured_seconds") > 0);
    result_of(rehearse("report " + trace + " -o " + (folder / "page.html") + " --format json"));
  }
  check_failure(rehearse("history " + machine), 1, {"machine.history.jsonl", "at least 3 steps"});
  result_of(rehearse(run + "3"));
  CHECK(result_of(rehearse("history " + machine + " --format json")).at("runs").size() == 1);
  result_of(rehearse("learn " + trace + " --into " + machine + " --format json"));
  CHECK(text_of(machine) != untaught);
}

TEST_CASE("what a step took is one number, whoever says it") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json", trace = folder / "trace.json";
  write_server(machine);
  const auto ran = result_of(rehearse(
      std::string("run ") + kGpt + " --batch 4 --plan dp=2 --steps 9 --format json --machine " + machine + " --trace " + trace, 2));
  const auto learned = result_of(rehearse("learn " + trace + " --into " + machine + " --format json"));
  const double seconds = learned.at("learned")[0].at("measured_step_seconds");
  const auto kept = result_of(rehearse("history " + machine + " --format json")).at("runs")[0].at("step_seconds").get<double>();
  CHECK(kept == Approx(seconds).epsilon(1e-9));
  CHECK(4 / ran.at("samples_per_second").get<double>() == Approx(seconds).epsilon(1e-9));
  const auto compared = result_of(rehearse("compare " + trace + " " + trace + " --format json"));
  CHECK(compared.at("step").at("measured_seconds") == seconds);
  double rows = 0;
  for (const auto& row : compared.at("rows")) rows += row.at("measured_seconds").get<double>();
  CHECK(compared.at("rows_add_up_to").at("measured_seconds").get<double>() == Approx(rows));
  CHECK(result_of(rehearse("compare " + trace + " " + trace + " --top 0 --format json")).at("instructions").empty());
  check_failure(rehearse("compare " + trace + " " + trace + " --top -1"), 1, {"--top -1", "at least 0"});
}

TEST_CASE("a calibration of another processor is said to be one") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  write_server(machine, {{"cpu", "Babbage Analytical Engine"}});
  const auto run = std::string("run ") + kGpt + " --batch 4 --steps 1 --format json --machine " + machine;
  const auto ended = rehearse(run);
  CHECK(result_of(ended).contains("predicted_step_seconds"));
  CHECK_THAT(ended.err, contains("was measured on Babbage Analytical Engine, and this is "));
  // Of a GPU nothing follows for a processor.
  write_server(machine, {{"cpu", "Babbage Analytical Engine"}, {"gpu", "NVIDIA H200 (cuda:0)"}});
  const auto of_gpu = rehearse(run);
  CHECK_FALSE(result_of(of_gpu).contains("predicted_step_seconds"));
  CHECK_THAT(of_gpu.err, contains("nothing is predicted: was measured on NVIDIA H200, and this is "));
}

TEST_CASE("traces and records are told apart, and so are the files that they correct") {
  const TemporaryFolder folder;
  const auto site = folder / "site.json", trace = folder / "trace.json", records = folder / "runs.jsonl";
  write_text(site, R"({"schema": 1, "published": {"mechanisms": [], "corrections": [], "runs": []}})");
  (void)result_of(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 6 --format json --trace " + trace));
  write_text(records, "{}\n");
  for (const auto& both : {records + " " + trace, trace + " " + records})
    check_failure(rehearse("learn " + both + " --into " + site), 1,
                  {"runs.jsonl: is no trace", "trace.json is one", "records and traces to separate calls"});
  check_failure(rehearse("learn " + trace + " --into " + site), 1, {"site.json: is the file of a site", "rehearse calibrate"});
  check_failure(rehearse("learn --forget --into " + site), 2, {"--forget", "remove", "site.json"});
  check_failure(rehearse("learn " + (folder / "gone.json") + " --into " + site), 1, {"gone.json: cannot be read"});
}

TEST_CASE("what traces taught a machine file can be taken back") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json", trace = folder / "trace.json";
  write_server(machine);
  const auto untaught = nlohmann::json::parse(text_of(machine));
  (void)result_of(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 6 --format json --trace " + trace));
  const auto learned = result_of(rehearse("learn " + trace + " --into " + machine + " --format json"));
  CHECK(learned.at("learned")[0].at("waiting_for_cores_share") >= 0);
  CHECK_FALSE(learned.contains("traces_forgotten"));
  const auto taught = nlohmann::json::parse(text_of(machine));
  CHECK(taught.at("calibration").at("samples").size() > untaught.at("calibration").at("samples").size());

  const auto forgot = result_of(rehearse("learn --forget --into " + machine + " --format json"));
  CHECK(forgot.at("traces_forgotten") == 1);
  CHECK(nlohmann::json::parse(text_of(machine)) == untaught);
  // Forgotten first, then learned: as if there had been nothing else.
  CHECK(result_of(rehearse("learn --forget " + trace + " --into " + machine + " --format json")).at("traces_forgotten") == 0);
  CHECK(nlohmann::json::parse(text_of(machine)) == taught);

  check_failure(rehearse("learn --into " + machine), 2, {"TRACE is missing", "--forget"});
  write_text(folder / "records.jsonl", "{}\n");
  check_failure(rehearse("learn --forget " + (folder / "records.jsonl") + " --into " + (folder / "site.json")), 2,
                {"--forget", "site.json"});
  check_failure(rehearse("learn --forget --into " + (folder / "nowhere.json")), 1, {"nowhere.json", "cannot be read"});
}
