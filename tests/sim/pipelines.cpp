#include <algorithm>

#include "base/random.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;
using namespace rehearsal::sim::sample;
using plan::BodyKind;

namespace {

/// Both play the same instructions of every rank at the same seconds.
void check_same_timeline(const predict::StepCost& cost, const predict::StepCost& other, double seconds) {
  REQUIRE(cost.timeline.size() == other.timeline.size());
  for (std::size_t r = 0; r < cost.timeline.size(); ++r) {
    REQUIRE(cost.timeline[r].size() == other.timeline[r].size());
    for (std::size_t n = 0; n < cost.timeline[r].size(); ++n) {
      const auto &a = cost.timeline[r][n], &b = other.timeline[r][n];
      CHECK(std::tie(a.body, a.instruction, a.micro_batch) == std::tie(b.body, b.instruction, b.micro_batch));
      CHECK(a.begin == Approx(b.begin).margin(seconds));
      CHECK(a.end == Approx(b.end).margin(seconds));
    }
  }
}

}  // namespace

TEST_CASE("pipelines of equal stages have the bubble of their schedule") {
  for (const auto& row : plan::schedule_table())
    for (const int stages : {1, 2, 4})
      for (const int micro_batches : {1, 3, 8}) {
        if (!row.plain()) continue;
        INFO(row.name << " " << stages << " stages, " << micro_batches << " micro-batches");
        const auto job = pipeline({std::string(row.name), stages, micro_batches, 1.0, 2.0, 0});
        // Messages of no bytes take 2 us, so that steps are a little longer than m(f+b)(1 + bubble); closed form and simulation agree on
        // that little.
        const double ideal = micro_batches * 3.0;
        const double expected = ideal * (1 + row.bubble(stages, micro_batches));
        CHECK(job.simulated(chain(stages)) == Approx(expected).epsilon(1e-4));
        CHECK(job.simulated(chain(stages)) == Approx(job.closed_form(chain(stages))).epsilon(1e-12));
      }
}

TEST_CASE("asynchronous pipelines take the time of their passes") {
  for (const auto& [name, stages, micro_batches] : {std::tuple{"pipedream", 4, 1}, std::tuple{"pipedream-2bw", 4, 3}}) {
    INFO(name);
    const auto job = pipeline({name, stages, micro_batches, 1.0, 2.0, 0});
    const auto closed = job.play(*predict::closed_form_evaluator(), chain(stages), true);
    CHECK(closed.step.value() == Approx(3.0 * micro_batches).epsilon(1e-4));
    for (const auto& evaluator : {full_evaluator(), folded_evaluator()}) {
      const auto cost = job.play(*evaluator, chain(stages), true);
      CHECK(cost.step.value() == Approx(closed.step.value()).epsilon(1e-12));
      CHECK(cost.busy_seconds.front() == Approx(3.0 * micro_batches));
      CHECK(cost.breakdown.bubble.value() == Approx(closed.breakdown.bubble.value()).margin(1e-9));
      check_same_timeline(cost, closed, 1e-9);
    }
  }
}

TEST_CASE("a pipeline's messages are paid for") {
  // 2 stages, 1 micro-batch: forward 1 s, 400 MB over 100 GB/s in 4 ms and 2 us, 1 s, backward 2 s, the message back, 2 s.
  const auto job = pipeline({"gpipe", 2, 1, 1.0, 2.0, 100'000'000});
  CHECK(job.simulated(chain(2)) == Approx(6 + 2 * (4e-3 + 2e-6)).epsilon(1e-12));
  CHECK(job.closed_form(chain(2)) == Approx(6 + 2 * (4e-3 + 2e-6)).epsilon(1e-12));
}

TEST_CASE("where a step goes is told as the closed form tells it") {
  const auto job = pipeline({"1f1b", 3, 4, 1.0, 2.0, 1000});
  const auto closed = job.play(*predict::closed_form_evaluator(), chain(3), true);
  for (const auto& evaluator : {full_evaluator(), folded_evaluator()}) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, chain(3), true);
    CHECK(cost.breakdown.compute.value() == Approx(closed.breakdown.compute.value()));
    CHECK(cost.breakdown.bubble.value() == Approx(closed.breakdown.bubble.value()).epsilon(1e-9));
    CHECK(cost.breakdown.exposed_communication.value() == Approx(closed.breakdown.exposed_communication.value()).margin(1e-9));
    CHECK(cost.busy_seconds == closed.busy_seconds);
    CHECK(cost.devices_energy.value() == Approx(closed.devices_energy.value()).epsilon(1e-9));
    check_same_timeline(cost, closed, 1e-12);
  }
}

TEST_CASE("a rank waits for what is not sent yet, and its message costs while it is on its way") {
  // Rank 1 computes 20 ms and sends 4 MB (42 us) to rank 0, which computes 10 ms on them and sends as much back, from 30.042 to 30.084 ms.
  Job job({{"pp", 2, 1}}, 1);
  const auto first = job.add_role(0, {0}), second = job.add_role(1, {1});
  constexpr std::int64_t kFloats = 1'000'000;
  const auto there = job.add_body(first, BodyKind::Forward), here = job.add_body(second, BodyKind::Forward);
  const auto arrived = job.add_message(first, there, {false, 1, 0, kFloats});
  const auto answer = job.add_kernel(first, there, 10e-3, {{there, arrived}});
  job.add_message(first, there, {true, 1, 1, kFloats}, {{there, answer}});
  const auto made = job.add_kernel(second, here, 20e-3);
  job.add_message(second, here, {true, -1, 0, kFloats}, {{here, made}});
  job.add_message(second, here, {false, -1, 1, kFloats});
  job.role(first).slots = {{there, 0}};
  job.role(second).slots = {{here, 0}};
  for (const auto& evaluator : {full_evaluator(), folded_evaluator(), predict::closed_form_evaluator()}) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, chain(2));
    CHECK(cost.step.value() == Approx(30.084e-3));
    CHECK(cost.limiting_rank == 1);
    CHECK(cost.breakdown.compute.value() == Approx(20e-3));
    CHECK(cost.breakdown.exposed_communication.value() == Approx(0.084e-3));
    CHECK(cost.breakdown.bubble.value() == Approx(10e-3));
    CHECK(cost.imbalance.value() == Approx(20e-3 - 15e-3));
  }
}

TEST_CASE("ranks that compute as much are balanced, whenever their collective lets them go") {
  // 400 MB go to one of the two other ranks, and then to the other, in 4 ms and 2 us each: one rank is done a message before the others.
  Job job({{"dp", 3, 1}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, BodyKind::Update);
  const auto made = job.add_kernel(role, body, 1.0);
  job.add_collective(role, body, {plan::CollectiveKind::Broadcast, "binomial", 0}, 100'000'000, {{body, made}});
  job.role(role).slots = {{body, 0}};
  const auto cost = job.play(*full_evaluator(), cluster(1, 3, 0));
  CHECK(cost.step.value() == Approx(1 + 2 * (4e-3 + 2e-6)));
  CHECK(cost.imbalance.value() == 0);
  CHECK(cost.breakdown.bubble.value() == 0);
  CHECK(cost.breakdown.exposed_communication.value() == Approx(2 * (4e-3 + 2e-6)));
}

TEST_CASE("a step is as long as its parts, and its timeline, when traces have taught how it is composed") {
  auto job = pipeline({"1f1b", 3, 4, 1.0, 2.0, 1000});
  job.calibration.corrections = {{"step", 0, 1.25, 0.1, 3}};
  for (const auto& evaluator : {full_evaluator(), folded_evaluator(), predict::closed_form_evaluator()}) {
    INFO(evaluator->name());
    const auto cost = job.play(*evaluator, chain(3), true);
    double sum = 0, last = 0;
    for (const auto& part : predict::kBreakdownParts) sum += (cost.breakdown.*part.seconds).value();
    for (const auto& rank : cost.timeline)
      for (const auto& played : rank) last = std::max(last, played.end);
    CHECK(cost.breakdown.compute.value() == Approx(1.25 * 12));  // 4 times 1 s forward and 2 s backward
    CHECK(sum == Approx(cost.step.value()).epsilon(1e-12));
    CHECK(last == Approx(cost.step.value()));
  }
}

TEST_CASE("energy is idle power for the whole step and the rest while busy") {
  // 2 stages busy 3 s each in a step of 6 s: 2·(50 W·6 s + 250 W·3 s) = 2100 J. The two wires: 4 W idle for 6 s, 6 W more while 0.1 s of
  // bytes cross each.
  auto platform = chain(2);
  platform.nodes.front().intra.idle_power = Watts(4);
  platform.nodes.front().intra.busy_power = Watts(10);
  platform.nodes.front().intra.latency = Seconds(0);
  const auto cost = pipeline({"gpipe", 2, 1, 1.0, 1.9, 2'500'000'000}).play(*full_evaluator(), platform);
  CHECK(cost.step.value() == Approx(6.0));
  CHECK(cost.devices_energy.value() == Approx(2 * (50 * 6.0 + 250 * 2.9)));
  CHECK(cost.links_energy.value() == Approx(2 * (4 * 6.0 + 6 * 0.1)));
}

TEST_CASE("ranks on one card share it") {
  // 8 ranks of one node each send 1 GB to their peer on another node through one card of 10 GB/s: 4 us + 8 · 0.1 s. With a card each: 0.1
  // s.
  Job job({{"dp", 8, 1}, {"pp", 2, 8}}, 1);
  const auto first = job.add_role(0, {}), second = job.add_role(1, {8, 9, 10, 11, 12, 13, 14, 15});
  const auto from = job.add_body(first, BodyKind::Forward), to = job.add_body(second, BodyKind::Forward);
  job.add_message(first, from, {true, 1, 0, 250'000'000});
  job.add_message(second, to, {false, -1, 0, 250'000'000});
  job.role(first).slots = {{from, 0}};
  job.role(second).slots = {{to, 0}};
  CHECK(job.simulated(cluster(2, 8, 1)) == Approx(0.8 + kBetween).epsilon(1e-12));
  CHECK(job.simulated(cluster(2, 8, 8)) == Approx(0.1 + kBetween).epsilon(1e-12));
  CHECK(job.closed_form(cluster(2, 8, 1)) == Approx(0.8 + kBetween).epsilon(1e-12));
  CHECK(job.closed_form(cluster(2, 8, 8)) == Approx(0.1 + kBetween).epsilon(1e-12));
}

TEST_CASE("a receive that nobody sends to is our own error") {
  Job job({{"pp", 2, 1}}, 1);
  for (int stage = 0; stage < 2; ++stage) {
    const auto role = job.add_role(stage, {stage});
    const auto body = job.add_body(role, BodyKind::Forward);
    if (stage == 0) job.add_kernel(role, body, 1.0);
    if (stage == 1) job.add_message(role, body, {false, -1, 0, 10});
    job.role(role).slots = {{body, 0}};
  }
  CHECK_THROWS_WITH(job.simulated(chain(2)), contains("messages do not match"));
  CHECK(pipeline({"gpipe", 2, 2, 1.0, 1.0, 10}).simulated(chain(2)) > 0);  // the engine goes on
}

namespace {

/// Numbers of one random program.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  int below(int n) { return static_cast<int>(random_bits(seed_, 7, next_++) % static_cast<std::uint64_t>(n)); }
  double seconds() { return random_uniform(seed_, 7, next_++) * 1e-3; }

 private:
  std::uint64_t seed_, next_ = 0;
};

/// A few kernels that sometimes wait for an earlier instruction, or run in one micro-batch only.
void add_kernels(Job& job, std::uint32_t role, std::uint16_t body, Dice& dice) {
  for (int n = dice.below(4); n >= 0; --n) {
    auto& instructions = job.role(role).bodies[body].instructions;
    std::vector<plan::Dependency> after;
    if (!instructions.empty() && dice.below(2) == 0)
      after = {{body, static_cast<std::uint32_t>(dice.below(static_cast<int>(instructions.size())))}};
    const auto added = job.add_kernel(role, body, dice.below(5) == 0 ? 0.0 : dice.seconds(), after);
    if (dice.below(4) == 0)
      job.role(role).bodies[body].instructions[added].when = dice.below(2) == 0 ? plan::When::FirstMicroBatch : plan::When::LastMicroBatch;
  }
}

/// Two tensors in either direction between neighbouring stages, kernels around them, and an update.
Job random_pipeline(Dice& dice) {
  const int stages = 2 + dice.below(3), micro_batches = 1 + dice.below(5);
  const auto& schedule = plan::schedule_table()[static_cast<std::size_t>(dice.below(2))];
  Job job({{"pp", stages, 1}}, micro_batches);
  job.host_progressed = dice.below(2) == 0;
  std::vector<std::int64_t> floats;
  for (int c = 0; c < 4; ++c) floats.push_back(1 + dice.below(10'000'000));
  for (int stage = 0; stage < stages; ++stage) {
    const auto role = job.add_role(stage, {stage});
    const std::uint16_t bodies[] = {job.add_body(role, BodyKind::Forward), job.add_body(role, BodyKind::Backward)};
    for (const int direction : {0, 1}) {
      const auto body = bodies[direction];
      const int source = direction == 0 ? stage - 1 : stage + 1, target = direction == 0 ? stage + 1 : stage - 1;
      for (std::uint32_t c = 0; c < 2; ++c) {
        const auto channel = static_cast<std::uint32_t>(2 * direction) + c;
        std::vector<plan::Dependency> input;
        if (source >= 0 && source < stages)
          input = {{body, job.add_message(role, body, {false, source - stage, channel, floats[channel]})}};
        const auto kernel = job.add_kernel(role, body, dice.seconds(), input);
        add_kernels(job, role, body, dice);
        if (target >= 0 && target < stages) job.add_message(role, body, {true, target - stage, channel, floats[channel]}, {{body, kernel}});
      }
      add_kernels(job, role, body, dice);
    }
    const auto update = job.add_body(role, BodyKind::Update);
    job.add_kernel(role, update, dice.seconds(), {{bodies[1], 0}});
    for (const auto& slot : schedule.slots(stage, stages, micro_batches))
      job.role(role).slots.push_back({bodies[slot.backward ? 1 : 0], slot.micro_batch});
    job.role(role).slots.push_back({update, 0});
  }
  return job;
}

/// Those whose closed form is every rank's time: in a tree the root, or the leaves, are done before the others.
std::vector<const plan::CollectiveRow*> rows_that_end_together() {
  std::vector<const plan::CollectiveRow*> rows;
  for (const auto& row : plan::collective_table()) {
    const bool rooted =
        row.kind == plan::CollectiveKind::Broadcast || row.kind == plan::CollectiveKind::Reduce || row.name == "binomial-tree";
    if (row.exact && !rooted) rows.push_back(&row);
  }
  return rows;
}

/// Kernels and collectives beside each other on one group.
Job random_data_parallel(Dice& dice) {
  const int ranks = 1 << dice.below(5), micro_batches = 1 + dice.below(3);
  Job job({{"dp", ranks, 1}}, micro_batches);
  job.host_progressed = dice.below(2) == 0;
  const auto role = job.add_role(0, {});
  const auto backward = job.add_body(role, BodyKind::Backward), update = job.add_body(role, BodyKind::Update);
  std::vector<plan::Dependency> reduced;
  for (int n = dice.below(4); n >= 0; --n) {
    add_kernels(job, role, backward, dice);
    const auto last = static_cast<std::uint32_t>(job.role(role).bodies[backward].instructions.size() - 1);
    const auto rows = rows_that_end_together();
    const auto& row = *rows[static_cast<std::size_t>(dice.below(static_cast<int>(rows.size())))];
    reduced.push_back({backward, job.add_collective(role, backward, {row.kind, std::string(row.name), 0},
                                                    std::int64_t{1 + dice.below(1000)} << 10, {{backward, last}})});
    if (dice.below(2) == 0) job.role(role).bodies[backward].instructions[reduced.back().instruction].when = plan::When::LastMicroBatch;
  }
  for (const auto& d : reduced) job.add_kernel(role, update, dice.seconds(), {d});
  for (int m = 0; m < micro_batches; ++m) job.role(role).slots.push_back({backward, m});
  job.role(role).slots.push_back({update, 0});
  return job;
}

}  // namespace

TEST_CASE("programs whose messages share no link take the time of the closed form") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const auto pipe = random_pipeline(dice);
    CHECK(pipe.simulated(chain(pipe.program.ranks)) == Approx(pipe.closed_form(chain(pipe.program.ranks))).epsilon(1e-9));
    const auto data = random_data_parallel(dice);
    CHECK(data.simulated(cluster(1, 16, 0)) == Approx(data.closed_form(cluster(1, 16, 0))).epsilon(1e-9));
  }
}

TEST_CASE("one replica stands for all where no links are shared") {
  for (std::uint64_t seed = 200; seed < 230; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const auto job = random_data_parallel(dice);
    CHECK(job.play(*folded_evaluator(), cluster(1, 16, 0)).step.value() == Approx(job.simulated(cluster(1, 16, 0))).epsilon(1e-9));
  }
}

TEST_CASE("a simulation repeats bit by bit") {
  Dice dice(4711);
  for (int n = 0; n < 10; ++n) {
    const auto job = random_pipeline(dice);
    const auto platform = cluster(1, job.program.ranks, 0);
    const auto once = job.play(*full_evaluator(), platform, true), again = job.play(*full_evaluator(), platform, true);
    CHECK(once.step == again.step);
    CHECK(once.events == again.events);
    CHECK(once.links_energy == again.links_energy);
    for (std::size_t r = 0; r < once.timeline.size(); ++r)
      for (std::size_t i = 0; i < once.timeline[r].size(); ++i) {
        CHECK(once.timeline[r][i].begin == again.timeline[r][i].begin);
        CHECK(once.timeline[r][i].end == again.timeline[r][i].end);
      }
  }
}
