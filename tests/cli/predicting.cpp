// estimate, explain, collective and platform as a user asks them: names, default frameworks, costs, variations, refusals.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kDecoder = "'zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000'";

nlohmann::json estimate(const std::string& options, const std::string& model = kDecoder) {
  return result_of(rehearse("estimate " + model + " --format json --batch 32 --plan dp=8 " + options));
}

double number(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("case and common spellings of names do not matter") {
  const auto plain = estimate("--platform dgx-h100 --dtype bf16 --optimizer adamw --framework megatron-core");
  for (const auto* spelling : {"--platform H100 --dtype BFloat16 --optimizer AdamW --framework Megatron_Core",
                               "--platform DGX_H100 --dtype bfloat16 --optimizer Adam-W --framework megatroncore"}) {
    INFO(spelling);
    CHECK(estimate(spelling) == plain);
  }
  CHECK(estimate("--platform h100 --dtype float16").at("platform") == "dgx-h100");
}

TEST_CASE("an unknown name is answered with the nearest, whatever it names") {
  const std::string base = std::string("estimate ") + kDecoder + " --batch 8 ";
  struct Row {
    std::string arguments;
    int status;
    const char* nearest;
  };
  for (const auto& [arguments, status, nearest] :
       {Row{base + "--platform dgx-h10", 1, "dgx-h100"}, Row{base + "--platform dgx-a100 --optimizer adamv", 1, "adam"},
        Row{base + "--platform dgx-a100 --dtype float17", 1, "float16"},
        Row{base + "--platform dgx-a100 --framework megaton", 1, "megatron"}, Row{base + "--platform dgx-a100 --plan dpp=8", 1, "dp"},
        Row{base + "--platform dgx-a100 --plan dp=8,schedule=1f1", 1, "1f1b"},
        Row{base + "--platform dgx-a100 --fidelity fulll", 1, "full"}, Row{base + "--platfrom dgx-a100", 2, "--platform"},
        Row{base + "--platform dgx-a100 --vary lnk.bandwidth=x2", 1, "link.bandwidth"}, Row{"estimat", 2, "estimate"},
        Row{"estimate zoo:gtp --platform dgx-a100 --batch 8", 1, "gpt"},
        Row{"estimate 'zoo:gpt?hiden=64' --platform dgx-a100 --batch 8", 1, "hidden"},
        Row{"collective --platform dgx-a100 --kind all-reduc", 1, "all-reduce"}}) {
    INFO(arguments);
    check_failure(rehearse(arguments), status, {"did you mean \"" + std::string(nearest) + "\"?"});
  }
}

TEST_CASE("without --framework a device gets what is usual for the model on it, and the answer says on what it rests") {
  CHECK(estimate("--platform dgx-h100 --dtype bf16").at("framework") == "nemo");
  CHECK(estimate("--platform dgx-a100 --dtype bf16").at("framework") == "megatron-core");
  CHECK(estimate("--platform dgx1-v100 --dtype f16").at("framework") == "megatron");
  CHECK(estimate("--platform dgx-a100 --dtype bf16", kResnet).at("framework") == "pytorch");
  const auto a100 = estimate("--platform dgx-a100 --dtype bf16");
  CHECK(a100.at("framework_evidence").at("published_times") > 10);
  CHECK(a100.at("framework_evidence").at("median_error") < 0.5);
  const auto cpus =
      result_of(rehearse(std::string("estimate ") + kDecoder + " --format json --batch 4 --plan dp=2 --platform xeon-2s-10gbe"));
  CHECK(cpus.at("framework") == "rehearse");
  for (const auto* command : {"search", "simulate"}) {
    INFO(command);
    const auto plan = std::string(command) == "search" ? " --budget 20plans" : " --plan dp=8 --fidelity folded";
    const auto answer = result_of(
        rehearse(std::string(command) + " " + kDecoder + " --format json --batch 32 --devices 8 --platform dgx-h100 --dtype bf16" + plan));
    CHECK(answer.at("framework") == "nemo");
  }
}

TEST_CASE("an answer says what no published run has had") {
  CHECK(!estimate("--platform dgx-a100 --dtype bf16 --framework megatron-core").contains("new_to_us"));
  const auto device = estimate("--platform rtx-5090 --dtype bf16");
  REQUIRE(device.contains("new_to_us"));
  CHECK(device.at("new_to_us").front() == "device RTX-5090-32GB: no published time");
  const auto text = rehearse(std::string("estimate ") + kDecoder + " --platform rtx-5090 --dtype bf16 --batch 32 --plan dp=8").out;
  CHECK_THAT(text, contains("new to us") && contains("device RTX-5090-32GB: no published time"));
}

TEST_CASE("memory is the sum of its parts, also where a compiler needs less than all tensors of a moment") {
  for (const auto* framework : {"jax", "maxtext"}) {
    INFO(framework);
    const auto answer =
        result_of(rehearse("estimate 'zoo:llama2-7b?seq=2048' --format json --platform tpu-v4-pod --batch 64 --dtype bf16 "
                           "--plan dp=2,pp=4,micro_batch=1,zero=1 --framework " +
                           std::string(framework)));
    const auto& memory = answer.at("memory_bytes");
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : memory.at("by_category").items()) sum += bytes.get<std::int64_t>();
    CHECK(sum == memory.at("value").get<std::int64_t>());
  }
}

TEST_CASE("costs follow their figures, and say them") {
  const auto listed = estimate("--platform dgx-a100 --dtype bf16"),
             given = estimate("--platform dgx-a100 --dtype bf16 --price 2 --pue 1.5 --carbon 100");
  // 8 devices at 2 dollars an hour for as long as the step takes.
  CHECK(number(given, "cost_dollars") == Approx(16 * number(given, "step_seconds") / 3600));
  CHECK_THAT(given.at("price_basis").get<std::string>(), contains("--price"));
  CHECK_THAT(listed.at("price_basis").get<std::string>(), contains("$/h") && contains("AWS"));
  // 100 g for a kWh of 3.6 MJ
  CHECK(number(given, "carbon_kg") == Approx(0.1 * number(given, "energy_joules") / 3.6e6));
  CHECK(number(estimate("--platform dgx-a100 --dtype bf16 --pue 3"), "energy_joules") == Approx(2 * number(given, "energy_joules")));
  check_failure(rehearse(std::string("estimate ") + kDecoder + " --platform dgx-a100 --batch 8 --pue 0.5"), 1, {"--pue", "from 1"});
}

TEST_CASE("processors of several sizes have their own cores, whichever is named first") {
  auto xeon = result_of(rehearse("platform show xeon-2s-10gbe --format json")),
       epyc = result_of(rehearse("platform show EPYC-9654 --format json"));
  auto small = xeon.at("nodes").at(0), large = epyc.at("nodes").at(0);
  small["count"] = large["count"] = 1;
  large["nic"] = small["nic"];
  const TemporaryFolder folder;
  std::vector<nlohmann::json> answers;
  for (const auto& nodes : {nlohmann::json{small, large}, nlohmann::json{large, small}}) {
    xeon["nodes"] = nodes;
    write_text(folder / "mixed.json", xeon.dump());
    answers.push_back(
        result_of(rehearse("estimate zoo:bert-base --format json --batch 64 --plan dp=4 --platform " + folder / "mixed.json")));
  }
  CHECK(number(answers[0], "step_seconds") == Approx(number(answers[1], "step_seconds")).epsilon(1e-6));
  CHECK(answers[0].at("mfu").get<double>() == Approx(answers[1].at("mfu").get<double>()).epsilon(1e-6));
  // 7.37 TFLOP/s in 96 cores and 3.2 in 20: 2.3 times the samples by products alone, and more by the memory.
  CHECK_THAT(answers[0].at("shares").get<std::string>(), contains("Xeon-Gold-6248 take 18 samples of a step, EPYC-9654 46"));
}

TEST_CASE("no processor of the catalogue computes more than its cores can, on one socket or two") {
  for (const std::string platform : {"Xeon-Gold-6248", "Xeon-Platinum-8480+", "EPYC-7742", "EPYC-9654", "Grace", "xeon-2s-10gbe"})
    for (const std::string where : {"--plan dp=1", "--plan dp=2"}) {
      const auto asked = rehearse("estimate zoo:bert-base --format json --batch 32 --platform " + platform + " " + where);
      if (asked.status != 0) continue;  // of one socket alone there are not two
      const double mfu = result_of(asked).at("mfu").get<double>();
      INFO(platform << " " << where);
      CHECK(mfu > 0.1);
      CHECK(mfu < 0.7);  // products are taken to reach 0.6 of the peak
    }
}

TEST_CASE("where a model reads tokens they are counted") {
  const auto answer = estimate("--platform dgx-a100 --dtype bf16 --tokens 1e9");
  CHECK(number(answer, "tokens_per_second") == Approx(128 * number(answer, "samples_per_second")));
  CHECK(number(answer, "tokens_per_second_per_device") == Approx(number(answer, "tokens_per_second") / 8));
  CHECK(number(answer, "device_seconds") == Approx(8 * number(answer, "total_seconds")));
  CHECK_FALSE(estimate("--platform dgx-a100 --dtype bf16", kResnet).contains("tokens_per_second"));
  const auto text =
      rehearse(std::string("estimate ") + kDecoder + " --batch 32 --plan dp=8 --platform dgx-a100 --dtype bf16 --tokens 1e13");
  for (const auto* unit : {" days", "device-hours", "MWh", "tokens/s/device"}) CHECK_THAT(text.out, contains(unit));
}

TEST_CASE("every figure of plan, platform and batch can be varied, a row each, with the elasticity of the step") {
  const auto answer = estimate(
      "--platform dgx-a100 --dtype bf16 --vary micro_batch=1..4 --vary device.memory_bandwidth=x0.5,x2 --vary batch=32,0.064k --vary "
      "schedule=1f1b,gpipe");
  const auto& rows = answer.at("vary");
  REQUIRE(rows.size() == 3 + 2 + 2 + 2);
  CHECK(rows[0].at("value") == "1");
  CHECK(rows[2].at("value") == "4");
  CHECK(rows[2].at("step_seconds") == answer.at("step_seconds"));  // 4 samples are the replica's batch
  CHECK(number(rows[3], "step_seconds") > number(answer, "step_seconds"));
  CHECK(number(rows[4], "step_seconds") < number(answer, "step_seconds"));
  CHECK(rows[5].at("step_seconds") == answer.at("step_seconds"));  // batch=32
  const auto& slopes = answer.at("elasticities");
  CHECK(slopes.at("device.memory_bandwidth").get<double>() < 0);
  CHECK(slopes.at("device.memory_bandwidth").get<double>() >= -1);
  CHECK(slopes.at("batch").get<double>() > 0);
  CHECK(slopes.at("schedule").is_null());
  const auto refused = estimate("--platform dgx-a100 --dtype bf16 --vary dp=8,3").at("vary");
  CHECK(refused[0].at("step_seconds") == answer.at("step_seconds"));
  CHECK_THAT(refused[1].at("refused").get<std::string>(), contains("3 replicas do not divide"));
}

TEST_CASE("what a framework's prediction does not look at is refused by name, and our own execution takes it") {
  const std::string base = std::string("estimate ") + kDecoder + " --batch 8 --plan dp=8 --platform dgx-a100 --framework ";
  for (const auto* framework : {"pytorch", "megatron-core"})
    for (const auto* option : {"--loss mse", "--dropout off", "--clip-norm 1", "--clip-value 1", "--loss-scale 8"}) {
      const auto name = std::string(option).substr(0, std::string(option).find(' '));
      INFO(framework << " " << option);
      check_failure(rehearse(base + framework + " " + option), 3, {name + ":", "--framework rehearse"});
    }
  CHECK(rehearse(base + "pytorch --loss cross-entropy --optimizer adam --clip-norm 1").status == 0);
  CHECK(rehearse(base + "rehearse --freeze 'wte*' --clip-norm 1 --clip-value 1 --dropout off").status == 0);
}

TEST_CASE("adapters and frozen weights cost less, in every answer alike") {
  const std::string job =
      "'zoo:llama?layers=4&hidden=2048&heads=16&kv_heads=16&ffn=5632&seq=1024' --batch 32 --dtype bf16 --optimizer adamw --platform "
      "dgx-a100"
      " --plan dp=8,micro_batch=4 --format json ";
  struct Answer {
    double step, memory;
  };
  const auto asked = [&](const std::string& command, const std::string& more) {
    const auto result = result_of(rehearse(command + " " + job + more));
    const auto seconds = result.at("step_seconds");
    return Answer{seconds.is_object() ? seconds.at("value").get<double>() : seconds.get<double>(),
                  result.at("memory_bytes").at("value").get<double>()};
  };
  for (const std::string framework : {"transformers", "rehearse"}) {
    INFO(framework);
    const auto whole = asked("estimate", "--framework " + framework);
    const auto adapted = asked("estimate", "--framework " + framework + " --lora 8");
    CHECK(adapted.step < 0.95 * whole.step);
    CHECK(adapted.memory < whole.memory);
    const auto fewer = asked("estimate", "--framework " + framework + " --lora 8,targets=*attn*");
    CHECK(fewer.step < adapted.step);
    const auto played = asked("simulate", "--framework " + framework + " --lora 8");
    CHECK(played.step == Approx(adapted.step).epsilon(0.05));
    const auto last = asked("estimate", "--framework " + framework + " --freeze '*' --train 'layers.3*'");
    CHECK(last.step < 0.8 * whole.step);
  }
  // 4 bits instead of 16 of 4 blocks' weights: 4·2048² + 3·2048·5632 = 51.4e6 parameters each.
  const auto wide = asked("estimate", "--framework transformers --lora 8"),
             narrow = asked("estimate", "--framework transformers --lora 8 --recipe frozen=nf4");
  CHECK(wide.memory - narrow.memory > 4 * 51.4e6 * 1.4);
  CHECK(narrow.step > wide.step);
  // A limit below what the devices draw holds their clock.
  CHECK(asked("estimate", "--framework transformers --recipe power=150").step > 1.05 * asked("estimate", "--framework transformers").step);
  CHECK(asked("simulate", "--framework transformers --recipe power=150").step ==
        Approx(asked("estimate", "--framework transformers --recipe power=150").step).epsilon(0.05));
  check_failure(rehearse("estimate " + job + "--lora 0"), 1, {"--lora 0", "write RANK"});
  check_failure(rehearse("estimate " + job + "--lora 4,rank=8"), 1, {"--lora 4,rank=8", "another 'rank"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe frozen=nf4"), 3, {"frozen", "--lora"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe expert_overlap=on"), 3, {"expert_overlap", "no experts"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe dispatcher=deepep"), 3, {"dispatcher", "no experts"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe fused_experts=off"), 3, {"fused_experts", "no experts"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe cuda_graph=1"), 1, {"--recipe", "cuda_graph=on|off"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe power=300,power=200"), 1, {"--recipe", "power", "twice"});
  check_failure(rehearse("estimate " + job + "--lora 4,targets=nothing*"), 1, {"--lora", "nothing*", "matches no weight"});
  check_failure(rehearse("estimate " + job + "--lora 99999"), 1, {"--lora", "rank 99999", "from 1 to"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe frozn=nf4"), 1, {"--recipe", "frozn", "frozen"});
  check_failure(rehearse("estimate " + job + "--framework transformers --recipe frozen=nf5"), 1, {"--recipe", "nf5", "nf4"});
  check_failure(rehearse("estimate " + job + "--framework rehearse --recipe frozen=nf4"), 3, {"--recipe", "--framework"});
  check_failure(rehearse("estimate 'zoo:gpt?layers=2&hidden=64&heads=2&seq=16&vocab=100' --batch 16 --dtype bf16 --platform dgx-a100 "
                         "--plan dp=4,micro_batch=2 --framework torchtitan --recipe optimizer_in_backward=on"),
                3, {"update in the backward pass", "micro_batch=4"});
}

TEST_CASE("a step waits for the rank whose experts have most tokens") {
  const std::string job =
      "estimate 'zoo:moe?layers=4&hidden=1024&heads=8&kv_heads=8&ffn=2048&seq=1024&vocab=1000&experts=16&top_k=2&capacity=100' --batch 64"
      " --dtype bf16 --platform dgx-h100 --plan dp=8,ep=8,micro_batch=8 --format json ";
  const auto step = [&](const std::string& more) {
    return result_of(rehearse(job + "--framework megatron-core " + more)).at("step_seconds").at("value").get<double>();
  };
  const double even = step("");
  CHECK(step("--imbalance balanced") == even);
  CHECK(step("--imbalance zipf:0.5") > even);
  CHECK(step("--imbalance zipf:1.5") > step("--imbalance zipf:0.5"));
  CHECK_THAT(rehearse(job + "--framework megatron-core --imbalance zipf:1.5").err, !contains("no effect"));
  auto alone = job;
  alone.replace(alone.find("ep=8,"), 5, "");
  const auto whole = rehearse(alone + "--framework megatron-core --imbalance zipf:1.5");
  CHECK_THAT(whole.err, contains("--imbalance has no effect") && contains("ep=1"));
  CHECK(result_of(whole).at("step_seconds") == result_of(rehearse(alone + "--framework megatron-core")).at("step_seconds"));
  const TemporaryFolder folder;
  write_text(folder / "load.json", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,15]");  // every token goes to the last, too
  CHECK(step("--imbalance " + (folder / "load.json")) > step("--imbalance zipf:0.5"));
  check_failure(rehearse(job + "--framework megatron-core --imbalance zipf"), 1, {"--imbalance zipf", "zipf:1.2"});
  write_text(folder / "more.json", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,25]");  // of 40; 20 are every token once
  check_failure(rehearse(job + "--framework megatron-core --imbalance " + (folder / "more.json")), 1,
                {"expert 15", "62.5 %", "50 % at most"});
  write_text(folder / "short.json", "[1,2]");
  check_failure(rehearse(job + "--framework megatron-core --imbalance " + (folder / "short.json")), 1, {"2 numbers", "16 experts"});
  check_failure(rehearse(job + "--framework rehearse --imbalance zipf:1"), 3, {"--imbalance zipf:1", "--framework"});
}

TEST_CASE("narrow arithmetic is refused where its scales and casts are not known, and on devices without it") {
  const std::string job = "estimate 'zoo:gpt?layers=2&hidden=512&heads=8&seq=128&vocab=1000' --batch 64 --plan dp=8 --platform ";
  for (const std::string dtype : {"fp8-rowwise", "fp8-block", "mxfp8", "nvfp4"}) {
    INFO(dtype);
    check_failure(rehearse(job + "dgx-b200 --framework rehearse --dtype " + dtype), 3, {"--dtype " + dtype, "--framework"});
    CHECK(rehearse(job + "dgx-b200 --framework nemo --dtype " + dtype).status == 0);
  }
  check_failure(rehearse(job + "dgx-h100 --framework nemo --dtype mxfp8"), 3, {"H100", "mxfp8", "fp8-block"});
  // A type that a device has no units for is an honest no, whatever the type.
  for (const std::string dtype : {"fp8", "fp8-block", "mxfp8", "nvfp4"})
    check_failure(rehearse(job + "dgx-a100 --framework nemo --dtype " + dtype), 3, {"--dtype " + dtype, "A100", "bf16, f16, f32"});
  check_failure(rehearse(job + "dgx-h100 --framework nemo --dtype nvfp4"), 3, {"H100", "fp4"});
}

TEST_CASE("a file may say where its schema is, and the schema is printed") {
  const auto schema = rehearse("platform schema");
  CHECK(schema.status == 0);
  CHECK(nlohmann::json::parse(schema.out).at("title") == "Rehearsal platform");
  auto platform = nlohmann::json::parse(rehearse("platform show dgx-a100").out);
  platform["$schema"] = "platform.schema.json";
  const TemporaryFolder folder;
  const auto path = folder / "mine.json";
  write_text(path, platform.dump());
  CHECK(rehearse("platform check " + path).status == 0);
}

TEST_CASE("algorithms of a collective are compared by size, and the one that auto takes is marked") {
  const auto answer = result_of(rehearse("collective --platform xeon-2s-100gbe --ranks 8 --sizes 1KB,64MB --format json"));
  for (const double size : {1e3, 64e6}) {
    int chosen = 0;
    double least = INFINITY, taken = 0;
    for (const auto& row : answer.at("collectives")) {
      if (row.at("message_bytes") != size) continue;
      least = std::min(least, row.at("seconds").get<double>());
      if (row.at("auto") == true) ++chosen, taken = row.at("seconds");
      // 2 (8 - 1) / 8 of the vector over a rank's link
      CHECK(row.at("bus_bytes_per_second").get<double>() == Approx(1.75 * size / row.at("seconds").get<double>()));
    }
    CHECK(chosen == 1);
    CHECK(taken == Approx(least));
  }
  check_failure(rehearse("collective --platform dgx-a100 --ranks 9999"), 3, {"9999", "64 devices"});
  check_failure(rehearse("collective --platform dgx-a100 --sizes 1GB..1KB"), 1, {"--sizes"});
}

TEST_CASE("explain shows the passes of lowering, and the Program behind each") {
  const std::string asked = "explain dp=2 --model zoo:resnet18 --batch 4 --platform dgx-a100 ";
  const auto roles = result_of(rehearse(asked + "--passes --format json")).at("roles");
  REQUIRE(roles.size() == 1);
  const auto& passes = roles.front().at("passes");
  CHECK(passes.front().at("pass") == "open bodies");
  CHECK(passes.front().at("instructions") == 0);
  CHECK(passes.back().at("arena_bytes") > 0);
  const auto forward = rehearse(asked + "--after forward");
  CHECK(forward.status == 0);
  CHECK_THAT(forward.out, contains("conv1 by "));
  CHECK_THAT(forward.out, !contains("report"));
  CHECK_THAT(rehearse(asked + "--after 'report loss'").out, contains("report"));
  check_failure(rehearse(asked + "--after 'report los'"), 1, {"did you mean \"report loss\""});
  check_failure(rehearse(asked + "--after 'sums of both copies'"), 3, {"nothing to do for dp=2"});
  check_failure(rehearse(asked + "--passes --framework megatron-core"), 3, {"--framework rehearse"});
}

TEST_CASE("explain prints and draws the Program of every framework") {
  const TemporaryFolder folder;
  const auto framework = GENERATE("pytorch", "megatron-core", "deepspeed", "rehearse");
  const std::string plan = framework == std::string("megatron-core") ? "dp=2,tp=2,pp=2,micro_batch=1" : "dp=8";
  const auto drawing = folder / "program.dot";
  const auto asked = rehearse("explain " + plan + " --model " + kDecoder + " --batch 16 --optimizer adam --platform dgx-a100 --framework " +
                              framework + " --program --dot " + drawing);
  INFO(framework << ": " << asked.err);
  REQUIRE(asked.status == 0);
  CHECK_THAT(asked.out, contains("stage 0, arena"));
  CHECK_THAT(asked.out, contains(framework == std::string("rehearse") ? "AdamUpdate " : "update by "));
  std::ifstream drawn(drawing);
  CHECK_THAT(std::string(std::istreambuf_iterator<char>(drawn), {}), contains("digraph"));
}

TEST_CASE("explain says on one screen what axes do, where time and memory go, and why gpipe and 1f1b differ") {
  const std::string asked = std::string("explain dp=2,tp=2,pp=2,micro_batch=1,schedule=gpipe --model ") + kDecoder +
                            " --batch 16 --platform dgx-a100 --dtype bf16 ";
  const auto text = rehearse(asked);
  REQUIRE(text.status == 0);
  for (const auto* part : {"dp=2", "tp=2", "pp=2", "time ", "memory ", "gpipe against 1f1b", "would help", "--layers"})
    CHECK_THAT(text.out, contains(part));
  CHECK(std::count(text.out.begin(), text.out.end(), '\n') < 24);
  CHECK(rehearse(asked + "--layers").out.size() > 2 * text.out.size());
  const auto answer = result_of(rehearse(asked + "--format json"));
  CHECK(answer.at("axes").size() == 3);
  CHECK(answer.at("limiting").at("rank") < 8);
  CHECK(answer.at("limiting").at("imbalance_seconds") >= 0);
  const auto step = number(answer, "step_seconds");
  for (const auto& change : answer.at("would_help")) {
    CHECK(change.at("step_share_saved") >= 1e-3);
    // What it promises is what `estimate` says of the changed plan.
    const auto key = change.at("change").get<std::string>();
    const auto name = key.substr(0, key.find('='));
    std::string plan = name == "schedule"      ? "dp=2,tp=2,pp=2,micro_batch=1"
                       : name == "micro_batch" ? "dp=2,tp=2,pp=2,schedule=gpipe"
                                               : "dp=2,tp=2,pp=2,micro_batch=1,schedule=gpipe";
    const auto changed = result_of(rehearse(std::string("estimate ") + kDecoder +
                                            " --batch 16 --platform dgx-a100 --dtype bf16 --format json --plan " + plan + "," + key));
    CHECK(1 - number(changed, "step_seconds") / step == Approx(change.at("step_share_saved").get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("a plan that is answered as recipes have it says so, whichever command is asked, and a list of plans is taken as it is written") {
  const std::string job =
      " 'zoo:gpt?layers=48&hidden=8192&heads=64&seq=2048&vocab=51200' --batch 64 --dtype bf16 --optimizer adam --platform dgx-a100"
      " --devices 16 --framework megatron-core ";
  const std::string written = "dp=2,tp=8,micro_batch=1";
  const auto plan_of = [](const nlohmann::json& answer) { return answer.at("plan").get<std::string>(); };
  const auto estimated = result_of(rehearse("estimate" + job + "--format json --plan " + written));
  const auto sentence = estimated.at("plan_is").get<std::string>();
  CHECK_THAT(sentence, contains("sequence_parallel=on,zero=1"));
  CHECK_THAT(plan_of(estimated), contains("zero=1"));
  for (const auto* command : {"simulate", "explain"}) {
    INFO(command);
    const auto model = job.substr(0, job.find(" --batch")), rest = job.substr(job.find(" --batch"));
    const auto asked = command == std::string("simulate") ? "simulate" + job + "--fidelity folded --plan " + written
                                                          : "explain " + written + " --model" + model + rest;
    const auto answer = result_of(rehearse(asked + " --format json"));
    CHECK(answer.at("plan_is") == sentence);
    CHECK(plan_of(answer) == plan_of(estimated));
    CHECK_THAT(rehearse(asked).err, contains(sentence));
  }
  CHECK_FALSE(result_of(rehearse("estimate" + job + "--format json --plan " + plan_of(estimated))).contains("plan_is"));
  const TemporaryFolder folder;
  std::ofstream(folder / "plans.txt") << written << '\n' << plan_of(estimated) << '\n';
  const auto ranked = result_of(rehearse("search" + job + "--format json --plans " + (folder / "plans.txt")));
  REQUIRE(ranked.at("plans").size() == 1);
  CHECK(plan_of(ranked.at("plans").at(0)) == plan_of(estimated));
  REQUIRE(ranked.at("refused").size() == 1);
  CHECK_THAT(ranked.at("refused").at(0).at("reason").get<std::string>(), contains("sequence_parallel=on,zero=1"));
}

TEST_CASE("a plan is called impossible where no framework that is known to run on the device can run it, unless one is named") {
  // composer keeps less than torchtitan, which is usual here: between the largest micro-batches of both there is one for it alone. Where
  // that is moves with every fit.
  const auto job_of = [](int micro_batch) {
    return "estimate 'zoo:mpt?layers=24&hidden=2048&heads=16&seq=2048&vocab=50368&ffn=8192' --platform dgx-h100 --devices 16 --batch " +
           std::to_string(160 * micro_batch) + " --dtype bf16 --plan dp=16,zero=3,micro_batch=" + std::to_string(micro_batch);
  };
  int micro_batch = 10;
  while (micro_batch < 40 && rehearse(job_of(micro_batch) + " --framework torchtitan").status == 0) ++micro_batch;
  const auto job = job_of(micro_batch);
  const auto answer = result_of(rehearse(job + " --format json"));
  CHECK(answer.at("framework") == "composer");
  CHECK_THAT(answer.at("plan_is").get<std::string>(), contains("as torchtitan runs it the plan needs") && contains("as composer does"));
  const auto too_large = [&](const std::string& more) {
    const auto ended = rehearse(job + more);
    CHECK(ended.status == 3);
    CHECK_THAT(ended.err, contains("needs") && contains("more than"));
  };
  too_large(" --framework torchtitan");
  too_large("0");  // micro_batch=300
}

TEST_CASE("processors that move messages themselves pass them on between stages under every profile") {
  // A send then stands on the stream of the kernels, and no other has one.
  for (const std::string fidelity : {"folded", "full"}) {
    INFO(fidelity);
    const auto step = result_of(rehearse("simulate --fidelity " + fidelity +
                                         " 'zoo:gpt?layers=2&hidden=64&heads=2&seq=16&vocab=100' --platform xeon-2s-10gbe --devices 2 "
                                         "--batch 4 --framework megatron-core --plan pp=2,micro_batch=1 --format json"));
    CHECK(step.at("step_seconds").at("value") > 0);
  }
}

TEST_CASE("a plan that the usual framework does not have is answered as one that has it, unless one is named") {
  const std::string job =
      "estimate zoo:llama3.1-8b --platform dgx-h100 --nodes 1 --batch 8 --dtype bf16 --format json "
      "--plan dp=2,tp=2,pp=2,micro_batch=1,recompute=full,zero=3";
  const auto answer = result_of(rehearse(job));
  CHECK(answer.at("framework") == "torchtitan");
  CHECK_THAT(answer.at("plan_is").get<std::string>(),
             contains("zero: nemo does not have 3 beside pp=2; it is answered as torchtitan does"));
  const auto named = rehearse(job + " --framework nemo");
  CHECK(named.status == 3);
  CHECK_THAT(named.err, contains("use 0 or 1, pp=1, or --framework pytorch, torchtitan"));
  const auto impossible = rehearse(job + ",schedule=dualpipe");  // keeps two copies of the model: no framework here has it
  CHECK(impossible.status == 3);
  CHECK_THAT(impossible.err, contains("nemo keeps one copy of the model"));
}

TEST_CASE("messages of replicas that share a card take turns, by formulas as in a simulation") {
  // Ranks 0 and 1 stand on one node and send to 2 and 3 on the other, whose one card has 10 Gbit/s for both: twice the time of one alone.
  for (const std::string plan : {"dp=2,pp=2,micro_batch=1", "tp=2,pp=2,micro_batch=2", "dp=2,pp=4,micro_batch=1,schedule=gpipe"}) {
    const auto step = [&](const std::string& fidelity) {
      return number(
          result_of(rehearse("simulate 'zoo:gpt?layers=4&hidden=256&heads=4&seq=64&vocab=1000' --platform xeon-2s-10gbe --devices 8 "
                             "--batch 8 --format json --fidelity " +
                             fidelity + " --plan " + plan)),
          "step_seconds");
    };
    INFO(plan);
    CHECK(step("folded") == Approx(step("full")).epsilon(0.01));
    CHECK(step("closed") == Approx(step("full")).epsilon(0.03));
  }
}

TEST_CASE("what a program makes no use of in a platform is said") {
  const TemporaryFolder folder;
  auto document = nlohmann::json::parse(rehearse("platform show dgx-a100").out);
  document["topology"]["adds"] = 1;
  write_text(folder / "adding.json", document.dump());
  const auto asked = [&](const std::string& framework) {
    return rehearse("estimate zoo:vgg11 --batch 64 --dtype f32 --plan dp=16 --nodes 2 --framework " + framework +
                    " --format json --platform " + (folder / "adding.json"));
  };
  CHECK_THAT(asked("rehearse").err, contains("topology.adds") && contains("adds at its ranks"));
  CHECK(asked("pytorch").err.find("topology.adds") == std::string::npos);
}
