// rehearse run --checkpoint-every, --keep, --keep-best: which checkpoints a folder holds, who may write to it, and what interruptions cost.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/cli/rehearse.hpp"

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

std::string run(const std::string& options) {
  return std::string("run ") + kGpt + " --batch 4 --optimizer adam --lr 0.01 --dtype f64 --format json " + options;
}

Names names_in(const std::string& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::int64_t next_step(const std::string& checkpoint) {
  return result_of(rehearse(run("--steps 1 --resume " + checkpoint))).at("first_step").get<std::int64_t>();
}

/// The last entry of the metrics that is an evaluation's, for each step.
std::map<int, double> evaluations_in(const std::string& metrics) {
  std::map<int, double> found;
  std::istringstream lines(text_of(metrics));
  for (std::string line; std::getline(lines, line);)
    if (const auto entry = nlohmann::json::parse(line); entry.contains("eval_loss")) found[entry.at("step")] = entry.at("eval_loss");
  return found;
}

/// Token ids and what follows them, as an .npz file.
std::string write_data(const TemporaryFolder& folder) {
  const auto file = folder / "data.npz";
  const auto made =
      run_shell("/usr/bin/python3 -c \"import numpy as np; g = np.random.default_rng(1); x = g.integers(0, 11, (12, 5)); np.savez('" +
                file + "', input_ids=x[:, :-1], target=x[:, 1:])\"");
  REQUIRE(made.status == 0);
  return file;
}

}  // namespace

TEST_CASE("the last checkpoints stay, each of them whole") {
  const TemporaryFolder folder;
  const auto place = folder / "c";
  const auto [ranks, plan] = GENERATE(std::pair{0, ""}, std::pair{2, "--plan dp=2,zero=3 "});
  (void)result_of(rehearse(run(std::string(plan) + "--steps 9 --checkpoint-every 2 --keep 3 --checkpoint " + place), ranks));
  CHECK(names_in(place) == Names{"step-6", "step-8", "step-9"});
  CHECK(names_in(folder / "") == Names{"c"});
  CHECK(next_step(place + "/step-6") == 7);
  CHECK(next_step(place) == 10);
}

TEST_CASE("without --keep the last one stays alone, and a slash at the end means nothing") {
  const TemporaryFolder folder;
  (void)result_of(rehearse(run("--steps 6 --checkpoint-every 2 --checkpoint " + (folder / "c/"))));
  CHECK(names_in(folder / "c") == Names{"step-6"});
}

TEST_CASE("the newest is what was written last, whatever its step") {
  const TemporaryFolder folder;
  const auto place = folder / "c";
  (void)result_of(rehearse(run("--steps 6 --checkpoint-every 2 --keep 9 --checkpoint " + place)));
  // From step 2 again: steps 4 and 6 of the training before are no longer what goes on.
  (void)result_of(rehearse(run("--steps 2 --keep 9 --resume " + place + "/step-2 --checkpoint " + place)));
  CHECK(names_in(place) == Names{"step-2", "step-4", "step-6", "step-4.2"});
  CHECK(next_step(place) == 5);
}

TEST_CASE("a training that begins anew removes no checkpoint of another one") {
  const TemporaryFolder folder;
  const auto place = folder / "c";
  (void)result_of(rehearse(run("--steps 4 --checkpoint-every 2 --keep 2 --checkpoint " + place)));
  const auto other = rehearse(run("--steps 3 --checkpoint-every 1 --checkpoint " + place));
  (void)result_of(other);
  for (const auto* word : {"warning", "step-2 and 1 more", "another training", "--continue"}) CHECK_THAT(other.err, contains(word));
  CHECK(names_in(place) == Names{"step-2", "step-4", "step-3"});
  CHECK(next_step(place + "/step-2") == 3);
  CHECK(next_step(place) == 4);  // what was written last
  SECTION("what goes on with one of them leaves those of the other") {
    const auto [from, kept] =
        GENERATE(std::pair{"", Names{"step-2", "step-4", "step-4.2"}}, std::pair{"/step-4/", Names{"step-3", "step-5"}});
    const auto ended = rehearse(run("--steps 1 --resume " + place + from + " --checkpoint " + place + "/"));
    (void)result_of(ended);
    CHECK(names_in(place) == kept);
    CHECK_THAT(ended.err, !contains("another training"));
  }
  SECTION("only those of the same training count") {
    (void)result_of(rehearse(run("--steps 2 --checkpoint-every 1 --keep 3 --resume " + place + "/step-4 --checkpoint " + place)));
    CHECK(names_in(place) == Names{"step-3", "step-4", "step-5", "step-6"});
    (void)result_of(rehearse(run("--steps 7 --keep 2 --continue --checkpoint " + place)));
    CHECK(names_in(place) == Names{"step-3", "step-6", "step-7"});
  }
  SECTION("one that goes on with a checkpoint of elsewhere removes none here") {
    (void)result_of(rehearse(run("--steps 2 --checkpoint " + (folder / "d"))));
    (void)result_of(rehearse(run("--steps 3 --resume " + (folder / "d") + " --checkpoint " + place)));
    CHECK(names_in(place) == Names{"step-2", "step-4", "step-3", "step-5"});
  }
}

TEST_CASE("what a crash left is never resumed, and is removed by the next training") {
  const TemporaryFolder folder;
  const auto place = folder / "c";
  (void)result_of(rehearse(run("--steps 2 --checkpoint " + place)));
  fs::copy(place + "/step-2", place + "/step-9.unfinished");
  fs::create_directory(place + "/step-7");  // a folder of that name that is no checkpoint
  write_text(place + "/lock", "process 1 on elsewhere\n");
  CHECK(next_step(place) == 3);
  (void)result_of(rehearse(run("--steps 1 --resume " + place + " --checkpoint " + place)));
  CHECK(names_in(place) == Names{"step-3", "step-7"});
}

TEST_CASE("checkpoints by the clock") {
  const TemporaryFolder folder;
  (void)result_of(rehearse(run("--steps 3 --checkpoint-every 10min --checkpoint " + (folder / "c"))));
  CHECK(names_in(folder / "c") == Names{"step-3"});
  // Far more than 0.05 s of steps: there are checkpoints before the last.
  (void)result_of(rehearse(run("--steps 2000 --checkpoint-every 0.05s --keep 100 --plan dp=2 --checkpoint " + (folder / "d")), 2));
  CHECK(names_in(folder / "d").size() > 2);
  for (const std::string wrong : {"soon", "-5", "2.5", "0min", "10parsecs"})
    check_failure(rehearse(run("--checkpoint-every " + wrong + " --checkpoint " + (folder / "e"))), 1,
                  {"--checkpoint-every " + wrong, "10min"});
}

TEST_CASE("options of checkpoints that mean nothing are refused") {
  check_failure(rehearse(run("--keep 2")), 1, {"--keep", "needs --checkpoint"});
  check_failure(rehearse(run("--keep 0 --checkpoint nowhere")), 1, {"--keep 0", "at least 1"});
  check_failure(rehearse(run("--keep-best --checkpoint nowhere")), 1, {"--keep-best", "--eval-every"});
  check_failure(rehearse(run("--eval-every 2")), 1, {"--eval-every", "--eval"});
  for (const char* when : {"", " --eval-every 2"})
    check_failure(rehearse(run(std::string("--eval synthetic") + when)), 1, {"--eval synthetic", "name files"});
  check_failure(rehearse(run("--stop-after 2")), 1, {"--stop-after", "--eval-every"});
  for (const std::string option : {"--log-every", "--eval-every", "--stop-after"})
    check_failure(rehearse(run(option + " -1")), 1, {option + " -1", "must be 0 or more"});
  CHECK(!fs::exists("nowhere"));
}

TEST_CASE("the best stays beside the last, and is the one with the lowest loss") {
  const TemporaryFolder folder;
  const auto data = write_data(folder), place = folder / "c", metrics = folder / "m.jsonl";
  // Learned by heart: the loss on the other samples falls at first, then rises.
  const std::string options = std::string("run ") + kGpt +
                              " --batch 4 --optimizer adam --lr 0.05 --dtype f64 --format json --data synthetic --eval " + data +
                              " --eval-every 2 --keep-best --checkpoint " + place + " --metrics " + metrics;
  const auto [ranks, plan] = GENERATE(std::pair{0, ""}, std::pair{2, " --plan pp=2,micro_batch=1"});
  (void)result_of(rehearse(options + plan + " --steps 30", ranks));
  const auto losses = evaluations_in(metrics);
  REQUIRE(losses.size() == 15);
  const auto lowest = std::ranges::min_element(losses, {}, [](const auto& entry) { return entry.second; });
  REQUIRE(lowest->first < 30);
  const auto best = "step-" + std::to_string(lowest->first);
  CHECK(fs::read_symlink(place + "/best") == best);
  CHECK(names_in(place) == Names{"best", best, "step-30"});
  const auto evaluated = result_of(rehearse(std::string("evaluate ") + kGpt + " --batch 4 --dtype f64 --format json --data " + data +
                                            " --checkpoint " + place + "/best"));
  CHECK(std::abs(evaluated.at("loss").get<double>() - lowest->second) < 1e-7);
  // A training that goes on knows what it has to be better than.
  (void)result_of(rehearse(options + plan + " --steps 2 --resume " + place, ranks));
  CHECK(fs::read_symlink(place + "/best") == best);
}

TEST_CASE("two trainings with one folder: the second is refused, the first goes on") {
  const TemporaryFolder folder;
  const auto place = folder / "c", metrics = folder / "m.jsonl";
  const bool saved_before = GENERATE(false, true);
  if (saved_before) (void)result_of(rehearse(run("--steps 1 --checkpoint " + place)));
  const auto ended = run_shell(
      "touch " + metrics + "; \"" REHEARSAL_COMMAND "\" " + run("--steps 100000000 --checkpoint " + place + " --metrics " + metrics) +
      " > /dev/null 2>&1 & job=$!; while [ ! -s " + metrics + " ]; do sleep 0.05; done; \"" REHEARSAL_COMMAND "\" " +
      run("--steps 1 --checkpoint " + place) + "; echo second $?; kill $job; wait $job; echo first $?");
  INFO(ended.err);
  CHECK_THAT(ended.out, contains("second 1"));
  CHECK_THAT(ended.out, contains("first 75"));
  CHECK_THAT(ended.err, contains("writes to it; give this training a folder of its own") && contains("process "));
  CHECK(names_in(place).size() == (saved_before ? 2 : 1));  // what was there is another training's
}

TEST_CASE("a folder that another user owns is refused before training") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "c");
  fs::permissions(folder / "", fs::perms::all);
  fs::permissions(folder / "c", fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const std::string somebody = ::geteuid() == 0 ? "setpriv --reuid 65534 --clear-groups " : "";
  const auto place = GENERATE("c", "c/deeper");
  const auto ended = run_shell(somebody + "\"" REHEARSAL_COMMAND "\" " + run("--steps 1 --checkpoint " + (folder / place)));
  if (ended.status == 126 || ended.status == 127) return;  // another user may not start the program
  check_failure(ended, 4, {folder / place, "Permission denied"});
}

TEST_CASE("a checkpoint that cannot be written ends the training, and the one before stays") {
  const TemporaryFolder folder;
  const auto place = folder / "c";
  (void)result_of(rehearse(run("--steps 2 --checkpoint " + place)));
  // No file may grow beyond 2 kB, and the signal that says so is ignored: writing fails as on a full disk.
  const auto ended = rehearse(run("--steps 100000000 --checkpoint-every 3 --resume " + place + " --checkpoint " + place), 0,
                              "trap '' XFSZ; ulimit -f 4; ");
  check_failure(ended, 4, {place, "stage-0.bin"});
  CHECK(next_step(place) == 3);
}

TEST_CASE("a training that is interrupted again and again has the losses of one that was not") {
  const auto options = GENERATE("--ranks 1", "--ranks 2 --plan dp=2,zero=1", "--ranks 2 --plan pp=2,micro_batch=2,schedule=pipedream-2bw");
  const auto ended =
      run_shell(std::string("python3 scripts/interruptions --times 3 --steps 90 --program \"" REHEARSAL_COMMAND "\" ") + options);
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, contains("every loss is that of a training that nobody disturbed"));
}
