// What jobs that share links and storage lose to each other, by hand.

#include "jobs/contention.hpp"

#include "tests/jobs/cluster.hpp"

using namespace rehearsal;
using namespace rehearsal::jobs;

namespace {

/// Two leaves of two nodes, one link of a card's rate up from each.
platforms::Platform two_leaves() {
  auto platform = cluster_of(4);
  platform.topology = {};
  platform.topology.kind = "fat-tree";
  platform.topology.parameters = {{"arity", {2}}, {"levels", {2}}, {"oversubscription", {2}}};
  platform.topology.bandwidth = BytesPerSecond(1.25e9);
  platform.topology.latency = Seconds(1e-6);
  return platform;
}

Job half_on_network(const std::string& name) {
  auto job = job_of(name, 0, 4, 100);
  job.paces[4].on_network = Seconds(0.5);
  return job;
}

}  // namespace

TEST_CASE("jobs that cross the same link wait for each other as often as they send") {
  const Contention contention(two_leaves());
  const auto a = half_on_network("a"), b = half_on_network("b");
  // One node in each leaf: both fill the link up (two devices, half a card each), and the other is there half of the time.
  const std::vector<Placed> crossing{{&a, {0, 1, 4, 5}}, {&b, {2, 3, 6, 7}}};
  for (const auto step : contention.steps(crossing)) CHECK(step.value() == Approx(0.5 + 0.5 * 1.5));
  // Each in a leaf of its own: nothing is shared.
  const std::vector<Placed> apart{{&a, {0, 1, 2, 3}}, {&b, {4, 5, 6, 7}}};
  for (const auto step : contention.steps(apart)) CHECK(step.value() == Approx(1));
  // Alone on the link, a job is as quick as predicted.
  CHECK(contention.steps(std::span(crossing).first(1)).front().value() == Approx(1));
}

TEST_CASE("with twice the links the same jobs do not meet") {
  auto platform = two_leaves();
  platform.topology.parameters["oversubscription"] = {1};
  platform.topology.bandwidth = BytesPerSecond(2.5e9);
  const Contention contention(platform);
  const auto a = half_on_network("a"), b = half_on_network("b");
  const std::vector<Placed> crossing{{&a, {0, 1, 4, 5}}, {&b, {2, 3, 6, 7}}};
  for (const auto step : contention.steps(crossing)) CHECK(step.value() == Approx(1));
}

TEST_CASE("a job that does not send takes nothing from one that does") {
  const Contention contention(two_leaves());
  const auto a = half_on_network("a");
  const auto quiet = job_of("quiet", 0, 4, 100);
  const std::vector<Placed> crossing{{&a, {0, 1, 4, 5}}, {&quiet, {2, 3, 6, 7}}};
  const auto steps = contention.steps(crossing);
  CHECK(steps[0].value() == Approx(1));
  CHECK(steps[1].value() == Approx(1));
}

TEST_CASE("checkpoints share the storage of all nodes") {
  auto platform = cluster_of(2);
  platform.nodes.front().storage_bandwidth = BytesPerSecond(1e9);
  auto a = job_of("a", 0, 2, 100), b = job_of("b", 0, 2, 100);
  for (auto* job : {&a, &b}) {
    job->checkpoint = Bytes(1e10);
    job->checkpoint_every = Seconds(90);
  }
  const std::vector<Placed> both{{&a, {0, 1}}, {&b, {2, 3}}};
  // 10 s after every 90, each on its own node
  for (const auto step : Contention(platform).steps(both)) CHECK(step.value() == Approx(1 + 10.0 / 90));
  // Storage takes one node's rate in all, and the other writes a tenth of the time.
  platform.storage_bandwidth = BytesPerSecond(1e9);
  for (const auto step : Contention(platform).steps(both)) CHECK(step.value() == Approx(1 + 10.0 / 90 * 1.1));
  // A job on both nodes writes at the rate of both, where storage takes it.
  auto large = job_of("large", 0, 4, 100);
  large.checkpoint = Bytes(1e10);
  CHECK(Contention(platform).checkpoint_time(large, 4).value() == Approx(10));
  platform.storage_bandwidth = BytesPerSecond(5e9);
  CHECK(Contention(platform).checkpoint_time(large, 4).value() == Approx(5));
}

TEST_CASE("writing checkpoints is part of what a job takes alone") {
  auto platform = cluster_of(2);
  platform.nodes.front().storage_bandwidth = BytesPerSecond(1e9);
  auto a = job_of("a", 0, 2, 100);
  a.checkpoint = Bytes(1e10);
  a.checkpoint_every = Seconds(90);
  // 10 s after every 90
  const Contention contention(platform);
  CHECK(contention.step_alone(a, 2).value() == Approx(1 + 10.0 / 90));
  CHECK(contention.alone(a).value() == Approx(100 * (1 + 10.0 / 90)));
  CHECK(contention.steps(std::vector<Placed>{{&a, {0, 1}}}).front().value() == Approx(contention.step_alone(a, 2).value()).epsilon(1e-12));
  // By itself it loses nothing to others, whoever decides.
  for (const auto& policy : policy_table()) {
    const auto o = play(std::vector{a}, platform, policy, {});
    CHECK(o.jobs[0].finish.value() == Approx(100 * (1 + 10.0 / 90)));
    CHECK(o.jobs[0].fairness == Approx(1));
    CHECK(o.jobs[0].slowed == Approx(1));
  }
}

TEST_CASE("easy reckons with the checkpoints of whoever it lets go first") {
  auto platform = cluster_of(2);
  platform.nodes.front().storage_bandwidth = BytesPerSecond(1e9);
  std::vector<Job> jobs{job_of("long", 0, 2, 100), job_of("head", 1, 4, 50), job_of("behind", 2, 2, 90)};
  // 90 s from 2 s on end before 100; with 10 s of writing for every 30 of training they would end at 2 + 120.
  CHECK(starts(play(jobs, platform, policy_named("easy"), {})) == std::vector<double>{0, 100, 2});
  jobs[2].checkpoint = Bytes(1e10);
  jobs[2].checkpoint_every = Seconds(30);
  CHECK(starts(play(jobs, platform, policy_named("easy"), {})) == std::vector<double>{0, 100, 150});
  // What has just been started is expected to end with its checkpoints, too: head's place is reserved from 100 * 4 / 3 on, and 130 s end
  // before that.
  std::swap(jobs[0].checkpoint, jobs[2].checkpoint);
  std::swap(jobs[0].checkpoint_every, jobs[2].checkpoint_every);
  jobs[2].steps = 130;
  for (auto& job : jobs) job.arrival = Seconds(0);
  CHECK(starts(play(jobs, platform, policy_named("easy"), {}))[2] == 0);
}

TEST_CASE("played, contention makes jobs end later, and is said") {
  // Three nodes each on two leaves of three: one of them always crosses.
  auto platform = two_leaves();
  const std::vector<Job> jobs{half_on_network("a"), half_on_network("b")};
  // Side by side in their leaves they share nothing.
  const auto apart = play(jobs, platform, policy_named("fifo"), {});
  CHECK(apart.jobs[0].finish.value() == Approx(100));
  CHECK(apart.jobs[0].slowed == Approx(1));
  // A job on node 0 leaves nodes 1 and 2 to a, and 3 to nobody; the other one waits.
  std::vector<Job> three{job_of("small", 0, 2, 1000), half_on_network("a")};
  const auto crossing = play(three, platform, policy_named("fifo"), {});
  CHECK(crossing.jobs[1].finish.value() == Approx(100));  // nobody else is on the links
}

TEST_CASE("starting again takes writing and reading the checkpoint, too") {
  auto platform = cluster_of(2);
  platform.nodes.front().storage_bandwidth = BytesPerSecond(1e9);
  std::vector<Job> jobs{job_of("a", 0, 4, 100), job_of("b", 0, 4, 100)};
  for (auto& job : jobs) {
    job.restart = Seconds(1);
    job.checkpoint = Bytes(4e9);  // two nodes: 2 s
  }
  const auto o = play(jobs, platform, policy_named("gang"), {.slice = Seconds(30)});
  // The same turns as with restarts of 5 s in policies.cpp.
  CHECK(o.jobs[0].finish.value() == Approx(205));
  CHECK(o.jobs[1].finish.value() == Approx(230));
}
