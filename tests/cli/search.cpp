// rehearse search with a choice of hardware, and keys of a plan that are left to the search wherever a plan is taken.
#include <fstream>

#include "tests/cli/rehearse.hpp"

namespace {

std::string on_four(const std::string& command, const std::string& more) {
  return command + " " + kGpt + " --batch 8 --devices 4 --format json " + more;
}

double seconds_of(const nlohmann::json& result) { return result.at("step_seconds").at("value"); }

}  // namespace

TEST_CASE("plans of several platforms are ranked together, each with its platform") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const auto found = result_of(rehearse(on_four("search", "--platform dgx-a100 --platform dgx1-p100 --top 1000 -o " + plan)));
  std::map<std::string, int> plans;
  double before = 0;
  for (const auto& entry : found.at("plans")) {
    ++plans[entry.at("platform").get<std::string>()];
    CHECK(seconds_of(entry) >= before);
    before = seconds_of(entry);
  }
  CHECK(plans.size() == 2);
  CHECK(found.at("platform") == found.at("plans").at(0).at("platform"));
  // What was written is the winner.
  const auto again = result_of(rehearse(on_four("estimate", "--platform " + found.at("platform").get<std::string>() + " --plan " + plan)));
  CHECK(seconds_of(again) == Approx(seconds_of(found.at("plans").at(0))));
  check_failure(rehearse(on_four("search", "--platform dgx-a100 --platform dgx-a100")), 1,
                {"--platform dgx-a100", "two platforms are called"});
  check_failure(rehearse(on_four("search", "--platform dgx-a100 --platform nowhere")), 1, {"nowhere"});
}

TEST_CASE("a search over prices on two bases says both, and that they do not compare machines") {
  const auto asked = [](const std::string& platforms) { return rehearse(on_four("search", platforms + " --top 1 --objective cost")); };
  // AWS lets both from 2022 on; Lambda a B200 in 2025.
  const auto alike = asked("--platform dgx-a100 --platform jean-zay-a100"), mixed = asked("--platform dgx-a100 --platform dgx-b200");
  CHECK_THAT(alike.err, !contains("one basis"));
  CHECK_THAT(mixed.err, contains("prices are not on one basis") && contains("dgx-a100: on demand, AWS, 2022 to 2024") &&
                            contains("dgx-b200: on demand, Lambda Cloud, 2025"));
  const auto answer = result_of(mixed);
  const auto other = answer.at("platform") == "dgx-a100" ? "dgx-b200" : "dgx-a100";
  CHECK(answer.at("other_price_bases").size() == 1);
  CHECK(answer.at("other_price_bases")[0].at("platform") == other);
  const auto quickest = rehearse(on_four("search", "--platform dgx-a100 --platform dgx-b200 --top 1"));
  CHECK_THAT(quickest.err, !contains("one basis"));  // which compares no money
  CHECK(result_of(quickest).contains("other_price_bases"));
  const auto given = asked("--platform dgx-a100 --platform dgx-b200 --price 3");
  CHECK_THAT(given.err, !contains("one basis"));
  CHECK(!result_of(given).contains("other_price_bases"));
}

TEST_CASE("auto is searched by every command that knows the platform") {
  const auto best = result_of(rehearse(on_four("search", "--platform dgx-a100 --plan dp=2,tp=auto --top 1"))).at("plans").at(0);
  const auto estimated = result_of(rehearse(on_four("estimate", "--platform dgx-a100 --plan dp=2,tp=auto")));
  CHECK(estimated.at("plan") == best.at("plan"));
  CHECK(result_of(rehearse(on_four("simulate", "--platform dgx-a100 --plan dp=2,tp=auto"))).at("plan") == best.at("plan"));
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 8 --format json --plan dp=auto"), 3, {"auto", "rehearse search"});
}

TEST_CASE("what search writes is run, explained and simulated without naming the model again") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const std::string training = " --batch 8 --dtype f64 --optimizer adam ", ours = " --framework rehearse ";  // others know no f64
  (void)result_of(rehearse(std::string("search ") + kGpt + training + ours + "--platform dgx-a100 --devices 2 --format json -o " + plan));
  const auto ranks =
      result_of(rehearse("explain " + plan + ours + "--optimizer adam --platform dgx-a100 --devices 2 --format json")).at("ranks");
  // The batch is the file's, too, where the model is named again.
  CHECK(result_of(rehearse("explain " + plan + ours + "--model " + kGpt +
                           " --dtype f64 --optimizer adam --platform dgx-a100 --devices 2 --format json"))
            .at("ranks") == ranks);
  const auto of_file = rehearse("explain " + plan + ours + "--format json");
  CHECK(result_of(of_file).at("ranks") == ranks);
  CHECK_THAT(of_file.err, !contains("no --platform"));
  const auto usual = rehearse(std::string("explain dp=2 --model ") + kGpt + training + ours + "--format json");
  CHECK(result_of(usual).at("platform") == "dgx-a100");
  CHECK(result_of(usual).at("ranks") == 2);
  CHECK_THAT(usual.err, contains("no --platform"));
  const auto run = [&](const std::string& more) { return rehearse("run " + plan + " --steps 2 --format json " + more, ranks.get<int>()); };
  const auto losses = losses_of(run("--optimizer adam"));
  const auto named = losses_of(rehearse(std::string("run ") + kGpt + training + "--steps 2 --format json"));
  REQUIRE(losses.size() == 2);
  CHECK(std::abs(losses[1] - named[1]) < 1e-12);
  check_failure(run("--optimizer sgd"), 1, {plan, "was made for another training", "optimizer"});
}

TEST_CASE("a plan file has the optimizer that it was searched for, and what is given stands over it") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  (void)result_of(rehearse(std::string("search ") + kGpt +
                           " --batch 8 --optimizer adamw --platform dgx-a100 --devices 2 --plan dp=2 --format json -o " + plan));
  CHECK(nlohmann::json::parse(text_of(plan)).at("context").at("optimizer") == "adamw");
  const auto losses = [](const std::string& words) { return losses_of(rehearse(words + " --steps 4 --lr 0.1 --seed 3 --format json", 2)); };
  const auto named = std::string("run ") + kGpt + " --batch 8 --plan dp=2 --optimizer ";
  CHECK(losses("run " + plan) == losses(named + "adamw"));
  CHECK(losses("run " + plan) != losses(named + "sgd"));
  check_failure(rehearse("run " + plan + " --optimizer sgd --steps 1", 2), 1, {"another training"});
  const std::string exported = "export " + plan + " --for megatron-core --model zoo:llama3-8b";
  CHECK_THAT(rehearse(exported).out, contains("--optimizer adam\n") || contains("--optimizer adam "));
  CHECK_THAT(rehearse(exported + " --optimizer sgd").out, contains("--optimizer sgd"));
}

TEST_CASE("a plan file is estimated as the framework that it was searched as") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  // Without a name the sharded optimizer of this plan is torchtitan's.
  const std::string keys = "dp=8,micro_batch=1,zero=3", job = " zoo:llama3-8b --batch 16 --dtype bf16 --optimizer adamw --format json ";
  const std::string where = "--platform dgx-h100 --nodes 1 ";
  CHECK(result_of(rehearse("estimate" + job + where + "--plan " + keys)).at("framework") == "torchtitan");
  const auto found = result_of(rehearse("search" + job + where + "--framework nemo --plan " + keys + " --confirm 0 -o " + plan));
  for (const char* command : {"estimate", "simulate --fidelity closed"}) {
    const auto answer = result_of(rehearse(command + job + where + "--plan " + plan));
    CHECK(answer.at("framework") == "nemo");
    CHECK(answer.at("step_seconds").at("value").get<double>() ==
          Approx(found.at("plans")[0].at("step_seconds").at("value").get<double>()).epsilon(1e-9));
  }
  CHECK(result_of(rehearse("estimate" + job + where + "--framework torchtitan --plan " + plan)).at("framework") == "torchtitan");
  CHECK(result_of(rehearse("estimate" + job + "--platform dgx-a100 --nodes 1 --plan " + plan)).at("framework") != "nemo");
}

TEST_CASE("a plan file has what else was trained, where, and as which framework runs it") {
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const std::string model = "zoo:llama3-8b", where = " --platform dgx-h100 --nodes 1 --framework megatron-core --recipe frozen=nf4 ";
  const std::string training = " --batch 16 --dtype fp8 --optimizer adamw:beta2=0.95 --lora 16 --clip-norm 1 ";
  const auto found = result_of(rehearse("search " + model + training + where +
                                        "--plan dp=8,micro_batch=1,zero=1,recompute=auto --confirm 0 --format json -o " + plan));
  const auto context = nlohmann::json::parse(text_of(plan)).at("context");
  CHECK(context.at("dtype") == "fp8");
  CHECK(context.at("optimizer") == "adamw:beta2=0.95");
  CHECK(context.at("training") == nlohmann::json{{"lora", "16"}, {"clip-norm", "1"}});
  CHECK(context.at("searched_on") ==
        nlohmann::json{{"platform", "dgx-h100"}, {"nodes", "1"}, {"framework", "megatron-core"}, {"recipe", "frozen=nf4"}});
  const auto explained = [&](const std::string& more) { return result_of(rehearse("explain " + plan + " --format json " + more)); };
  const auto& best = found.at("plans")[0];
  const auto again = explained("");
  CHECK(again.at("framework") == "megatron-core");
  CHECK(again.at("memory_bytes") == best.at("memory_bytes"));
  CHECK(again.at("step_seconds") == best.at("step_seconds"));
  // What is given stands over the file, a default, too; a recipe is one of the framework that it was given for.
  CHECK(explained("--dtype bf16").at("step_seconds").at("value") > again.at("step_seconds").at("value"));
  CHECK(explained("--platform dgx-a100 --dtype bf16").at("platform") == "dgx-a100");
  CHECK(explained("--framework torchtitan").at("framework") == "torchtitan");
  check_failure(rehearse("export " + plan + " --for megatron-core"), 3, {"--lora"});
  const auto other = rehearse("estimate " + model + " --batch 16 --platform dgx-h100 --nodes 1 --dtype bf16 --lora 8 --plan " + plan);
  CHECK(other.status == 0);
  CHECK_THAT(other.err, contains("was made for another training") && contains("--lora=16"));
  auto broken = nlohmann::json::parse(text_of(plan));
  broken["context"]["training"]["lorra"] = "8";
  write_text(plan, broken.dump());
  check_failure(rehearse("explain " + plan), 1, {"context.training", "lorra"});
}

TEST_CASE("what is found for a framework its configuration can say") {
  const std::string framework = GENERATE("megatron-core", "torchtitan");
  const std::string training = " --batch 32 --dtype bf16 --optimizer adamw ";
  const auto found = result_of(rehearse("search zoo:llama3-8b" + training +
                                        "--platform dgx-h100 --nodes 1 --confirm 0 --top 20 --format json --framework " + framework));
  REQUIRE(found.at("plans").size() == 20);
  for (const auto& entry : found.at("plans")) {
    const auto plan = entry.at("plan").get<std::string>();
    INFO(plan);
    const auto written = rehearse("export '" + plan + "' --model zoo:llama3-8b --for " + framework + training);
    INFO(written.err);
    CHECK(written.status == 0);
  }
}

TEST_CASE("what a framework cannot do is not searched, and what its user's program says is marked") {
  const std::string ask =
      "search zoo:llama3-8b --batch 32 --dtype bf16 --optimizer adamw --platform dgx-h100 --nodes 1 --confirm 0 --format json ";
  check_failure(rehearse(ask + "--framework megatron-core --plan dp=2,tp=2,pp=2,micro_batch=1,zero=auto,schedule=zb-h1"), 3,
                {"schedule", "it has no zb-h1", "use 1f1b or interleaved"});
  const auto found = result_of(rehearse(ask + "--framework deepspeed --plan dp=8,zero=2,recompute=full,micro_batch=auto")).at("plans")[0];
  CHECK(found.at("left_to_program").size() == 1);
  CHECK_THAT(found.at("left_to_program")[0].get<std::string>(), contains("recompute: "));
}

TEST_CASE("a best plan that may run out of memory is said to, with one that does not") {
  const std::string ask =
      "search zoo:llama3-8b --batch 32 --dtype bf16 --optimizer adamw --platform dgx-h100 --nodes 1 --confirm 0 --framework megatron-core ";
  const auto risky = rehearse(ask + "--plan dp=8,zero=2,micro_batch=auto,recompute=auto --top 20");
  CHECK_THAT(risky.err, contains("the best plan runs out of memory with a chance of") && contains("of these, with one of") &&
                            contains("--limit out-of-memory=5%"));
  CHECK_THAT(rehearse(ask + "--limit out-of-memory=5%").err, !contains("runs out of memory"));
}

TEST_CASE("who asks to be quick is told of devices that do not help") {
  // A few thousand parameters: what sixteen devices would save in arithmetic they wait for each other.
  const std::string job = "search 'zoo:gpt?layers=2&hidden=32&heads=2&seq=32&vocab=100' --batch 16 --confirm 0 --platform dgx-a100 ";
  const auto found = rehearse(job + "--devices 16 --format json");
  const int ranks = result_of(found).at("plans")[0].at("ranks");
  REQUIRE(ranks < 16);
  CHECK_THAT(found.err, contains("uses " + std::to_string(ranks) + " of 16 devices"));
  CHECK_THAT(rehearse(job + "--devices " + std::to_string(ranks)).err, !contains("would be idle"));
  CHECK_THAT(rehearse(job + "--devices 16 --objective cost").err, !contains("would be idle"));  // the cheapest plan may well be a small one
}

TEST_CASE("a plan without a key that is auto leaves nothing to search, and that is said") {
  const std::string job = "search zoo:gpt2 --platform dgx-a100 --nodes 1 --batch 64 --dtype bf16 --confirm 0 --plan dp=8";
  const auto fixed = rehearse(job);
  CHECK_THAT(fixed.err, contains("--plan dp=8 leaves nothing to search") && contains("micro_batch=auto"));
  CHECK_THAT(rehearse(job + ",zero=auto").err, !contains("leaves nothing to search"));
}

TEST_CASE("other mathematics are chosen where they are allowed, and said to be other") {
  const auto number = [](const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); };
  const std::string job = "'zoo:resnet18?image=32&classes=10' --platform xeon-2s-10gbe --devices 8 --batch 64 --plan dp=8,zero=auto ";
  const auto plain = result_of(rehearse("search " + job + "--budget 2000plans --format json"));
  const auto allowed = rehearse("search " + job + "--budget 2000plans --format json --allow compression");
  REQUIRE(allowed.status == 0);
  const auto best = nlohmann::json::parse(allowed.out).at("plans").at(0);
  const auto text = best.at("plan").get<std::string>();
  CHECK_THAT(text, contains("compression="));
  CHECK_THAT(allowed.err, contains("the best plan has other mathematics, compression="));
  CHECK(number(best, "step_seconds") < number(plain.at("plans").at(0), "step_seconds"));
  // No other compressor is quicker.
  for (const std::string how : {"none", "sign", "1bit", "terngrad", "qsgd", "topk", "randomk", "randomk-memory", "powersgd"}) {
    const auto other =
        result_of(rehearse("simulate 'zoo:resnet18?image=32&classes=10' --platform xeon-2s-10gbe --devices 8 --batch 64 --fidelity folded "
                           "--format json --plan dp=8,compression=" +
                           how));
    CHECK(number(other, "step_seconds") >= number(best, "step_seconds") * (1 - 1e-9));
  }
  CHECK_THAT(rehearse("search " + job + "--allow speed").err, contains("--allow: 'speed' is unknown. Known: compression"));
  CHECK_THAT(rehearse("search zoo:resnet18 --platform xeon-2s-10gbe --batch 64 --allow compression --plan dp=8,compression=sign").err,
             contains("exclude each other"));
  const auto elsewhere = rehearse("search zoo:resnet18 --platform dgx-a100 --devices 8 --batch 64 --allow compression");
  CHECK(elsewhere.status == 3);
  CHECK_THAT(elsewhere.err, contains("use --framework rehearse"));
}

TEST_CASE("replicas that train by themselves are chosen where that is allowed and ranks are unequally quick") {
  const std::string job = "'zoo:vit?image=32&patch=8&layers=2&hidden=64&heads=4' --platform xeon-2s-10gbe --devices 8 --batch 64 ";
  const auto allowed = rehearse("search " + job + "--plan dp=8,zero=auto --jitter 0.3 --budget 500plans --format json --allow async");
  REQUIRE(allowed.status == 0);
  const auto best = nlohmann::json::parse(allowed.out).at("plans").at(0);
  CHECK_THAT(best.at("plan").get<std::string>(), contains("local_steps="));
  CHECK_THAT(allowed.err, contains("replicas train by themselves") && contains("docs/local-steps.md"));
  CHECK_THAT(rehearse("search " + job + "--allow async --plan dp=8,local_steps=4").err, contains("says local_steps itself"));
}

TEST_CASE("a list of plans that is broken is named line by line, and one that is whole is ranked as it is") {
  const TemporaryFolder folder;
  const std::string ask = std::string("search ") + kGpt + " --batch 8 --platform dgx-a100 --devices 4 --format json --plans ";
  const auto list = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return ask + (folder / name);
  };
  check_failure(rehearse(list("lines", "dp=4\nbogus\n\ndp=2,zero=9\ndp=auto\n")), 1,
                {"line 2", "bogus", "line 4", "zero=9", "line 5", "auto"});
  check_failure(rehearse(list("numbers.json", "[\"dp=4\", 3]")), 1, {"numbers.json", "entry 2", "as text"});
  check_failure(rehearse(list("nothing", "")), 1, {"nothing", "one plan a line"});
  check_failure(rehearse(list("known", "dp=4\n") + " --plan dp=4"), 1, {"--plan", "--plans"});
  const auto ranked = rehearse(list("good", "# two\ndp=4\ndp=3\ndp=2,tp=2\ntp=1,dp=4\n") + " --top 10");
  CHECK_THAT(ranked.err, contains("line 5: is the plan of line 2"));
  const auto answer = result_of(ranked);
  CHECK(answer.at("plans").size() == 2);
  REQUIRE(answer.at("refused").size() == 1);
  CHECK(answer.at("refused").at(0).at("plan") == "dp=3");
  CHECK(answer.at("plans_per_second") > 0);
}

TEST_CASE("a list of plans may be written by an editor that begins files with a mark and ends lines with CR LF") {
  const TemporaryFolder folder;
  const std::string ask = std::string("search ") + kGpt + " --batch 8 --platform dgx-a100 --devices 4 --confirm 0 --format json --plans ";
  for (const std::string text : {"# two\r\ndp=4\r\ndp=2,tp=2\r\n", "[\"dp=4\",\r\n\"dp=2,tp=2\"]\r\n"}) {
    std::ofstream(folder / "plans") << "\xEF\xBB\xBF" << text;
    CHECK(result_of(rehearse(ask + (folder / "plans"))).at("plans").size() == 2);
  }
}

TEST_CASE("of a front as many plans are shown as are asked for, and the number of others is said") {
  const std::string ask = on_four("search", "--platform dgx-a100 --objective pareto --confirm 0 --budget 5000plans ");
  const auto whole = result_of(rehearse(ask)), two = result_of(rehearse(ask + "--top 2"));
  const auto plans = whole.at("plans").size();
  REQUIRE(plans > 2);
  CHECK_FALSE(whole.contains("more_on_front"));
  REQUIRE(two.at("plans").size() == 2);
  CHECK(two.at("plans").at(1).at("plan") == whole.at("plans").at(1).at("plan"));
  CHECK(two.at("more_on_front") == plans - 2);
  CHECK_FALSE(result_of(rehearse(ask + "--top 1000")).contains("more_on_front"));
}

TEST_CASE("plans that there was no time for are not said to be over a limit") {
  const std::string ask = "search zoo:resnet18 --platform dgx-a100 --batch 64 --limit devices=4 --format json ";
  check_failure(rehearse(ask + "--budget 20plans"), 3, {"none of the 20 plans that were assessed keeps the limits", "--budget"});
  CHECK(result_of(rehearse(ask + "--budget 2000plans")).at("plans")[0].at("ranks") <= 4);
  check_failure(rehearse("search zoo:resnet18 --platform dgx-a100 --devices 2 --batch 64 --limit step=1ns --budget 9000plans"), 3,
                {"no plan keeps the limits"});
}

TEST_CASE("a search that is not at an end says what ended it") {
  const std::string ask = "search zoo:resnet18 --platform dgx-a100 --batch 64 --confirm 0 --top 1 --budget ";
  CHECK_THAT(rehearse(ask + "10plans").err,
             contains("not every plan was looked at: the budget was 10 plans") && !contains("time was over"));
  CHECK_THAT(rehearse(ask + "1ms").err, contains("not every plan was looked at: the time was over"));
}

TEST_CASE("a search that is told to stop prints the best so far") {
  for (const std::string signal : {"INT", "TERM"}) {
    const auto ended = run_shell("\"" REHEARSAL_COMMAND
                                 "\" search 'zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048' --platform dgx-a100 "
                                 "--devices 1024 --batch 1536 --dtype bf16 --budget 300s --format json & job=$!; sleep 2; kill -" +
                                 signal + " $job; wait $job");
    INFO(signal);
    const auto answer = result_of(ended);
    CHECK_FALSE(answer.at("exhausted").get<bool>());
    CHECK(answer.at("plans").size() == 5);
    CHECK(answer.at("plans").at(0).at("fidelity") == "folded");
    CHECK(answer.at("seconds") < 60);
  }
}

TEST_CASE("a list of plans ranks what estimate accepts, and what may not fit comes behind what fits") {
  const std::string job =
      " 'zoo:llama?layers=32&hidden=4096&heads=32&kv_heads=8&ffn=14336&seq=8192&vocab=128256' --platform dgx-h100 --devices 64 --batch 128"
      " --dtype bf16 --optimizer adamw --framework torchtitan --format json ";
  const TemporaryFolder folder;
  std::vector<std::string> plans;
  for (const auto* memory : {"zero=1", "zero=3", "zero=1,recompute=full", "zero=1,recompute=selective"})
    for (const auto* stages : {"dp=64", "dp=32,pp=2,schedule=1f1b", "dp=16,pp=4,schedule=interleaved,interleave=2"})
      plans.push_back(std::string(stages) + ",micro_batch=1," + memory);
  std::ofstream file(folder / "plans.txt");
  for (const auto& plan : plans) file << plan << '\n';
  file.close();
  const auto answer = result_of(rehearse("search" + job + "--top 99 --plans " + (folder / "plans.txt")));
  std::size_t accepted = 0;
  for (const auto& plan : plans) {
    const auto ended = rehearse("estimate" + job + "--plan " + plan);
    INFO(plan << " " << ended.err);
    CHECK((ended.status == 0 || ended.status == 3));
    accepted += ended.status == 0 ? 1 : 0;
  }
  CHECK(accepted > 0);
  CHECK(answer.at("plans").size() == accepted);
  CHECK(answer.at("plans").size() + answer.at("refused").size() == plans.size());
  bool doubtful = false;
  for (const auto& plan : answer.at("plans")) {
    const bool larger = plan.at("memory_bytes").at("value").get<double>() > plan.at("memory_bytes").at("capacity").get<double>();
    CHECK((larger || !doubtful));
    doubtful = larger;
  }
}
