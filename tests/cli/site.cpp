// --machine: what measured runs of a site say is in every prediction, or refused.

#include "tests/cli/rehearse.hpp"
#include "tests/process.hpp"

namespace {

const std::string kGptSmall = " 'zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000' ";

/// Runs that took `factor` times as long as they are predicted to take.
std::string slow_runs(double factor, const TemporaryFolder& folder) {
  const auto record = [](int number, const std::string& plan, const std::string& measured) {
    return R"({"id": "r)" + std::to_string(number) +
           R"(", "family": "f", "source": "s", "model": {"name": "GPT", "layers": 4, "hidden": 256, "heads": 4, "seq": 128, "vocab": 1000}, )"
           R"("hardware": {"gpu": "A100-SXM4-80GB", "count": 8, "gpus_per_node": 8}, "plan": )" +
           plan + R"(, "measured": {"iteration_time_s": )" + measured + "}}\n";
  };
  const auto records = folder / "records.jsonl", site = folder / "site.json";
  std::string questions, answers;
  const std::vector<std::string> plans{
      R"({"dp": 8, "global_batch": 64, "micro_batch": 8})", R"({"dp": 4, "tp": 2, "global_batch": 64, "micro_batch": 8})",
      R"({"dp": 8, "global_batch": 128, "micro_batch": 16})", R"({"dp": 8, "global_batch": 8, "micro_batch": 1})"};
  for (std::size_t n = 0; n < plans.size(); ++n) questions += record(static_cast<int>(n), plans[n], "null");
  write_text(records, questions);
  const auto predicted = rehearse("validate --measured " + records + " --format json");
  std::istringstream lines(predicted.out);
  std::string line;
  for (std::size_t n = 0; n < plans.size() && std::getline(lines, line); ++n) {
    const double seconds = nlohmann::json::parse(line).at("predicted").at("iteration_time_s").at("value");
    answers += record(static_cast<int>(n), plans[n], std::to_string(seconds * factor));
  }
  write_text(records, answers);
  (void)result_of(rehearse("learn " + records + " --into " + site + " --format json"));
  return site;
}

double seconds_of(const nlohmann::json& result) { return result.at("step_seconds").at("value"); }

}  // namespace

TEST_CASE("what a site taught is in every prediction") {
  const TemporaryFolder folder;
  const auto site = slow_runs(1.3, folder);
  const std::string question =
      kGptSmall + "--platform dgx-a100 --devices 8 --batch 64 --dtype bf16 --framework megatron-core --format json ";
  const std::string machine = " --machine " + site;
  for (const std::string command : {"estimate", "simulate", "estimate --fidelity folded"}) {
    INFO(command);
    const auto plain = result_of(rehearse(command + question + "--plan dp=8")),
               learned = result_of(rehearse(command + question + "--plan dp=8" + machine));
    CHECK(seconds_of(learned) / seconds_of(plain) == Approx(1.3).epsilon(0.06));
    // Four runs that agree narrow the interval.
    const auto width = [](const nlohmann::json& r) { return r.at("step_seconds").at("high").get<double>() / seconds_of(r); };
    CHECK(width(learned) < width(plain));
    double sum = 0;
    for (const auto& [key, seconds] : learned.at("breakdown").items()) sum += seconds.get<double>();
    CHECK(sum == Approx(seconds_of(learned)).epsilon(0.01));
  }
  // What a trace shows is as long as the step, too.
  const auto traced = result_of(rehearse("simulate" + question + "--plan dp=8 --trace " + (folder / "trace.json") + machine));
  double last = 0;
  const auto trace = nlohmann::json::parse(text_of(folder / "trace.json"));
  for (const auto& event : trace.at("ranks").at(0).at("events")) last = std::max(last, event.at(5).get<double>());
  CHECK(last == Approx(seconds_of(traced)).epsilon(0.01));
  const auto best = [&](const std::string& more) {
    return seconds_of(result_of(rehearse("search" + question + "--budget 20plans" + more)).at("plans").at(0));
  };
  CHECK(best(machine) / best("") == Approx(1.3).epsilon(0.15));
}

TEST_CASE("a run far from what was predicted is learned with a warning, and intervals hold it") {
  const TemporaryFolder folder;
  const auto site = slow_runs(8, folder);
  const auto again = rehearse("learn " + (folder / "records.jsonl") + " --into " + (folder / "new.json"));
  CHECK_THAT(again.err, contains("r0: ") && contains(" is 8 times more than was predicted"));
  const std::string question =
      "estimate" + kGptSmall +
      "--platform dgx-a100 --devices 8 --batch 64 --dtype bf16 --framework megatron-core --format json --plan dp=8";
  const double plain = seconds_of(result_of(rehearse(question)));
  CHECK(result_of(rehearse(question + " --machine " + site)).at("step_seconds").at("high").get<double>() > 8 * plain);
}

TEST_CASE("measurements that say nothing about a question are refused") {
  const TemporaryFolder folder;
  const auto site = slow_runs(1.3, folder);
  const std::string question = kGptSmall + "--batch 64 --dtype bf16 --plan dp=8 --devices 8 --platform ";
  check_failure(rehearse("estimate" + question + "dgx-h100 --machine " + site), 1, {"site.json", "A100-SXM4-80GB", "none on H100"});
  check_failure(rehearse("estimate" + question + "dgx-a100 --framework rehearse --machine " + site), 1, {"site.json", "calibration"});
  check_failure(rehearse("estimate" + question + "dgx-a100 --machine " + folder / "none.json"), 1, {"none.json", "cannot be read"});
  const auto other = folder / "machine.json";
  write_text(other, R"({"schema": 1})");
  for (const std::string command : {"estimate", "simulate"})
    check_failure(rehearse(command + question + "dgx-a100 --machine " + other), 1,
                  {"machine.json", "no runs of a framework", "rehearse learn"});
}

TEST_CASE("a calibration of a processor is refused for devices of another kind, and for another processor a warning") {
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  const auto write = [&](const std::map<std::string, std::string>& context) {
    const nlohmann::json link{
        {"latency_seconds", 1e-6}, {"bytes_per_second", 1e9}, {"reduction_bytes_per_second", 1e9}, {"log_error", 0.1}},
        none = nlohmann::json::array();
    const nlohmann::json calibration{{"schema", 1},         {"context", context}, {"link", link},   {"link_samples", none},
                                     {"corrections", none}, {"fits", none},       {"samples", none}};
    write_text(machine, nlohmann::json{{"schema", 1}, {"calibration", calibration}}.dump());
  };
  const auto asked = [&](const std::string& command, const std::string& platform) {
    return rehearse(command + " --platform " + platform + " --nodes 1 --format json --machine " + machine);
  };
  const std::string job = kGptSmall + "--batch 64 --framework rehearse ";
  write({{"cpu", "Babbage Analytical Engine"}});
  for (const auto& command : {"estimate" + job + "--plan dp=2", "simulate" + job + "--plan dp=2", "search" + job + "--budget 2plans",
                              "explain dp=2 --model" + job, std::string("collective --ranks 2 --sizes 1MB")})
    check_failure(asked(command, "dgx-a100"), 1,
                  {"machine.json: holds measurements of Babbage Analytical Engine and none of A100-SXM4-80GB", "calibrate --backend cuda"});
  check_failure(asked("collective --ranks 2 --sizes 1MB", "gaudi2-8x"), 1, {"none of Gaudi2-96GB", "leave --machine out, since"});
  for (const auto& command : {"estimate" + job + "--plan dp=2", std::string("collective --ranks 2 --sizes 1MB")}) {
    const auto other = asked(command, "xeon-2s-10gbe");
    CHECK(other.status == 0);
    CHECK_THAT(other.err, contains("was measured on Babbage Analytical Engine, and platform xeon-2s-10gbe has Xeon-Gold-6248"));
  }
  write({});  // by hand: whose it is, is not said
  CHECK(asked("estimate" + job + "--plan dp=2", "dgx-a100").status == 0);
}

TEST_CASE("a record that teaches nothing is named with the key, and what would be right") {
  const TemporaryFolder folder;
  const auto good = slow_runs(1.3, folder), records = folder / "records.jsonl", site = folder / "taught.json";
  const auto lines = text_of(records);
  const auto first = lines.substr(0, lines.find('\n') + 1);
  const auto with = [&](std::string from, const std::string& to) {
    auto line = first;
    return line.replace(line.find(from), from.size(), to);
  };
  const std::string seconds = "iteration_time_s";
  write_text(records, with(seconds, "iteration_time_ms"));
  check_failure(rehearse("learn " + records + " --into " + site), 3,
                {"nothing was learned", "r0: measured: none of iteration_time_ms (did you mean \"iteration_time_s\"?)"});
  const auto before = text_of(good);
  check_failure(rehearse("learn " + records + " --into " + good), 3, {"nothing was learned"});
  CHECK(text_of(good) == before);
  write_text(records, with("\"count\": 8", "\"count\": 9"));
  check_failure(rehearse("learn " + records + " --into " + site), 3, {"r0: ", "9"});
  write_text(records, with("\"measured\": {", "\"measured\": {\"loss\": -1, "));
  check_failure(rehearse("learn " + records + " --into " + site), 3, {"r0: measured.loss: must not be below 0"});
  // Beside others it is said, and they are learned.
  auto typo = with(seconds, "step");
  typo.replace(typo.find("r0"), 2, "r9");
  write_text(records, lines + with("\"dp\": 8", "\"dp\": 8, \"colour\": 1") + typo);
  const auto some = rehearse("learn " + records + " --into " + site + " --format json");
  CHECK(result_of(some).at("runs") == 4);
  CHECK_THAT(some.err, contains("unknown keys are ignored: plan.colour") && contains("of which the last counts: r0 (lines 1 and 5)") &&
                           contains("1 of 6 records teach nothing; r9: measured: none of step"));
}

TEST_CASE("what records teach goes into a new file or one of its kind, and into no other") {
  const TemporaryFolder folder;
  const auto site = slow_runs(1.3, folder), records = folder / "records.jsonl";
  const auto before = text_of(records);
  check_failure(rehearse("learn " + records + " --into " + records), 1, {"--into", "is one of the files that are read"});
  CHECK(text_of(records) == before);
  const auto other = folder / "app.json";
  write_text(other, R"({"name": "my-app"})");
  check_failure(rehearse("learn " + records + " --into " + other), 1, {"app.json", "rehearse learn", "rehearse calibrate"});
  CHECK(text_of(other) == R"({"name": "my-app"})");
  check_failure(rehearse("validate --measured " + records + " --machine " + other), 1, {"--machine", "holds no runs", "rehearse learn"});
  CHECK(rehearse("validate --measured " + records + " --machine " + site).status == 0);
}

TEST_CASE("a fit says which records it leaves out, and that few quantities settle few constants") {
  const TemporaryFolder folder;
  (void)slow_runs(1.3, folder);
  const auto records = folder / "records.jsonl";
  write_text(records, text_of(records) +
                          R"({"id": "odd", "colour": 1, "hardware": {"gpu": "nonesuch"}, "measured": {"iteration_time_s": 1}})" + "\n");
  const auto fit = rehearse("fit --steps 0 --measured " + records + " --format json");
  CHECK(result_of(fit).at("quantities") == 4);
  CHECK_THAT(fit.err, contains("1 of 5 records teach nothing; odd: ") && contains("4 measured quantities") && contains("colour"));
  check_failure(rehearse("fit --steps 0 --date today --measured " + records), 1, {"--date today", "2026-11-30"});
}
