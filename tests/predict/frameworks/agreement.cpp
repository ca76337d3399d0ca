// The closed form of a framework's step against its Program played instruction by instruction: random models, plans, profiles, devices.

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/frameworks/plan_rules.hpp"
#include "tests/catch.hpp"

namespace rehearsal::predict::frameworks {
namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_() % choices.size()));
  }
  bool happens(unsigned percent) { return random_() % 100 < percent; }

 private:
  std::mt19937 random_;
};

struct Question {
  std::string model, platform, framework, precision, optimizer;
  int devices = 1;
  std::int64_t batch = 1;
  plan::Plan plan;
};

Question random_question(Dice& dice) {
  Question q;
  const bool image = dice.happens(25);
  q.model = image ? dice.one_of<const char*>({"zoo:resnet18?image=64", "zoo:vgg11?image=64&classes=10", "zoo:mobilenet_v2?image=64"})
                  : dice.one_of<const char*>({"zoo:gpt?layers=8&hidden=256&heads=4&seq=128&vocab=1000",
                                              "zoo:llama?layers=8&hidden=512&heads=8&kv_heads=4&ffn=1024&seq=256&vocab=4000",
                                              "zoo:bert?layers=4&hidden=256&heads=4&seq=128&vocab=1000",
                                              "zoo:moe?layers=4&hidden=256&heads=4&kv_heads=4&ffn=512&seq=128&vocab=1000&experts=4",
                                              "zoo:gpt?layers=12&hidden=2048&heads=16&seq=1024&vocab=8000"});
  q.platform = dice.one_of<const char*>({"dgx-a100", "dgx-h100", "dgx1-v100", "mi300x-8x"});
  q.framework =
      dice.one_of<const char*>({"megatron-core", "megatron", "torchtitan", "pytorch", "deepspeed", "nemo", "tensorflow2", "gpipe"});
  q.precision = dice.one_of<const char*>({"f16", "f32"});
  q.optimizer = dice.one_of<const char*>({"adam", "sgd", "lamb"});
  auto& p = q.plan;
  p.pp = dice.one_of({1, 1, 2, 4});
  p.tp = image ? 1 : dice.one_of({1, 1, 2, 4});
  p.cp = q.model.find("seq=") != std::string::npos && p.pp == 1 ? dice.one_of({1, 1, 2}) : 1;
  p.dp = dice.one_of({1, 2, 4, 8});
  q.devices = p.dp * p.tp * p.pp * p.cp;
  p.zero = dice.one_of({0, 1, 2, 3});
  const bool grouped = q.framework == "megatron-core" || q.framework == "torchtitan" || q.framework == "pytorch" || q.framework == "nemo";
  if (grouped && p.zero > 0 && p.dp > 2 && dice.happens(40)) p.zero_group = dice.one_of({1, 2, p.dp / 2});
  p.micro_batch = dice.one_of<std::int64_t>({1, 2});
  const int micro_batches = dice.one_of({1, 2, 4, 8, 24});
  q.batch = p.dp * *p.micro_batch * micro_batches;
  p.schedule = p.pp == 1 ? "1f1b" : dice.one_of<const char*>({"1f1b", "gpipe", "interleaved", "zb-h1"});
  if (p.schedule == "interleaved") p.interleave = 2;
  p.recompute = plan::parse_recompute(dice.one_of<const char*>({"none", "selective", "full", "full:1"}));
  if (p.recompute.blocks > 0 && (image || q.framework == "gpipe")) p.recompute.blocks = 0;  // which count no blocks
  if (q.framework == "gpipe" && p.recompute.rule == plan::RecomputeRule::Full && micro_batches != 2)
    p.recompute.rule = plan::RecomputeRule::FullExceptLast;
  p.sequence_parallel = p.tp > 1 && dice.happens(50);
  p.overlap = !dice.happens(20);
  if (dice.happens(20)) p.offload = dice.one_of({plan::Offload::Activations, plan::Offload::Optimizer});
  return q;
}

TEST_CASE("closed forms say what the played step takes, and what it goes to") {
  Dice dice(20261122);
  std::vector<double> gaps;
  const auto player = closed_form_evaluator();
  for (int n = 0; n < 100; ++n) {
    const auto q = random_question(dice);
    const auto platform = platforms::with_devices(platforms::load(q.platform), q.devices);
    const auto predictor = framework_predictor({graph::zoo::build(q.model, q.batch), q.precision, q.optimizer}, platform,
                                               *costmodel::find_framework(q.framework));
    CAPTURE(q.model, q.platform, q.framework, q.precision, q.batch, plan::to_text(q.plan));
    if (!predictor->violations(q.plan).empty()) {
      CHECK_THROWS_AS(predictor->closed(q.plan), Refusal);
      CHECK_THROWS_AS(predictor->playable(q.plan), Refusal);
      continue;
    }
    const auto closed = predictor->closed(q.plan), played = predictor->played(predictor->playable(q.plan), *player, nullptr);
    gaps.push_back(std::abs(closed.step / played.step - 1));
    CHECK(gaps.back() < 0.05);
    CHECK(closed.memory_bytes == played.memory_bytes);
    for (const auto& b : {closed.breakdown, played.breakdown}) {
      const auto& step = played.step;
      const double sum = (b.compute + b.exposed_communication + b.bubble + b.recompute + b.optimizer + b.io).value();
      CHECK(sum == Approx(step.value()).epsilon(0.06));
    }
    // A stage that waits for one that waits for its host: a bubble to the closed form, communication to who plays it.
    if (q.plan.offload == plan::Offload::Activations && q.plan.pp > 1) continue;
    // Small networks cut into many chunks have some without a kernel, in which nobody waits when they are played.
    if (q.plan.interleave > 1 && q.model.find("image=") != std::string::npos) continue;
    const auto share = [](Seconds part, Seconds step) { return part / step; };
    CHECK(share(closed.breakdown.bubble, closed.step) == Approx(share(played.breakdown.bubble, played.step)).margin(0.05));
    CHECK(share(closed.breakdown.recompute, closed.step) == Approx(share(played.breakdown.recompute, played.step)).margin(0.05));
  }
  REQUIRE(gaps.size() > 50);
  std::sort(gaps.begin(), gaps.end());
  CHECK(gaps[gaps.size() / 2] < 0.002);
}

/// So many devices, about half of them on nodes of one kind and the rest on nodes of another, which stands first as often.
platforms::Platform random_mixture(Dice& dice, int devices) {
  auto platform = platforms::load("dgx-h100");
  const auto* first = dice.one_of<const char*>({"dgx-a100", "dgx-h100", "mi300x-8x", "l40s-4x"});
  const auto* second = dice.one_of<const char*>({"dgx-a100", "dgx-h100", "dgx1-v100", "l40s-4x"});
  platform.nodes = {platforms::load(first).nodes.front(), platforms::load(second).nodes.front()};
  int left = devices;
  for (auto& nodes : platform.nodes) {
    if (nodes.intra.kind == platforms::IntraKind::Nvswitch) nodes.devices = dice.one_of({1, 2, 4, 8});
    const int wanted = &nodes == &platform.nodes.front() ? devices / 2 : left;
    nodes.count = std::max(1, (wanted + nodes.devices - 1) / nodes.devices);
    left = std::max(1, left - nodes.count * nodes.devices);
  }
  return platform;
}

TEST_CASE("closed forms say what the played step takes on nodes of two kinds, and which rank the others wait for") {
  Dice dice(20261130);
  std::vector<double> gaps;
  const auto player = closed_form_evaluator();
  int limiting = 0;
  for (int n = 0; n < 70; ++n) {
    const auto q = random_question(dice);
    const auto platform = random_mixture(dice, q.devices);
    const auto predictor = framework_predictor({graph::zoo::build(q.model, q.batch), q.precision, q.optimizer}, platform,
                                               *costmodel::find_framework(q.framework));
    CAPTURE(q.model, q.framework, q.precision, q.batch, plan::to_text(q.plan));
    for (const auto& nodes : platform.nodes) UNSCOPED_INFO(nodes.count << " of " << nodes.devices << " " << nodes.device.name);
    if (!predictor->violations(q.plan).empty()) continue;
    const auto closed = predictor->closed(q.plan), played = predictor->played(predictor->playable(q.plan), *player, nullptr);
    gaps.push_back(std::abs(closed.step / played.step - 1));
    CHECK(gaps.back() < 0.05);
    CHECK(predictor->outlook(q.plan).step <= closed.step);
    if (q.plan.pp > 1) continue;
    CHECK(closed.limiting_rank == played.limiting_rank);
    ++limiting;
  }
  REQUIRE(gaps.size() > 35);
  CHECK(limiting > 20);
  std::sort(gaps.begin(), gaps.end());
  CHECK(gaps[gaps.size() / 2] < 0.002);
}

TEST_CASE("of the last micro-batch nothing is computed again, closed or played, and of a single one nothing is spared either") {
  const auto player = closed_form_evaluator();
  const auto platform = platforms::with_devices(platforms::load("dgx-a100"), 4);
  // Plans of so many micro-batches: of a pipeline, of replicas, and of replicas that gather parameters or scatter gradients in each.
  for (const auto& [text, micro_batches] :
       {std::pair{"pp=4,schedule=gpipe,micro_batch=4", 4}, std::pair{"pp=4,schedule=gpipe,micro_batch=16", 1},
        std::pair{"tp=2,pp=2,schedule=gpipe,micro_batch=2", 8}, std::pair{"dp=4,micro_batch=2", 2},
        std::pair{"dp=4,zero=3,micro_batch=1", 4}, std::pair{"dp=4,zero=3,micro_batch=4", 1}, std::pair{"dp=4,zero=2,micro_batch=2", 2}}) {
    CAPTURE(text);
    const auto predictor =
        framework_predictor({graph::zoo::build("zoo:gpt?layers=8&hidden=1024&heads=8&seq=512&vocab=8000", 16), "f32", "adam"}, platform,
                            *costmodel::find_framework("gpipe"));
    const auto with = [&](const char* recompute) {
      auto plan = plan::parse_plan(text);
      plan.recompute = plan::parse_recompute(recompute);
      return plan;
    };
    const auto none = predictor->closed(with("none")), full = predictor->closed(with("full")),
               closed = predictor->closed(with("full-except-last"));
    const auto played = predictor->played(predictor->playable(with("full-except-last")), *player, nullptr);
    CHECK(closed.step.value() == Approx(played.step.value()).epsilon(0.003));
    CHECK(closed.breakdown.recompute.value() == Approx(played.breakdown.recompute.value()).epsilon(0.003));
    // Three quarters of 4, seven eighths of 8, half of 2, none of 1.
    const double share = (micro_batches - 1.0) / micro_batches;
    CHECK(closed.breakdown.recompute.value() == Approx(share * full.breakdown.recompute.value()));
    CHECK(closed.memory_bytes == played.memory_bytes);
    CHECK(closed.memory_bytes == (micro_batches > 1 ? full : none).memory_bytes);
    CHECK(predictor->outlook(with("full-except-last")).step <= closed.step);
    if (micro_batches == 1) CHECK(closed.step == none.step);
  }
}

TEST_CASE("closed or played, experts that ranks share out are gathered and scattered by themselves") {
  const auto player = closed_form_evaluator();
  const auto platform = platforms::with_devices(platforms::load("dgx-h100"), 16);
  const auto model = "zoo:moe?layers=4&hidden=256&heads=4&kv_heads=4&ffn=512&seq=128&vocab=1000&experts=8";
  for (const auto* text : {"dp=16,ep=8,zero=3", "dp=16,ep=4,zero=3", "dp=8,ep=8,tp=2,zero=3,sequence_parallel=on",
                           "dp=8,ep=8,cp=2,zero=3,overlap=off", "dp=8,ep=4,cp=2,zero=3,micro_batch=1"}) {
    CAPTURE(text);
    const auto predictor =
        framework_predictor({graph::zoo::build(model, 32), "bf16", "adam"}, platform, *costmodel::find_framework("torchtitan"));
    const auto plan = plan::parse_plan(text);
    const auto closed = predictor->closed(plan), played = predictor->played(predictor->playable(plan), *player, nullptr);
    CHECK(closed.step.value() == Approx(played.step.value()).epsilon(0.003));
    CHECK(closed.memory_bytes == played.memory_bytes);
    CHECK(predictor->outlook(plan).step <= closed.step);
  }
}

TEST_CASE("that the last micro-batch is spared is refused of frameworks that treat all alike") {
  const auto platform = platforms::with_devices(platforms::load("dgx-a100"), 4);
  const auto plan = plan::parse_plan("dp=4,micro_batch=1,recompute=full-except-last");
  for (const auto& profile : costmodel::framework_profiles()) {
    if (profile.name == costmodel::own_framework().name) continue;
    CAPTURE(profile.name);
    const auto predictor = framework_predictor({graph::zoo::build("zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=100", 8), "f32", "adam"},
                                               platform, profile);
    const auto faults = predictor->violations(plan);
    const bool refused = std::ranges::any_of(faults, [](const plan::Violation& v) { return v.key == "recompute"; });
    CHECK(refused == (profile.name != "gpipe"));
    if (profile.values.contains("recompute")) CHECK(profile.has("recompute", "full-except-last") == !refused);
  }
}

TEST_CASE("of chunks of unlike length many micro-batches take what they take when they are played, and nothing less than nothing") {
  const auto player = closed_form_evaluator();
  const auto platform = platforms::with_devices(platforms::load("dgx-h100"), 2);
  for (const auto& [framework, text] : {std::pair{"megatron-core", "pp=2,micro_batch=1,schedule=interleaved,interleave=2"},
                                        std::pair{"torchtitan", "pp=2,micro_batch=1,schedule=zb-v"}}) {
    const auto plan = plan::parse_plan(text);
    for (const std::int64_t batch : {8, 16, 64, 250}) {
      CAPTURE(text, batch);
      const auto predictor = framework_predictor(
          {graph::zoo::build("zoo:hybrid?blocks=4&hidden=512&seq=256&vocab=32000&experts=8&top_k=2", batch), "bf16", "adam"}, platform,
          *costmodel::find_framework(framework));
      const auto closed = predictor->closed(plan), played = predictor->played(predictor->playable(plan), *player, nullptr);
      CHECK(closed.step.value() == Approx(played.step.value()).epsilon(0.003));
      const auto& b = closed.breakdown;
      for (const auto part : {b.compute, b.exposed_communication, b.bubble, b.recompute, b.optimizer}) CHECK(part.value() >= 0);
    }
  }
}

TEST_CASE("closed forms know that processors move messages themselves") {
  const auto player = closed_form_evaluator();
  for (const char* text : {"pp=2,micro_batch=1", "dp=2,pp=2,micro_batch=1", "dp=4,zero=1,micro_batch=2",
                           "dp=2,pp=2,micro_batch=1,overlap=off", "dp=2,zero=3", "tp=2,pp=2,micro_batch=2"}) {
    CAPTURE(text);
    const auto plan = plan::parse_plan(text);
    const auto platform = platforms::with_devices(platforms::load("xeon-2s-10gbe"), plan.ranks());
    const auto predictor = framework_predictor(
        {graph::zoo::build("zoo:llama?layers=8&hidden=256&heads=4&kv_heads=4&ffn=512&seq=128&vocab=1000", 16), "f32", "adam"}, platform,
        *costmodel::find_framework("megatron-core"));
    const auto closed = predictor->closed(plan), played = predictor->played(predictor->playable(plan), *player, nullptr);
    CHECK(closed.step.value() == Approx(played.step.value()).epsilon(0.05));
  }
}

TEST_CASE("first and last stage begin the sum of their embedding's gradients when both are there, also when it is played") {
  const auto player = closed_form_evaluator();
  const auto platform = platforms::with_devices(platforms::load("dgx-a100"), 8);
  for (const char* framework : {"megatron-core", "megatron"})
    for (const char* text : {"dp=2,pp=4,micro_batch=2", "dp=2,pp=4,micro_batch=2,schedule=gpipe", "dp=2,pp=2,micro_batch=1",
                             "pp=2,micro_batch=2", "dp=2,pp=2,micro_batch=2,overlap=off", "tp=2,pp=2,dp=2,micro_batch=2"}) {
      CAPTURE(framework, text);
      const auto plan = plan::parse_plan(text);
      // A table of 50,000 words takes 12.8 million parameters: updating it takes the first stage longer than the last one.
      const auto predictor =
          framework_predictor({graph::zoo::build("zoo:gpt?layers=8&hidden=256&heads=4&seq=128&vocab=50000", 32), "bf16", "adam"}, platform,
                              *costmodel::find_framework(framework));
      const auto closed = predictor->closed(plan), played = predictor->played(predictor->playable(plan), *player, nullptr);
      CHECK(closed.step.value() == Approx(played.step.value()).epsilon(1e-9));
      CHECK(closed.breakdown.exposed_communication.value() ==
            Approx(played.breakdown.exposed_communication.value()).margin(1e-9 * closed.step.value()));
      CHECK(closed.breakdown.bubble.value() == Approx(played.breakdown.bubble.value()).margin(1e-9 * closed.step.value()));
    }
}

TEST_CASE("in a pipeline sums beside the passes are no slower than sums behind them") {
  // Stages but the first would wait at the end; their sums there cost nobody anything.
  Dice dice(20261125);
  int asked = 0;
  for (int n = 0; n < 60; ++n) {
    auto q = random_question(dice);
    if (q.plan.pp == 1 || q.plan.dp == 1 || q.plan.interleave > 1) continue;
    const auto platform = platforms::with_devices(platforms::load(q.platform), q.devices);
    const auto predictor = framework_predictor({graph::zoo::build(q.model, q.batch), q.precision, q.optimizer}, platform,
                                               *costmodel::find_framework(q.framework));
    CAPTURE(q.model, q.platform, q.framework, q.precision, q.batch, plan::to_text(q.plan));
    if (!predictor->violations(q.plan).empty()) continue;
    q.plan.overlap = false;
    const auto behind = predictor->closed(q.plan).step;
    q.plan.overlap = true;
    CHECK(predictor->closed(q.plan).step <= 1.01 * behind);
    ++asked;
  }
  CHECK(asked > 5);
}

TEST_CASE("every key of a plan has a rule, and what a framework does not honour is refused by name") {
  for (const auto& key : plan::plan_keys()) {
    const auto rules = plan_key_rules();
    CAPTURE(key.key);
    CHECK(std::any_of(rules.begin(), rules.end(), [&](const PlanKeyRule& rule) { return rule.key == key.key; }));
  }
  const auto platform = platforms::load("dgx-a100");
  const auto predictor = framework_predictor({graph::zoo::build("zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=100", 8), "bf16", "adam"},
                                             platform, *costmodel::find_framework("megatron-core"));
  for (const char* text :
       {"dp=2,spatial=1x1x2", "dp=2,compression=topk", "dp=2,allreduce=ring", "dp=2,algorithms=all-reduce:dp:4:ring", "dp=2,bn=sync",
        "dp=2,fuse=none", "dp=2,recompute=4GiB", "dp=2,ep=2", "dp=2,shares=3:1", "dp=3", "dp=2,micro_batch=3", "dp=1,interleave=2",
        "dp=2,cp=2,attention=all-to-all", "pp=2,schedule=pipedream,micro_batch=1", "pp=2,schedule=dualpipe,micro_batch=1",
        "pp=2,cuts=h.2.ln_1,micro_batch=1"}) {
    const auto plan = plan::parse_plan(text);
    const std::string last = text;
    const auto from = last.rfind(',') == std::string::npos ? 0 : last.rfind(',') + 1;
    auto key = last.substr(from, last.find('=', from) - from);
    if (key == "micro_batch" && last.find("schedule") != std::string::npos) key = "schedule";
    if (key == "micro_batch" && last.find("cuts") != std::string::npos) key = "cuts";
    CAPTURE(text, key);
    const auto violations = predictor->violations(plan);
    CHECK(std::any_of(violations.begin(), violations.end(), [&](const plan::Violation& v) { return v.key == key; }));
    CHECK_THROWS_WITH(predictor->closed(plan), contains(key));
    CHECK_THROWS_WITH(predictor->playable(plan), contains(key));
  }
}

TEST_CASE("every optimizer of the table has a cost of its own, and no other name has one") {
  const auto platform = platforms::load("dgx-a100");
  const auto step = [&](std::string_view optimizer) {
    return framework_predictor(
               {graph::zoo::build("zoo:gpt?layers=4&hidden=64&heads=4&seq=32&vocab=100", 8), "bf16", std::string(optimizer)}, platform,
               *costmodel::find_framework("megatron-core"))
        ->closed(plan::parse_plan("dp=8"));
  };
  for (const auto& row : graph::optimizer_table()) {
    INFO(row.name);
    if (row.decomposes)
      CHECK_THROWS_WITH(step(row.name),
                        contains("decompositions of matrices that " + std::string(row.name)) && contains("--framework rehearse"));
    else
      CHECK(step(row.name).breakdown.optimizer.value() > 0);
  }
  CHECK(step("muon").breakdown.optimizer > step("adamw").breakdown.optimizer);
  CHECK(step("lamb").breakdown.optimizer > step("sgd").breakdown.optimizer);
  CHECK_THROWS_AS(step("adamw2"), BadInput);
}

TEST_CASE("ranks that share out Muon's update share out its products, and no host makes them") {
  const auto platform = platforms::load("dgx-a100");
  const auto predictor =
      framework_predictor({graph::zoo::build("zoo:gpt?layers=2&hidden=4096&heads=32&seq=32&vocab=100", 8), "bf16", "muon"}, platform,
                          *costmodel::find_framework("megatron-core"));
  const auto whole = predictor->closed(plan::parse_plan("dp=8")).breakdown.optimizer.value(),
             shared = predictor->closed(plan::parse_plan("dp=8,zero=1")).breakdown.optimizer.value();
  CHECK(shared < whole / 7);
  // 5 (4 r^2 c + 2 r^3) for 4096 x 12288, 4096 x 4096 and twice 4096 x 16384, of two layers, at no more than 312 TFLOP/s
  const double cube = 4096.0 * 4096 * 4096;
  CHECK(whole > 2 * 5 * cube * ((4 * 3 + 2) + (4 + 2) + 2 * (4 * 4 + 2)) / 312e12);
  const auto violations = predictor->violations(plan::parse_plan("dp=8,zero=1,offload=optimizer"));
  REQUIRE(violations.size() == 1);
  CHECK(violations[0].key == "offload");
  CHECK_THAT(violations[0].problem, contains("muon multiplies matrices in its update"));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
