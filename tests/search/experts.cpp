// Experts spread over all ranks of a stage, those of tensor parallelism among them: a search finds them where trying every plan does.
#include "tests/catch.hpp"
#include "tests/search/oracle.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;
using namespace rehearsal::search;
using namespace rehearsal::search::oracle;

namespace {

constexpr int kRanks = 8, kExperts = 16;

struct Mixture {
  explicit Mixture(double memory, const char* framework = "megatron-core")
      : platform(platforms::with_devices(platforms::load("dgx-h100"), kRanks)) {
    platform.nodes.front().device.memory = Bytes(memory);
    const auto* network = "moe?layers=2&hidden=2048&heads=16&seq=4096&vocab=8192&experts=16&top_k=2";
    predictor = predict::frameworks::framework_predictor({graph::zoo::build(network, 2), "bf16", "adam"}, platform,
                                                         *costmodel::find_framework(framework));
  }
  platforms::Platform platform;
  std::unique_ptr<Predictor> predictor;
};

/// Every degree of expert parallelism that divides the experts: Megatron refuses those for which there are no ranks.
std::vector<std::string> mixture_plans() {
  std::vector<std::string> all;
  for (const int ranks : divisors(kRanks))
    for (const int pp : divisors(std::min(ranks, 2)))
      for (const int tp : divisors(ranks / pp))
        for (const int cp : divisors(ranks / pp / tp)) {
          const int dp = ranks / pp / tp / cp;
          const auto some = texts({{"dp", numbers({dp})},
                                   {"tp", numbers({tp})},
                                   {"pp", numbers({pp})},
                                   {"cp", numbers({cp})},
                                   {"ep", numbers(divisors(kExperts))},
                                   {"micro_batch", numbers(divisors(std::max(1, 2 / dp)))},
                                   {"sequence_parallel", tp > 1 ? std::vector<std::string>{"on"} : std::vector<std::string>{"off"}},
                                   {"zero", dp * cp > 1 ? std::vector<std::string>{"0", "1", "2", "3"} : std::vector<std::string>{"0"}},
                                   {"recompute", {"none", "selective", "full"}}});
          all.insert(all.end(), some.begin(), some.end());
        }
  return all;
}

}  // namespace

TEST_CASE("a search spreads whole experts over ranks of tensor parallelism where that is best") {
  for (const double memory : {80e9, 9e9}) {
    Mixture setting(memory);
    const auto all = tried(*setting.predictor, mixture_plans());
    INFO(memory << " B, " << all.size() << " plans");
    CHECK(std::ranges::count_if(all, [](const Assessment& a) { return a.plan.has_whole_experts(); }) > 20);
    for (const auto& row : objective_table()) {
      const auto& best = *std::ranges::min_element(all, {}, row.value);
      const auto result = found(*setting.predictor, std::string(row.name));
      INFO(row.name << ": " << to_text(best.plan) << " against " << to_text(result.plans.front().answer.plan));
      CHECK(result.exhausted);
      CHECK(row.value(result.plans.front().answer) <= row.value(best) * (1 + 1e-9));
    }
  }
}

TEST_CASE("what a user fixes may leave experts no other ranks than those of tensor parallelism") {
  Mixture setting(80e9);
  // Eight ranks of which four split layers leave two replicas: eight ranks for experts are all of them.
  SearchOptions options;
  options.fixed = parse_plan("tp=4,sequence_parallel=on,pp=1");
  options.free = {"dp", "cp", "ep", "micro_batch", "zero", "recompute"};
  options.seconds = 600;
  Progress progress;
  const auto best = search::search(*setting.predictor, options, progress).plans.front().answer;
  INFO(to_text(best.plan));
  CHECK(best.plan.ep == kRanks);
  CHECK(best.plan.has_whole_experts());
  for (const auto& a : tried(*setting.predictor, mixture_plans()))
    if (a.plan.tp == 4 && a.plan.pp == 1) CHECK(best.step.value() <= a.step.value() * (1 + 1e-9));
}

TEST_CASE("DeepSpeed takes the ranks of experts from those of dp, and no others are proposed") {
  Mixture setting(80e9, "deepspeed");
  CHECK(!setting.predictor->limits().whole_experts);
  SearchOptions options;
  options.fixed = parse_plan("tp=4,pp=1");
  options.free = {"dp", "ep", "micro_batch", "zero"};
  options.seconds = 600;
  options.top = 1000;
  options.folds = false;
  Progress progress;
  for (const auto& found : search::search(*setting.predictor, options, progress).plans) CHECK(found.answer.plan.ep <= 2);
}

TEST_CASE("bounds of plans with whole experts hold") {
  Mixture setting(80e9);
  int looked = 0;
  for (const auto& text : mixture_plans()) {
    const auto plan = parse_plan(text);
    if (!plan.has_whole_experts() || plan.dp > 2 || !setting.predictor->violations(plan).empty()) continue;
    const auto outlook = setting.predictor->outlook(plan);
    const auto a = setting.predictor->closed(plan);
    INFO(text);
    CHECK(outlook.memory_bytes == a.memory_bytes);
    if (!outlook.fits()) continue;
    CHECK(outlook.step <= a.step);
    for (const auto& row : objective_table()) CHECK(row.least(outlook) <= row.value(a) * (1 + 1e-12));
    ++looked;
  }
  CHECK(looked > 20);
}
