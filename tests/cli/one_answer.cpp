// One plan, one answer: where no framework is named, and whatever of it is varied.
#include <algorithm>
#include <map>

#include "tests/cli/rehearse.hpp"
#include "traces/timeline.hpp"

namespace {

constexpr const char* kDecoder = "'zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000'";

double number(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("varying what nothing depends on says so") {
  const auto answer = result_of(rehearse(std::string("estimate ") + kDecoder +
                                         " --format json --batch 32 --plan dp=8 --platform dgx-a100 --dtype bf16 --vary device.clock=x2 "
                                         "--vary device.memory_bandwidth=x2 --vary dp=8"));
  CHECK(answer.at("without_effect") == nlohmann::json{"device.clock"});
}

TEST_CASE("a plan has one answer where no framework is named, whatever asks for it and beside whatever other plans") {
  const std::string job = std::string(kDecoder) + " --batch 32 --dtype bf16 --optimizer adamw --platform dgx-a100 --nodes 1 --format json ";
  std::map<std::string, nlohmann::json> alone;
  for (const auto* plan : {"dp=8", "dp=8,zero=3"}) alone[plan] = result_of(rehearse("estimate " + job + "--plan " + plan));
  CHECK(alone["dp=8"].at("framework") != alone["dp=8,zero=3"].at("framework"));  // usual for decoders, and for those that are sharded
  const auto varied = result_of(rehearse("estimate " + job + "--plan dp=8 --vary zero=3")).at("vary").at(0);
  CHECK(varied.at("step_seconds") == alone["dp=8,zero=3"].at("step_seconds"));
  CHECK(varied.at("framework") == alone["dp=8,zero=3"].at("framework"));
  const TemporaryFolder folder;
  write_text(folder / "plans", "dp=8\ndp=8,zero=3\n");
  const auto ranked = result_of(rehearse("search " + job + "--confirm 0 --plans " + (folder / "plans")));
  REQUIRE(ranked.at("plans").size() == 2);
  for (const auto& row : ranked.at("plans")) {
    const auto& same = alone.at(row.at("plan").get<std::string>());
    CHECK(row.at("step_seconds") == same.at("step_seconds"));
    CHECK(row.at("memory_bytes") == same.at("memory_bytes"));
    CHECK((row.contains("framework") ? row : ranked).at("framework") == same.at("framework"));
  }
  for (const auto* fidelity : {"folded", "full"}) {
    const auto played = result_of(rehearse("simulate " + job + "--plan dp=8,zero=3 --fidelity " + fidelity));
    CHECK(played.at("framework") == alone["dp=8,zero=3"].at("framework"));
    CHECK(number(played, "step_seconds") == Approx(number(alone["dp=8,zero=3"], "step_seconds")).epsilon(0.1));
  }
}

TEST_CASE(
    "a plan that the usual framework cannot run has its one answer beside others, too, and the comparison says whose rows are whose") {
  const std::string job = std::string(kDecoder) + " --batch 32 --dtype bf16 --optimizer adamw --platform dgx-h100 --nodes 1 --format json ",
                    pipeline = "dp=4,pp=2,micro_batch=2";
  const auto usual = result_of(rehearse("estimate " + job + "--plan " + pipeline + ",zero=1"));
  const auto other = result_of(rehearse("estimate " + job + "--plan " + pipeline + ",zero=3"));  // which NeMo does not have beside stages
  REQUIRE(usual.at("framework") != other.at("framework"));
  for (const std::string base : {"", ",zero=3"}) {  // whichever of them is asked about
    INFO(base);
    const auto varied = rehearse("estimate " + job + "--plan " + pipeline + base + " --vary zero=1,3");
    CHECK_THAT(varied.err, contains("as different frameworks run them (nemo, torchtitan)"));
    const auto rows = result_of(varied).at("vary");
    for (const auto& [row, alone] : {std::pair{rows[0], usual}, std::pair{rows[1], other}}) {
      CHECK(row.at("framework") == alone.at("framework"));
      CHECK(row.at("step_seconds") == alone.at("step_seconds"));
    }
  }
  const TemporaryFolder folder;
  write_text(folder / "plans", pipeline + ",zero=1\n" + pipeline + ",zero=3\n");
  const auto ranked = rehearse("search " + job + "--confirm 0 --plans " + (folder / "plans"));
  CHECK_THAT(ranked.err, contains("as different frameworks run them (nemo, torchtitan)"));
  const auto plans = result_of(ranked).at("plans");
  REQUIRE(plans.size() == 2);
  for (const auto& row : plans) {
    const auto& alone = row.at("plan") == usual.at("plan") ? usual : other;
    CHECK(row.at("framework") == alone.at("framework"));
    CHECK(row.at("step_seconds") == alone.at("step_seconds"));
  }
  const auto one = rehearse("estimate " + job + "--plan " + pipeline + " --vary micro_batch=1,2");
  CHECK_THAT(one.err, !contains("different frameworks"));
  for (const auto& row : result_of(one).at("vary")) CHECK_FALSE(row.contains("framework"));
}

TEST_CASE("a change that another framework runs names it, and is what estimate says of it") {
  const std::string job = " zoo:gpt2-medium --batch 64 --dtype bf16 --optimizer adamw --platform dgx-a100 --nodes 1 --format json ";
  const auto now = result_of(rehearse("estimate" + job + "--plan dp=8,zero=3"));
  const auto changed = result_of(rehearse("estimate" + job + "--plan dp=8,zero=1"));
  const auto explained = result_of(rehearse("explain dp=8,zero=3 --model" + job));
  const auto name = "zero=1 (as " + changed.at("framework").get<std::string>() + " runs it)";
  const auto& changes = explained.at("would_help");
  const auto found = std::find_if(changes.begin(), changes.end(), [&](const auto& change) { return change.at("change") == name; });
  REQUIRE(found != changes.end());
  const double saved = 1 - number(changed, "step_seconds") / number(now, "step_seconds");
  CHECK(found->at("step_share_saved").get<double>() == Approx(saved).epsilon(1e-3));
}

TEST_CASE("measurements in a platform's file are used without being named again") {
  const std::string job = "estimate zoo:resnet50 --batch 64 --dtype bf16 --framework rehearse --plan dp=1 --format json --platform ";
  const auto both = result_of(rehearse(job + REHEARSAL_H100 + " --machine " + REHEARSAL_H100));
  CHECK(result_of(rehearse(job + REHEARSAL_H100)) == both);
  CHECK(both.at("evidence").at("datasheet").get<double>() < 1);
  CHECK(result_of(rehearse(job + "dgx-h100 --devices 1")).at("evidence").at("datasheet") == 1);
}

TEST_CASE("measurements of a GPU are for platforms that have it, and are refused for others") {
  const std::string job = " zoo:resnet50 --batch 64 --dtype bf16 --framework rehearse --format json ",
                    machine = " --machine " REHEARSAL_H100;
  const auto measured = result_of(rehearse("estimate" + job + "--plan dp=1 --platform dgx-h100 --devices 1" + machine));
  CHECK(measured.at("evidence").at("datasheet").get<double>() < 1);
  for (const std::string platform : {"dgx-a100 --devices 1", "xeon-8480-2s --nodes 1"})
    check_failure(rehearse("estimate" + job + "--plan dp=1 --platform " + platform + machine), 1,
                  {"h100_machine.json: holds measurements of NVIDIA H100 80GB HBM3 and none of ", "leave --machine out"});

  // Of nodes of two kinds those that were measured are predicted by it.
  auto both = result_of(rehearse("platform show dgx-h100 --format json"));
  both.at("nodes").push_back(result_of(rehearse("platform show dgx-a100 --format json")).at("nodes").at(0));
  for (auto& group : both.at("nodes")) group["count"] = 1;
  const TemporaryFolder folder;
  write_text(folder / "both.json", both.dump());
  const auto mixed = rehearse("estimate" + job + "--plan dp=16 --platform " + (folder / "both.json") + machine);
  CHECK(result_of(mixed).at("step_seconds").at("value") > 0);
  CHECK_THAT(mixed.err, contains("was measured on NVIDIA H100 80GB HBM3; what A100-SXM4-80GB of platform dgx-h100 takes"));
}

TEST_CASE("a trace of a simulated step says the arithmetic of the training, and import says whose file it is") {
  const TemporaryFolder folder;
  const auto trace = folder / "step.json", plan = folder / "plan.json";
  const std::string job = std::string(kDecoder) + " --batch 32 --dtype bf16 --platform dgx-a100 --nodes 1 --format json ";
  result_of(rehearse("simulate " + job + "--plan dp=8 --framework megatron-core --trace " + trace));
  CHECK(nlohmann::json::parse(text_of(trace)).at("dtype") == "bf16");
  check_failure(rehearse("import " + trace), 1, {"is a trace of Rehearsal"});
  const auto own = folder / "own.json", page = folder / "page.html";
  result_of(rehearse("simulate " + job + "--plan dp=8 --framework rehearse --trace " + own));
  result_of(rehearse("report " + own + " " + trace + " -o " + page + " --format json"));
  for (const auto* name : {"simulated as rehearse", "simulated as megatron-core"}) CHECK_THAT(text_of(page), contains(name));
  check_failure(rehearse("compare " + own + " " + trace), 1, {"of different frameworks (rehearse and megatron-core)"});
  result_of(rehearse("search " + job + "--budget 20plans -o " + plan));
  check_failure(rehearse("import " + plan), 1, {"is a plan of Rehearsal", "--plan"});
}

TEST_CASE("an answer says where a step goes as its trace does") {
  const TemporaryFolder folder;
  const auto file = folder / "step.json";
  const std::string job = std::string(kDecoder) +
                          " --batch 8 --optimizer adamw --platform aws-p3.16xlarge --devices 4 --framework rehearse --format json --plan ";
  for (const std::string plan : {"pp=4,micro_batch=1", "pp=4,micro_batch=1,schedule=zb-h1", "dp=2,pp=2,micro_batch=1", "dp=4"}) {
    INFO(plan);
    const auto answer = result_of(rehearse("simulate " + job + plan + " --trace " + file));
    const auto trace = rehearsal::traces::read_trace(file);
    const int limiting = answer.at("limiting").at("rank");
    rehearsal::traces::StepAccount own;
    double mean = 0;
    for (const auto& rank : trace.ranks) {
      const auto account = rehearsal::traces::accounts(rank, trace.steps).front();
      mean += account.compute / static_cast<double>(trace.ranks.size());
      if (rank.rank == limiting) own = account;
    }
    const auto& parts = answer.at("breakdown");
    const auto part = [&](const char* key) { return parts.at(key).get<double>(); };
    const double rounding = 1e-9 * own.seconds;
    CHECK(part("compute") + part("optimizer") + part("io") == Approx(own.compute).margin(rounding));
    CHECK(part("exposed_communication") == Approx(own.exposed).margin(rounding));
    CHECK(part("bubble") == Approx(own.idle).margin(rounding));
    CHECK(answer.at("limiting").at("imbalance_seconds").get<double>() == Approx(own.compute - mean).margin(rounding));
    if (!plan.starts_with("pp=4")) continue;
    // The last stage has the product with the vocabulary, whatever the order of passes.
    CHECK(limiting == 3);
    const auto estimated = result_of(rehearse("estimate " + job + plan));
    for (const auto& [key, seconds] : estimated.at("breakdown").items())
      CHECK(seconds.get<double>() == Approx(part(key.c_str())).margin(rounding));
  }
}

TEST_CASE("recomputation, offloading and captured steps that would change nothing are named or refused") {
  const std::string image = "estimate 'zoo:unet2d?image=64' --batch 8 --dtype bf16 --platform dgx-a100 --framework pytorch --plan dp=1,";
  CHECK_THAT(rehearse(image + "recompute=full").err, contains("recompute=full frees nothing"));
  CHECK_THAT(rehearse(image + "recompute=selective").err, contains("recompute=selective has no effect"));
  CHECK_THAT(rehearse(image + "recompute=none --recipe chunked_loss=on").err, contains("--recipe chunked_loss has no effect"));
  check_failure(rehearse(image + "offload=activations"), 3, {"no blocks that repeat", "offload=none"});
  const std::string decoder = std::string("estimate ") + kDecoder + " --batch 32 --dtype bf16 --platform ";
  CHECK_THAT(rehearse(decoder + "dgx-a100 --framework pytorch --plan dp=1,recompute=full").err, !contains("frees nothing"));
  check_failure(rehearse(decoder + "tpu-v4-pod --framework jax --plan dp=1 --recipe cuda_graph=on"), 3, {"cuda_graph", "is no GPU"});
  check_failure(rehearse(decoder + "xeon-8480-2s --framework pytorch --plan dp=1 --recipe cuda_graph=on"), 3, {"cuda_graph", "is no GPU"});
}

TEST_CASE("choices of a recipe that change nothing of a plan are named") {
  const std::string job = std::string("estimate ") + kDecoder + " --batch 32 --dtype bf16 --platform dgx-a100 --framework ";
  for (const auto& [framework, recipe] :
       {std::pair{"megatron-core", "tensor_overlap=on"}, std::pair{"megatron-core", "keeps_gathered=on"},
        std::pair{"megatron-core", "power=stages"}, std::pair{"megatron-core", "fp8_gather=on"}, std::pair{"pytorch", "packed=64"}}) {
    const auto said = rehearse(job + framework + " --plan dp=8 --recipe " + recipe);
    CHECK(said.status == 0);
    CHECK_THAT(said.err, contains("has no effect"));
  }
  // Gradients of 16-bit arithmetic that zero=3 scatters are summed in 32 bits or in 16; others in what the framework has them in.
  for (const auto* asked : {"bf16 --plan dp=8,zero=2", "f32 --plan dp=8,zero=3", "bf16 --plan dp=4,pp=2,zero=3"}) {
    INFO(asked);
    const auto said = rehearse(std::string("estimate ") + kDecoder + " --batch 32 --platform dgx-a100 --framework torchtitan --dtype " +
                               asked + " --recipe fp32_reduction=off");
    CHECK(said.status == 0);
    CHECK_THAT(said.err, contains("--recipe fp32_reduction has no effect") && contains("zero=3"));
  }
  CHECK_THAT(rehearse(job + "torchtitan --plan dp=8,zero=3 --recipe fp32_reduction=off").err, !contains("has no effect"));
}

TEST_CASE("a momentum of 0 is the recipe's momentum=off, and one above 0 contradicts it") {
  const std::string job = "estimate 'zoo:resnet18?image=64' --batch 8 --platform dgx-a100 --framework pytorch --format json --plan dp=1";
  const auto memory = [&](const char* options) { return result_of(rehearse(job + options)).at("memory_bytes").at("value").get<double>(); };
  const double kept = memory(" --optimizer sgd"), none = memory(" --optimizer sgd --recipe momentum=off");
  CHECK(none < kept);
  CHECK(memory(" --optimizer sgd --momentum 0.9") == kept);
  CHECK(memory(" --optimizer sgd --momentum 0") == none);
  CHECK(memory(" --optimizer sgd:momentum=0") == none);
  check_failure(rehearse(job + " --optimizer sgd --momentum 0.9 --recipe momentum=off"), 1, {"momentum=off", "leave one of them out"});
}

TEST_CASE("values that are to be found are answered where values that are written are") {
  // torchtitan's configuration has no zero=1, and no bf16 beside it: predicted they are.
  const std::string asked =
      "estimate 'zoo:llama3.2-1b?layers=4&seq=512' --platform dgx-h100 --devices 16 --batch 64 --dtype bf16 --optimizer adamw"
      " --framework torchtitan --format json --plan dp=4,tp=2,pp=2,zero=1";
  const auto written = result_of(rehearse(asked + ",micro_batch=1"));
  for (const auto* found : {",micro_batch=1,recompute=fit", ",micro_batch=1,recompute=auto", ",micro_batch=auto"}) {
    INFO(found);
    const auto answer = result_of(rehearse(asked + found));
    CHECK(answer.at("step_seconds").at("value").get<double>() <= written.at("step_seconds").at("value").get<double>());
  }
}

TEST_CASE("what torchtitan alone computes again is answered as torchtitan does it") {
  const std::string asked =
      "estimate 'zoo:llama3.2-1b?layers=4&seq=512' --platform dgx-h100 --devices 16 --batch 64 --dtype bf16 --optimizer adamw"
      " --format json --plan dp=4,tp=4,zero=1,micro_batch=1,recompute=";
  CHECK(result_of(rehearse(asked + "full")).at("framework") == "nemo");
  CHECK(result_of(rehearse(asked + "selective-op")).at("framework") == "torchtitan");
}
