// What a site's runs say: a normal prior around no correction, and a run's noise of 0.06, by hand.
#include <cmath>

#include "base/error.hpp"
#include "costmodel/site_corrections.hpp"
#include "tests/catch.hpp"
#include "tests/process.hpp"

namespace rehearsal::costmodel {
namespace {

constexpr double kNoise = 0.06 * 0.06;
constexpr double kAll = 0.15 * 0.15;  // how far sites are from the model as a whole

SiteRun run(double log_ratio, const SiteFeatures& features = kNoMechanism, const std::string& device = "A100") {
  return {"a run", device, "step", features, log_ratio};
}

TEST_CASE("one run of a site moves its answers part of the way, two move them further") {
  // Weight of one run: 0.0225 / (0.0225 + 0.0036) = 0.862; what is left of the variance 0.0225·0.0036 / 0.0261.
  const auto one = effect_of(learn_site({run(0.2)}), "A100", "step", kNoMechanism);
  CHECK(one.log_factor == Approx(0.2 * kAll / (kAll + kNoise)));
  CHECK(one.narrowing == Approx(std::sqrt((kAll * kNoise / (kAll + kNoise) + kNoise) / (kAll + kNoise))));
  // Two: their mean 0.25 with half the noise.
  const auto two = effect_of(learn_site({run(0.2), run(0.3)}), "A100", "step", kNoMechanism);
  CHECK(two.log_factor == Approx(0.25 * kAll / (kAll + kNoise / 2)));
  CHECK(two.narrowing < one.narrowing);
}

TEST_CASE("what a run says of a mechanism carries over to what depends on it") {
  // Half of the time in products, a quarter each in communication and overhead. Spreads 0.15, 0.3, 0.3, 0.5, 0.3:
  // 0.0225 + 0.25·0.09 + 0.0625·0.25 + 0.0625·0.09 = 0.06625.
  const auto features = site_features(0.5, 0, 0.25);
  const double prior = 0.06625;
  const auto site = learn_site({run(0.2, features)});
  const auto same = effect_of(site, "A100", "step", features);
  CHECK(same.log_factor == Approx(0.2 * prior / (prior + kNoise)));
  CHECK(same.narrowing == Approx(std::sqrt((prior * kNoise / (prior + kNoise) + kNoise) / (prior + kNoise))));
  // Of that, what is common to all is 0.0225 / 0.06625, and products alone 0.0225 + 0.5·0.09.
  CHECK(effect_of(site, "A100", "step", kNoMechanism).log_factor == Approx(0.2 * kAll / (prior + kNoise)));
  CHECK(effect_of(site, "A100", "step", site_features(1, 0, 0)).log_factor == Approx(0.2 * (kAll + 0.5 * 0.09) / (prior + kNoise)));
}

TEST_CASE("a run far off counts less") {
  // A log ratio of 1 is twice what is odd, so its noise is 0.12.
  const auto effect = effect_of(learn_site({run(1)}), "A100", "step", kNoMechanism);
  CHECK(effect.log_factor == Approx(kAll / (kAll + 4 * kNoise)));
  CHECK(effect_of(learn_site({run(-1)}), "A100", "step", kNoMechanism).log_factor == Approx(-effect.log_factor));
  CHECK(is_odd(run(1)));
  CHECK_FALSE(is_odd(run(-0.4)));
  // What is left of it is wider than what intervals were: they hold the run that was learned from.
  const double left = 1 - effect.log_factor, variance = kAll * 4 * kNoise / (kAll + 4 * kNoise);
  CHECK(effect.narrowing == Approx(std::sqrt((variance + left * left) / (kAll + kNoise))));
  CHECK(effect.narrowing > 2);
  CHECK(effect.half_width(1) == effect.narrowing);
  CHECK(effect.half_width(0.1) == Approx(1.64485 * left));  // 90 % of a normal distribution: no narrower than the site's own runs
  // Runs that agree with each other, however far off, are believed when there are many.
  const auto many = effect_of(learn_site(std::vector<SiteRun>(50, run(0.6))), "A100", "step", kNoMechanism);
  CHECK(many.log_factor == Approx(0.6).epsilon(0.02));
  CHECK(many.narrowing < 0.5);
}

TEST_CASE("devices and groups of quantities have corrections of their own") {
  auto memory = run(-0.1);
  memory.group = "memory";
  const auto site = learn_site({run(0.2), memory, run(0.4, kNoMechanism, "H100")});
  REQUIRE(site.corrections.size() == 3);
  CHECK(site.runs.size() == 3);
  REQUIRE(site.find("A100", "memory") != nullptr);
  CHECK(site.find("A100", "memory")->mean[0] < 0);
  CHECK(site.find("A100", "step")->runs == 1);
  CHECK(site.find("H100", "memory") == nullptr);
  CHECK(site.knows("H100"));
  CHECK_FALSE(site.knows("V100"));
  const auto unknown = effect_of(site, "V100", "step", kNoMechanism);
  CHECK(unknown.log_factor == 0);
  CHECK(unknown.narrowing == 1);
}

TEST_CASE("shares of a step's time: what is neither arithmetic, traffic nor waiting is overhead") {
  CHECK(site_features(0.5, 0.2, 0.1)[4] == Approx(0.2));
  CHECK(site_features(0.7, 0.4, 0)[4] == 0);
  const auto waiting = site_features(0, 0, 1.5);
  CHECK(waiting[3] == 1);
  CHECK(waiting[4] == 0);
}

TEST_CASE("a site's file keeps what else is in it, and gives back the runs") {
  const TemporaryFolder folder;
  const auto path = folder / "site.json";
  write_text(path, R"({"schema": 1, "calibration": {"kept": true}})");
  CHECK(read_site(path).runs.empty());
  CHECK_FALSE(holds_site(path));
  write_site(path, learn_site({run(0.2), run(0.3)}));
  CHECK_THAT(text_of(path), contains("\"kept\": true"));
  CHECK(holds_site(path));
  const auto again = read_site(path);
  REQUIRE(again.runs.size() == 2);
  CHECK(again.runs[1].log_ratio == 0.3);
  CHECK(again.runs[1].device == "A100");
  CHECK(again.find("A100", "step")->mean == learn_site({run(0.2), run(0.3)}).find("A100", "step")->mean);
  CHECK_THROWS_WITH(read_site(folder / "none.json"), contains("none.json"));
  write_text(path, R"({"published": {"runs": [{"id": "a"}]}})");
  CHECK_THROWS_WITH(read_site(path), contains("site.json: published.runs[0].device") && contains("is missing; it must be a text"));
  write_text(path, "[]");
  CHECK_THROWS_AS(read_site(path), BadInput);
}

TEST_CASE("what of a site's file is of another kind is named by its key, with what would be right") {
  const TemporaryFolder folder;
  const auto path = folder / "site.json";
  const std::string good = R"({"id": "a", "device": "A100", "group": "step", "features": [1, 0.5, 0.2, 0.1, 0.2], "log_ratio": 0.1})";
  write_text(path, R"({"published": {"runs": [)" + good + "]}}");
  REQUIRE(read_site(path).runs.size() == 1);
  const auto refused = [&](std::string from, const std::string& to, const std::string& key, const std::string& right) {
    auto bad = good;
    bad.replace(bad.find(from), from.size(), to);
    write_text(path, R"({"published": {"runs": [)" + good + ", " + bad + "]}}");
    CHECK_THROWS_WITH(read_site(path), contains("site.json: published.runs[1]." + key) && contains("must be " + right));
  };
  refused("\"A100\"", "100", "device", "a text");
  refused("\"step\"", "null", "group", "a text");
  refused(": 0.1}", ": \"0.1\"}", "log_ratio", "a number");
  refused(", 0.2]", "]", "features", "a list of 5 numbers: of all, matrix");
  refused("0.5", "\"half\"", "features", "a list of 5 numbers");
  write_text(path, R"({"published": {}})");
  CHECK_THROWS_WITH(read_site(path), contains("published.runs") && contains("must be a list"));
  write_text(path, R"({"published": {"runs": [1]}})");
  CHECK_THROWS_WITH(read_site(path), contains("published.runs[0]") && contains("must be an object"));
}

}  // namespace
}  // namespace rehearsal::costmodel
