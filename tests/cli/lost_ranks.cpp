// rehearse run under mpirun, when one of its processes dies or stands still: the job ends soon, names it and what it was at, and leaves a
// record of what every rank did last.
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

/// A training without end of two ranks, the second of which gets a signal once metrics have some lines.
struct Lost {
  TemporaryFolder folder;
  std::string plan = "dp=2", before, every = "5";

  [[nodiscard]] std::string saved() const { return folder / "saved"; }
  [[nodiscard]] Ended end(const std::string& signal) const {
    const auto metrics = folder / "m.jsonl", pid = folder / "pid.", over = folder / "over";
    const std::string rank =
        "sh -c 'echo $$ > " + pid + "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK}}; exec \"" REHEARSAL_COMMAND "\" \"$@\"' rank ";
    const std::string killer = "( while [ \"$(wc -l < " + metrics + ")\" -lt 4 ]; do sleep 0.05; done; date +%s.%N > " + (folder / "told") +
                               "; kill -" + signal + " $(cat " + pid + "1) ) & ";
    auto ended = run_shell("touch " + metrics + "; " + killer + before + REHEARSAL_MPIRUN " -n 2 " + rank + "run " + kGpt +
                           " --batch 4 --plan " + plan + " --steps 100000000 --checkpoint-every " + every + " --checkpoint " + saved() +
                           " --metrics " + metrics + "; echo $? > " + over + "; date +%s.%N >> " + over);
    INFO(ended.err);
    INFO("The job had " << (std::filesystem::exists(folder / "told") ? "" : "not ") << "made four steps and got the signal.");
    REQUIRE(std::filesystem::exists(over));  // else the job was still there when the time of run_shell was over
    std::istringstream lines(text_of(over));
    double now = 0;
    REQUIRE(lines >> ended.status >> now);
    ended.seconds = now - std::stod(text_of(folder / "told"));
    return ended;
  }
  [[nodiscard]] std::vector<nlohmann::json> record() const {
    std::vector<nlohmann::json> ranks;
    std::istringstream lines(text_of(saved() + ".last-instructions.jsonl"));
    for (std::string line; std::getline(lines, line);) ranks.push_back(nlohmann::json::parse(line));
    return ranks;
  }
};

}  // namespace

TEST_CASE("a rank that dies ends the job at once, named with what it was at") {
  Lost job;
  job.plan = GENERATE("dp=2", "tp=2", "pp=2,micro_batch=1", "pp=2,micro_batch=1,schedule=pipedream-2bw");
  const auto ended = job.end("KILL");
  INFO(ended.err);
  CHECK(ended.status != 0);
  CHECK(ended.seconds < 10);
  CHECK_THAT(ended.err, contains("a rank was lost: rank 1 (process ") && contains("which has ended) was at: ") && contains("step "));
  CHECK_THAT(ended.err, contains("What every rank did last stands in " + job.saved() + ".last-instructions.jsonl"));
  const auto ranks = job.record();
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].at("state") == "running");
  CHECK(ranks[1].at("state") == "ended");
  for (const auto& rank : ranks) {
    const auto& last = rank.at("last");
    REQUIRE(last.size() > 10);
    CHECK(last.back().at("what") == rank.at("at"));
    CHECK(last.front().at("seconds_ago").get<double>() >= last.back().at("seconds_ago").get<double>());
  }
}

TEST_CASE("a rank that stands still ends the job after one timeout, which follows from the steps") {
  Lost job;
  const auto [given, every] = GENERATE(table<bool, std::string>({{true, "5"}, {true, "1"}, {false, "1"}}));
  job.every = every;  // with 1 the ranks are at checkpoints most of the time
  if (given) job.before = "REHEARSAL_STALL_SECONDS=3 ";
  const auto ended = job.end("STOP");
  INFO(ended.err);
  CHECK(ended.status == 4);
  // A step of this model takes milliseconds, a second on the busiest of machines: 20 s and 20 steps are no more than 40 s.
  CHECK(ended.seconds > (given ? 2.5 : 15));
  CHECK(ended.seconds < (given ? 20 : 50));
  CHECK_THAT(ended.err, contains("rehearse: error: rank 0 has waited ") && contains(" s for ") &&
                            contains("without progress; rank 1 (process ") && contains("which a signal has stopped) was at: "));
  CHECK_THAT(ended.err, !contains("rank 1: "));
  const auto ranks = job.record();
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[1].at("state") == "stopped");
}

TEST_CASE("a rank that is stopped before it has reached MPI ends the job, and is named") {
  const TemporaryFolder folder;
  const std::string stopped =
      "sh -c '[ \"${OMPI_COMM_WORLD_RANK:-${PMIX_RANK}}\" = 1 ] && kill -STOP $$; exec \"" REHEARSAL_COMMAND "\" \"$@\"' rank ";
  const auto job = run_shell("REHEARSAL_STALL_SECONDS=1 " REHEARSAL_MPIRUN " -n 2 " + stopped + "run " + kGpt +
                             " --batch 4 --plan dp=2 --steps 2; echo $? > " + (folder / "status"));
  INFO(job.err);
  REQUIRE(std::filesystem::exists(folder / "status"));  // else the job was still there when the time of run_shell was over
  CHECK(text_of(folder / "status") == "4\n");
  CHECK_THAT(job.err, contains("MPI has not started within 20.2 s: rank 1 (process ") && contains(") is stopped"));  // 20 + 2 x 0.1
}
