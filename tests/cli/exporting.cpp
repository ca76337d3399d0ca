// A plan as another framework's configuration: what stands beside the plan is written, too, or refused.
#include "tests/cli/rehearse.hpp"

namespace {

const std::string kTraining = " --model zoo:llama3-8b --batch 64 --dtype bf16 --optimizer adamw ";

std::string written(const std::string& words) {
  const auto ended = rehearse("export " + words);
  INFO(ended.err);
  CHECK(ended.status == 0);
  return ended.out;
}

}  // namespace

TEST_CASE("a rate that follows the batch is written as it is for the batch") {
  struct Framework {
    std::string name, plan, linear, root;
  };
  for (const auto& f :
       {Framework{"megatron-core", "dp=8,zero=1", "--lr 0.08", "--lr 0.04"},
        Framework{"torchtitan", "dp=8,zero=3", "\"lr\": 0.08", "\"lr\": 0.04"},
        Framework{"deepspeed", "dp=8,zero=3", "\"lr\": 0.08", "\"lr\": 0.04"}, Framework{"fsdp2", "dp=8,zero=3", "lr=0.08", "lr=0.04"}}) {
    INFO(f.name);
    const auto words = f.plan + kTraining + "--for " + f.name;
    CHECK_THAT(written(words + " --lr 0.01 --lr-scaling linear --base-batch 8"), contains(f.linear));
    CHECK_THAT(written(words + " --lr 0.01 --lr-scaling sqrt --base-batch 4"), contains(f.root));
  }
  check_failure(rehearse("export dp=8,zero=1" + kTraining + "--for deepspeed --lr-scaling linear"), 1, {"--lr-scaling", "--base-batch"});
  const TemporaryFolder folder;
  const auto plan = folder / "plan.json";
  const auto searched = rehearse(
      "search zoo:llama3-8b --batch 64 --dtype bf16 --optimizer adamw --lr 0.01 --lr-scaling linear --base-batch 8 "
      "--platform dgx-h100 --nodes 1 --framework megatron-core --plan dp=4,tp=2,zero=1,micro_batch=1 --confirm 0 -o " +
      plan);
  INFO(searched.err);
  REQUIRE(searched.status == 0);
  CHECK_THAT(written(plan + " --for megatron-core"), contains("--lr 0.08"));
}

TEST_CASE("what no configuration can say is refused by name") {
  for (const char* framework : {"megatron-core", "torchtitan", "deepspeed", "fsdp2"}) {
    INFO(framework);
    const std::string words = "export dp=8,zero=3" + kTraining + "--for " + framework;
    check_failure(rehearse(words + " --bind a=3"), 1, {"--bind a=3", "leave it out"});
    check_failure(rehearse(words + " --target foo"), 1, {"--target foo", "leave it out"});
    check_failure(rehearse(words + " --seed 3"), 1, {"--seed 3"});
    check_failure(rehearse(words + " --dropout off"), 3, {"--dropout"});
    check_failure(rehearse("export dp=8,interleave=2" + kTraining + "--for " + framework), 3,
                  {"interleave: 2 chunks on each of one stage", "interleave=1"});
  }
}

TEST_CASE("keys that change nothing of a plan are named when it is exported") {
  const auto ended = rehearse("export dp=8,schedule=gpipe,zero=1" + kTraining + "--for megatron-core");
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, contains("schedule=gpipe is without effect for pp=1"));
}
