// Steps whose time, shares and energy are known by hand.
#include <algorithm>
#include <cmath>

#include "costmodel/cost_model.hpp"
#include "plan/schedules/schedule.hpp"
#include "predict/playing.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::predict;

namespace {

constexpr double kBandwidth = 100e9, kLatency = 2e-6;  // between devices of the box

/// One box; devices idle at 50 W, busy at 300 W.
platforms::Platform box(int devices) {
  platforms::NodeGroup group;
  group.name = "box";
  group.devices = devices;
  group.device.name = "chip";
  group.device.peaks.emplace("f32", FlopsPerSecond(1e12));
  group.device.memory = Bytes(16e9);
  group.device.memory_bandwidth = BytesPerSecond(3e12);
  group.device.idle_power = Watts(50);
  group.device.busy_power = Watts(300);
  group.intra.kind = platforms::IntraKind::Nvswitch;
  group.intra.bandwidth = BytesPerSecond(kBandwidth);
  group.intra.latency = Seconds(kLatency);
  group.host_memory = Bytes(256e9);
  platforms::Platform platform;
  platform.name = "box";
  platform.nodes = {group};
  return platform;
}

/// A Program of stages that is written down, with the seconds of every instruction.
struct Written {
  Program program;
  ProgramCosts costs;
  costmodel::Calibration calibration;

  Written(int stages, int micro_batches) {
    program.ranks = stages;
    program.axes = {{"dp", 1, 1}, {"pp", stages, 1}};
    program.micro_batches = micro_batches;
    program.batch = micro_batches;
    for (int s = 0; s < stages; ++s) {
      auto& role = program.roles.emplace_back();
      role.stage = s;
      role.variant_samples = {1};
      role.variant_of.assign(static_cast<std::size_t>(micro_batches), 0);
      for (auto kind : {BodyKind::Forward, BodyKind::Backward, BodyKind::Update}) role.bodies.push_back({kind, 0, {}});
      program.role_of.push_back(static_cast<std::uint32_t>(s));
      costs.roles.emplace_back().seconds.resize(3);
    }
  }

  std::uint32_t add(int stage, std::uint16_t body, Instruction i, double seconds) {
    auto& list = program.roles[static_cast<std::size_t>(stage)].bodies[body].instructions;
    list.push_back(std::move(i));
    costmodel::Estimate estimate;
    estimate.seconds = Seconds(seconds);
    costs.roles[static_cast<std::size_t>(stage)].seconds[body].push_back({estimate});
    return static_cast<std::uint32_t>(list.size() - 1);
  }
  std::uint32_t compute(int stage, std::uint16_t body, double seconds, std::vector<Dependency> after = {}) {
    Instruction i;
    i.after = std::move(after);
    i.phase = body == 2 ? graph::Phase::Update : body == 1 ? graph::Phase::Backward : graph::Phase::Forward;
    return add(stage, body, std::move(i), seconds);
  }
  std::uint32_t message(int stage, std::uint16_t body, bool sends, int offset, std::int64_t floats, std::vector<Dependency> after = {}) {
    auto& role = program.roles[static_cast<std::size_t>(stage)];
    Buffer buffer;
    buffer.shapes = {{floats}};
    buffer.bytes = 4 * floats;
    role.buffers.push_back(buffer);
    Instruction i;
    i.kind = sends ? InstructionKind::Send : InstructionKind::Receive;
    i.stream = sends ? Stream::Send : Stream::Receive;
    (sends ? i.inputs : i.outputs).push_back(static_cast<BufferIndex>(role.buffers.size() - 1));
    i.after = std::move(after);
    i.message = static_cast<std::int32_t>(role.messages.size());
    role.messages.push_back({offset, body});
    return add(stage, body, std::move(i), 0);
  }
  [[nodiscard]] StepCost play(bool timeline = false) const {
    const auto platform = box(program.ranks);
    const costmodel::CostModel model(platforms::device_of(platform, 0), calibration, "f32");
    return closed_form_evaluator()->evaluate({program, costs, platform, model, timeline});
  }
};

/// Stages of equal work with messages of one float.
Written pipeline(const std::string& name, int stages, int micro_batches, double forward, double backward) {
  Written w(stages, micro_batches);
  for (int s = 0; s < stages; ++s) {
    std::vector<Dependency> arrived;
    if (s > 0) arrived = {{0, w.message(s, 0, false, -1, 1)}};
    const auto f = w.compute(s, 0, forward, arrived);
    if (s + 1 < stages) w.message(s, 0, true, +1, 1, {{0, f}});
    arrived.clear();
    if (s + 1 < stages) arrived = {{1, w.message(s, 1, false, +1, 1)}};
    const auto b = w.compute(s, 1, backward, arrived);
    if (s > 0) w.message(s, 1, true, -1, 1, {{1, b}});
    for (const auto& slot : schedule(name).slots(s, stages, micro_batches))
      w.program.roles[static_cast<std::size_t>(s)].slots.push_back({static_cast<std::uint16_t>(slot.backward ? 1 : 0), slot.micro_batch});
    for (int m = 0; m < schedule(name).ahead(s, {stages, micro_batches, 1}); ++m)
      w.program.roles[static_cast<std::size_t>(s)].opening.push_back({0, m});
  }
  return w;
}

double sum(const Breakdown& b) {
  return b.compute.value() + b.exposed_communication.value() + b.bubble.value() + b.recompute.value() + b.optimizer.value() + b.io.value();
}

}  // namespace

TEST_CASE("equal stages idle as their schedule says") {
  const auto* name = GENERATE("gpipe", "1f1b");
  const auto [stages, micro_batches] = GENERATE(std::pair{2, 1}, std::pair{2, 4}, std::pair{4, 4}, std::pair{4, 9});
  INFO(name << ", " << stages << " stages, " << micro_batches << " micro-batches");
  // Forward 1 s, backward 2 s: messages of 2 us do not count. Step / ideal = (m + p - 1) / m = 1 + bubble.
  const auto cost = pipeline(name, stages, micro_batches, 1, 2).play();
  const double ideal = 3.0 * micro_batches;
  CHECK(cost.step.value() == Approx(3.0 * (micro_batches + stages - 1)).epsilon(1e-4));
  CHECK(cost.step.value() / ideal == Approx(1 + schedule(name).bubble(stages, micro_batches)).epsilon(1e-4));
  CHECK(sum(cost.breakdown) == Approx(cost.step.value()).epsilon(1e-12));
  for (const double busy : cost.busy_seconds) CHECK(busy == Approx(ideal));
}

TEST_CASE("a step without a flush takes as long as its passes") {
  const auto [name, stages, micro_batches] = GENERATE(std::tuple{"pipedream", 2, 1}, std::tuple{"pipedream", 5, 1},
                                                      std::tuple{"pipedream-2bw", 4, 3}, std::tuple{"pipedream-2bw", 4, 9});
  INFO(name << ", " << stages << " stages, " << micro_batches << " micro-batches");
  auto written = pipeline(name, stages, micro_batches, 1, 2);
  for (int s = 0; s < stages; ++s) {
    written.compute(s, 2, 0.5);
    written.program.roles[static_cast<std::size_t>(s)].slots.push_back({2, 0});
  }
  REQUIRE(crosses_steps(written.program));
  const auto cost = written.play(true);
  const double step = 3.0 * micro_batches + 0.5;  // forward 1 s, backward 2 s, and the update: nobody waits
  CHECK(cost.step.value() == Approx(step).epsilon(1e-4));
  CHECK(cost.total.seconds().value() == Approx(step).epsilon(1e-4));
  CHECK(cost.breakdown.compute.value() == Approx(3.0 * micro_batches));
  CHECK(cost.breakdown.optimizer.value() == Approx(0.5));
  CHECK(cost.breakdown.bubble.value() == Approx(0).margin(1e-3));
  for (const double busy : cost.busy_seconds) CHECK(busy == Approx(step));
  // Idle power of 50 W for the step, 250 W more while busy, of every device.
  CHECK(cost.devices_energy.value() == Approx(stages * 300 * step).epsilon(1e-4));
  // Of the first stage: a kernel and a message for each pass, those forward of micro-batches that are `stages - 1` ahead; the update.
  REQUIRE(cost.timeline.size() == static_cast<std::size_t>(stages));
  const auto& first = cost.timeline.front();
  CHECK(first.size() == static_cast<std::size_t>(4 * micro_batches + 1));
  CHECK(std::count_if(first.begin(), first.end(),
                      [stages = stages](const TimedInstruction& p) { return p.body == 0 && p.micro_batch == stages - 1; }) == 2);
  CHECK(std::count_if(first.begin(), first.end(), [](const TimedInstruction& p) { return p.body == 1 && p.micro_batch == 0; }) == 2);
}

TEST_CASE("two ranks, moment by moment") {
  // Rank 0 computes 10 ms, then sends 4 MB: 2 us + 4e6 B / 100 GB/s = 42 us. Rank 1 computes 1 ms, then waits for the message and computes
  // 5 ms on it, then updates for 2 ms: it ends at 10 + 0.042 + 5 + 2 = 17.042 ms.
  Written w(2, 1);
  const auto made = w.compute(0, 0, 10e-3);
  w.message(0, 0, true, +1, 1'000'000, {{0, made}});
  const auto arrived = w.message(1, 0, false, -1, 1'000'000);
  w.compute(1, 0, 1e-3);
  w.compute(1, 0, 5e-3, {{0, arrived}});
  w.compute(1, 2, 2e-3);
  w.program.roles[0].slots = {{0, 0}};
  w.program.roles[1].slots = {{0, 0}, {2, 0}};
  const auto cost = w.play(true);
  CHECK(cost.step.value() == Approx(17.042e-3).epsilon(1e-12));
  // Rank 0 computes and sends for 10.042 ms, rank 1 receives and computes for 8.042 ms: the step waits for rank 0, which has nothing to do
  // in the last 7 ms.
  CHECK(cost.limiting_rank == 0);
  CHECK(cost.imbalance.value() == Approx(10e-3 - 9e-3));  // it computes more than the mean of the two
  CHECK(cost.breakdown.compute.value() == Approx(10e-3));
  CHECK(cost.breakdown.optimizer.value() == Approx(0).margin(1e-12));
  CHECK(cost.breakdown.bubble.value() == Approx(7e-3));
  CHECK(cost.breakdown.exposed_communication.value() == Approx(0.042e-3));
  CHECK(sum(cost.breakdown) == Approx(cost.step.value()).epsilon(1e-12));
  // Two devices idle at 50 W for 17.042 ms, and 250 W more while they compute (10 and 8 ms): 1.7042 J + 4.5 J.
  CHECK(cost.devices_energy.value() == Approx(1.7042 + 4.5).epsilon(1e-9));
  REQUIRE(cost.timeline.size() == 2);
  REQUIRE(cost.timeline[1].size() == 4);
  const auto& last = cost.timeline[1][2];
  CHECK(last.begin == Approx(10.042e-3));
  CHECK(last.end == Approx(15.042e-3));
}

namespace {

/// Rank 1 computes 20 ms and sends 4 MB (42 us). Rank 0, which has computed 5 ms by then, computes 10 ms on them and sends as much back,
/// from 30.042 to 30.084 ms. Rank 1 has asked for it from the beginning, and nothing follows.
Written there_and_back() {
  Written w(2, 1);
  constexpr std::int64_t kFloats = 1'000'000;
  w.compute(0, 0, 5e-3);
  const auto arrived = w.message(0, 0, false, +1, kFloats);
  const auto answer = w.compute(0, 0, 10e-3, {{0, arrived}});
  w.message(0, 1, true, +1, kFloats, {{0, answer}});
  const auto made = w.compute(1, 0, 20e-3);
  w.message(1, 0, true, -1, kFloats, {{0, made}});
  w.message(1, 1, false, -1, kFloats);
  for (auto& role : w.program.roles) role.slots = {{0, 0}, {1, 0}};
  return w;
}

}  // namespace

TEST_CASE("a message costs while it is on its way; until it is sent, its receiver waits for the other stage") {
  auto w = there_and_back();
  constexpr double kSure = 0.5;  // standard deviation of the logarithm of what is computed
  for (auto& role : w.costs.roles)
    for (auto& body : role.seconds)
      for (auto& estimates : body) estimates.front().log_error = kSure;
  const auto cost = w.play();
  CHECK(cost.step.value() == Approx(30.084e-3).epsilon(1e-12));
  CHECK(cost.limiting_rank == 1);
  CHECK(cost.breakdown.compute.value() == Approx(20e-3));
  CHECK(cost.breakdown.exposed_communication.value() == Approx(2 * 0.042e-3));
  CHECK(cost.breakdown.bubble.value() == Approx(10e-3));  // from 20.042 to 30.042 ms
  CHECK(sum(cost.breakdown) == Approx(cost.step.value()).epsilon(1e-12));
  CHECK(cost.imbalance.value() == Approx(20e-3 - (20e-3 + 15e-3) / 2));
  // The 10 ms are what the other stage computes, and as wrong as that; links are wrong about the two messages alone.
  const costmodel::CostModel model(platforms::device_of(box(2), 0), {}, "f32");
  CHECK(cost.total.log_error() ==
        Approx(std::hypot(std::hypot(kSure * 30e-3, model.link_log_error() * 0.084e-3) / 30.084e-3, model.composition_log_error())));
}

TEST_CASE("what executing a step takes beyond its parts is in all of them") {
  auto w = there_and_back();
  w.calibration.corrections = {{"step", 0, 1.5, 0.1, 3}};
  const auto cost = w.play(true);
  CHECK(cost.step.value() == Approx(1.5 * 30.084e-3));
  CHECK(cost.breakdown.compute.value() == Approx(1.5 * 20e-3));
  CHECK(cost.breakdown.bubble.value() == Approx(1.5 * 10e-3));
  CHECK(sum(cost.breakdown) == Approx(cost.step.value()).epsilon(1e-12));
  CHECK(cost.imbalance.value() == Approx(1.5 * 2.5e-3));
  // The timeline fills the step, too: rank 1 receives last.
  CHECK(cost.timeline[1].back().end == Approx(1.5 * 30.084e-3));
  CHECK(cost.timeline[1].front().end == Approx(1.5 * 20e-3));
}

TEST_CASE("spans of time are counted once, in whatever order they come") {
  JoinedSpans spans;
  CHECK(spans.covered() == 0);
  spans.add(4, 6);
  spans.add(1, 2);
  spans.add(8, 8);  // no time
  CHECK(spans.covered() == Approx(3));
  spans.add(1.5, 3);
  spans.add(7, 9);
  CHECK(spans.covered() == Approx(6));  // 1 to 3, 4 to 6, 7 to 9
  spans.add(0, 7.5);
  CHECK(spans.covered() == Approx(9));
}

TEST_CASE("the rank with the largest blocks stands for its stage") {
  // 3 heads on 2 ranks: the second one has two of them
  Written w(1, 1);
  w.program.ranks = 2;
  w.program.axes = {{"dp", 1, 1}, {"tp", 2, 1}};
  w.program.roles.push_back(w.program.roles.front());
  w.program.role_of = {0, 1};
  for (const std::int64_t heads : {1, 2}) {
    Buffer block;
    block.bytes = 64 * heads;
    w.program.roles[static_cast<std::size_t>(heads - 1)].buffers.push_back(block);
  }
  CHECK(plan::representatives(w.program) == std::vector{1});
  std::swap(w.program.role_of[0], w.program.role_of[1]);
  CHECK(plan::representatives(w.program) == std::vector{0});
}

TEST_CASE("the rank that takes longest stands for its stage, not the one with the largest part") {
  // Of 7 columns the first rank has four, which take 1 s, the other three, which take 3 s, as widths do that no vector load fits.
  Written w(2, 1);
  w.program.axes = {{"dp", 1, 1}, {"tp", 2, 1}};
  const std::int64_t columns[] = {4, 3};
  const double seconds[] = {1, 3};
  for (int rank = 0; rank < 2; ++rank) {
    auto& role = w.program.roles[static_cast<std::size_t>(rank)];
    role.stage = 0;
    role.slots = {{0, 0}};
    Buffer part;
    part.bytes = 4 * columns[rank];
    role.buffers = {part};
    w.compute(rank, 0, seconds[rank]);
  }
  CHECK(plan::representatives(w.program) == std::vector{0});
  CHECK(busiest_representatives(w.program, w.costs, box(2)) == std::vector{1});
  CHECK(w.play().step.value() == Approx(3));
  // Where both take as long, the larger one stands for both.
  w.costs.roles[1] = w.costs.roles[0];
  CHECK(busiest_representatives(w.program, w.costs, box(2)) == std::vector{0});
  w.program.roles[1].buffers.front().bytes = 20;
  CHECK(busiest_representatives(w.program, w.costs, box(2)) == std::vector{1});
}

TEST_CASE("messages that do not match are our own bug, not a hang") {
  Written w(2, 1);
  const auto arrived = w.message(1, 0, false, -1, 10);
  w.compute(1, 0, 1e-3, {{0, arrived}});
  w.program.roles[1].slots = {{0, 0}};
  CHECK_THROWS_WITH(w.play(), contains("messages do not match"));
}

TEST_CASE("replicas that differ meet in each of their sums") {
  // Two replicas compute, sum, compute on what was summed, and sum again. The first takes 1 and 3 s, the second 2 and 1 s, a sum 0.5 s.
  // The first sum begins when the second replica is there, at 2 s, the other one when the first is, at 2.5 + 3 s: the step ends at 6 s.
  // Each alone would take 5 and 4 s.
  Written w(2, 1);
  w.program.axes = {{"dp", 2, 1}};
  w.program.batch = 2;
  w.costs.with_messages = true;
  const double seconds[2][2] = {{1, 3}, {2, 1}};
  for (int replica = 0; replica < 2; ++replica) {
    auto& role = w.program.roles[static_cast<std::size_t>(replica)];
    role.stage = 0;
    role.slots = {{0, 0}};
    Buffer vector;
    vector.shapes = {{16}};
    vector.bytes = 64;
    role.buffers = {vector};
    role.collectives = {{CollectiveKind::AllReduce, "ring", 0}};
    Instruction sum;
    sum.kind = InstructionKind::Collective;
    sum.stream = Stream::Collective;
    sum.inputs = sum.outputs = {0};
    sum.collective = 0;
    std::vector<Dependency> summed;
    for (const double s : seconds[replica]) {
      sum.after = {{0, w.compute(replica, 0, s, summed)}};
      summed = {{0, w.add(replica, 0, sum, 0.5)}};
    }
  }
  const auto cost = w.play(true);
  CHECK(cost.step.value() == Approx(6));
  // The first replica waits 1 s for the second, and both sums are exposed.
  CHECK(cost.breakdown.compute.value() == Approx(4));
  CHECK(cost.breakdown.exposed_communication.value() == Approx(2));
  CHECK(cost.busy_seconds == std::vector<double>{4, 3});
  // Idle power of 50 W for 6 s of two devices, 250 W more for 4 and 3 s: 600 J + 1750 J.
  CHECK(cost.devices_energy.value() == Approx(2350));
  CHECK(cost.timeline.size() == 1);  // of the replica that stands for all
}
