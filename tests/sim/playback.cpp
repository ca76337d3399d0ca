// Programs played by hand: what computation loses beside messages, hosts that issue kernels, samples that come late, whose times are kept,
// and programs that cannot be right.
#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;
using namespace rehearsal::sim::sample;
using plan::BodyKind;
using plan::CollectiveKind;

namespace {

/// Two replicas: a kernel of 1 s, then a sum of 2 s that its library takes beside a kernel of 3 s.
Job kernel_beside_a_sum(double interference) {
  Job job({{"dp", 2, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Backward);
  const auto first = job.add_kernel(role, body, 1);
  const auto sum = job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 1000, {{body, first}});
  job.add_kernel(role, body, 3);
  job.costs.roles[role].seconds[body][sum][0].seconds = Seconds(2);
  job.costs.with_messages = true;
  job.costs.interference = interference;
  job.role(role).slots = {{body, 0}};
  return job;
}

/// When the instruction of a timeline ended that is called so often in a slot.
double end_of(const std::vector<predict::TimedInstruction>& timeline, std::uint32_t instruction) {
  for (const auto& t : timeline)
    if (t.instruction == instruction && !t.issue) return t.end;
  return -1;
}

std::vector<std::unique_ptr<predict::StepEvaluator>> all_evaluators() {
  std::vector<std::unique_ptr<predict::StepEvaluator>> all;
  all.push_back(predict::closed_form_evaluator());
  all.push_back(full_evaluator());
  all.push_back(folded_evaluator());
  return all;
}

/// One collective on two ranks that do not agree on it.
Job at_odds(const plan::CollectiveInfo& first, std::int64_t first_floats, const plan::CollectiveInfo& second, std::int64_t second_floats) {
  Job job({{"dp", 2, 1}}, 1);
  for (const int rank : {0, 1}) {
    const auto role = job.add_role(0, {rank});
    const auto body = job.add_body(role, BodyKind::Update);
    job.add_collective(role, body, rank == 0 ? first : second, rank == 0 ? first_floats : second_floats);
    job.role(role).slots = {{body, 0}};
  }
  return job;
}

/// A stage that sends to the one `offset` further on, which need not exist.
Job sends_from(int stage, int offset) {
  Job job({{"pp", 2, 1}}, 1);
  for (const int rank : {0, 1}) {
    const auto role = job.add_role(rank, {rank});
    const auto body = job.add_body(role, BodyKind::Forward);
    job.add_kernel(role, body, 1);
    if (rank == stage) job.add_message(role, body, {true, offset, 0, 10});
    job.role(role).slots = {{body, 0}};
  }
  return job;
}

}  // namespace

TEST_CASE("computation loses a share of its speed while sums run beside it") {
  // From 1 s to 3 s beside the sum, at three quarters of its speed the kernel does 1.5 s of its 3 s, the rest until 4.5 s. At half its
  // speed it does 1 s until then, and ends at 5 s.
  for (const auto& [interference, end] : {std::pair{0.0, 4.0}, {0.25, 4.5}, {0.5, 5.0}})
    for (const auto& evaluator : all_evaluators()) {
      INFO(evaluator->name() << ", " << interference);
      const auto cost = kernel_beside_a_sum(interference).play(*evaluator, cluster(1, 2, 0), true);
      CHECK(end_of(cost.timeline.front(), 1) == Approx(3));
      CHECK(end_of(cost.timeline.front(), 2) == Approx(end));
      CHECK(cost.step.value() == Approx(end));
    }
}

TEST_CASE("a kernel that ends before the sum does is slowed for all of its time, one behind it not at all") {
  // Kernels of 0.75 s and 1 s beside a sum from 1 s to 3 s, at three quarters of their speed: until 2 s; then 0.75 s of 1 s until 3 s, and
  // the rest until 3.25 s. A fourth one takes its own 1 s.
  auto job = kernel_beside_a_sum(0.25);
  job.costs.roles[0].seconds[0][2][0].seconds = Seconds(0.75);
  job.add_kernel(0, 0, 1);
  job.add_kernel(0, 0, 1);
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, cluster(1, 2, 0), true);
    CHECK(end_of(cost.timeline.front(), 2) == Approx(2));
    CHECK(end_of(cost.timeline.front(), 3) == Approx(3.25));
    CHECK(end_of(cost.timeline.front(), 4) == Approx(4.25));
  }
}

TEST_CASE("a host that issues kernels more slowly than they run sets the pace") {
  // Each kernel takes the host 1 s and the device 0.25 s, which begins when it has been issued: 1 to 1.25 s, 2 to 2.25, 3 to 3.25 s.
  Job job({{"dp", 2, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Forward);
  for (int n = 0; n < 3; ++n) job.add_kernel(role, body, 0.25);
  job.costs.roles[role].launches = {std::vector<costmodel::LaunchQueue>(3, {1, 0.25, 1.25})};
  job.role(role).slots = {{body, 0}};
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, cluster(1, 2, 0), true);
    CHECK(cost.step.value() == Approx(3.25));
    REQUIRE(cost.timeline.front().size() == 6);  // each as it is issued, and as it runs
    for (std::size_t n = 0; n < 3; ++n) {
      const auto &issue = cost.timeline.front()[2 * n], &run = cost.timeline.front()[2 * n + 1];
      CHECK(issue.issue);
      CHECK(issue.begin == Approx(static_cast<double>(n)));
      CHECK(issue.end == Approx(static_cast<double>(n) + 1));
      CHECK(issue.busy == Approx(1));
      CHECK_FALSE(run.issue);
      CHECK(run.begin == Approx(static_cast<double>(n) + 1));
      CHECK(run.end == Approx(static_cast<double>(n) + 1.25));
      CHECK(run.busy == Approx(0.25));
    }
    CHECK(cost.busy_seconds.front() == Approx(0.75));
  }
}

TEST_CASE("a rank that gets its input late waits, and the step says so") {
  // A second stage has 1 s to do after the first one's 2 s and a message of 10 ms: the bubble of the first is the second's time.
  Job job({{"pp", 2, 1}}, 1);
  for (const int stage : {0, 1}) {
    const auto role = job.add_role(stage, {stage});
    const auto body = job.add_body(role, BodyKind::Forward);
    if (stage == 0) {
      const auto kernel = job.add_kernel(role, body, 2);
      job.add_message(role, body, {true, 1, 0, 250'000'000}, {{body, kernel}});
    } else {
      const auto come = job.add_message(role, body, {false, -1, 0, 250'000'000});
      job.add_kernel(role, body, 1, {{body, come}});
    }
    job.role(role).slots = {{body, 0}};
  }
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, chain(2), true);
    CHECK(cost.step.value() == Approx(3.01 + kInside).epsilon(1e-12));
    CHECK(cost.limiting_rank == 0);  // it has more to do
    CHECK(cost.busy_seconds == std::vector<double>{2, 1});
    CHECK(cost.breakdown.compute.value() == Approx(2));
    // Of the first stage's 3.01 s: it computes for 2, sends for 10 ms of them, and has nothing left to do for the last.
    CHECK(cost.breakdown.exposed_communication.value() == Approx(0.01 + kInside));
    CHECK(cost.breakdown.bubble.value() == Approx(1));
    // It computes 2 s, the ranks in the mean 1.5.
    CHECK(cost.imbalance.value() == Approx(0.5));
  }
}

TEST_CASE("times are kept of all ranks of a small job, and of the first of every role of a large one") {
  for (const int ranks : {kRecordedRanks, kRecordedRanks + 2}) {
    INFO(ranks << " ranks");
    Job job({{"dp", ranks, 1}}, 1);
    const auto usual = job.add_role(0, {}), slow = job.add_role(0, {3, 5});
    for (const auto role : {usual, slow}) {
      const auto body = job.add_body(role, BodyKind::Forward);
      job.add_kernel(role, body, role == slow ? 2 : 1);
      job.role(role).slots = {{body, 0}};
    }
    const auto cost = job.play(*full_evaluator(), cluster(1, ranks, 0), true);
    CHECK(cost.limiting_rank == 3);
    REQUIRE(cost.timeline.size() == static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      INFO("rank " << rank);
      const auto& timeline = cost.timeline[static_cast<std::size_t>(rank)];
      const bool kept = ranks == kRecordedRanks || rank == 0 || rank == 3;
      CHECK(timeline.size() == (kept ? 1 : 0));
      const bool is_slow = rank == 3 || rank == 5;
      if (kept) CHECK(timeline.front().end == Approx(is_slow ? 2 : 1));
      CHECK(cost.busy_seconds[static_cast<std::size_t>(rank)] == Approx(is_slow ? 2 : 1));
    }
    CHECK(job.play(*full_evaluator(), cluster(1, ranks, 0)).timeline.empty());
  }
}

TEST_CASE("a message to a stage that there is not is our own error") {
  CHECK_THROWS_AS(sends_from(1, 1).simulated(chain(2)), InternalError);
  CHECK_THROWS_WITH(sends_from(1, 1).simulated(chain(2)), contains("a message goes to a rank that is played"));
  CHECK_THROWS_WITH(sends_from(0, -1).simulated(chain(2)), contains("a message goes to a rank that is played"));
}

TEST_CASE("a process that has begun with the fluid network has no room for the reference") {
  CHECK(sends_from(2, 0).simulated(chain(2)) > 0);
  const Routes routes(chain(2));
  CHECK_THROWS_WITH(reference_network(routes), contains("the reference network comes first in a process"));
}

TEST_CASE("ranks of a group that perform different collectives are our own error") {
  const char* sentence = "the ranks of a group perform the same collectives in the same order";
  const plan::CollectiveInfo sum{CollectiveKind::AllReduce, "ring", 0}, gather{CollectiveKind::AllGather, "ring", 0};
  CHECK(at_odds(sum, 1000, sum, 1000).simulated(cluster(1, 2, 0)) > 0);
  CHECK_THROWS_WITH(at_odds(sum, 1000, gather, 1000).simulated(cluster(1, 2, 0)), contains(sentence));
  CHECK_THROWS_WITH(at_odds(sum, 1000, sum, 1001).simulated(cluster(1, 2, 0)), contains(sentence));
}
