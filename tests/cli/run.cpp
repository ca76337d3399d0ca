// rehearse run: plans that cannot be started, and ranks that die.
#include <algorithm>
#include <cmath>
#include <csignal>

#include "tests/cli/rehearse.hpp"

TEST_CASE("a plan for other ranks than started") {
  const std::string command = std::string("run ") + kGpt + " --batch 6 --steps 1 --format json --plan dp=3";
  check_failure(rehearse(command), 1, {"is for 3 ranks", "1 was started", "mpirun -n 3"});
  check_failure(rehearse(command, 2), 1, {"is for 3 ranks", "2 were started"});
}

TEST_CASE("plans that the model cannot use") {
  const std::string resnet = std::string("run ") + kResnet + " --batch 4 --steps 1 --format json ";
  // Statistics of a whole batch need all micro-batches at once: the node is named.
  check_failure(rehearse(resnet + "--plan micro_batch=1"), 3, {"bn1", "micro-batch", "give bn=sync or bn=local"});
  check_failure(rehearse(resnet + "--plan micro_batch=9"), 3, {"micro_batch", "4"});
  check_failure(rehearse(resnet + "--plan offload=activations,compression=gist"), 3, {"compression", "offload=activations"});
  check_failure(rehearse(resnet + "--plan cp=2", 2), 3, {": cp: the model has no sequence", "(leave cp out, and use other axes)"});
  check_failure(rehearse(resnet + "--plan nonsense=2"), 1, {"nonsense"});
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 1 --steps 1 --format json --plan dp=2", 2), 3, {"dp", "batch of 1"});
}

TEST_CASE("everything that is wrong with a plan is said at once") {
  const std::string resnet = std::string("run ") + kResnet + " --batch 4 --steps 1 --format json ";
  check_failure(rehearse(resnet + "--plan dp=8,cp=2,offload=activations,compression=gist"), 3,
                {"4 faults", "compression", "8 replicas of a batch of 4", "cp: ", "ranks: is for 16 ranks, but 1 was started"});
  check_failure(rehearse(resnet + "--plan dp=2,cp=2,offload=activations,compression=gist"), 3,
                {"3 faults: compression: has nothing left", "cp: ", "use mpirun -n 4"});
  for (const auto* command : {"estimate ", "simulate "})
    check_failure(
        rehearse(command + std::string(kResnet) +
                 " --batch 4 --platform dgx-a100 --devices 8 --framework rehearse --plan dp=8,cp=2,offload=activations,compression=gist"),
        3, {"4 faults", "compression", "8 replicas of a batch of 4", "cp: ", "ranks: 16, but platform"});
  check_failure(rehearse("explain dp=8,cp=2,offload=activations,compression=gist --model " + std::string(kResnet) +
                         " --batch 4 --platform dgx-a100 --devices 8 --framework rehearse"),
                3, {"4 faults", "compression", "cp: ", "ranks: 16, but platform"});
  check_failure(rehearse("estimate " + std::string(kResnet) +
                         " --batch 4 --platform dgx-a100 --devices 8 --plan dp=8,cp=2,offload=activations,compression=gist"),
                3,
                {"4 faults", "8 replicas do not divide a batch of 4", "cp: ", "compression: gist is for Rehearsal's own execution",
                 "ranks: 16, but"});
}

TEST_CASE("a result that is denser than its sparse stash is never used, and every rank stops") {
  // A hundredth of a ReLU's results is not enough room in any step.
  const std::string resnet = std::string("run ") + kResnet + " --batch 4 --steps 2 --format json --plan dp=2";
  const std::string sparse = resnet + ",compression=gist-sparse:";
  check_failure(rehearse(sparse + "0.01", 2), 3,
                {"tensor '", "elements are not zero (rank ", "step 1", "keeps room for 1 %", "use compression=gist-sparse:"});
  CHECK(losses_of(rehearse(sparse + "1", 2)) == losses_of(rehearse(resnet, 2)));
  check_failure(rehearse(sparse + "1.5", 2), 1, {"compression", "at most 1"});
}

TEST_CASE("the plan that is quickest for the ranks started is found before the training") {
  const std::string resnet = std::string("run ") + kResnet + " --batch 4 --steps 2 --format json --plan ";
  const auto found = rehearse(resnet + "auto", 2);
  const auto plan = result_of(found)["plan"].get<std::string>();
  CHECK_THAT(found.err, contains("the quickest that was found for 2 ranks in ") && contains("on cores of an ordinary server"));
  CHECK(result_of(found)["ranks"] == 2);  // though one may be quicker than two that exchange gradients
  CHECK(losses_of(found) == losses_of(rehearse(resnet + "'" + plan + "'", 2)));
  CHECK(result_of(rehearse(resnet + "auto --dtype bf16", 2))["ranks"] == 2);  // though such servers have no units for it
  CHECK(result_of(rehearse(resnet + "auto", 7))["ranks"] == 7);               // which no power of two and no batch of 4 suggests
}

TEST_CASE("a stored plan runs on its own model only") {
  const TemporaryFolder folder;
  const auto file = folder / "plan.json";
  (void)result_of(rehearse(std::string("search ") + kGpt +
                           " --batch 4 --platform dgx-a100 --devices 2 --plan dp=2,pp=1,micro_batch=auto --format json -o " + file));
  const auto found = result_of(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 1 --format json --plan " + file, 2));
  CHECK(found.at("ranks") == 2);
  check_failure(
      rehearse(std::string("run 'zoo:gpt?layers=2&hidden=8&heads=2&seq=4&vocab=11' --batch 4 --steps 1 --format json --plan ") + file, 2),
      1, {"plan.json", "was made for"});
}

TEST_CASE("a rank killed in the middle ends the others, who name it") {
  const TemporaryFolder folder;
  // The last rank of a training without end is killed as soon as the first steps are done.
  const auto metrics = folder / "metrics.jsonl";
  const std::string killer = "( while [ ! -s " + metrics + " ]; do sleep 0.1; done; kill -9 $(cat " + (folder / "pid") + ") ) & ";
  const std::string rank = "sh -c 'if [ \"$OMPI_COMM_WORLD_RANK$PMIX_RANK\" = 00 ]; then :; else echo $$ > " + (folder / "pid") +
                           "; fi; exec \"" REHEARSAL_COMMAND "\" \"$@\"' rank run " + kGpt + " --batch 4 --steps 100000000 --metrics " +
                           metrics;
  const auto ended = run_shell(killer + "REHEARSAL_STALL_SECONDS=5 " REHEARSAL_MPIRUN " -n 2 " + rank);
  INFO(ended.err);
  CHECK(ended.status != 0);
  CHECK(ended.status != 124);  // the runner's own limit
  CHECK(ended.seconds < 60);   // a second on a machine that does nothing else
  CHECK_THAT(ended.err, contains("rank 1"));
}

TEST_CASE("metrics begin again with a training, and go on with one that is resumed") {
  const TemporaryFolder folder;
  const std::string metrics = folder / "m.jsonl", checkpoint = folder / "c";
  const std::string run = std::string("run ") + kGpt + " --batch 4 --steps 2 --format json --metrics " + metrics;
  const auto lines = [&] {
    const auto text = text_of(metrics);
    return std::count(text.begin(), text.end(), '\n');
  };
  static_cast<void>(result_of(rehearse(run)));
  static_cast<void>(result_of(rehearse(run + " --checkpoint " + checkpoint)));
  CHECK(lines() == 2);
  static_cast<void>(result_of(rehearse(run + " --resume " + checkpoint)));
  CHECK(lines() == 4);
}

TEST_CASE("what ranks have not sent of their gradients goes on with the training, as if it had not ended") {
  const std::string model = "'zoo:vit?image=16&patch=8&layers=1&hidden=32&heads=2&classes=5'";
  for (const auto& [how, optimizer] : std::vector<std::pair<std::string, std::string>>{{"topk:0.01", "sgd"},
                                                                                       {"none,local_steps=2,outer=nesterov", "adam"},
                                                                                       {"sparcml:0.02", "sgd"},
                                                                                       {"powersgd:1", "sgd"},
                                                                                       {"1bit-adam,exact_steps=2", "adam"}}) {
    INFO(how);
    const TemporaryFolder folder;
    const auto run = [&](const std::string& more, int ranks = 2) {
      return rehearse("run " + model + " --batch 8 --format json --optimizer " + optimizer + " --plan dp=" + std::to_string(ranks) +
                          ",compression=" + how + " " + more,
                      ranks);
    };
    const auto whole = result_of(run("--steps 6")).at("losses");
    (void)result_of(run("--steps 4 --checkpoint " + (folder / "c")));
    const auto rest = result_of(run("--steps 2 --resume " + (folder / "c"))).at("losses");
    CHECK(rest[0] == whole[4]);
    CHECK(rest[1] == whole[5]);
    const auto other = run("--steps 1 --resume " + (folder / "c"), 4);
    CHECK(other.status == 0);
    CHECK_THAT(other.err, contains(how.find("local") == std::string::npos ? "what ranks had not sent of their gradients is not in it"
                                                                          : "what each replica keeps for itself is not in it"));
    CHECK(std::abs(result_of(other).at("losses")[0].get<double>() - whole[4].get<double>()) < 1e-4);
  }
}

TEST_CASE("replicas of several ranks go on with what each of these keeps") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& more) {
    return rehearse(
        "run 'zoo:vit?image=16&patch=8&layers=1&hidden=32&heads=2&classes=5' --batch 8 --format json --optimizer adam --plan "
        "dp=2,tp=2,local_steps=2,outer=nesterov " +
            more,
        4);
  };
  const auto whole = result_of(run("--steps 6")).at("losses");
  (void)result_of(run("--steps 4 --checkpoint " + (folder / "c")));
  const auto rest = run("--steps 2 --resume " + (folder / "c"));
  CHECK_THAT(rest.err, !contains("is not in it"));
  const auto losses = result_of(rest).at("losses");
  CHECK(losses[0] == whole[4]);
  CHECK(losses[1] == whole[5]);
}

TEST_CASE("what ranks kept for themselves is not lost without a word where a plan has no use for it") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& plan, const std::string& more) {
    const int ranks = plan.starts_with("dp=1") ? 0 : 2;
    return rehearse(std::string("run ") + kGpt + " --batch 4 --optimizer adam --format json --plan " + plan + " " + more, ranks);
  };
  const std::string state = "each replica had an optimizer's state of its own", momentum = "the outer momentum that it holds is left out",
                    not_sent = "what ranks had not sent of their gradients is left out";
  struct Change {
    std::string before;
    std::vector<std::pair<std::string, std::vector<std::string>>> after;  ///< plans, and what is said
  };
  const std::string apart = "dp=2,local_steps=2", outer = apart + ",outer=nesterov", top = "dp=2,compression=topk:0.1";
  for (const auto& [before, after] : {Change{apart, {{apart, {}}, {"dp=1", {state}}, {"dp=2", {state}}}},
                                      Change{outer, {{outer, {}}, {apart, {momentum}}, {"dp=2", {state, momentum}}}},
                                      Change{top, {{top, {}}, {"dp=1", {not_sent}}, {"dp=2", {not_sent}}}}}) {
    const auto place = folder / before;
    (void)result_of(run(before, "--steps 4 --checkpoint " + place));
    for (const auto& [plan, said] : after) {
      INFO(before << ", then " << plan);
      const auto ended = run(plan, "--steps 1 --resume " + place);
      CHECK(ended.status == 0);
      for (const auto& text : {state, momentum, not_sent})
        CHECK((ended.err.find(text) != std::string::npos) == (std::ranges::find(said, text) != said.end()));
      if (!said.empty()) CHECK_THAT(ended.err, contains(" under " + plan));
    }
  }
}

TEST_CASE("nothing is said to be lost of a checkpoint whose replicas were not apart yet") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& plan, const std::string& more) {
    return rehearse(std::string("run ") + kGpt + " --batch 4 --dtype f64 --optimizer adam --format json --plan " + plan + " " + more, 2);
  };
  const std::string apart = "dp=2,local_steps=2,outer=nesterov,exact_steps=";
  const auto place = [&](const std::string& name) { return " --checkpoint " + (folder / name); };
  (void)result_of(run(apart + "4", "--steps 3" + place("together")));
  (void)result_of(run(apart + "4", "--steps 6" + place("apart")));
  const auto rest = run("dp=2", "--steps 1 --resume " + (folder / "together"));
  CHECK_THAT(rest.err, !contains("state of its own") && !contains("outer momentum"));
  CHECK(losses_of(rest).at(0) == Approx(losses_of(run("dp=2", "--steps 4")).at(3)).epsilon(1e-12));
  CHECK_THAT(run("dp=2", "--steps 1 --resume " + (folder / "apart")).err, contains("state of its own") && contains("outer momentum"));
  // Once apart, steps that sum gradients do not bring the state together again.
  (void)result_of(run(apart + "100", "--steps 1 --resume " + (folder / "apart") + place("later")));
  CHECK_THAT(run("dp=2", "--steps 1 --resume " + (folder / "later")).err, contains("state of its own"));
}

TEST_CASE("a momentum that begins where replicas train by themselves is said once") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& more) {
    return rehearse(std::string("run ") + kGpt + " --batch 4 --lr 0.1 --format json --plan dp=2,local_steps=2 --steps 2 " + more, 2);
  };
  (void)result_of(run("--checkpoint " + (folder / "c")));
  const auto begun = run("--momentum 0.9 --resume " + (folder / "c"));
  CHECK(begun.status == 0);
  CHECK_THAT(begun.err, contains("its optimizer kept no momentum_buffer, which begins at 0") && !contains("is not in it"));
}

TEST_CASE("a second moment that has settled later than a plan says is refused") {
  const TemporaryFolder folder;
  const std::string run = "run 'zoo:vit?image=16&patch=8&layers=1&hidden=32&heads=2&classes=5' --batch 8 --optimizer adam --plan dp=2";
  REQUIRE(rehearse(run + " --steps 4 --checkpoint " + (folder / "c"), 2).status == 0);
  check_failure(rehearse(run + ",compression=1bit-adam,exact_steps=2 --resume " + (folder / "c"), 2), 3,
                {"second moment", "of 4", "use exact_steps=4"});
  // What replicas keep of their own is nothing that a compressor left.
  REQUIRE(rehearse(run + ",local_steps=2 --steps 4 --checkpoint " + (folder / "apart"), 2).status == 0);
  check_failure(rehearse(run + ",compression=1bit-adam,exact_steps=2 --resume " + (folder / "apart"), 2), 3,
                {"second moment", "use exact_steps=4"});
  CHECK(rehearse(run + ",compression=1bit-adam,exact_steps=4 --resume " + (folder / "c"), 2).status == 0);
}

namespace {

/// Lines such as "step: 120 of 5000  loss 4.1231  812 samples/s  ETA 0:01:20".
std::vector<std::string> progress_lines(const std::string& err) {
  std::vector<std::string> found;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("step: ")) found.push_back(line);
  return found;
}

}  // namespace

TEST_CASE("progress is a line a second at most where output is kept, and the last step's") {
  const int ranks = GENERATE(0, 2);
  const auto ended = rehearse(std::string("run ") + kGpt + " --batch 4 --steps 300 --format json", ranks);
  const auto lines = progress_lines(ended.err);
  INFO(ended.err);
  REQUIRE(!lines.empty());
  CHECK(static_cast<double>(lines.size()) <= ended.seconds + 1);
  CHECK_THAT(lines.back(), contains("step: 300 of 300  loss ") && contains(" samples/s") && !contains("ETA"));
  CHECK_THAT(ended.err, !contains("\r"));
}

TEST_CASE("--log-every says how far it is behind every so many steps") {
  const TemporaryFolder folder;
  const auto ended =
      rehearse(std::string("run ") + kGpt + " --batch 4 --steps 50 --log-every 20 --format json --metrics " + (folder / "m.jsonl"), 2);
  const auto lines = progress_lines(ended.err);
  REQUIRE(lines.size() == 2);
  std::vector<double> losses;
  std::istringstream metrics(text_of(folder / "m.jsonl"));
  for (std::string line; std::getline(metrics, line);) losses.push_back(nlohmann::json::parse(line).at("loss"));
  for (const std::size_t n : {0U, 1U}) {
    const auto step = 20 * (n + 1);
    CHECK_THAT(lines[n], contains("step: " + std::to_string(step) + " of 50  loss ") && contains("ETA 0:00:0"));
    CHECK(std::abs(std::stod(lines[n].substr(lines[n].find("loss ") + 5)) - losses[step - 1]) < 1e-4);
  }
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 4 --log-every -1"), 1, {"--log-every"});
}

TEST_CASE("the result has at most 1,002 losses of a long training, the first and the last among them") {
  const TemporaryFolder folder;
  const auto result = result_of(
      rehearse(std::string("run ") + kGpt + " --batch 2 --steps 2500 --dtype f64 --format json --metrics " + (folder / "m.jsonl")));
  CHECK(result.at("steps") == 2500);
  REQUIRE(result.at("losses").size() == 1002);
  REQUIRE(result.at("losses_steps").size() == 1002);
  std::map<int, double> losses;
  std::istringstream metrics(text_of(folder / "m.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const auto entry = nlohmann::json::parse(line);
    losses[entry.at("step")] = entry.at("loss");
  }
  CHECK(losses.size() == 2500);
  for (std::size_t n = 0; n < 1002; ++n) CHECK(result["losses"][n] == losses.at(result["losses_steps"][n]));
  CHECK(result["losses_steps"].front() == 1);
  CHECK(result["losses_steps"].back() == 2500);
  const auto text = rehearse(std::string("run ") + kGpt + " --batch 2 --steps 40 --dtype f64").out;
  CHECK_THAT(text, contains("losses steps        1, 4, 8, 11, 15, 18, 22, 25, 29, 32, 36, 40\n"));  // 1 + [39 n / 11]
}

TEST_CASE("what was done behind a checkpoint and lost is taken out of the metrics when training goes on") {
  const TemporaryFolder folder;
  const std::string run = std::string("run ") + kGpt + " --batch 4 --format json --metrics " + (folder / "m.jsonl");
  (void)result_of(rehearse(run + " --steps 3 --checkpoint " + (folder / "c")));
  // Two steps more, and half a line, before the machine failed.
  std::ofstream(folder / "m.jsonl", std::ios::app) << "{\"step\": 4, \"loss\": 9}\n{\"step\": 5, \"loss\": 9}\n{\"step\": 6, \"lo";
  (void)result_of(rehearse(run + " --steps 1 --resume " + (folder / "c")));
  std::vector<int> steps;
  std::istringstream metrics(text_of(folder / "m.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    const auto entry = nlohmann::json::parse(line);
    steps.push_back(entry.at("step"));
    CHECK(entry.at("loss") != 9);
  }
  CHECK(steps == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("metrics have a line a step and the result's losses") {
  const TemporaryFolder folder;
  const auto ended =
      rehearse(std::string("run ") + kGpt + " --batch 4 --steps 3 --dtype f64 --format json --metrics " + (folder / "m.jsonl"));
  const auto losses = losses_of(ended);
  std::istringstream lines(text_of(folder / "m.jsonl"));
  std::vector<double> found;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    found.push_back(entry.at("loss"));
    CHECK(entry.at("step") == found.size());
    CHECK(entry.at("seconds") > 0);
  }
  CHECK(found == losses);
  const auto memory = result_of(ended).at("memory_bytes");
  CHECK(memory.at("predicted") == memory.at("allocated"));
  CHECK(memory.at("resident") > 0);
}

TEST_CASE("the memory of a run is that of the rank that needs most, which estimate says") {
  const std::string job = "\"zoo:resnet18?image=64\" --batch 8 --plan pp=2,micro_batch=4,bn=local --format json ";
  const auto memory = result_of(rehearse("run --steps 1 " + job, 2, "OMP_NUM_THREADS=1 ")).at("memory_bytes");
  const auto& ranks = memory.at("per_rank");
  CHECK(memory.at("predicted") == std::max(ranks[0].at("predicted_bytes"), ranks[1].at("predicted_bytes")));
  CHECK(ranks[0].at("predicted_bytes") < ranks[1].at("predicted_bytes"));
  // On two devices with a core each: workspaces are of every thread.
  const TemporaryFolder folder;
  auto platform = nlohmann::json::parse(rehearse("platform show xeon-2s-10gbe").out);
  platform.at("nodes")[0].at("devices") = platform.at("nodes")[0]["host_cores"] = 2;
  write_text(folder / "two.json", platform.dump());
  const auto estimated = result_of(rehearse("estimate --devices 2 --framework rehearse --platform " + (folder / "two.json") + " " + job));
  CHECK(estimated.at("memory_bytes").at("value") == memory.at("predicted"));
}

TEST_CASE("what a processor offloads stays in its memory") {
  for (const std::string offload : {"activations", "optimizer"}) {
    INFO(offload);
    const auto job = std::string(kGpt) + " --batch 4 --optimizer adamw --format json --plan dp=1,offload=" + offload + " ";
    const auto estimated = result_of(rehearse("estimate --platform xeon-2s-10gbe --devices 1 --framework rehearse " + job));
    const auto& memory = estimated.at("memory_bytes");
    CHECK(memory.at("on_host") > 0);
    CHECK(memory.at("value") == result_of(rehearse("run --steps 1 " + job)).at("memory_bytes").at("allocated"));
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : memory.at("by_category").items()) sum += bytes.get<std::int64_t>();
    CHECK(sum == memory.at("value"));
  }
}

/// The address sanitizer's shadow of the memory is resident too.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kShadowed = true;
#else
constexpr bool kShadowed = false;
#endif

TEST_CASE("what is resident is what was predicted, but for 38 MB or 5 %") {
  // A ring, sums that arrive from several ranks at a time, ones that are sharded, many kernels, samples of which each rank wants a part.
  const std::string embedding = "\"zoo:gpt?layers=1&hidden=128&heads=4&seq=16&vocab=50000\" --batch 4 --plan ";
  struct Row {
    std::string arguments;
    int ranks;
  };
  const std::vector<Row> rows{{std::string(kGpt) + " --batch 4", 1},
                              {std::string(kGpt) + " --batch 4", 2},
                              {embedding + "dp=4,allreduce=packed-trees", 4},
                              {embedding + "dp=3,allreduce=recursive-doubling", 3},
                              {embedding + "dp=2,allreduce=one-sided-ring", 2},
                              {embedding + "dp=2,zero=3 --optimizer adam", 2},
                              {"\"zoo:resnet34?image=64\" --batch 2 --plan dp=2", 2},
                              {"\"zoo:shufflenet_v2?image=64\" --batch 4 --plan dp=2", 2},
                              {"\"zoo:unet2d?image=64&channels=16\" --batch 2 --plan spatial=2", 2}};
  for (const auto& row : rows) {
    INFO(row.arguments);
    const auto memory = result_of(rehearse("run " + row.arguments + " --steps 3 --format json", row.ranks)).at("memory_bytes");
    REQUIRE(memory.at("per_rank").size() == static_cast<std::size_t>(row.ranks));
    for (const auto& rank : memory.at("per_rank")) {
      const double predicted = rank.at("predicted_bytes"), resident = rank.at("resident_bytes");
      CHECK(rank.at("allocated_bytes") == predicted);
      CHECK(resident > 0);
      CHECK((kShadowed || std::abs(resident - predicted) <= std::max(38e6, 0.05 * predicted)));
    }
  }
}

TEST_CASE("one process trains without a folder for messages, which several programs at a time would share") {
  const auto ended = rehearse("run " + std::string(kGpt) + " --batch 4 --steps 2 --format json", 0, "OMPI_MCA_orte_tmpdir_base=/dev/null/none ");
  CHECK(losses_of(ended).size() == 2);
}
