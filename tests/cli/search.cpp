// rehearse search with a choice of hardware, and keys of a plan that are left to the search wherever a plan is taken.
#include "tests/cli/rehearse.hpp"

namespace {

std::string on_four(const std::string& command, const std::string& more) {
  return command + " " + kGpt + " --batch 8 --devices 4 --format json " + more;
}

double seconds_of(const nlohmann::json& result) { return result.at("step_seconds").at("value"); }

}  // namespace

TEST_CASE("plans of several platforms are ranked together, each with its platform") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const auto found = result_of(rehearse(on_four("search", "--platform dgx-a100 --platform dgx1-p100 --top 1000 -o " + plan)));
  std::map<std::string, int> plans;
  double before = 0;
  for (const auto& entry : found.at("plans")) {
    ++plans[entry.at("platform").get<std::string>()];
    CHECK(seconds_of(entry) >= before);
    before = seconds_of(entry);
  }
  CHECK(plans.size() == 2);
  CHECK(found.at("platform") == found.at("plans").at(0).at("platform"));
  // What was written is the winner.
  const auto again = result_of(rehearse(on_four("estimate", "--platform " + found.at("platform").get<std::string>() + " --plan " + plan)));
  CHECK(seconds_of(again) == Approx(seconds_of(found.at("plans").at(0))));
  check_failure(rehearse(on_four("search", "--platform dgx-a100 --platform dgx-a100")), 1, {"--platform dgx-a100", "another one"});
  check_failure(rehearse(on_four("search", "--platform dgx-a100 --platform nowhere")), 1, {"nowhere"});
}

TEST_CASE("auto is searched by every command that knows the platform") {
  const auto best = result_of(rehearse(on_four("search", "--platform dgx-a100 --plan dp=2,tp=auto --top 1"))).at("plans").at(0);
  const auto estimated = result_of(rehearse(on_four("estimate", "--platform dgx-a100 --plan dp=2,tp=auto")));
  CHECK(estimated.at("plan") == best.at("plan"));
  CHECK(result_of(rehearse(on_four("simulate", "--platform dgx-a100 --plan dp=2,tp=auto"))).at("plan") == best.at("plan"));
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 8 --format json --plan dp=auto"), 3, {"auto", "rehearse search"});
}

TEST_CASE("what search writes is run, explained and simulated without naming the model again") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const std::string training = " --batch 8 --dtype f64 --optimizer adam ";
  (void)result_of(rehearse(std::string("search ") + kGpt + training + "--platform dgx-a100 --devices 2 --format json -o " + plan));
  const auto ranks = result_of(rehearse("explain " + plan + " --optimizer adam --platform dgx-a100 --devices 2 --format json")).at("ranks");
  // The batch is the file's, too, where the model is named again.
  CHECK(result_of(rehearse("explain " + plan + " --model " + kGpt +
                           " --dtype f64 --optimizer adam --platform dgx-a100 --devices 2 --format json"))
            .at("ranks") == ranks);
  const auto usual = rehearse("explain " + plan + " --optimizer adam --format json");
  CHECK(result_of(usual).at("platform") == "dgx-a100");
  CHECK(result_of(usual).at("ranks") == ranks);
  CHECK_THAT(usual.err, contains("no --platform"));
  const auto run = [&](const std::string& more) { return rehearse("run " + plan + " --steps 2 --format json " + more, ranks.get<int>()); };
  const auto losses = losses_of(run("--optimizer adam"));
  const auto named = losses_of(rehearse(std::string("run ") + kGpt + training + "--steps 2 --format json"));
  REQUIRE(losses.size() == 2);
  CHECK(std::abs(losses[1] - named[1]) < 1e-12);
  check_failure(run("--optimizer sgd"), 1, {plan, "was made for another training", "optimizer"});
}
