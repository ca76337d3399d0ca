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

namespace {

/// A pipeline whose messages take `seconds` each, as a library takes them.
Job priced_pipeline(double seconds) {
  auto job = pipeline({"gpipe", 2, 1, 1, 2, 25'000'000});
  job.costs.with_messages = true;
  for (std::size_t role = 0; role < job.program.roles.size(); ++role)
    for (std::size_t body = 0; body < job.program.roles[role].bodies.size(); ++body) {
      const auto& instructions = job.program.roles[role].bodies[body].instructions;
      for (std::size_t n = 0; n < instructions.size(); ++n)
        if (instructions[n].kind == plan::InstructionKind::Send) job.costs.roles[role].seconds[body][n][0].seconds = Seconds(seconds);
    }
  return job;
}

/// Queues for kernels that a host issues in 1 s, and a device runs in 0.25 s.
std::vector<costmodel::LaunchQueue> issued_in_a_second(std::size_t instructions) { return {instructions, {1, 0.25, 1.25}}; }

}  // namespace

TEST_CASE("messages between stages take the time that their library takes, on a stream of their own or on the cores") {
  // Forward 1 s, a message, forward 1 s, backward 2 s, a message, backward 2 s.
  for (const bool on_cores : {false, true})
    for (const auto& evaluator : all_evaluators()) {
      INFO(evaluator->name() << (on_cores ? ", on the cores" : ""));
      auto job = priced_pipeline(0.25);
      job.host_progressed = on_cores;
      const auto cost = job.play(*evaluator, chain(2), true);
      CHECK(cost.step.value() == Approx(6.5));
      // The second stage: receives until 1.25 s, computes until 4.25, sends until 4.5 s.
      const auto& second = cost.timeline[1];
      REQUIRE(second.size() == 4);
      CHECK(second[0].end == Approx(1.25));
      CHECK(second[1].begin == Approx(1.25));
      CHECK(second[3].begin == Approx(4.25));
      CHECK(second[3].end == Approx(4.5));
      CHECK(cost.timeline[0].back().end == Approx(6.5));
    }
}

TEST_CASE("messages of stages that a library moves at one time share what they cross") {
  // Eight ranks of a node send 8 GB/s each over one card of 10 GB/s: 6.4 times as long as alone.
  Job job({{"dp", 8, 1}, {"pp", 2, 8}}, 1);
  const auto first = job.add_role(0, {}), second = job.add_role(1, {8, 9, 10, 11, 12, 13, 14, 15});
  const auto from = job.add_body(first, BodyKind::Forward), to = job.add_body(second, BodyKind::Forward);
  job.add_message(first, from, {true, 1, 0, 2'000'000'000});
  job.add_message(second, to, {false, -1, 0, 2'000'000'000});
  job.role(first).slots = {{from, 0}};
  job.role(second).slots = {{to, 0}};
  job.costs.with_messages = true;
  job.costs.roles[first].seconds[from][0][0].seconds = Seconds(1);
  CHECK(job.simulated(cluster(2, 8, 1)) == Approx(6.4));
  CHECK(job.simulated(cluster(2, 8, 8)) == Approx(1));
  CHECK(job.play(*folded_evaluator(), cluster(2, 8, 1)).step.value() == Approx(1));  // alone
}

TEST_CASE("a sum on the cores is done between kernels, and issued as they are") {
  // 1 s, a sum of 2 s, 3 s, one after the other.
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    auto job = kernel_beside_a_sum(0);
    job.host_progressed = true;
    const auto cost = job.play(*evaluator, cluster(1, 2, 0), true);
    CHECK(end_of(cost.timeline.front(), 1) == Approx(3));
    CHECK(cost.step.value() == Approx(6));
    // A host takes 1 s for each of them, and they take 0.25 s: 1.25, 2.25 and 3.25 s.
    job.costs.roles[0].launches = {issued_in_a_second(3)};
    const auto issued = job.play(*evaluator, cluster(1, 2, 0), true);
    CHECK(end_of(issued.timeline.front(), 1) == Approx(2.25));
    CHECK(issued.step.value() == Approx(3.25));
  }
}

TEST_CASE("a host stands still until what its rank waits for is here") {
  // The first stage issues for 1 s, computes for 0.25 and sends for 0.5 s; the second one issues when that is there, at 1.75 s.
  Job job({{"pp", 2, 1}}, 1);
  for (const int stage : {0, 1}) {
    const auto role = job.add_role(stage, {stage});
    const auto body = job.add_body(role, BodyKind::Forward);
    if (stage == 1) job.add_message(role, body, {false, -1, 0, 1000});
    const auto kernel =
        job.add_kernel(role, body, 0.25, stage == 1 ? std::vector<plan::Dependency>{{body, 0}} : std::vector<plan::Dependency>{});
    if (stage == 0) job.add_message(role, body, {true, 1, 0, 1000}, {{body, kernel}});
    job.role(role).slots = {{body, 0}};
    job.costs.roles[role].launches = {issued_in_a_second(2)};
  }
  job.costs.with_messages = true;
  job.costs.roles[0].launches[0][1] = {0, 0.5, 0.5};
  job.costs.roles[0].seconds[0][1][0].seconds = Seconds(0.5);
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    CHECK(job.play(*evaluator, chain(2)).step.value() == Approx(3));
  }
}

TEST_CASE("a rank waits for samples that are not there yet, its host with it") {
  // Samples every 5 s. The first step is issued and run in 1.25 s; the second one's kernel is issued when its samples are there, at 5 s.
  Job job({{"dp", 1, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Forward);
  job.add_kernel(role, body, 0.25);
  job.role(role).bodies[body].instructions[0].kind = plan::InstructionKind::Load;
  job.role(role).slots = {{body, 0}};
  const auto platform = cluster(1, 1, 0);
  const costmodel::CostModel model(platform.nodes.front().device, {}, "f32");
  for (const bool issued : {false, true}) {
    if (issued) job.costs.roles[role].launches = {issued_in_a_second(1)};
    const predict::EvaluationRequest request{job.program, job.costs, platform, model, true, {Seconds(5), Seconds(0)}};
    for (const auto& evaluator : all_evaluators()) {
      INFO(evaluator->name() << (issued ? ", issued" : ""));
      const auto cost = evaluator->evaluate(request);
      CHECK(cost.step.value() == Approx(5));
      // It waits for what the first step leaves of the 5 s, and loads for 0.25 s.
      CHECK(cost.breakdown.io.value() == Approx(issued ? 5 - 1.25 + 0.25 : 5 - 0.25 + 0.25));
      // Loading shows as one with waiting for what is loaded: from the end of the step before on.
      const auto& load = cost.timeline.front().back();
      CHECK(load.end - load.begin == Approx(5));
    }
  }
}

TEST_CASE("a kernel waits for what another stream did in its own micro-batch, whatever ran since") {
  // Two micro-batches of a sum of 2 s, a kernel of 0.5 s beside it, and one of 1 s behind it.
  Job job({{"dp", 2, 1}}, 2);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Backward);
  const auto sum = job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 1000);
  job.add_kernel(role, body, 0.5);
  job.add_kernel(role, body, 1, {{body, sum}});
  job.costs.roles[role].seconds[body][sum][0].seconds = Seconds(2);
  job.costs.with_messages = true;
  job.role(role).slots = {{body, 0}, {body, 1}};
  // Sums end at 2 and 4 s; kernels behind them at 3 and 5 s.
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    CHECK(job.play(*evaluator, cluster(1, 2, 0)).step.value() == Approx(5));
  }
}

TEST_CASE("a message waits until its receiver has come to the step that wants it") {
  // In a tree to rank 0 that one adds what rank 1 sends, then what rank 2 does, which is there long before rank 1, 1 s late, has sent: 4 MB
  // in 2 + 40 us, added in 4. Rank 2 is done when its own message is.
  Job job({{"dp", 4, 1}}, 1);
  const auto usual = job.add_role(0, {}), late = job.add_role(0, {1});
  for (const auto role : {usual, late}) {
    const auto body = job.add_body(role, BodyKind::Update);
    const auto kernel = job.add_kernel(role, body, role == late ? 1 : 0);
    job.add_collective(role, body, {CollectiveKind::Reduce, "binomial", 0}, 1'000'000, {{body, kernel}});
    job.role(role).slots = {{body, 0}};
  }
  const auto cost = job.play(*full_evaluator(), cluster(1, 4, 0), true);
  CHECK(cost.timeline[0].back().end == Approx(1 + 92e-6).epsilon(1e-9));
  CHECK(cost.timeline[1].back().end == Approx(1 + 42e-6).epsilon(1e-9));
  CHECK(cost.timeline[2].back().end == Approx(1 + 88e-6).epsilon(1e-9));
  CHECK(cost.timeline[3].back().end == Approx(42e-6).epsilon(1e-9));
}

TEST_CASE("one replica of a pipeline sums on every stage by its closed form") {
  // Two stages of four replicas: 1 s, then a ring of 4 MB on each stage: 75 us; the message of 1 s between them.
  Job job({{"dp", 4, 1}, {"pp", 2, 4}}, 1);
  for (const int stage : {0, 1}) {
    const auto role = job.add_role(stage, stage == 0 ? std::vector<int>{} : std::vector<int>{4, 5, 6, 7});
    const auto body = job.add_body(role, BodyKind::Backward);
    const auto kernel = job.add_kernel(role, body, stage == 0 ? 1 : 2);
    job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 1'000'000, {{body, kernel}});
    job.role(role).slots = {{body, 0}};
  }
  for (const auto& evaluator : all_evaluators()) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, cluster(1, 8, 0), true);
    CHECK(cost.step.value() == Approx(2 + 75e-6).epsilon(1e-9));
    CHECK(cost.timeline.front().back().end == Approx(1 + 75e-6).epsilon(1e-9));
    CHECK(cost.timeline.back().back().end == Approx(2 + 75e-6).epsilon(1e-9));
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

TEST_CASE("what a rank's cores wait for and nobody sends is our own error") {
  Job job({{"pp", 2, 1}}, 1);
  for (const int stage : {0, 1}) {
    const auto role = job.add_role(stage, {stage});
    const auto body = job.add_body(role, BodyKind::Forward);
    if (stage == 0) job.add_kernel(role, body, 1.0);
    if (stage == 1) job.add_message(role, body, {false, -1, 0, 10});
    job.role(role).slots = {{body, 0}};
  }
  job.host_progressed = true;
  CHECK_THROWS_WITH(job.simulated(chain(2)), contains("a program whose messages do not match was played"));
}

TEST_CASE("a process that has begun with the fluid network has no room for the reference") {
  CHECK(sends_from(2, 0).simulated(chain(2)) > 0);
  const Routes routes(chain(2));
  CHECK_THROWS_WITH(reference_network(routes), contains("the reference network comes first in a process"));
}

TEST_CASE("the quicker of unlike ranks wait in their collectives, which is no communication") {
  for (const bool with_messages : {false, true}) {
    // Kernels of 1 s and of 4 s, then a sum that begins after 4 s. Its library takes 2 s; as a ring of two each half of 4 GB passes the
    // ports of 100 GB/s twice: 0.04 s.
    Job job({{"dp", 2, 1}}, 1);
    job.costs.with_messages = with_messages;
    for (const int rank : {0, 1}) {
      const auto role = job.add_role(0, {rank});
      const auto body = job.add_body(role, BodyKind::Backward);
      const auto kernel = job.add_kernel(role, body, rank == 0 ? 1 : 4);
      const auto sum = job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 1'000'000'000, {{body, kernel}});
      job.costs.roles[role].seconds[body][sum][0].seconds = Seconds(2);
      job.role(role).slots = {{body, 0}};
    }
    for (const auto& evaluator : all_evaluators()) {
      INFO(evaluator->name() << (with_messages ? " of a library" : ""));
      const auto cost = job.play(*evaluator, cluster(1, 2, 0));
      const double sum = with_messages ? 2 : 0.04;
      CHECK(cost.step.value() == Approx(4 + sum).epsilon(0.01));
      CHECK(cost.limiting_rank == 1);
      CHECK(cost.breakdown.compute.value() == Approx(4));
      CHECK(cost.breakdown.exposed_communication.value() == Approx(sum).epsilon(0.1));
      CHECK(cost.breakdown.bubble.value() == Approx(0).margin(1e-9));
      CHECK(cost.imbalance.value() == Approx(1.5));  // 4 s, and 2.5 s in the mean
    }
  }
}

TEST_CASE("what a rank does after it has left a collective early is its own, whoever has not come yet") {
  // On the cores: rank 0 has sent to 2 and to 1 after less than 1 ms, and then computes for 10 s. Rank 3 computes for 4 s before 2 can send
  // to it, and for 3 s behind that. Of the 10 s none is spent waiting, so rank 0 is the one that the sum at the end waits for.
  Job job({{"dp", 4, 1}}, 1);
  job.host_progressed = true;
  for (const int rank : {0, 1, 2, 3}) {
    const auto role = job.add_role(0, {rank});
    const auto body = job.add_body(role, BodyKind::Update);
    if (rank == 3) job.add_kernel(role, body, 4);
    job.add_collective(role, body, {CollectiveKind::Broadcast, "binomial", 0}, 1'000'000);
    if (rank % 3 == 0) job.add_kernel(role, body, rank == 0 ? 10 : 3);
    job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 1000);
    job.role(role).slots = {{body, 0}};
  }
  const auto cost = job.play(*full_evaluator(), cluster(1, 4, 0), true);
  REQUIRE(cost.timeline[0].size() == 3);
  CHECK(cost.timeline[0][0].end < 1e-3);  // the root has left
  CHECK(cost.timeline[3][1].end > 4);
  CHECK(cost.step.value() == Approx(10).epsilon(0.001));
  CHECK(cost.limiting_rank == 0);
  CHECK(cost.breakdown.compute.value() == Approx(10));
}

TEST_CASE("ranks of a group that perform different collectives are our own error") {
  const char* sentence = "the ranks of a group perform the same collectives in the same order";
  const plan::CollectiveInfo sum{CollectiveKind::AllReduce, "ring", 0}, gather{CollectiveKind::AllGather, "ring", 0};
  CHECK(at_odds(sum, 1000, sum, 1000).simulated(cluster(1, 2, 0)) > 0);
  CHECK_THROWS_WITH(at_odds(sum, 1000, gather, 1000).simulated(cluster(1, 2, 0)), contains(sentence));
  CHECK_THROWS_WITH(at_odds(sum, 1000, sum, 1001).simulated(cluster(1, 2, 0)), contains(sentence));
}
