// Limits of power as something that is chosen.
#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kQuestion =
    "'zoo:gpt?layers=4&hidden=1024&heads=8&seq=1024&vocab=32000' --format json --batch 64 --dtype bf16 "
    "--optimizer adam --platform dgx-a100 --nodes 1 ";

nlohmann::json estimate(const std::string& options) { return result_of(rehearse("estimate " + std::string(kQuestion) + options)); }
double value(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("estimate takes the limit of least energy, and shows what each does") {
  const auto open = estimate("--plan dp=8 --recipe power=auto");
  const auto& caps = open.at("power_caps");
  REQUIRE(caps.size() == 7);
  CHECK(caps[0].at("limit_watts") == 400);  // an A100's
  CHECK(caps[6].at("limit_watts") == 160);
  // Each row is what the limit alone says; the highest is what boards have without one.
  const auto plain = estimate("--plan dp=8");
  CHECK(caps[0].at("step_seconds") == plain.at("step_seconds").at("value"));
  CHECK(caps[0].at("energy_joules").get<double>() == Approx(value(plain, "energy_joules")));
  const auto capped = estimate("--plan dp=8 --recipe power=280");
  CHECK(caps[3].at("limit_watts") == 280);
  CHECK(caps[3].at("step_seconds") == capped.at("step_seconds").at("value"));
  CHECK(caps[3].at("slower_share").get<double>() == Approx(value(capped, "step_seconds") / value(plain, "step_seconds") - 1));
  CHECK(caps[3].at("energy_saved_share").get<double>() == Approx(1 - value(capped, "energy_joules") / value(plain, "energy_joules")));
  double least = caps[0].at("energy_joules");
  for (std::size_t n = 1; n < caps.size(); ++n) {
    CHECK(caps[n].at("step_seconds") >= caps[n - 1].at("step_seconds"));
    least = std::min(least, caps[n].at("energy_joules").get<double>());
  }
  CHECK(value(open, "energy_joules") == Approx(least));
  CHECK(least < caps[0].at("energy_joules").get<double>());
}

TEST_CASE("other choices of a recipe stay") {
  const auto open = estimate("--plan dp=8 --recipe fused_kernels=on,power=auto");
  CHECK(open.at("power_caps")[0].at("step_seconds") == estimate("--plan dp=8 --recipe fused_kernels=on").at("step_seconds").at("value"));
  CHECK(open.at("power_caps")[3].at("step_seconds") ==
        estimate("--plan dp=8 --recipe power=280,fused_kernels=on").at("step_seconds").at("value"));
}

TEST_CASE("search ranks plans under all limits, and keeps what may not be slower") {
  const std::string some =
      "search " + std::string(kQuestion) + "--recipe power=auto --confirm 0 --budget 400plans --top 3 --objective energy ";
  const auto best = result_of(rehearse(some)).at("plans")[0];
  CHECK_THAT(best.at("platform").get<std::string>(), contains("dgx-a100 at ") && contains(" W"));
  const auto uncapped =
      result_of(rehearse("search " + std::string(kQuestion) + "--confirm 0 --budget 400plans --objective energy")).at("plans")[0];
  CHECK(value(best, "energy_joules") < value(uncapped, "energy_joules"));
  CHECK(value(best, "step_seconds") > value(uncapped, "step_seconds"));
  // Where time counts, no limit is best; with a limit of time in between the plan keeps it.
  const auto quickest =
      result_of(rehearse("search " + std::string(kQuestion) + "--recipe power=auto --confirm 0 --budget 400plans --top 1"));
  CHECK(quickest.at("plans")[0].at("platform") == "dgx-a100 at 400 W");
  const double between = (value(best, "step_seconds") + value(uncapped, "step_seconds")) / 2;
  const auto kept = result_of(rehearse(some + "--limit step=" + std::to_string(between) + "s")).at("plans")[0];
  CHECK(value(kept, "step_seconds") <= between);
  CHECK(value(kept, "energy_joules") <= value(uncapped, "energy_joules"));
}

TEST_CASE("stages that wait run at lower clocks, and a step takes less energy and hardly longer") {
  // Logits of 128,000 words make the last of four stages the slowest.
  const std::string job =
      "zoo:llama3-8b --format json --platform dgx-h100 --nodes 4 --batch 512 --dtype bf16 --optimizer adamw --plan "
      "dp=8,pp=4,zero=1,micro_batch=1 ";
  const auto full = result_of(rehearse("estimate " + job)), lower = result_of(rehearse("estimate " + job + "--recipe power=stages"));
  CHECK_FALSE(full.contains("stage_clocks"));
  const auto& clocks = lower.at("stage_clocks");
  REQUIRE(clocks.at("stages").size() == 4);
  CHECK(clocks.at("stages")[3].at("clock_share") == 1);
  for (int stage = 0; stage < 3; ++stage) {
    CHECK(clocks.at("stages")[stage].at("stage") == stage);
    CHECK(clocks.at("stages")[stage].at("clock_share") < 0.95);
    CHECK(clocks.at("stages")[stage].at("watts") < clocks.at("stages")[3].at("watts"));
  }
  const double slower = value(lower, "step_seconds") / value(full, "step_seconds") - 1;
  const double saved = 1 - value(lower, "energy_joules") / value(full, "energy_joules");
  CHECK(clocks.at("slower_share").get<double>() == Approx(slower));
  CHECK(clocks.at("energy_saved_share").get<double>() == Approx(saved));
  CHECK(slower >= 0);
  CHECK(slower <= 0.01);
  CHECK(saved > 0.05);
  CHECK(value(lower, "memory_bytes") == value(full, "memory_bytes"));
  for (const std::string fidelity : {"folded", "full"}) {
    const auto played = result_of(rehearse("simulate " + job + "--recipe power=stages --fidelity " + fidelity));
    CHECK(value(played, "step_seconds") == Approx(value(lower, "step_seconds")).epsilon(0.03));
    CHECK(value(played, "energy_joules") == Approx(value(lower, "energy_joules")).epsilon(0.03));
  }
}

TEST_CASE("where no stage waits, clocks stay") {
  for (const std::string plan : {"--plan dp=8 ", "--plan dp=2,pp=4,micro_batch=1 "}) {
    // Four blocks on four stages of a small vocabulary are alike, but for embedding and logits.
    const std::string job =
        "'zoo:gpt?layers=4&hidden=4096&heads=32&seq=2048&vocab=16' --format json --batch 64 --dtype bf16 "
        "--optimizer adam --platform dgx-a100 --nodes 1 ";
    const auto full = result_of(rehearse("estimate " + job + plan));
    const auto lower = result_of(rehearse("estimate " + job + plan + "--recipe power=stages"));
    CHECK(value(lower, "step_seconds") <= 1.01 * value(full, "step_seconds"));
    CHECK(value(lower, "energy_joules") <= value(full, "energy_joules"));
    CHECK(lower.at("stage_clocks").at("energy_saved_share") < 0.02);
  }
}

TEST_CASE("search ranks plans with the clocks of their stages lowered") {
  const std::string ask =
      "search zoo:llama3-70b --format json --platform dgx-h100 --nodes 4 --batch 512 --dtype bf16 --optimizer adamw --confirm 0 --top 1 "
      "--objective energy ";
  const auto full = result_of(rehearse(ask)).at("plans")[0], lower = result_of(rehearse(ask + "--recipe power=stages")).at("plans")[0];
  CHECK(lower.at("stage_clocks").at("energy_saved_share") > 0);
  CHECK(value(lower, "energy_joules") < value(full, "energy_joules"));
}

TEST_CASE("estimate says in which hour and region a training emits and costs least") {
  const TemporaryFolder folder;
  const auto path = folder / "hours.csv";
  write_text(path, "hour,carbon:A,price:B\nnight,100,1\nday,500,3\n");
  const std::string length = "--plan dp=8 --steps 500000 --carbon 250 --price 2 ";
  const auto plain = estimate(length), told = estimate(length + "--hours " + path);
  REQUIRE_FALSE(plain.contains("hours"));
  const auto& ways = told.at("hours");
  REQUIRE(ways.size() >= 2);
  const auto& end = plain.at("goodput");  // with the checkpoints that are waited for
  // At 250 g/kWh all day the platform says what A emits in hours that are as good as its mean of 300, in proportion.
  const double hours = value(end, "finished_seconds") / 3600, whole = std::floor(hours / 2), rest = hours - 2 * whole;
  const double sum = whole * 600 + std::min(rest, 1.0) * 100 + std::max(0.0, rest - 1) * 500;
  CHECK(ways[0].at("region") == "A");
  CHECK(ways[0].at("rule") == "now");
  CHECK(ways[0].at("start") == "night");
  CHECK(ways[0].at("carbon_kg").get<double>() == Approx(value(end, "carbon_kg") * sum / (250 * hours)));
  CHECK(ways[0].at("cost_dollars").get<double>() == Approx(value(end, "cost_dollars")));
  CHECK(ways[0].at("finished_seconds").get<double>() == Approx(value(end, "finished_seconds")));
  const auto& other = *std::ranges::find_if(ways, [](const auto& w) { return w.at("region") == "B"; });
  const double paid = whole * 4 + std::min(rest, 1.0) * 1 + std::max(0.0, rest - 1) * 3;
  CHECK(other.at("cost_dollars").get<double>() == Approx(8 * paid));  // eight devices
  CHECK(other.at("carbon_kg").get<double>() == Approx(value(end, "carbon_kg")));
  // Nodes that wait for others to fail are rented, too: eight devices more.
  auto of_two = std::string(kQuestion);
  of_two.replace(of_two.find("--nodes 1"), 9, "--nodes 2");
  const auto spared = result_of(rehearse("estimate " + of_two + length + "--spares 8 --replacement 1s --hours " + path));
  const double rent = value(spared.at("goodput"), "cost_dollars");
  CHECK(rent == Approx(2 * value(end, "cost_dollars")).epsilon(1e-3));
  CHECK(spared.at("hours")[0].at("cost_dollars").get<double>() == Approx(rent));
  const std::string ask = "estimate " + std::string(kQuestion) + "--plan dp=8 ";
  check_failure(rehearse(ask + "--hours " + path), 1, {"--hours", "--steps"});
  check_failure(rehearse(ask + "--steps 9 --hours /nowhere.csv"), 1, {"/nowhere.csv"});
  check_failure(rehearse(ask + "--budget 3days --hours " + path), 1, {"--hours", "--budget"});
}

TEST_CASE("where nothing is chosen a limit is watts") {
  const auto simulated = rehearse("simulate " + std::string(kQuestion) + "--plan dp=8 --recipe power=auto");
  check_failure(simulated, 1, {"--recipe power=auto", "for estimate and search", "power=300"});
  CHECK_THAT(simulated.err, !contains("write power"));  // that is what was written
  check_failure(rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=auto --budget 3days"), 1, {"watts"});
  check_failure(rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=auto --framework rehearse"), 3, {"--recipe"});
}

TEST_CASE("a limit that no clock of the board keeps is said to change nothing") {
  const auto low = rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=60");
  CHECK_THAT(low.err, contains("lowest clock") && contains("nothing changes"));
  const auto lower = rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=56");
  CHECK(result_of(low).at("step_seconds") == result_of(lower).at("step_seconds"));
  CHECK_THAT(rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=250").err, !contains("lowest clock"));
}
