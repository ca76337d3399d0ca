// What other programs wrote, as a user has it read.
#include "tests/cli/rehearse.hpp"
#include "tests/process.hpp"

namespace {

std::string event(const std::string& category, const std::string& name, double begin, double length, int correlation = -1) {
  const std::string arguments = correlation < 0 ? "" : R"(, "args": {"stream": 7, "correlation": )" + std::to_string(correlation) + "}";
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name + R"(", "ts": )" + std::to_string(begin) + R"(, "dur": )" +
         std::to_string(length) + arguments + "}";
}

/// Three steps of 1000, 1200 and (cut off) 500 us. The first two compute for 800 us each, and communicate for 300 us of which 100 us are
/// beside computing.
std::string profile() {
  std::string events = event("user_annotation", "ProfilerStep#1", 0, 1000) + ", " + event("user_annotation", "ProfilerStep#2", 1000, 1200) +
                       ", " + event("user_annotation", "ProfilerStep#3", 2200, 500);
  for (const int step : {0, 1, 2}) {
    const double begin = step * 1000 + (step == 2 ? 200 : 0);
    events += ", " + event("cuda_runtime", "cudaLaunchKernel", begin + 1, 2, step + 1) + ", " +
              event("kernel", "gemm", begin, 800, step + 1) + ", " +
              event("kernel", "ncclDevKernel_AllReduce_Sum_bf16", begin + 700, 300, step + 1);
  }
  return R"({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "traceEvents": [)" + events + "]}";
}

}  // namespace

TEST_CASE("import of a profile says how long steps are and how their time divides") {
  const TemporaryFolder folder;
  const auto trace = folder / "trace.json";
  write_text(trace, profile());
  const auto result = result_of(rehearse("import " + trace + " --format json"));
  CHECK(result.at("is") == "profile of PyTorch");
  CHECK(result.at("ranks") == 8);
  CHECK(result.at("gpu_events") == 4);
  CHECK(result.at("steps").at("count") == 2);
  CHECK(result.at("steps").at("mean_seconds") == Approx(1100e-6));
  CHECK(result.at("steps").at("deviation_seconds") == Approx(100e-6));
  CHECK(result.at("steps").at("least_seconds") == Approx(1000e-6));
  CHECK(result.at("steps").at("most_seconds") == Approx(1200e-6));
  // 0 to 2000: something runs all the time, 700 to 1000 and 1700 to 2000 communicate
  CHECK(result.at("breakdown").at("total_seconds") == Approx(2000e-6));
  CHECK(result.at("breakdown").at("idle_seconds") == 0);
  CHECK(result.at("breakdown").at("compute_seconds") == Approx(1600e-6));
  CHECK(result.at("breakdown").at("non_compute_seconds") == Approx(400e-6));
  CHECK(result.at("breakdown").at("communication_seconds") == Approx(600e-6));
  CHECK(result.at("breakdown").at("overlap_seconds") == Approx(200e-6));
  CHECK_THAT(result.at("collectives_are").get<std::string>(), contains("left out: the trace says of 'ncclDevKernel_AllReduce_Sum_bf16'"));
  check_failure(rehearse("import " + trace + " --collectives"), 3, {"ncclDevKernel_AllReduce_Sum_bf16", "Collective name"});
}

TEST_CASE("import refuses what it cannot read") {
  const TemporaryFolder folder;
  const auto file = folder / "file";
  const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
    write_text(file, text);
    check_failure(rehearse("import " + file), 1, words);
  };
  check_failure(rehearse("import " + file), 1, {file, "cannot be read"});
  refused("\x1f\x8b\x08", {file, "packed by gzip", "gunzip -k"});
  refused("", {file, "is nothing that is read"});
  refused("some words", {file, "is nothing that is read", "PyTorch profiler"});
  refused("{\"model\": 1}", {file, "traceEvents", "must be a list of events"});
  refused(profile().substr(0, 700), {file, "ends in the middle"});
}
