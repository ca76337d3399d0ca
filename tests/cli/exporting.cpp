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
