// What a target takes, as a user asks estimate.
#include <cmath>
#include <fstream>

#include "tests/cli/rehearse.hpp"

namespace {

std::string asked(const std::string& options, const std::string& model = "zoo:resnet50") {
  return "estimate '" + model + "' --format json --batch 1024 --dtype f16 --platform dgx-a100 --nodes 4 " + options;
}
nlohmann::json answer(const std::string& options) { return result_of(rehearse(asked(options))); }

/// Metrics of a training with a batch of 8 whose loss falls by 1 / (step + 1), evaluated in every tenth step.
std::string curve(const TemporaryFolder& folder, const std::string& name, bool evaluates, bool noise) {
  std::ofstream out(folder / name);
  for (int step = 1; step <= 100; ++step) {
    out << R"({"step": )" << step << R"(, "loss": )" << 1.0 / (step + 1) << R"(, "seconds": 0.5, "samples_per_second": 16)";
    if (noise) out << R"(, "gradient_square": 2, "gradient_variance": )" << (step % 2 == 0 ? 30 : 50);
    out << "}\n";
    if (evaluates && step % 10 == 0)
      out << R"({"step": )" << step << R"(, "eval_loss": )" << 2.0 / (step + 1) << R"(, "eval_accuracy": )" << step / 200.0 << "}\n";
  }
  return folder / name;
}

}  // namespace

TEST_CASE("trainings that came to a target say what other batches take, and estimate what that costs") {
  // 100 + 640,000 / B steps: critical at 6,400.
  const auto result = answer("--plan dp=32 --reached 1600:500,6400:200 --batches 1024..4096");
  CHECK(result.at("critical_batch").get<double>() == Approx(6400));
  CHECK(result.at("least_steps").get<double>() == Approx(100));
  CHECK(result.at("least_samples").get<double>() == Approx(640'000));
  const auto& rows = result.at("batches");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("batch") == 1024);
  CHECK(rows[0].at("steps") == 725);  // 100 + 625
  CHECK(rows[0].at("samples_over_least").get<double>() == Approx(725.0 * 1024 / 640'000));
  const auto whole = answer("--plan dp=32 --steps 725");
  CHECK(rows[0].at("total_seconds") == whole.at("total_seconds"));
  CHECK(rows[0].at("out_of_memory_chance") == whole.at("out_of_memory_chance"));
  CHECK(rows[0].at("cost_dollars") == whole.at("cost_dollars").at("value"));
  CHECK(rows[0].at("energy_joules") == whole.at("energy_joules").at("value"));
  CHECK(!rows[0].contains("time_saved_share"));
  CHECK(!rows[0].contains("carbon_kg"));
  const auto emitted = answer("--plan dp=32 --reached 1600:500,6400:200 --batches 1024 --carbon 250").at("batches").at(0);
  CHECK(emitted.at("carbon_kg").get<double>() == Approx(emitted.at("energy_joules").get<double>() / 3.6e6 * 0.25));
  const auto seconds = [](const nlohmann::json& row) { return row.at("total_seconds").at("value").get<double>(); };
  CHECK(rows[1].at("time_saved_share").get<double>() == Approx(1 - seconds(rows[1]) / seconds(rows[0])));
  for (const auto& row : rows)
    if (row.at("batch") == result.at("quickest_batch"))
      for (const auto& other : rows) CHECK(seconds(row) <= seconds(other));
}

TEST_CASE("how likely a batch runs out of memory is a column") {
  const std::string tight = "estimate 'zoo:llama2-7b?seq=4096' --batch 16 --dtype bf16 --optimizer adamw --platform dgx-a100 --devices 8 ";
  const std::string plan = "--plan dp=8,zero=2,micro_batch=2 --reached 8:500,64:200 --batches 16";
  const auto row = result_of(rehearse(tight + plan + " --format json")).at("batches").at(0);
  const double chance = row.at("out_of_memory_chance");
  CHECK((0.05 < chance && chance < 0.95));
  CHECK_THAT(rehearse(tight + plan).out, contains("out of memory chance"));
}

TEST_CASE("devices follow the batch where they are told to, and a batch that cannot be trained says why") {
  const TemporaryFolder folder;
  const auto result = result_of(
      rehearse("estimate zoo:resnet50 --format json --batch 512 --dtype f16 --platform dgx-a100 --devices 8 --devices-follow --reached "
               "1600:500,6400:200 --batches 32,512,1024 --svg " +
               (folder / "r.svg")));
  const auto& rows = result.at("batches");
  CHECK(rows[0].at("devices") == 1);
  CHECK(rows[1].at("devices") == 8);
  CHECK(rows[2].at("devices") == 16);
  CHECK(text_of(folder / "r.svg").find("</svg>") != std::string::npos);
  const auto large = answer("--plan dp=32,micro_batch=32 --reached 1600:500,6400:200 --batches 16,1024").at("batches");
  CHECK_THAT(large[0].at("refused").get<std::string>(), contains("dp"));
  CHECK(large[1].at("plan") == "dp=32,micro_batch=32");
}

TEST_CASE("a training's metrics say when it came to a loss or an accuracy, and with noise how that changes with the batch") {
  const TemporaryFolder folder;
  const auto noisy = curve(folder, "noisy.jsonl", true, true);
  // On held-out data 2 / (step + 1) is at most 0.05 first in step 40; the critical batch is 40 / 2.
  const auto result = answer("--plan dp=32 --to-loss 0.05 --batches 1024 --curves " + noisy);
  CHECK(result.at("curves")[0].at("steps") == 40);
  CHECK(result.at("curves")[0].at("batch") == 8);
  CHECK(result.at("critical_batch").get<double>() == Approx(20));
  CHECK(result.at("least_steps").get<double>() == Approx(40 / (1 + 20.0 / 8)));
  CHECK(answer("--plan dp=32 --to-accuracy 35% --batches 1024 --curves " + noisy).at("curves")[0].at("steps") == 70);
  // Without held-out data the mean of 20 steps counts: of steps 11 to 30, (H31 - H11) / 20, it is 0.0504, of 12 to 31 0.0478.
  const auto alone = curve(folder, "alone.jsonl", false, true);
  CHECK(answer("--plan dp=32 --to-loss 0.05 --batches 1024 --curves " + alone).at("curves")[0].at("steps") == 31);

  const auto quiet = curve(folder, "quiet.jsonl", false, false);
  check_failure(rehearse(asked("--to-loss 0.05 --curves " + quiet)), 1, {"quiet.jsonl", "one batch size", "--noise-scale"});
  check_failure(rehearse(asked("--to-loss 0.05 --batches 64..8 --curves " + noisy)), 1, {"--batches 64..8: ends below where it begins"});
  check_failure(rehearse(asked("--to-loss 0.001 --curves " + noisy)), 3, {"noisy.jsonl", "0.0198", "step 100", "0.001"});
  check_failure(rehearse(asked("--to-accuracy 0.9 --curves " + noisy)), 3, {"noisy.jsonl", "accuracy", "0.5"});
  check_failure(rehearse(asked("--to-accuracy 0.9 --curves " + quiet)), 1, {"quiet.jsonl", "--eval"});
}

TEST_CASE("trainings in which larger batches saved nothing are warned of") {
  const auto said = rehearse(asked("--plan dp=8 --reached 64:10000,128:12000 --batches 64"));
  CHECK(said.status == 0);
  CHECK_THAT(said.err, contains("larger batches took no fewer steps"));
}

TEST_CASE("no training ends at a loss above that before it") {
  // ln(1000) = 6.91
  const std::string job = "estimate 'zoo:gpt?layers=2&hidden=64&heads=2&seq=64&vocab=1000' --batch 256 --platform dgx-h100 --plan dp=8 ";
  check_failure(rehearse(job + "--to-loss 100"), 1, {"--to-loss 100", "1000 tokens", "6.91"});
  check_failure(rehearse(job + "--to-loss 6"), 3, {"take a larger model"});
}

TEST_CASE("a law says when a language model comes to a loss") {
  const auto result = result_of(rehearse(
      "estimate 'zoo:gpt?layers=12&hidden=768&heads=12&seq=1024&vocab=50257' --format json --batch 256 --dtype bf16 --optimizer adamw "
      "--platform dgx-h100 --plan dp=8 --to-loss 3.2 --batches 128,512"));
  // 2.1e8 / 3.2^(1 / 0.21) tokens, 1,024 a sample.
  CHECK(result.at("critical_batch").get<double>() == Approx(2.1e8 / std::pow(3.2, 1 / 0.21) / 1024));
  const auto& rows = result.at("batches");
  CHECK(rows[0].at("steps").get<double>() > rows[1].at("steps").get<double>());
  CHECK(rows[0].at("samples").get<double>() < rows[1].at("samples").get<double>());
  // That of Hestness knows no sizes, which nobody asks: 13 m^-0.066 is 3.2 after (13 / 3.2)^(1 / 0.066) words, 1,024 a sample.
  const auto by_tokens = result_of(
      rehearse("estimate zoo:gpt2 --format json --batch 256 --dtype bf16 --optimizer adamw --platform dgx-h100 --plan dp=8 --to-loss 3.2 "
               "--batches 128 --law hestness"));
  CHECK(by_tokens.at("least_samples").get<double>() == Approx(std::pow(13 / 3.2, 1 / 0.066) / 1024));
  CHECK_THAT(by_tokens.at("rests_on").get<std::string>(), contains("Billion Word"));
}

TEST_CASE("targets that cannot be are refused with what would be right") {
  check_failure(rehearse(asked("--to-loss 3")), 3, {"zoo:resnet50"});
  check_failure(rehearse(asked("--to-loss -1")), 1, {"--to-loss", "above 0"});
  check_failure(rehearse(asked("--to-accuracy 0.7")), 1, {"--to-accuracy 0.7", "--curves", "--reached"});
  check_failure(rehearse(asked("--to-accuracy 101%")), 1, {"101%", "at most 1"});
  check_failure(rehearse(asked("--to-accuracy good")), 1, {"good", "94%"});
  check_failure(rehearse(asked("--to-loss 1 --to-accuracy 0.7")), 1, {"exclude each other"});
  check_failure(rehearse(asked("--reached 512")), 1, {"--reached 512", "BATCH:STEPS"});
  check_failure(rehearse(asked("--reached 512:10,")), 1, {"BATCH:STEPS"});
  check_failure(rehearse(asked("--reached 512:10,512:12")), 1, {"one batch size"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --batches none")), 1, {"--batches none", "64..4096"});
  check_failure(rehearse(asked("--batches 64")), 1, {"--batches 64", "--to-loss"});
  check_failure(rehearse(asked("--devices-follow")), 1, {"--devices-follow", "--to-loss"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --devices 8 --devices-follow")), 1, {"--nodes", "--devices-follow"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --devices-follow")), 1, {"--devices-follow", "--devices and --batch"});
  const TemporaryFolder folder;
  const auto noisy = curve(folder, "noisy.jsonl", true, true);
  check_failure(rehearse(asked("--reached 512:10,1024:8 --curves " + noisy)), 1, {"noisy.jsonl", "--to-loss or --to-accuracy"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --law kaplan")), 1, {"--law kaplan", "--reached"});
  std::ofstream(folder / "short.jsonl") << R"({"step": 1, "loss": 1, "seconds": 0.5, "samples_per_second": 16})" << '\n';
  check_failure(rehearse(asked("--to-loss 2 --curves " + (folder / "short.jsonl"))), 1, {"short.jsonl", "fewer losses than the 20"});
  std::ofstream(folder / "empty.jsonl") << R"({"step": 1, "loss": 1, "seconds": 0, "samples_per_second": 0})" << '\n';
  check_failure(rehearse(asked("--to-loss 2 --curves " + (folder / "empty.jsonl"))), 1, {"empty.jsonl", "less than one sample"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --steps 10")), 1, {"--reached", "--steps"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --budget 3days")), 1, {"--budget", "exclude"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --vary batch=1")), 1, {"--vary", "--batches"});
  check_failure(rehearse(asked("--to-loss 1 --curves /nowhere/m.jsonl")), 1, {"/nowhere/m.jsonl"});
  check_failure(rehearse(asked("--reached 512:10,1024:8 --svg /nowhere/r.svg")), 1, {"/nowhere"});
  check_failure(rehearse("estimate zoo:gpt --batch 8 --platform dgx-a100 --to-loss 1"), 3, {"--to-loss 1", "larger model"});
}
