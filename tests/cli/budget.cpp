// What a budget buys, as a user asks estimate.
#include <cmath>

#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kSmall = "'zoo:gpt?layers=4&hidden=1024&heads=8&seq=1024&vocab=32000'";

std::string asked(const std::string& model, const std::string& options) {
  return "estimate " + model + " --format json --batch 64 --dtype bf16 --optimizer adam --platform dgx-h100 --nodes 1 " + options;
}
nlohmann::json answer(const std::string& model, const std::string& options) { return result_of(rehearse(asked(model, options))); }
double value(const nlohmann::json& j, const char* key) { return j.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("tokens of a time are as many steps as estimate says") {
  const auto spent = answer(kSmall, "--plan dp=8 --failures 0 --checkpoint-wait 0s --storage 1TB/s --budget 10h").at("training");
  const auto step = answer(kSmall, "--plan dp=8");
  const double steps = std::floor(36'000 / value(step, "step_seconds"));
  CHECK(spent.at("steps").get<double>() == Approx(steps).margin(steps * 1e-3));  // the last checkpoint is written in that time, too
  CHECK(spent.at("plan") == "dp=8");
  CHECK(value(spent, "tokens") == Approx(spent.at("steps").get<double>() * 64 * 1024).epsilon(1e-12));
  CHECK(spent.at("tokens").at("low") < value(spent, "tokens"));
  CHECK(spent.at("loss").at("high") > value(spent, "loss"));
  const auto parameters = result_of(rehearse(std::string("inspect ") + kSmall + " --format json")).at("parameters").get<double>();
  CHECK(spent.at("parameters") == parameters);
  // Of batches of 64 samples; C = 2.1e8 / loss^(1/0.21).
  const double over_least = spent.at("tokens_over_least"), critical = 2.1e8 / std::pow(value(spent, "loss"), 1 / 0.21);
  CHECK(over_least == Approx(1 + 64 * 1024 / critical));
  // 1.8172 + 482.01 / N^0.3478 + 2085.43 / D^0.3658
  CHECK(value(spent, "loss") ==
        Approx(1.8172 + 482.01 / std::pow(parameters, 0.3478) + 2085.43 / std::pow(value(spent, "tokens") / over_least, 0.3658)));
}

TEST_CASE("the loss that a budget comes to takes that budget") {
  const std::string asked_of =
      "estimate zoo:llama2-7b --format json --platform dgx-h100 --nodes 4 --batch 512 --dtype bf16 "
      "--optimizer adamw --plan dp=32,micro_batch=2,zero=1 ";
  const auto spent = result_of(rehearse(asked_of + "--budget 3days")).at("training");
  const auto target = result_of(rehearse(asked_of + "--batches 512 --to-loss " + spent.at("loss").at("value").dump()));
  const auto& row = target.at("batches")[0];
  CHECK(row.at("steps").get<double>() == Approx(spent.at("steps").get<double>()).margin(1));
  CHECK(row.at("samples_over_least").get<double>() == Approx(spent.at("tokens_over_least").get<double>()).epsilon(1e-3));
}

TEST_CASE("laws are asked about the compute that they count, with batches of the same size") {
  const auto all = answer(kSmall, "--plan dp=8 --budget 10h");
  const auto& here = all.at("training");
  const double counted = here.at("flops").get<double>() / here.at("flops_over_6nd").get<double>();  // 6 N D
  CHECK(here.at("flops_over_6nd").get<double>() > 1.05);
  for (const auto& law : all.at("laws")) {
    if (law.at("counts") != "all" || !law.contains("parameters")) continue;
    INFO(law.at("law"));
    CHECK(6 * law.at("parameters").get<double>() * law.at("tokens").get<double>() == Approx(counted));
    if (law.contains("least_loss")) CHECK(law.at("least_loss").get<double>() <= law.at("loss_here").get<double>());
  }
}

TEST_CASE("devices that fail leave fewer tokens of the same time") {
  const auto never = answer(kSmall, "--plan dp=8 --failures 0 --budget 10days").at("training");
  const auto often = answer(kSmall, "--plan dp=8 --failures 0.5 --budget 10days").at("training");
  CHECK(value(often, "tokens") < 0.99 * value(never, "tokens"));
}

TEST_CASE("money is the price of the nodes, compute that of the graph") {
  const auto money = answer(kSmall, "--plan dp=8 --failures 0 --budget '$983.2'").at("training");
  CHECK(money.at("total_seconds").get<double>() == Approx(36'000).epsilon(1e-3));  // of 98.32 dollars an hour
  const auto compute = answer(kSmall, "--plan dp=8 --budget 1e19FLOP").at("training");
  CHECK(compute.at("flops").get<double>() <= 1e19);
  CHECK(compute.at("flops").get<double>() > 0.999e19);
  CHECK(compute.at("tokens").at("low") == compute.at("tokens").at("high"));
  CHECK(compute.at("total_seconds").at("low") < compute.at("total_seconds").at("high"));
  const auto both = answer(kSmall, "--plan dp=8 --budget 1e19FLOP --budget 1min").at("training");
  CHECK(both.at("spent_first") == "1min");
}

TEST_CASE("carbon that is asked for is in the answer, in proportion to the energy") {
  constexpr double kJoulesPerKilowattHour = 3.6e6;
  for (const char* budget : {"--budget 10h", "--budget 1e19FLOP"})
    for (const char* failures : {"--failures 0", "--failures 0.01"}) {
      const auto asked_of = std::string("--plan dp=8 --carbon 250 ") + failures + " " + budget;
      const auto training = answer(kSmall, asked_of).at("training");
      const auto number = [&](const char* key) {
        const auto& found = training.at(key);
        return found.is_object() ? found.at("value").get<double>() : found.get<double>();
      };
      CHECK(number("carbon_kg") == Approx(number("energy_joules") / kJoulesPerKilowattHour * 0.25));
    }
  const auto sizes =
      answer("'zoo:gpt?vocab=32000'", "--carbon 250 --sizes 100M --budget 1e18FLOP").at("sizes");  // a copy: the answer ends here
  CHECK(sizes.at(0).at("carbon_kg").get<double>() == Approx(sizes.at(0).at("energy_joules").get<double>() / kJoulesPerKilowattHour * 0.25));
  CHECK_FALSE(answer(kSmall, "--plan dp=8 --budget 10h").at("training").contains("carbon_kg"));
}

TEST_CASE("a family is asked for its best size, and says how flat that is") {
  const auto all = answer("'zoo:gpt?vocab=32000'", "--budget 1e19FLOP");
  const auto& best = all.at("best");
  const auto& sizes = all.at("sizes");
  REQUIRE(sizes.size() >= 5);
  for (const auto& size : sizes)
    if (size.contains("loss")) CHECK(size.at("loss").get<double>() >= value(best, "loss"));
  // G (1e19 / 6)^0.5126 with G = 0.1196: 2.5e8 parameters; the graph counts more than 6 FLOPs of each, so that a little less is best
  CHECK(best.at("parameters").get<double>() > 1.2e8);
  CHECK(best.at("parameters").get<double>() < 4e8);
  CHECK(all.at("flat").get<std::string>().find("within 1 %") != std::string::npos);
  // The size in the answer can be asked about.
  const auto again = answer("'" + best.at("model").get<std::string>() + "'",
                            "--plan " + best.at("plan").get<std::string>() + " --budget 1e19FLOP --law hoffmann-3");
  CHECK(again.at("training").at("parameters") == best.at("parameters"));
  CHECK(again.at("law") == "hoffmann-3");
}

TEST_CASE("sizes that are asked for are those that are shown") {
  const auto all = answer("zoo:gpt2", "--plan dp=8 --budget 1e18FLOP --sizes 100M..400M");
  REQUIRE(all.at("sizes").size() == 3);
  const auto same = answer("zoo:gpt2", "--plan dp=8 --budget 1e18FLOP --sizes 124M,125M");  // both are gpt2
  CHECK(same.at("sizes").size() == 1);
  const auto mixed = answer("zoo:gpt2", "--plan dp=8 --budget 1e18FLOP --sizes 100M..0.4B");  // ends of two units
  CHECK(mixed.at("sizes") == all.at("sizes"));
  CHECK(all.at("sizes")[0].at("parameters").get<double>() == Approx(1e8).epsilon(0.15));
  CHECK(all.at("sizes")[2].at("parameters").get<double>() == Approx(4e8).epsilon(0.15));
  for (const auto& law : all.at("laws")) CHECK(law.contains("source"));
}

TEST_CASE("a batch above the critical one is told: laws are of smaller ones") {
  const auto of_batch = [](const char* batch) {
    return result_of(
               rehearse(std::string(
                            "estimate zoo:gpt2 --format json --dtype bf16 --optimizer adamw --platform dgx-a100 --plan dp=8,micro_batch=4 "
                            "--budget 1e18FLOP --batch ") +
                        batch))
        .at("training")
        .at("outside_of_fit")
        .get<std::string>();
  };
  // 2.1e8 / loss^4.76 tokens: at a loss of 4 are 284,000, 277 sequences of 1,024.
  CHECK_THAT(of_batch("4096"), contains("above the critical one"));
  CHECK(of_batch("32").find("critical") == std::string::npos);
}

TEST_CASE("what budgets cannot be asked is refused") {
  const std::string some = "--plan dp=8 ";
  check_failure(rehearse(asked(kSmall, some + "--budget 3parsecs")), 1, {"--budget 3parsecs", "1e23FLOP", "$50k"});
  check_failure(rehearse(asked(kSmall, some + "--budget=-3days")), 1, {"--budget -3days", "above 0"});
  check_failure(rehearse(asked(kSmall, some + "--budget 1e3FLOP")), 3, {"not enough for one step"});
  // A step takes 15.7 ms.
  const auto one = rehearse(asked(kSmall, some + "--budget 0.02s --failures 0.5 --restart 30min"));
  check_failure(one, 3, {"--budget 0.02s: one step at most", "--failures"});
  CHECK_THAT(one.err, !contains("--tokens"));
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --budget 12h")), 1, {"--budget 12h", "of time already", "3days"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --tokens 1e9")), 1, {"--budget", "leave --steps"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --vary dp=4")), 1, {"--vary", "--budget"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --fidelity folded")), 1, {"--fidelity folded"});
  check_failure(rehearse(asked(kSmall, some + "--sizes 1B")), 1, {"--sizes 1B", "--budget"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --sizes 1Q")), 1, {"--sizes 1Q", "1.3B,7B"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --sizes 8B..1B")), 1, {"--sizes 8B..1B: ends below where it begins"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --sizes 1B,,2B")), 1, {"--sizes 1B,,2B: has an empty value"});
  check_failure(rehearse(asked(kSmall, some + "--budget 3days --law llama3")), 1, {"--law llama3", "no loss", "besiroglu"});
  check_failure(rehearse(asked("zoo:resnet18", some + "--budget 3days")), 3, {"zoo:resnet18", "reads no tokens"});
  check_failure(rehearse(asked("zoo:bert", some + "--budget 3days")), 3, {"looks ahead"});
  check_failure(rehearse(asked("zoo:mixtral-8x7b", some + "--budget 3days")), 3, {"experts"});
  check_failure(rehearse(asked("zoo:resnet18", some + "--budget 3days --sizes 1B")), 3, {"reads no tokens"});
}
