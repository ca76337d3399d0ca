// What other programs wrote, as a user has it read.
#include <cmath>

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
  write_text(trace, "\xEF\xBB\xBF" + profile());  // as some editors write it again
  CHECK(result_of(rehearse("import " + trace + " --format json")).at("gpu_events") == 4);
}

TEST_CASE("a profile is compared with its prediction and learned from, and the prediction comes nearer") {
  const TemporaryFolder folder;
  const auto trace = folder / "trace.json", runs = folder / "runs.jsonl", before = folder / "before.json", after = folder / "after.json";
  const auto site = folder / "site.json";
  write_text(trace, profile());
  const std::string training = " --batch 8 --plan dp=8 --platform dgx-h100 --framework torchtitan --dtype bf16 --optimizer adamw ";
  const std::string model = "'zoo:gpt?layers=2&hidden=256&heads=4&seq=128&vocab=1000'";
  const auto written = result_of(rehearse("import " + trace + " --model " + model + training + "-o " + runs + " --format json"));
  CHECK(written.at("output") == runs);
  // Two steps of 1100 us: 800 us of computing each, 300 us of communication of which 200 us are waited for, the rest is idle.
  const auto record = nlohmann::json::parse(text_of(runs));
  CHECK(record.at("measured").at("iteration_time_s") == Approx(1100e-6));
  CHECK(record.at("measured").at("iteration_time_deviation_s") == Approx(100e-6));
  CHECK(record.at("measured").at("compute_time_s") == Approx(800e-6));
  CHECK(record.at("measured").at("communication_time_s") == Approx(300e-6));
  CHECK(record.at("measured").at("exposed_communication_time_s") == Approx(200e-6));
  CHECK(record.at("measured").at("copy_time_s") == Approx(0).margin(1e-12));
  CHECK(record.at("measured").at("idle_time_s") == Approx(100e-6));

  const std::string question = "estimate " + model + training + " --devices 8 --format json ";
  const auto predicted = result_of(rehearse(question + "> " + before + " && cat " + before));
  const auto compared = result_of(rehearse("compare " + before + " " + runs + " --format json"));
  const double step = predicted.at("step_seconds").at("value"), compute = predicted.at("breakdown").at("compute"),
               optimizer = predicted.at("breakdown").at("optimizer");
  CHECK(compared.at("step").at("measured_seconds") == Approx(1100e-6));
  CHECK(compared.at("step").at("error") == Approx(step / 1100e-6 - 1));
  CHECK(compared.at("communication").at("measured_seconds") == Approx(300e-6));
  double predicted_sum = 0, measured_sum = 0;
  for (const auto& row : compared.at("rows")) {
    predicted_sum += row.at("predicted_seconds").get<double>();
    measured_sum += row.at("measured_seconds").get<double>();
    if (row.at("op") == "compute") CHECK(row.at("predicted_seconds") == Approx(compute + optimizer));
  }
  CHECK(predicted_sum == Approx(step).epsilon(0.01));
  CHECK(measured_sum == Approx(1100e-6));

  // A record means what estimate was asked; learned from once, its error shrinks.
  const auto line = rehearse("validate --measured " + runs + " --format json");
  const auto verdict = nlohmann::json::parse(line.out.substr(0, line.out.find('\n')));
  CHECK(verdict.at("predicted").at("iteration_time_s").at("value") == Approx(step).epsilon(1e-6));
  (void)result_of(rehearse("learn " + runs + " --into " + site + " --format json"));
  (void)result_of(rehearse(question + "--machine " + site + " > " + after + " && cat " + after));
  const double now = result_of(rehearse("compare " + after + " " + runs + " --format json")).at("step").at("error");
  CHECK(std::abs(std::log1p(now)) < 0.7 * std::abs(std::log(step / 1100e-6)));

  // The same trace again takes the place of its record.
  (void)result_of(rehearse("import " + trace + " --model " + model + training + "-o " + runs + " --format json"));
  CHECK(text_of(runs).find('\n') == text_of(runs).size() - 1);
}

TEST_CASE("a measured run without its training, or of another one, is refused") {
  const TemporaryFolder folder;
  const auto trace = folder / "trace.json", runs = folder / "runs.jsonl", predicted = folder / "predicted.json";
  write_text(trace, profile());
  const std::string import = "import " + trace + " -o " + runs;
  const std::string model = " --model 'zoo:gpt?layers=2&hidden=256&heads=4&seq=128&vocab=1000' --platform dgx-h100 --batch 8 ";
  check_failure(rehearse(import), 1, {"-o " + runs, "--model, --batch, --plan, --platform"});
  check_failure(rehearse(import + model + "--plan dp=4 --framework pytorch"), 1, {"world_size", "is 8, and the plan has 4 ranks"});
  check_failure(rehearse(import + model + "--plan dp=8 --framework rehearse"), 3, {"--framework rehearse", "run --trace"});
  check_failure(rehearse(import + model + "--plan dp=8,bn=sync --framework pytorch"), 3, {"bn"});
  check_failure(rehearse(import + " --model model.onnx --platform dgx-h100 --batch 8 --plan dp=8"), 1, {"model.onnx"});
  write_text(runs, "no record\n");
  check_failure(rehearse(import + model + "--plan dp=8 --framework pytorch"), 1, {runs, "line 1"});
  write_text(runs, "");
  (void)result_of(rehearse(import + model + "--plan dp=8 --framework pytorch --format json"));
  const std::string question = "estimate 'zoo:gpt?layers=3&hidden=256&heads=4&seq=128&vocab=1000' --platform dgx-h100 --devices 8 ";
  (void)result_of(rehearse(question + "--batch 16 --plan dp=8 --framework pytorch --format json > " + predicted + "; cat " + predicted));
  check_failure(rehearse("compare " + predicted + " " + runs), 1,
                {runs, "no run of what was predicted", "layers=3", "batch is 16 of the prediction and 8 of the run"});
  check_failure(rehearse("compare " + runs + " " + runs), 1, {runs + ": model: is missing", "estimate"});
  write_text(runs, R"({"id": "r", "model": {"name": "GPT"}})");
  check_failure(rehearse("compare " + predicted + " " + runs), 3, {"record 'r'", "model.zoo is missing"});
  // Without marks of steps
  write_text(trace, R"({"traceEvents": [)" + event("kernel", "gemm", 0, 10, 1) + "]}");
  check_failure(rehearse(import + model + "--plan dp=8 --framework pytorch"), 1, {trace, "no marks of steps"});
}

TEST_CASE("configurations of other frameworks become plans that estimate takes") {
  const TemporaryFolder folder;
  const auto flags = folder / "flags.txt", plan = folder / "plan.json";
  const std::string model = " 'zoo:gpt?layers=4&hidden=256&heads=8&seq=128&vocab=1000'";
  (void)result_of(rehearse("export dp=2,tp=2,pp=2,micro_batch=1,zero=1 --for megatron-core --model" + model +
                           " --batch 16 --dtype bf16 --optimizer adamw -o " + flags + " --format json"));
  const auto result = result_of(rehearse("import " + flags + " --ranks 8 -o " + plan + " --format json"));
  CHECK(result.at("is") == "configuration of megatron-core");
  CHECK(result.at("plan") == "dp=2,tp=2,pp=2,micro_batch=1,zero=1");
  CHECK(result.at("batch") == 16);
  CHECK(result.at("optimizer").at("name") == "adamw");
  CHECK_FALSE(result.at("left_out").empty());
  const auto asked = result.at("asked_by").get<std::string>();
  const std::string beginning = "rehearse ";
  REQUIRE(asked.starts_with(beginning));
  const auto estimate = result_of(rehearse(asked.substr(beginning.size()) + " --platform dgx-h100 --format json"));
  const auto direct = result_of(rehearse("estimate" + model +
                                         " --batch 16 --dtype bf16 --optimizer adamw --framework megatron-core "
                                         "--plan dp=2,tp=2,pp=2,micro_batch=1,zero=1 --platform dgx-h100 --format json"));
  CHECK(estimate.at("step_seconds") == direct.at("step_seconds"));
  // What the prediction does not have is left out, and what else makes the training is asked as well: the plan file is for that.
  write_text(flags,
             "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --vocab-size 1000 --micro-batch-size 1 "
             "--global-batch-size 16 --bf16 --context-parallel-size 2 --cp-comm-type a2a --attention-backend unfused "
             "--grad-reduce-in-bf16 --lr 1e-4 --clip-grad 1.0 --adam-beta2 0.95 --use-distributed-optimizer");
  const auto other = result_of(rehearse("import " + flags + " --ranks 8 -o " + plan + " --format json"));
  CHECK(other.at("plan") == "dp=4,cp=2,micro_batch=1,zero=1,compression=bf16,overlap=off");
  const auto left_out = other.at("left_out").dump();
  for (const auto* flag : {"--cp-comm-type", "--attention-backend"}) CHECK_THAT(left_out, contains(flag));
  const auto again = rehearse(other.at("asked_by").get<std::string>().substr(beginning.size()) + " --platform dgx-h100");
  CHECK(again.status == 0);
  CHECK_THAT(again.err, !contains("another training"));
  check_failure(rehearse("import " + flags), 1, {flags, "--ranks"});
  const auto module = folder / "rehearsed.py";
  (void)result_of(
      rehearse("export dp=8,zero=3,recompute=full --for torchtitan --model zoo:llama3-8b --batch 16 --dtype bf16 --optimizer adamw "
               "-o " +
               module + " --format json"));
  const auto titan = result_of(rehearse("import " + module + " --format json"));
  CHECK(titan.at("plan") == "dp=8,zero=3,recompute=full");
  CHECK(titan.at("asked_by") ==
        "rehearse estimate 'zoo:llama3-8b' --batch 16 --dtype bf16 --optimizer adamw --framework torchtitan --plan "
        "dp=8,zero=3,recompute=full");
  write_text(flags, "--num-layers 4 --micro-batch-size 1 --no-such-flag");
  check_failure(rehearse("import " + flags + " --ranks 8"), 3, {"--hidden-size: is missing", "--no-such-flag: is not known here"});
}

TEST_CASE("a log of other devices than the platform has is fitted, and that is said") {
  const TemporaryFolder folder;
  const auto log = folder / "all-reduce.log";
  write_text(log,
             "# Collective test starting: all_reduce_perf\n"
             "#  Rank  0 Group  0 Pid      1 on     node0 device  0 [0x01] NVIDIA H100 80GB HBM3\n"
             "#  Rank  1 Group  0 Pid      1 on     node0 device  1 [0000:21:00] NVIDIA H100 80GB HBM3\n"
             "#                                                        out-of-place                       in-place\n"
             "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
             "  1073741824     268435456     float     sum      -1   6000  178.9  178.9      0   6000  178.9  178.9      0\n");
  const auto told = [&](const std::string& platform) {
    const auto ended = rehearse("import " + log + " --platform " + platform + " --format json");
    CHECK(ended.status == 0);
    return ended.err;
  };
  CHECK_THAT(told("dgx-h100"), !contains("other devices"));
  CHECK_THAT(told("dgx-a100"), contains("NVIDIA H100 80GB HBM3") && contains("A100-SXM4-80GB") && contains("other devices"));
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
  write_text(file, profile());
  check_failure(rehearse("import " + file + " --kind all-reduce"), 1, {"--kind: is not for a profile, which " + file + " is"});
  check_failure(rehearse("import " + file + " --batch 8"), 1, {"--batch: is for the record of a measured run", "-o"});
  write_text(file, "--num-layers 4 --micro-batch-size 1");
  check_failure(rehearse("import " + file + " --platform dgx-h100"), 1, {"--platform: is not for a configuration"});
  refused("{\"model\": 1}", {file, "traceEvents", "must be a list of events"});
  refused(profile().substr(0, 700), {file, "ends in the middle"});
}

TEST_CASE("a played step goes out as Chakra traces and comes back") {
  const TemporaryFolder folder;
  const std::string question = "simulate 'zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=100' --platform dgx-a100 --devices 4 --batch 8 ";
  const auto written = [&](const std::string& more, const std::string& prefix) {
    return result_of(rehearse(question + "--plan dp=2,pp=2,micro_batch=2 --chakra " + prefix + " --format json " + more));
  };
  for (const std::string more : {"--framework rehearse", "--framework megatron-core", "--framework megatron-core --fidelity folded"}) {
    INFO(more);
    const auto prefix = folder / "step";
    const double step = written(more, prefix).at("step_seconds").at("value");
    CHECK(nlohmann::json::parse(text_of(prefix + ".groups.json")).size() == 4);  // two of dp, two of pp
    double longest = 0;
    for (const char* rank : {"0", "1", "2", "3"}) {
      const auto read = result_of(rehearse("import " + prefix + "." + rank + ".et --format json"));
      CHECK(read.at("is") == "Chakra execution trace");
      longest = std::max(longest, read.at("breakdown").at("total_seconds").get<double>());
      CHECK(!read.at("collectives").empty());
    }
    CHECK(longest <= step + 2e-6);
    CHECK(longest > 0.8 * step);  // all of it but the first launch and what comes before
  }
  const auto file = folder / "step.0.et";
  check_failure(rehearse("import " + file + " -o " + (folder / "runs.jsonl")), 1, {"--model"});
  const auto whole = text_of(file);
  write_text(file, whole.substr(0, whole.size() / 2));
  check_failure(rehearse("import " + file), 1, {file, "message", "the file is cut off"});
  check_failure(rehearse(question + "--plan cp=4,attention=ring --framework rehearse --chakra " + (folder / "ring")), 3,
                {"Chakra traces have no collective"});
  check_failure(rehearse(question + "--plan dp=4 --chakra " + (folder / "missing/step")), 1, {"missing"});
  for (const auto& place : {folder / "", folder / "absent/"})
    check_failure(rehearse(question + "--plan dp=4 --chakra " + place), 1, {"--chakra", "is a folder", "names begin"});
}
