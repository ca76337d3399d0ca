// rehearse run --eval-every, --stop-after, --metrics: how one sees from outside what a training does.
#include <algorithm>
#include <cmath>

#include "tests/cli/rehearse.hpp"

namespace {

std::string run(const std::string& options) { return std::string("run ") + kGpt + " --batch 4 --dtype f64 --format json " + options; }

std::vector<std::string> lines_with(const std::string& text, const std::string& begin) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin)) found.push_back(line);
  return found;
}

std::vector<nlohmann::json> entries_in(const std::string& metrics) {
  std::vector<nlohmann::json> entries;
  for (const auto& line : lines_with(text_of(metrics), "{")) entries.push_back(nlohmann::json::parse(line));
  return entries;
}

/// A folder with token ids and what follows them: 12 samples.
struct Data {
  TemporaryFolder folder;
  std::string file = folder / "data.npz", metrics = folder / "m.jsonl";
  Data() {
    const auto made = run_shell(
        "/usr/bin/python3 -c \"import numpy as np; g = np.random.default_rng(1); x = g.integers(0, 11, (12, 5)); "
        "np.savez('" +
        file + "', input_ids=x[:, :-1], target=x[:, 1:])\"");
    REQUIRE(made.status == 0);
  }
};

}  // namespace

TEST_CASE("evaluations while training are those of the weights of their step, and change no loss") {
  const Data data;
  const auto [ranks, plan] =
      GENERATE(std::pair{0, ""}, std::pair{2, "--plan dp=2,zero=3 "}, std::pair{2, "--plan pp=2,micro_batch=1,schedule=pipedream-2bw "});
  const std::string options = std::string(plan) + "--optimizer adam --lr 0.01 --eval " + data.file;
  const auto ended = rehearse(run(options + " --steps 10 --eval-every 5 --metrics " + data.metrics), ranks);
  const auto whole = result_of(ended);
  const auto lines = lines_with(ended.err, "eval: step ");
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], contains("eval: step 5 of 10  loss ") && contains("accuracy"));
  std::vector<double> evaluated;
  for (const auto& entry : entries_in(data.metrics))
    if (entry.contains("eval_loss")) evaluated.push_back(entry.at("eval_loss"));
  REQUIRE(evaluated.size() == 2);
  const auto first = result_of(rehearse(run(options + " --steps 5"), ranks));
  CHECK(std::abs(first.at("evaluation").at("loss").get<double>() - evaluated[0]) < 1e-7);
  CHECK(std::abs(whole.at("evaluation").at("loss").get<double>() - evaluated[1]) < 1e-7);
  CHECK(whole.at("losses") == result_of(rehearse(run(options + " --steps 10"), ranks)).at("losses"));
}

TEST_CASE("a training that gains no more ends, and one that gains does not") {
  const Data data;
  const std::string options =
      "--data " + data.file + " --eval " + data.file + " --eval-every 2 --stop-after 3 --checkpoint " + (data.folder / "c");
  const auto still = rehearse(run(options + " --lr 0 --steps 1000"));
  CHECK(result_of(still).at("steps") == 8);  // the first evaluation, and three that are no lower
  CHECK_THAT(still.err, contains("stopped after step 8: 3 evaluations without gain; the lowest loss was") && contains("at step 2"));
  // What is counted goes on with the checkpoint.
  CHECK(result_of(rehearse(run(options + " --lr 0 --steps 1000 --resume " + (data.folder / "c")))).at("steps") == 2);
  CHECK(result_of(rehearse(run(options + " --optimizer adam --lr 0.001 --steps 20"))).at("steps") == 20);
}

TEST_CASE("held-out data without a target is no measure") {
  const Data data;
  REQUIRE(
      run_shell("/usr/bin/python3 -c \"import numpy as np; np.savez('" + (data.folder / "x.npz") + "', input_ids=np.zeros((4, 4), int))\"")
          .status == 0);
  check_failure(rehearse(run("--steps 4 --eval-every 2 --eval " + (data.folder / "x.npz"))), 1, {"--eval", "target"});
}

TEST_CASE("metrics say loss, time, rates and memory of every step") {
  const Data data;
  (void)result_of(rehearse(run("--steps 3 --metrics " + data.metrics)));
  const auto entries = entries_in(data.metrics);
  REQUIRE(entries.size() == 3);
  for (const auto& e : entries) {
    const double seconds = e.at("seconds");
    CHECK(std::abs(e.at("samples_per_second").get<double>() * seconds / 4 - 1) < 1e-4);
    CHECK(std::abs(e.at("tokens_per_second").get<double>() * seconds / 16 - 1) < 1e-4);  // 4 samples of 4 tokens
    CHECK(e.at("resident_bytes").get<double>() > 1e6);
  }
}

TEST_CASE("metrics as a table go on with the training, too") {
  const Data data;
  const std::string table = data.folder / "m.csv",
                    options = "--eval " + data.file + " --eval-every 2 --checkpoint " + (data.folder / "c") + " --metrics " + table;
  (void)result_of(rehearse(run(options + " --steps 4 --checkpoint-every 3 --keep 2")));
  (void)result_of(rehearse(run(options + " --steps 3 --resume " + (data.folder / "c/step-3"))));
  std::vector<std::string> lines;
  std::istringstream text(text_of(table));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 10);  // the names, six steps, and evaluations behind 2, 4 and 6
  CHECK(lines[0] ==
        "step,loss,seconds,samples_per_second,tokens_per_second,resident_bytes,data_bytes_per_second,data_seconds,energy_joules,eval_loss,"
        "eval_accuracy,gradient_square,gradient_variance,noise_scale,staleness");
  for (const auto& line : lines) CHECK(std::ranges::count(line, ',') == 14);
  CHECK(lines[3].starts_with("2,,,,,,,,"));
  CHECK(lines[9].starts_with("6,,,,,,,,"));
  CHECK(lines[5].starts_with("4,") == true);
}
