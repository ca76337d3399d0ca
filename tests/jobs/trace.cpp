// Traces of clusters: how they are read, and what a published one does on fewer devices.
#include <algorithm>
#include <queue>
#include <sstream>

#include "jobs/trace_csv.hpp"
#include "tests/jobs/cluster.hpp"

using namespace rehearsal;
using namespace rehearsal::jobs;

namespace {

JobTrace read(const std::string& text) {
  std::istringstream in(text);
  return read_job_trace(in, "trace.csv");
}

std::vector<Job> jobs_of(const JobTrace& trace) {
  std::vector<Job> jobs;
  for (const auto& entry : trace.jobs) jobs.push_back(entry.job);
  return jobs;
}

Seconds length_of(const Job& job) { return job.pace(job.devices).step * job.steps; }

}  // namespace

TEST_CASE("columns of a trace are found by what schedulers call them") {
  // As Helios and Acme have it: dates, and a user.
  const auto acme =
      read("job_id,user,gpu_num,submit_time,duration\nb,ann,8,2023-05-17 11:01:00+00:00,\"3600\"\na,bob,1,2023-05-17T11:00:30,10\n");
  REQUIRE(acme.jobs.size() == 2);
  const auto& first = acme.jobs[0].job;
  CHECK(first.name == "a");
  CHECK(first.user == "bob");
  CHECK(first.arrival.value() == 0);
  const auto& second = acme.jobs[1].job;
  CHECK(second.arrival.value() == 30);
  CHECK(second.devices == 8);
  CHECK(length_of(second).value() == 3600);
  const auto zones = read("gpus,arrival,seconds\n1,2023-05-17 02:00:00+02:00,3\n1,2023-05-17T00:00:10.5Z,3\n");
  CHECK(zones.jobs[1].job.arrival.value() == 10);
  // Begin and end; a job that waits still; a job on processors; a share of a device.
  const auto pods = read(
      "Name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
      "p,2,1000,100,700,200\nq,1,1000,100,700,\nr,0,0,1,2,1\ns,1,460,1,2,1\n");
  REQUIRE(pods.jobs.size() == 1);
  CHECK(length_of(pods.jobs[0].job).value() == 500);
  CHECK(pods.without_length == 1);
  CHECK(pods.without_devices == 2);
}

TEST_CASE("a trace that is none is refused by line") {
  const auto refused = [](const std::string& text, const std::string& at, const std::string& why) {
    INFO(text);
    CHECK_THROWS_WITH(read(text), contains(at) && contains(why));
  };
  refused("", "trace.csv", "empty");
  refused("submit_time,duration\n1,2\n", "trace.csv:1", "num_gpu");
  refused("gpus,duration\n1,2\n", "trace.csv:1", "submit_time");
  refused("gpus,arrival\n1,2\n", "trace.csv:1", "duration");
  refused("gpus,arrival,seconds\n1,2\n", "trace.csv:2", "has 2 cells; the first line names 3");
  refused("gpus,arrival,seconds\nmany,2,3\n", "trace.csv:2", "\"many\"");
  refused("gpus,arrival,seconds\n1,2023-13-01 00:00:00,3\n", "trace.csv:2", "2023-13-01");
  refused("gpus,arrival,seconds\n1,2023-05-17 25:00:00,3\n", "trace.csv:2", "25:00:00");
  refused("gpus,arrival,seconds\n1,2023-05-17 11:00:00 CEST,3\n", "trace.csv:2", "CEST");
  refused("gpus,gpu_milli,arrival,seconds\n1,half,4,3\n", "trace.csv:2", "\"half\"");
  refused("gpus,arrival,seconds\n1,-4,3\n", "trace.csv:2", "\"-4\"");
  refused("gpus,arrival,seconds\n0,1,3\n", "trace.csv", "no job");
  refused("job_id,gpus,arrival,seconds\na,1,1,3\na,1,1,3\n", "trace.csv:3", "'a'");
}

// 200 rows in a row of Alibaba's trace of 2023 (github.com/alibaba/clusterdata, cluster-trace-gpu-v2023, openb_pod_list_default.csv; Weng
// et al., "Beware of Fragmentation", USENIX ATC 2023), of which 117 ask for whole devices and ran.
TEST_CASE("a published trace, played first come first served on few devices, is a queue in front of so many servers") {
  const auto trace = read_job_trace_file(TRACE_SAMPLE);
  CHECK(trace.jobs.size() == 117);
  auto jobs = jobs_of(trace);
  std::erase_if(jobs, [](const Job& j) { return j.devices > 1; });
  REQUIRE(jobs.size() > 100);
  for (const int nodes : {1, 3}) {
    const auto outcome = played(jobs, "fifo", nodes);
    // When each of the devices is free again; the first that is takes the next job.
    std::priority_queue<double, std::vector<double>, std::greater<>> free;
    for (int device = 0; device < 2 * nodes; ++device) free.push(0);
    for (std::size_t n = 0; n < jobs.size(); ++n) {
      const double start = std::max(jobs[n].arrival.value(), free.top());
      free.pop();
      free.push(start + length_of(jobs[n]).value());
      INFO(nodes << " nodes, " << jobs[n].name);
      CHECK(outcome.jobs[n].start.value() == Approx(start));
      CHECK(outcome.jobs[n].finish.value() == Approx(start + length_of(jobs[n]).value()));
    }
  }
}

TEST_CASE("on as many devices as it ever held, a published trace takes the time that it took") {
  const auto jobs = jobs_of(read_job_trace_file(TRACE_SAMPLE));
  const auto outcome = played(jobs, "fifo", 48);
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    CHECK(outcome.jobs[n].waited.value() == 0);
    CHECK(outcome.jobs[n].finish.value() == Approx((jobs[n].arrival + length_of(jobs[n])).value()));
  }
}
