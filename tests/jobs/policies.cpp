// Every policy on a few jobs, by hand. Two nodes of two devices unless said otherwise.

#include "tests/jobs/cluster.hpp"

using namespace rehearsal;
using namespace rehearsal::jobs;

namespace {

/// A large job that waits behind a long one, a short and a long one that would have room meanwhile.
std::vector<Job> four_jobs() {
  return {job_of("long", 0, 2, 100), job_of("large", 1, 4, 50), job_of("short", 2, 2, 30), job_of("later", 3, 2, 200)};
}

void check_times(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    INFO("job " << n);
    CHECK(found[n] == Approx(expected[n]).margin(1e-6));
  }
}

}  // namespace

TEST_CASE("fifo: nobody overtakes the large job") {
  const auto o = played(four_jobs(), "fifo");
  check_times(starts(o), {0, 100, 150, 150});
  check_times(finishes(o), {100, 150, 180, 350});
  CHECK(o.jobs[1].waited.value() == Approx(99));
  CHECK(o.jobs[2].waited.value() == Approx(148));
  CHECK(o.makespan.value() == Approx(350));
  // 2 * 100 + 4 * 50 + 2 * 30 + 2 * 200 of 4 * 350 device-seconds
  CHECK(o.utilisation == Approx(860.0 / 1400));
}

TEST_CASE("easy: the short job fills the gap, the one that would delay the large job does not") {
  const auto o = played(four_jobs(), "easy");
  check_times(starts(o), {0, 100, 2, 150});
  check_times(finishes(o), {100, 150, 32, 350});
}

TEST_CASE("easy: a job that needs none of the reserved devices may run on") {
  // Three nodes: the large job needs two, is reserved those that end first, and the third node is free for as long as one likes.
  std::vector<Job> jobs{job_of("long", 0, 2, 100), job_of("middle", 0, 2, 50), job_of("large", 1, 4, 50), job_of("endless", 2, 2, 1000)};
  // At 1 one node is free; with middle's at 50 there are two: reserved. "endless" would hold the free node beyond that.
  check_times(starts(played(jobs, "easy", 3)), {0, 0, 50, 100});
  // Of six nodes the large job is reserved five at 100; the sixth is nobody's.
  jobs = {job_of("long", 0, 4, 100), job_of("middle", 0, 2, 50), job_of("large", 1, 10, 50), job_of("endless", 2, 2, 1000)};
  check_times(starts(played(jobs, "easy", 6)), {0, 0, 100, 2});
}

TEST_CASE("easy relies on what users say") {
  auto jobs = four_jobs();
  jobs[2].estimate = Seconds(500);  // the short job says that it takes longer than the large one has to wait
  check_times(starts(played(jobs, "easy")), {0, 100, 150, 150});
}

TEST_CASE("fair-share: whoever has had least goes first") {
  std::vector<Job> jobs{job_of("a1", 0, 4, 10), job_of("a2", 0, 4, 10), job_of("a3", 0, 4, 10), job_of("b1", 1, 4, 10)};
  for (auto n : {0, 1, 2}) jobs[static_cast<std::size_t>(n)].user = "a";
  check_times(starts(played(jobs, "fair-share")), {0, 20, 30, 10});
  check_times(starts(played(jobs, "fifo")), {0, 10, 20, 30});
  // With a hundred times the weight of b its first job counts as a hundredth of one.
  jobs.push_back(job_of("b2", 1, 4, 10));
  jobs[4].user = jobs[3].user = "b";
  for (auto n : {0, 1, 2}) jobs[static_cast<std::size_t>(n)].weight = 100;
  check_times(starts(played(jobs, "fair-share")), {0, 20, 30, 10, 40});
}

TEST_CASE("gang: jobs in turn, restarts included") {
  std::vector<Job> jobs{job_of("a", 0, 4, 100), job_of("b", 0, 4, 100)};
  for (auto& job : jobs) job.restart = Seconds(5);
  // a 0-30, b 30-60, then 25 s of every 30: a 55 at 90, b 55 at 120, a 80 at 150, b 80 at 180, a trains from 185 and ends at 205; b, which
  // has the devices from then on, trains from 210.
  const auto o = played(jobs, "gang", 2, 30);
  check_times(finishes(o), {205, 230});
  CHECK(o.jobs[0].restarts == 3);
  CHECK(o.jobs[1].restarts == 3);
  // a held 30 + 30 + 30 + 25 s
  CHECK(o.jobs[0].served.value() == Approx(4 * 115));
  CHECK(o.jobs[0].waited.value() == Approx(205 - 115));
}

TEST_CASE("gang: without anybody waiting nobody is stopped") {
  const auto o = played({job_of("a", 0, 2, 100), job_of("b", 0, 2, 100)}, "gang", 2, 7);
  check_times(finishes(o), {100, 100});
  CHECK(o.jobs[0].restarts == 0);
}

TEST_CASE("themis: devices go to whom sharing has cost most") {
  const std::vector<Job> jobs{job_of("a", 0, 4, 100), job_of("b", 10, 4, 20)};
  // At 30 a would end at 100, which is 0.6 of what half of the cluster took (1.67 jobs in the mean); b at 50, 1.0 of it.
  const auto o = played(jobs, "themis", 2, 30);
  check_times(finishes(o), {120, 50});
  // a: one job for 10 s, two for 40, one for 70: 160 / 120; 120 / (100 * 1.3333)
  CHECK(o.jobs[0].fairness == Approx(0.9));
  CHECK(o.jobs[1].fairness == Approx(1.0));
  const double a = 1 / 0.9, b = 1;
  CHECK(o.jain == Approx((a + b) * (a + b) / (2 * (a * a + b * b))));
}

TEST_CASE("elastic: jobs shrink when others come and grow when they end") {
  std::vector<Job> jobs{job_of("a", 0, 2, 100, 2), job_of("b", 10, 2, 100, 2)};
  for (auto& job : jobs) {
    job.least = 1;
    job.most = 4;
    for (const auto& [devices, step] : {std::pair(1, 4.0), std::pair(4, 1.0)})
      job.paces[devices] = {.step = Seconds(step), .on_network = Seconds(0), .power = Watts(0), .plan = {}};
  }
  // a alone on four devices makes ten steps in 10 s, then 90 of two seconds on two: 190. b has made 90 by then, and ten more on four.
  const auto o = played(jobs, "elastic");
  check_times(starts(o), {0, 10});
  check_times(finishes(o), {190, 200});
  CHECK(o.jobs[0].restarts == 1);
  CHECK(o.utilisation == Approx(1));
  // Where four devices are no quicker than two, nobody takes them.
  for (auto& job : jobs) job.paces[4].step = Seconds(2);
  CHECK(played(jobs, "elastic").jobs[0].restarts == 0);
}

TEST_CASE("finish-time fairness counts the jobs that there are") {
  const auto o = played(four_jobs(), "fifo");
  // large: 2 jobs for 1 s, 3 for 1, 4 for 97, 3 for 50, in the mean of its 149 s
  const double contenders = (2 + 3 + 4 * 97 + 3 * 50) / 149.0;
  CHECK(o.jobs[1].fairness == Approx(149 / (50 * contenders)));
  // A job alone on the cluster has what it is due.
  CHECK(played({job_of("alone", 5, 2, 100)}, "fifo").jobs[0].fairness == Approx(1));
}

TEST_CASE("Jain's index: one for equals, one over n where one has it all") {
  const std::vector<double> equal{3, 3, 3}, one{5, 0, 0, 0}, two{1, 3};
  CHECK(jain_index(equal) == Approx(1));
  CHECK(jain_index(one) == Approx(0.25));
  CHECK(jain_index(two) == Approx(16.0 / 20));
}

TEST_CASE("energy and money are of the whole cluster until the last job ends") {
  auto job = job_of("a", 50, 2, 100);
  job.paces[2].power = Watts(300);
  const auto platform = cluster_of(2);
  const auto o = play(std::vector{job}, platform, policy_named("fifo"), {});
  const auto& node = platform.nodes.front();
  const double idle = node.device.idle_power.value.value(), host = node.host_power.value.value();
  // 50 s with four idle devices, 100 s with two and the job's
  CHECK(o.energy.value() == Approx(platform.pue.value * (50 * (4 * idle + 2 * host) + 100 * (300 + 2 * idle + 2 * host))));
  CHECK(o.money.value() == Approx(2 * 3.4 * 150 / 3600));
}

TEST_CASE("what the cluster cannot have is refused by the job's name") {
  CHECK_THROWS_WITH(played({job_of("odd", 0, 3, 1)}, "fifo"), contains("job odd asks for 3 devices") && contains("2 nodes of 2"));
  CHECK_THROWS_WITH(played({job_of("huge", 0, 8, 1)}, "fifo"), contains("job huge"));
  auto saves = job_of("saves", 0, 2, 1);
  saves.checkpoint_every = Seconds(60);
  auto platform = cluster_of(2);
  platform.nodes.front().storage_bandwidth.reset();
  CHECK_THROWS_WITH(play(std::vector{saves}, platform, policy_named("fifo"), {}), contains("job saves") && contains("storage_bandwidth"));
  platform.nodes.push_back(platform.nodes.front());
  CHECK_THROWS_WITH(play(std::vector{job_of("a", 0, 2, 1)}, platform, policy_named("fifo"), {}), contains("equal nodes"));
}

TEST_CASE("short jobs end however late it is") {
  // After 1000.3 days the clock goes in steps of 1.5e-8 s, which 1.3 s are no multiple of.
  const double late = 1000.3 * 86'400;
  for (const auto& policy : policy_table()) {
    INFO(policy.name);
    const auto o = played({job_of("late", late, 1, 1, 1.3), job_of("after", late + 2, 1, 3, 0.7)}, policy.name);
    CHECK(o.jobs[0].finish.value() - late == Approx(1.3).margin(1e-7));
    CHECK(o.jobs[1].finish.value() - late == Approx(2 + 2.1).margin(1e-7));
    // A nanosecond is nothing then, and nobody has been treated unfairly.
    const auto shortest = played({job_of("shortest", late, 1, 1, 1e-9)}, policy.name);
    CHECK(shortest.jobs[0].finish.value() == late);
    CHECK(shortest.jobs[0].fairness == 1);
    CHECK(shortest.jain == 1);
  }
}

namespace {

/// Starts what has room, and wants to be asked again at once.
class Restless final : public Policy {
 public:
  void decide(Schedule& schedule) override {
    for (const auto job : schedule.waiting()) schedule.start_where_room(job);
  }
  [[nodiscard]] std::optional<Seconds> wake(const Schedule& schedule) const override { return schedule.now(); }
};

}  // namespace

TEST_CASE("a schedule without an end is refused, without --slice where devices are not given anew after one") {
  const PolicyRow restless{.name = "restless", .description = "", .make = [](const PolicySettings&) -> std::unique_ptr<Policy> {
                             return std::make_unique<Restless>();
                           }};
  CHECK_THROWS_WITH(play(std::vector{job_of("a", 0, 1, 1)}, cluster_of(1), restless, {}),
                    contains("the schedule has not ended at 0 s") && !contains("--slice"));
}
