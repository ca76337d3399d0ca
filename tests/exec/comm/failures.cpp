// What becomes of all ranks when one of them fails: they end soon, with the right status, and the failure is said once.
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

#include "tests/catch.hpp"

namespace {

struct Ended {
  int status = -1;
  double seconds = 0.0;
  std::string output;
};

Ended run_failing(const std::string& failure, int ranks) {
  const std::string command = "REHEARSAL_STALL_SECONDS=2 timeout 90 " REHEARSAL_MPIRUN " -n " + std::to_string(ranks) +
                              " \"" REHEARSAL_FAILING_RANKS "\" " + failure + " 2>&1";
  Ended ended;
  const auto start = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> piece{};
  while (const auto n = std::fread(piece.data(), 1, piece.size(), pipe)) ended.output.append(piece.data(), n);
  const int code = ::pclose(pipe);
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ended.status = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
  return ended;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

constexpr double kSoon = 30.0;  // seconds, on a machine that does much else; undisturbed it takes about 1

}  // namespace

TEST_CASE("a rank that is killed ends all, and is named") {
  const auto ended = run_failing("kill", 3);
  INFO(ended.output);
  CHECK(ended.status != 0);
  CHECK(ended.seconds < kSoon);
  CHECK_THAT(ended.output, contains("rank 1"));
}

TEST_CASE("a rank that leaves without a word ends all, and is named") {
  const auto ended = run_failing("exit", 3);
  INFO(ended.output);
  // 3 is what the rank left with; the others look at each other ten times a second, and may see its end before mpirun does.
  CHECK((ended.status == 3 || ended.status == 4));
  CHECK(ended.seconds < kSoon);
  CHECK_THAT(ended.output, contains("rank 1") || contains(",1]"));
}

TEST_CASE("an error of one rank is said once, by that rank, and gives the exit status") {
  const auto ended = run_failing("throw", 3);
  INFO(ended.output);
  CHECK(ended.status == 3);
  CHECK(ended.seconds < kSoon);
  CHECK(count(ended.output, "rank 1: nothing of it fits") == 1);
  CHECK(count(ended.output, "has waited") == 0);
}

TEST_CASE("an error that all ranks meet is said once") {
  const auto ended = run_failing("together", 3);
  INFO(ended.output);
  CHECK(ended.status == 1);
  CHECK(ended.seconds < kSoon);
  CHECK(count(ended.output, "model.onnx: is broken for everyone") == 1);
  CHECK(count(ended.output, "rank 1: model.onnx") + count(ended.output, "rank 2: model.onnx") == 0);
}

TEST_CASE("an exception that nobody expected ends all as our own bug") {
  const auto ended = run_failing("escape", 2);
  INFO(ended.output);
  CHECK(ended.status == 70);
  CHECK(ended.seconds < kSoon);
  CHECK(count(ended.output, "rank 1: a bug of ours") == 1);
}

TEST_CASE("a rank that stands still is named by the one that waits for it") {
  const auto ended = run_failing("stop", 2);
  INFO(ended.output);
  CHECK(ended.status == 4);
  CHECK(ended.seconds < kSoon);
  CHECK(count(ended.output, "rank 0 has waited 2 s for rank 1") == 1);
  CHECK_THAT(ended.output, contains("'gradient'"));
  CHECK(count(ended.output, "rank 1:") == 0);  // it is let go on to be ended, and has nothing to say then
}

TEST_CASE("work that takes longer than the timeout is waited for, and says what fails") {
  const auto ended = run_failing("throw-work", 3);
  INFO(ended.output);
  CHECK(ended.status == 3);
  CHECK(count(ended.output, "the work cannot be done") == 1);
  CHECK(count(ended.output, "has waited") == 0);
}

TEST_CASE("a rank that stands still while the others are waiting for slow work is found") {
  const auto late = run_failing("stop-late", 2);
  INFO(late.output);
  CHECK(late.status == 4);
  CHECK(late.seconds < kSoon);
  CHECK(count(late.output, "rank 0 has waited 0.5 s for all ranks to reach the one that stopped without progress; rank 1 (process ") == 1);
  const auto beside = run_failing("stop-beside", 2);  // rank 0 would work for an hour
  INFO(beside.output);
  CHECK(beside.status == 4);
  CHECK(beside.seconds < kSoon);
  CHECK(count(beside.output, "rank 0 has waited 0.5 s for all ranks to reach work that lasts without progress; rank 1 (process ") == 1);
  const auto work = run_failing("stop-work", 2);
  INFO(work.output);
  CHECK(work.status == 4);
  CHECK(work.seconds < kSoon);
  CHECK(count(work.output, "rank 1 has waited 0.5 s for all ranks to reach work that stopped without progress; rank 0 (process ") == 1);
}
