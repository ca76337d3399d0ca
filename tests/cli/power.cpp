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

TEST_CASE("where nothing is chosen a limit is watts") {
  check_failure(rehearse("simulate " + std::string(kQuestion) + "--plan dp=8 --recipe power=auto"), 1, {"power=auto"});
  check_failure(rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=auto --budget 3days"), 1, {"watts"});
  check_failure(rehearse("estimate " + std::string(kQuestion) + "--plan dp=8 --recipe power=auto --framework rehearse"), 3, {"--recipe"});
}
