// Records in the words of `estimate`: model, plan and platform as they were asked for, and nothing that is usual elsewhere.

#include <sstream>

#include "tests/catch.hpp"
#include "tests/validation/own_records.hpp"
#include "validation/own_run.hpp"
#include "validation/record_job.hpp"

namespace rehearsal::validation {
namespace {

OwnRun run() {
  OwnRun run;
  run.id = "r";
  run.source = "profile a.json";
  run.model = "zoo:llama?layers=4&hidden=256&heads=4&seq=128";
  run.platform = "dgx-h100";
  run.plan = "dp=4,tp=2,zero=1,micro_batch=2,recompute=full";
  run.framework = "megatron-core";
  run.precision = "bf16";
  run.optimizer = "adamw";
  run.devices = 8;
  run.batch = 16;
  run.measured = {1.5, 0.1, 0.9, 0.5, 0.4, 0.05, 0.15};
  return run;
}
Record record_of(const OwnRun& run) {
  std::istringstream in(record_line(run));
  const auto file = read_records(in, "runs.jsonl");
  CHECK(file.unknown_keys.empty());
  return file.records.at(0);
}

TEST_CASE("a run is asked as it was written down") {
  const auto record = record_of(run());
  const auto job = job_of(record);
  CHECK(job.model.zoo == "llama");
  CHECK(job.model.values.at("layers") == 4);
  CHECK(job.machine.platform.name == "dgx-h100");
  CHECK(job.machine.devices == 8);
  CHECK(plan::to_text(job.plan) == plan::to_text(plan::parse_plan(run().plan)));
  CHECK(job.framework->name == "megatron-core");
  CHECK(job.micro_batch == 2);
  CHECK(job.micro_batches == 2);  // 16 samples of 4 replicas in twos
  CHECK(job.samples == 16);
  CHECK(job.tokens == 16 * 128);
  CHECK(job.plan.recompute.rule == plan::RecomputeRule::Full);
  CHECK(job.assumed.empty());
  const auto again = own_run(record);
  CHECK(again.plan == run().plan);
  CHECK(again.measured.exposed == 0.4);
  CHECK(again.batch == 16);
}

TEST_CASE("what no prediction can be asked is refused by its key") {
  const auto refused = [](void (*change)(OwnRun&), const std::string& words) {
    auto other = run();
    change(other);
    CHECK_THROWS_WITH(record_line(other), contains(words));
  };
  refused([](OwnRun& r) { r.model = "zoo:lama"; }, "model.zoo:");
  refused([](OwnRun& r) { r.platform = "dgx-h10"; }, "hardware.platform:");
  refused([](OwnRun& r) { r.plan = "dp=8,tpp=2"; }, "plan:");
  refused([](OwnRun& r) { r.plan = "dp=4,tp=auto"; }, "tp=auto is no plan that ran");
  refused([](OwnRun& r) { r.plan = "dp=4"; }, "has 4 ranks, hardware.count is 8");
  refused([](OwnRun& r) { r.batch = 0; }, "plan.global_batch: must be above 0");
  refused([](OwnRun& r) { r.devices = 0; }, "hardware.count: must be a whole number");
  refused([](OwnRun& r) { r.optimizer = "adamx"; }, "plan:");
  std::istringstream in(R"({"id": "r", "model": {"zoo": "zoo:gpt"}, "hardware": {"platform": "dgx-h100", "count": 8}, )"
                        R"("plan": {"text": "dp=8", "optimizer": "sgd"}})");
  CHECK_THROWS_WITH(job_of(read_records(in, "runs.jsonl").records.at(0)), contains("plan.global_batch: is missing"));
}

Record record_with(const std::string& plan, const std::string& measured) {
  std::istringstream in(R"({"id": "r", "model": {"zoo": "zoo:resnet18"}, "hardware": {"platform": "dgx-h100", "count": 8}, )"
                        R"("plan": {"text": "dp=8,micro_batch=4", "global_batch": 64, "optimizer": "sgd", "framework": "pytorch", )"
                        R"("precision": "bf16")" +
                        plan + R"(}, "measured": {)" + measured + "}}");
  return read_records(in, "runs.jsonl").records.at(0);
}

TEST_CASE("degrees beside the text of a plan are its own, or refused") {
  CHECK(job_of(record_with(R"(, "dp": 8, "zero": 0, "micro_batch": 4)", "")).plan.dp == 8);
  CHECK_THROWS_WITH(job_of(record_with(R"(, "dp": 16)", "")), contains("plan.dp: is 16, and plan.text says 8; give one of them"));
  CHECK_THROWS_WITH(job_of(record_with(R"(, "micro_batch": 2)", "")), contains("plan.micro_batch: is 2, and plan.text says 4"));
  CHECK_THROWS_WITH(job_of(record_with(R"(, "zero": "ZeRO-2")", "")), contains("plan.zero: is ZeRO-2, and plan.text says 0"));
}

TEST_CASE("what a whole training takes is asked with its length") {
  const auto verdict = [](const std::string& measured) { return answers_to({record_with("", measured)}).at(0); };
  const auto step = verdict(R"("iteration_time_s": null)").predicted.at("iteration_time_s").value;
  const auto whole = verdict(R"("minutes": null, "energy_kwh": null, "steps": 600)").predicted;
  CHECK(whole.at("minutes").value == Approx(600 * step / 60));
  CHECK(whole.at("energy_kwh").value > 0);
  CHECK_FALSE(whole.contains("steps"));
  CHECK_THAT(verdict(R"("energy_kwh": 0.07)").refused,
             contains("none of energy_kwh can be predicted") && contains("steps, samples_to_target"));
  CHECK_THAT(verdict(R"("iteration_time_ms": 12)").refused, contains("iteration_time_ms (did you mean \"iteration_time_s\"?)"));
}

}  // namespace
}  // namespace rehearsal::validation
