// What estimate proposes for plans that do not fit, or are likely to run out of memory.
#include "tests/cli/rehearse.hpp"

namespace {

double number(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("a plan that fits but is likely to run out of memory is answered with a warning and with what makes that unlikely") {
  const std::string ask = "estimate zoo:llama3-8b --platform dgx-h100 --nodes 1 --batch 8 --dtype bf16 --format json --plan dp=8,";
  const auto risky = rehearse(ask + "zero=2");
  REQUIRE(risky.status == 0);
  const auto answer = nlohmann::json::parse(risky.out);
  const double chance = answer.at("out_of_memory_chance");
  CHECK(chance > 0.1);
  CHECK(chance < 0.5);
  CHECK_THAT(risky.err, contains("runs out of memory with a chance of"));
  const std::string remedy = answer.at("remedy");
  REQUIRE(remedy.starts_with("with "));
  const auto changes = remedy.substr(5, remedy.find(' ', 5) - 5);
  const auto safe = rehearse(ask + (contains("zero=").match(changes) ? "" : "zero=2,") + changes);
  REQUIRE(safe.status == 0);
  CHECK(safe.err.empty());
  const auto other = nlohmann::json::parse(safe.out);
  CHECK(other.at("out_of_memory_chance").get<double>() <= 0.05);
  const auto known = result_of(rehearse(ask + "zero=3,recompute=selective-op"));  // one that is safe, too
  REQUIRE(known.at("out_of_memory_chance").get<double>() <= 0.05);
  CHECK(number(other, "step_seconds") <= 1.001 * number(known, "step_seconds"));
  CHECK_FALSE(other.contains("remedy"));
  // A search that is told so does without such plans.
  const auto found = result_of(rehearse(
      "search zoo:llama3-8b --platform dgx-h100 --nodes 1 --batch 64 --dtype bf16 --confirm 0 --format json --limit out-of-memory=5%"));
  for (const auto& plan : found.at("plans")) CHECK(plan.at("out_of_memory_chance").get<double>() <= 0.05);
}

TEST_CASE("a remedy of several changes is the quickest there is, also for a plan in a file") {
  const std::string job = "zoo:llama3-8b --batch 128 --dtype bf16 --optimizer adamw --platform dgx-h100 --nodes 4 --format json ";
  const auto needy = rehearse("estimate " + job + "--plan dp=32");
  CHECK(needy.status == 3);
  const std::string remedy = nlohmann::json::parse(needy.out).at("remedy");
  const auto at = remedy.rfind("with ") + 5;
  const auto safe = result_of(rehearse("estimate " + job + "--plan dp=32," + remedy.substr(at, remedy.find(' ', at) - at)));
  CHECK(safe.at("out_of_memory_chance").get<double>() <= 0.05);
  const auto known = result_of(rehearse("estimate " + job + "--plan dp=32,micro_batch=1,zero=2,recompute=full:16"));
  REQUIRE(known.at("out_of_memory_chance").get<double>() <= 0.05);
  CHECK(number(safe, "step_seconds") <= 1.001 * number(known, "step_seconds"));
  // A file names the framework that it was searched for, which is then told the changes.
  const TemporaryFolder folder;
  const auto file = folder / "plan.json";
  const std::string risky = "dp=32,micro_batch=1,zero=2";
  const auto written = result_of(rehearse("search " + job + "--budget 1plans --confirm 0 -o " + file + " --plan " + risky));
  const auto of_text =
      result_of(rehearse("estimate " + job + "--plan " + risky + " --framework " + written.at("framework").get<std::string>()));
  CHECK(result_of(rehearse("estimate " + job + "--plan " + file)).at("remedy") == of_text.at("remedy"));
}
