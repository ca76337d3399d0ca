// What ranks exchange in place of whole gradients in every step, predicted: compressed gradients, and replicas that meet now and then.
#include <string>

#include "tests/cli/rehearse.hpp"

namespace {

double number(const nlohmann::json& answer, const char* key) { return answer.at(key).at("value").get<double>(); }

}  // namespace

TEST_CASE("a step with compressed gradients is the same by formulas, one rank of each role and all ranks") {
  for (const std::string how : {"sign", "1bit", "terngrad", "qsgd:8", "topk:0.02", "randomk:0.1", "randomk-memory:0.1", "powersgd:2",
                                "sparcml:0.02", "powersgd:2,exact_steps=100", "1bit-adam,exact_steps=100"})
    for (const std::string plan : {"dp=4,micro_batch=1", "dp=2,pp=2,micro_batch=1"}) {
      const auto step = [&](const std::string& fidelity) {
        return result_of(
            rehearse("simulate 'zoo:gpt?layers=4&hidden=256&heads=4&seq=64&vocab=1000' --platform xeon-2s-10gbe --devices 4 "
                     "--batch 8 --optimizer adam --format json --fidelity " +
                     fidelity + " --plan " + plan + ",compression=" + how));
      };
      INFO(plan << " " << how);
      const auto closed = step("closed"), folded = step("folded"), full = step("full");
      CHECK(number(folded, "step_seconds") == Approx(number(full, "step_seconds")).epsilon(0.03));
      CHECK(number(closed, "step_seconds") == Approx(number(full, "step_seconds")).epsilon(0.1));
      CHECK(closed.at("memory_bytes").at("value") == full.at("memory_bytes").at("value"));
    }
}

TEST_CASE("steps of replicas that meet now and then are the same by formulas, one rank of each role and all ranks") {
  const auto step = [](const std::string& platform, const std::string& plan, const std::string& fidelity) {
    return number(
        result_of(rehearse("simulate 'zoo:gpt?layers=4&hidden=256&heads=4&seq=64&vocab=1000' --platform " + platform +
                           " --framework rehearse --devices 4 --batch 8 --format json --fidelity " + fidelity + " --plan " + plan)),
        "step_seconds");
  };
  for (const std::string platform : {"xeon-2s-10gbe", "dgx-a100"})
    for (const std::string plan :
         {"dp=4,local_steps=3", "dp=2,pp=2,micro_batch=1,local_steps=10,outer=nesterov", "dp=2,tp=2,local_steps=1",
          "dp=4,local_steps=2,staleness=1", "dp=4,local_steps=1,staleness=0,servers=1", "dp=4,local_steps=2,staleness=any,outer=elastic",
          "dp=4,local_steps=2,outer=gossip", "dp=4,local_steps=2,outer=adasum", "dp=2,tp=2,local_steps=1,outer=adasum"}) {
      INFO(platform << " " << plan);
      const double closed = step(platform, plan, "closed"), folded = step(platform, plan, "folded"), full = step(platform, plan, "full");
      CHECK(folded == Approx(full).epsilon(0.03));
      CHECK(closed == Approx(full).epsilon(0.1));
    }
  // The mean over n steps of which one meets: n steps of the mean take as long as n - 1 of those alone and one with a meeting.
  const auto of = [&](const std::string& every) { return step("xeon-2s-10gbe", "dp=4,local_steps=" + every, "closed"); };
  const double met = of("1"), alone = 2 * of("2") - met;
  CHECK(alone < met);
  CHECK(of("10") == Approx((9 * alone + met) / 10).epsilon(1e-9));
}

TEST_CASE("compressors of gradients are predicted on processors alone") {
  const auto refused =
      rehearse("estimate zoo:resnet18 --platform dgx-a100 --devices 8 --batch 64 --framework rehearse --plan dp=8,compression=topk");
  CHECK(refused.status == 3);
  CHECK_THAT(refused.err, contains("compression=topk:0.01: compressors of gradients are predicted on processors"));
  // Moments are f32, and would stand where updates take gradients of 16 bits.
  const auto narrow = rehearse(
      "estimate zoo:gpt?layers=1 --batch 4 --dtype bf16 --optimizer adamw --framework rehearse --platform xeon-8480-2s --devices 2 "
      "--plan dp=2,compression=1bit-adam,exact_steps=2");
  CHECK(narrow.status == 3);
  CHECK_THAT(narrow.err, contains("first moments, which are f32, and the gradient of") && contains("is bf16; use --dtype f32"));
}
