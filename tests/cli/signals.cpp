// rehearse run, told to stop: the step ends, a checkpoint is written, one line says so, the status is 75, and --resume goes on as if
// nothing had been.
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

namespace fs = std::filesystem;

std::string run(const std::string& options) {
  return std::string("run ") + kGpt + " --batch 4 --optimizer adam --lr 0.01 --dtype f64 --format json " + options;
}

/// A training without end of which one process gets a signal once metrics have some lines.
struct Stopped {
  TemporaryFolder folder;
  std::string plan;
  int ranks = 0, to_rank = 0;  ///< ranks 0: without mpirun
  std::string signal = "TERM";
  bool checkpoint = true;

  [[nodiscard]] std::string metrics() const { return folder / "m.jsonl"; }
  [[nodiscard]] std::string saved() const { return folder / "saved"; }
  [[nodiscard]] Ended end() const {
    // Every rank leaves its number before it becomes the program.
    const std::string pid = folder / "pid.";
    const std::string rank =
        "sh -c 'echo $$ > " + pid + "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}; exec \"" REHEARSAL_COMMAND "\" \"$@\"' rank ";
    const std::string launcher = ranks == 0 ? "" : REHEARSAL_MPIRUN " -n " + std::to_string(ranks) + " ";
    const std::string job =
        launcher + rank + run(plan + " --steps 100000000 --metrics " + metrics() + (checkpoint ? " --checkpoint " + saved() : ""));
    const std::string killer = "( while [ \"$(wc -l < " + metrics() + ")\" -lt 4 ]; do sleep 0.05; done; kill -" + signal + " $(cat " +
                               pid + std::to_string(to_rank) + ") ) 2> " + (folder / "killer") + " & ";
    return run_shell("touch " + metrics() + "; " + killer + job);
  }
};

int lines_of(const std::string& text, const std::string& words) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.find(words) != std::string::npos ? 1 : 0;
  return count;
}

std::vector<double> losses_in(const std::string& metrics) {
  std::vector<double> losses;
  std::istringstream lines(text_of(metrics));
  for (std::string line; std::getline(lines, line);) losses.push_back(nlohmann::json::parse(line).at("loss"));
  return losses;
}

int step_of(const Ended& ended) {
  const std::string words = "interrupted after step ";
  const auto at = ended.err.find(words);
  REQUIRE(at != std::string::npos);
  return std::atoi(ended.err.c_str() + at + words.size());
}

}  // namespace

TEST_CASE("a signal to any rank ends the step, saves, and is no loss") {
  Stopped job;
  std::tie(job.plan, job.ranks, job.to_rank, job.signal) =
      GENERATE(std::tuple{"", 0, 0, "TERM"}, std::tuple{"", 0, 0, "INT"}, std::tuple{"", 0, 0, "USR1"},
               std::tuple{"--plan dp=2", 2, 0, "TERM"}, std::tuple{"--plan pp=2,micro_batch=1", 2, 1, "INT"},
               std::tuple{"--plan dp=2,zero=3", 2, 1, "USR1"}, std::tuple{"--plan pp=2,micro_batch=1,schedule=pipedream-2bw", 2, 0, "TERM"},
               std::tuple{"--plan pp=3,micro_batch=1,schedule=pipedream-2bw", 3, 2, "TERM"});
  INFO(job.plan << " " << job.signal << " to rank " << job.to_rank);
  const auto ended = job.end();
  INFO(ended.err);
  CHECK(ended.status == 75);
  CHECK(lines_of(ended.err, "; saved in " + job.saved()) == 1);
  const int step = step_of(ended);
  CHECK(step >= 4);
  CHECK(losses_in(job.metrics()).size() == static_cast<std::size_t>(step));
  // Goes on, and has the losses of a training that nobody disturbed.
  const auto rest = result_of(rehearse(run(job.plan + " --steps 3 --resume " + job.saved() + " --metrics " + job.metrics()), job.ranks));
  CHECK(rest.at("first_step") == step + 1);
  const auto whole = losses_of(rehearse(run(job.plan + " --steps " + std::to_string(step + 3)), job.ranks));
  CHECK(losses_in(job.metrics()) == whole);
}

TEST_CASE("without --checkpoint the line says that nothing was saved") {
  Stopped job;
  job.checkpoint = false;
  job.plan = "--export " + (job.folder / "trained.onnx");
  const auto ended = job.end();
  CHECK(ended.status == 75);
  CHECK_THAT(ended.err, contains("trained.onnx was not written"));
  CHECK(!fs::exists(job.folder / "trained.onnx"));
  CHECK(lines_of(ended.err, "interrupted after step ") == 1);
  CHECK_THAT(ended.err, contains("nothing was saved"));
  CHECK(!fs::exists(job.saved()));
  CHECK(nlohmann::json::parse(ended.out).at("interrupted") == true);
}

TEST_CASE("a training that is told to stop while it measures kernels keeps nothing and says so") {
  // They are measured for two seconds.
  const auto ended = run_shell("\"" REHEARSAL_COMMAND
                               "\" run 'zoo:unet2d?image=32&channels=16&depth=1' --batch 2 --lr 0.001 --steps 1000000 --measure-kernels & "
                               "job=$!; sleep 1; kill -INT $job; wait $job");
  CHECK(ended.status == 75);
  CHECK(ended.out.empty());
  CHECK_THAT(ended.err, contains("interrupted while kernels were timed"));
}

TEST_CASE("a second SIGINT ends at once") {
  // A step of many seconds, interrupted twice.
  const auto ended =
      run_shell("\"" REHEARSAL_COMMAND
                "\" run 'zoo:gpt?layers=6&hidden=512&heads=4&seq=128&vocab=512' --batch 64 --dtype f64 --steps 2 & "
                "job=$!; sleep 4; kill -INT $job; sleep 0.5; kill -0 $job && echo goes on; kill -INT $job; wait $job; echo status $?");
  INFO(ended.err);
  CHECK_THAT(ended.out, contains("goes on"));
  CHECK_THAT(ended.out, contains("status 130"));
  CHECK(ended.seconds < 30);
}

TEST_CASE("a launcher that has stopped reading what ranks print still learns the status") {
  // The answer holds 1,002 losses, more than a terminal's or a pipe's buffer takes beside what else is in it.
  const TemporaryFolder folder;
  const std::string metrics = folder / "m.jsonl", status = folder / "status.";
  const std::string rank =
      "sh -c 'trap : INT TERM; \"" REHEARSAL_COMMAND "\" \"$@\"; echo $? > " + status + "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}' rank ";
  const std::string job =
      REHEARSAL_MPIRUN " -n 2 " + rank + run("--plan dp=2 --steps 100000000 --metrics " + metrics + " --checkpoint " + (folder / "saved"));
  const auto ended = run_shell("touch " + metrics + "; " + job + " & job=$!; while [ \"$(wc -l < " + metrics +
                               ")\" -lt 1100 ] && kill -0 $job; do sleep 0.05; done; kill -INT $job; wait $job");
  INFO(ended.err);
  CHECK(lines_of(ended.err, "; saved in " + (folder / "saved")) == 1);
  CHECK(text_of(status + "0") == "75\n");
  // By then mpirun may have killed the other's shell.
  const auto other = fs::exists(status + "1") ? text_of(status + "1") : "";
  CHECK((other.empty() || other == "75\n"));
}
