// A cluster of two kinds of nodes: which of them a plan fills first, asked of every command.
#include "tests/cli/rehearse.hpp"

namespace {

constexpr const char* kJob = " 'zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000' --batch 32 --format json ";

/// One node of each, in files of both orders.
struct TwoKinds {
  TwoKinds() {
    auto one = nlohmann::json::parse(rehearse("platform show dgx-a100").out), other = one;
    auto quick = one.at("nodes").at(0), slow = nlohmann::json::parse(rehearse("platform show dgx1-v100").out).at("nodes").at(0);
    quick["count"] = slow["count"] = 1;
    one["nodes"] = {quick, slow};
    other["nodes"] = {slow, quick};
    write_text(listed, one.dump());
    write_text(turned, other.dump());
  }
  TemporaryFolder folder;
  std::string listed = folder / "listed.json", turned = folder / "turned.json";
};

double step_of(const nlohmann::json& answer) { return answer.at("step_seconds").at("value"); }

double ask(const std::string& command, const std::string& more) { return step_of(result_of(rehearse(command + kJob + more))); }

}  // namespace

TEST_CASE("a plan that names the nodes that it fills first is what it is where they are listed first") {
  const TwoKinds files;
  for (const std::string framework : {"rehearse", "megatron-core"}) {
    const auto as = "--framework " + framework + " --dtype f16 ";
    const std::string listed = as + "--platform " + files.listed, turned = as + "--platform " + files.turned;
    for (const std::string plan : {"dp=8", "dp=8,pp=2,micro_batch=1"})
      for (const std::string command : {"estimate", "simulate --fidelity folded", "simulate --fidelity full"}) {
        CAPTURE(framework, plan, command);
        CHECK(ask(command, listed + " --plan " + plan + ",fill=V100") == ask(command, turned + " --plan " + plan));
      }
    const auto explained = [&](const std::string& plan, const std::string& where) {
      return result_of(rehearse("explain " + plan + " --model" + kJob + where)).at("stages");
    };
    CHECK(explained("dp=8,fill=V100", listed) == explained("dp=8", turned));
    // Limits say how many devices are used, and the plan which.
    CHECK(ask("estimate", listed + " --devices 8 --plan dp=8,fill=V100") == ask("estimate", turned + " --plan dp=8"));
    CHECK(ask("estimate", turned + " --nodes 1 --plan dp=8,fill=A100") == ask("estimate", listed + " --plan dp=8"));
  }
}

TEST_CASE("a search finds the same whichever nodes are listed first, and those of devices in excess that are quickest") {
  const TwoKinds files;
  const auto best = [&](const std::string& platform, const std::string& more) {
    const auto job = std::string("search") + kJob + "--dtype f16 --confirm 0 --top 1 --framework megatron-core --platform ";
    return step_of(result_of(rehearse(job + platform + more)).at("plans").at(0));
  };
  CHECK(best(files.listed, "") == Approx(best(files.turned, "")).epsilon(1e-9));
  CHECK(best(files.turned, " --devices 8") == Approx(best("dgx-a100", " --devices 8")).epsilon(1e-9));
}

TEST_CASE("devices that a plan leaves idle neither refuse it nor say what is known of it") {
  const TwoKinds files;
  const std::string job = std::string("estimate") + kJob + "--dtype bf16 --framework megatron-core --platform ";
  const auto alone = result_of(rehearse(job + "dgx-a100 --devices 8 --plan dp=8"));
  for (const auto& where : {files.listed + " --plan dp=8", files.turned + " --plan dp=8,fill=A100"}) {
    const auto both = rehearse(job + where);
    CHECK(step_of(result_of(both)) == step_of(alone));
    CHECK(result_of(both).at("framework_evidence") == alone.at("framework_evidence"));
    CHECK(result_of(both).at("price_basis") == alone.at("price_basis"));
    CHECK_THAT(both.err, contains("8 V100-SXM2-16GB are idle"));
  }
  check_failure(rehearse(job + files.turned + " --plan dp=8"), 3, {"V100-SXM2-16GB", "bf16"});
}

TEST_CASE("groups that are not there are refused, and so is the order where others decide it") {
  const TwoKinds files;
  check_failure(rehearse("estimate" + std::string(kJob) + "--platform " + files.listed + " --plan dp=8,fill=H100"), 3,
                {"fill: 'H100' is no group of nodes", "A100-SXM4-80GB, V100-SXM2-16GB"});
  check_failure(rehearse("estimate" + std::string(kJob) + "--platform " + files.listed + " --plan 'dp=8,fill=V100|V100'"), 1,
                {"fill=V100|V100", "none empty or twice"});
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 2 --steps 1 --plan dp=1,fill=V100"), 3, {"fill=V100", "--hostfile"});
  check_failure(rehearse("export dp=8,micro_batch=4,fill=V100 --model 'zoo:gpt?layers=4&hidden=256&heads=4&seq=128&vocab=1000' --batch 32 "
                         "--optimizer adam --for megatron-core"),
                3, {"fill: ", "list the hosts of V100 first"});
}
