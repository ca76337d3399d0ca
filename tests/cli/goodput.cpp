// When a training is finished on machines that fail, as a user asks it: estimate, search, simulate.
#include <cmath>
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kModel = "'zoo:gpt?layers=4&hidden=1024&heads=8&seq=1024&vocab=32000'";

std::string question(const std::string& options, const std::string& platform = "dgx-h100") {
  return std::string(kModel) + " --format json --batch 64 --dtype bf16 --optimizer adam --platform " + platform + " " + options;
}
nlohmann::json estimate(const std::string& options) { return result_of(rehearse("estimate " + question("--plan dp=8 " + options))); }
double value(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("estimate says when a training is finished, and everything that this follows from") {
  const auto all = estimate("--steps 1000000 --failures 0.01 --checkpoint-every 500 --checkpoint-wait 2s --restart 10min --storage 1GB/s");
  const auto& g = all.at("goodput");
  const double step = value(all, "step_seconds"), total = value(all, "total_seconds");
  CHECK(g.at("between_failures_seconds") == Approx(86400 / 0.08));
  CHECK(g.at("checkpoint_steps") == 500);
  CHECK(g.at("checkpoint_interval_seconds") == Approx(500 * step));
  const auto parameters = result_of(rehearse(std::string("inspect ") + kModel + " --format json")).at("parameters").get<double>();
  CHECK(g.at("checkpoint_size_bytes") == Approx(14 * parameters));
  const double writing = 14 * parameters / 1e9;  // one node of eight devices, 1 GB/s
  CHECK(g.at("checkpoint_seconds") == Approx(writing));
  CHECK(g.at("checkpoint_wait_seconds") == 2);
  CHECK(g.at("restart_seconds") == Approx(600 + writing));
  // Training waits for the whole writing (1.2 s): Daly's complete model, of 2,000 pieces.
  REQUIRE(writing < 2);
  const double between = 86400 / 0.08;
  const double finished = 2000 * between * std::exp((600 + writing) / between) * std::expm1((500 * step + 2) / between);
  CHECK(value(g, "finished_seconds") == Approx(finished).epsilon(1e-9));
  CHECK(g.at("failures") == Approx(finished / between).epsilon(1e-9));
  CHECK(g.at("effective") == Approx(total / finished).epsilon(1e-9));
  CHECK(g.at("finished_seconds").at("low") < finished);
  CHECK(g.at("finished_seconds").at("high") > finished);
  // By chance alone it is known better than with a step that may be longer than predicted.
  CHECK(g.at("by_chance_seconds").at("high") < g.at("finished_seconds").at("high"));
  CHECK(value(g, "by_chance_seconds") == Approx(finished).epsilon(1e-9));
  CHECK(g.at("young_interval_seconds") == Approx(std::sqrt(2 * 2 * between)));
  CHECK(value(g, "cost_dollars") == Approx(98.32 * finished / 3600));
  CHECK(value(all, "cost_dollars") == Approx(98.32 * total / 3600));  // as if nothing failed
  CHECK_THAT(g.at("rests_on").get<std::string>(), contains("--failures"));
  // The interval that is found is no worse.
  CHECK(value(estimate("--steps 1000000 --failures 0.01 --checkpoint-wait 2s --restart 10min --storage 1GB/s").at("goodput"),
              "finished_seconds") <= finished);
}

TEST_CASE("a catalogue's devices fail as published, and whoever knows better says so") {
  const auto usual = estimate("--steps 100000").at("goodput");
  CHECK(usual.at("between_failures_seconds") == Approx(2112.0 * 86400 / 8));
  CHECK_THAT(usual.at("rests_on").get<std::string>(), contains("Llama 3"));
  const auto never = estimate("--steps 100000 --failures 0").at("goodput");
  CHECK(never.at("failures") == 0);
  CHECK_FALSE(never.contains("between_failures_seconds"));
  CHECK(never.at("effective") > usual.at("effective"));
  const auto text = rehearse(std::string("estimate ") + kModel + " --batch 64 --platform dgx-h100 --plan dp=8 --steps 100000");
  CHECK_THAT(text.out, contains("goodput:") && contains("effective") && contains("finished"));
  CHECK(result_of(rehearse("simulate " + question("--plan dp=8 --steps 100000"))).contains("goodput"));
}

TEST_CASE("without a training's length, or where nobody knows of failures, nothing is said") {
  CHECK_FALSE(estimate("").contains("goodput"));
  const std::string cpus = std::string("estimate ") + kGpt + " --format json --batch 4 --plan dp=2 --platform xeon-2s-10gbe --steps 1000 ";
  CHECK_FALSE(result_of(rehearse(cpus)).contains("goodput"));
  check_failure(rehearse(cpus + "--restart 1min"), 1, {"--failures", "xeon-2s-10gbe", "time_between_failures"});
  check_failure(rehearse(cpus + "--failures 0.001"), 1, {"--storage", "storage_bandwidth"});
  CHECK(result_of(rehearse(cpus + "--failures 0.001 --storage 100MB/s")).at("goodput").at("effective") > 0.9);
  for (const char* length : {"", " --steps 1"})  // one step is what is priced where no length is given
    for (const char* option : {"--failures 0.1", "--spares 1", "--checkpoint-every 1"})
      check_failure(rehearse("estimate " + question(std::string("--plan dp=8 ") + option + length)), 1,
                    {"--failures", "--spares", "one step is none", "--steps", "--tokens"});
}

TEST_CASE("figures that cannot be are refused, each with what could") {
  struct Row {
    const char* options;
    int status;
    std::vector<std::string> words;
  };
  for (const auto& [options, status, words] :
       {Row{"--failures -1", 1, {"--failures", "from 0"}}, Row{"--failures nan", 1, {"--failures", "from 0"}},
        Row{"--failures inf", 1, {"--failures", "from 0"}}, Row{"--failures often", 2, {"--failures"}},
        Row{"--storage 0GB/s", 1, {"--storage", "more than 0"}}, Row{"--storage -1GB/s", 1, {"--storage", "more than 0"}},
        Row{"--storage 5", 1, {"--storage", "no unit", "GB/s"}}, Row{"--restart -5s", 1, {"--restart", "from 0"}},
        Row{"--restart soon", 1, {"--restart", "unit"}}, Row{"--checkpoint-wait -1s", 1, {"--checkpoint-wait", "from 0"}},
        Row{"--replacement -1h", 1, {"--replacement", "from 0"}}, Row{"--checkpoint-every 10x", 1, {"--checkpoint-every 10x", "10min"}},
        Row{"--checkpoint-every 0s", 1, {"--checkpoint-every 0s", "10min"}},
        Row{"--spares 64 --replacement 1h", 1, {"--spares 64", "from 0 to 63"}}, Row{"--spares -1", 1, {"--spares -1", "from 0 to 63"}},
        Row{"--spares 7 --replacement 1h", 1, {"--spares 7", "multiple of 8"}}, Row{"--spares 8", 1, {"--spares", "--replacement"}},
        Row{"--storage 1MB/s --checkpoint-every 1min", 3, {"--checkpoint-every", "at least", "steps"}},
        Row{"--failures 100000 --restart 10min", 3, {"would not end", "8 devices", "10 min"}}}) {
    INFO(options);
    check_failure(rehearse("estimate " + question(std::string("--plan dp=8 --steps 100000 ") + options)), status, words);
  }
  check_failure(rehearse("estimate " + question("--plan dp=64 --steps 100000 --spares 8 --replacement 4h")), 3, {"dp=64", "leaves 0"});
}

TEST_CASE("spares let a training end sooner, and cost") {
  const std::string options = "--steps 1000000 --failures 0.2 --replacement 12h ";
  const auto none = estimate(options).at("goodput"), one = estimate(options + "--spares 8").at("goodput"),
             two = estimate(options + "--spares 16").at("goodput");
  CHECK(value(one, "finished_seconds") < value(none, "finished_seconds"));
  CHECK(value(two, "finished_seconds") < value(one, "finished_seconds"));
  CHECK(value(two, "cost_dollars") / value(two, "finished_seconds") ==
        Approx(3 * value(none, "cost_dollars") / value(none, "finished_seconds")));
}

TEST_CASE("figures of failures are varied as others are") {
  const auto all = estimate("--steps 100000 --vary device.time_between_failures=x0.1,x0.01 --vary nodes=1,2");
  const auto& rows = all.at("vary");
  REQUIRE(rows.size() == 4);
  CHECK(rows[1].at("effective") < rows[0].at("effective"));
  CHECK(rows[0].at("effective") < all.at("goodput").at("effective"));
  CHECK(value(rows[1], "finished_seconds") > value(rows[0], "finished_seconds"));
}

TEST_CASE("search takes fewer devices where more of them fail too often") {
  const std::string plans = "--steps 100000 --confirm 0 --objective time --plan dp=auto,micro_batch=1 --restart 20min ";
  const auto ranks = [](const nlohmann::json& found) { return found.at("plans")[0].at("ranks").get<int>(); };
  const auto usual = result_of(rehearse("search " + question(plans)));
  CHECK(ranks(usual) == 64);
  // With a failure a day and device, 64 fail every 22 min.
  const auto often = result_of(rehearse("search " + question(plans + "--failures 1.5")));
  CHECK(ranks(often) < 64);
  const auto& found = often.at("plans");
  for (std::size_t n = 1; n < found.size(); ++n)
    CHECK(value(found[n - 1].at("goodput"), "finished_seconds") <= value(found[n].at("goodput"), "finished_seconds"));
  // A limit of the whole training is one of when it is finished.
  const double least = value(usual.at("plans")[0], "total_seconds") * 1.0001;
  check_failure(rehearse("search " + question(plans + "--failures 0.1 --limit total=" + std::to_string(least) + "s")), 3,
                {"no plan keeps the limits", "total"});
}

TEST_CASE("a checkpoint has the size that was predicted") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  int n = 0;
  for (const std::string plan : {"dp=2", "dp=2,zero=1", "tp=2", "pp=2,micro_batch=2", "dp=2 --dtype bf16", "dp=4,zero=1,zero_group=2",
                                 "dp=2,compression=topk", "dp=2,compression=1bit-adam,exact_steps=1", "dp=2,local_steps=2,outer=nesterov",
                                 "dp=2,tp=2,local_steps=2", "dp=2,local_steps=2,outer=adasum"}) {
    INFO(plan);
    const int ranks = plan.starts_with("dp=4") || plan.find("tp=2,") != std::string::npos ? 4 : 2;
    const std::string options = std::string(kGpt) + " --format json --batch 4 --optimizer adam --plan " + plan + " --steps 2 ";
    (void)result_of(rehearse("run " + options + "--checkpoint " + (folder / std::to_string(n)), ranks));
    double written = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder / std::to_string(n++)))
      if (entry.path().extension() == ".bin") written += static_cast<double>(entry.file_size());
    const auto predicted = result_of(rehearse("estimate " + options + "--platform epyc-9654-2s --failures 0 --storage 1GB/s"));
    CHECK(predicted.at("goodput").at("checkpoint_size_bytes") == written);
  }
}
