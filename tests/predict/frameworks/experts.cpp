// Tokens that are spread unevenly over experts.

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "predict/frameworks/expert_load.hpp"
#include "predict/frameworks/groups.hpp"
#include "predict/frameworks/plan_rules.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"
#include "tests/process.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::RateKind;
using sample::Sample;

const std::string kMoe = "zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=1024&seq=512&vocab=100&experts=8&top_k=2&batch=8&capacity=";

TEST_CASE("the busiest rank has the tokens of its experts") {
  const auto zipf = ExpertLoad::parse("--imbalance", "zipf:1");
  // Shares of 1, 1/2, 1/3, 1/4, which add up to 25/12.
  CHECK(zipf.busiest(4, 1, 4) == Approx(4 * 12.0 / 25));
  CHECK(zipf.busiest(4, 1, 1) == 1);
  // Two to a rank: the first shares one with each of the others as often, 3/2, 4/3 and 5/4 of a mean of 25/24.
  CHECK(zipf.busiest(4, 1, 2) == Approx((3.0 / 2 + 4.0 / 3 + 5.0 / 4) / 3 * 24 / 25).epsilon(0.01));
  CHECK(ExpertLoad::parse("--imbalance", "zipf:0").busiest(4, 1, 4) == 1);
  CHECK(ExpertLoad::parse("--imbalance", "balanced").balanced());
  CHECK(ExpertLoad::parse("--imbalance", "Balanced").balanced());
  CHECK(ExpertLoad::parse("--imbalance", "Zipf:1").busiest(4, 1, 4) == zipf.busiest(4, 1, 4));
  const TemporaryFolder folder;
  std::ofstream(folder / "load.json") << "[1, 2, 3, 6]";
  const auto list = ExpertLoad::parse("--imbalance", folder / "load.json");
  CHECK(list.busiest(4, 1, 4) == Approx(2));    // 6 of a mean of 3
  CHECK(list.busiest(4, 1, 2) == Approx(1.5));  // 9 of a mean of 6
  CHECK_THROWS_AS(list.busiest(8, 1, 2), BadInput);
  CHECK_THROWS_WITH(list.busiest(8, 1, 2), contains("has 4 numbers, the model 8 experts"));
  CHECK_THROWS_WITH(zipf.busiest(4, 1, 3), contains("3 ranks do not divide 4 experts"));
  std::ofstream(folder / "large.json") << "[1e308, 1e308, 1e308, 1e308]";
  CHECK(ExpertLoad::parse("--imbalance", folder / "large.json").busiest(4, 1, 2) == Approx(1));  // as many each, however many
}

TEST_CASE("no expert has a token twice") {
  const auto load = [](const std::string& text) { return ExpertLoad::parse("--imbalance", text); };
  // 1, 1/2, 1/3 and 1/4 are 12, 6, 4 and 3 of 25. Of two choices the first has 0.48, less than the half that is all tokens; of three it
  // would have more than a third, has that, and 6, 4 and 3 share the other two thirds, 26/39: 12, 8 and 6 beside its 13.
  CHECK(load("zipf:1").busiest(4, 2, 4) == load("zipf:1").busiest(4, 1, 4));
  CHECK(load("zipf:1").busiest(4, 3, 4) == Approx(4.0 / 3));
  // On two ranks it shares one with 12 (25 of 39), with 8 (21) or with 6 (19, and the others have 20), each as often.
  CHECK(load("zipf:1").busiest(4, 3, 2) == Approx((25.0 + 21 + 20) / 3 / 39 * 2).epsilon(0.01));
  // 1, 2^-10, 3^-10: of three choices the second has a third of all, too, and what is left is a third.
  CHECK(load("zipf:10").busiest(4, 3, 4) == Approx(4.0 / 3));
  CHECK(load("zipf:2").busiest(4, 4, 4) == Approx(1));  // every token goes to all
  const TemporaryFolder folder;
  std::ofstream(folder / "most.json") << "[0, 50, 25, 25]";
  CHECK(load(folder / "most.json").busiest(4, 2, 4) == Approx(2));  // all tokens at one: half of what there is
  std::ofstream(folder / "more.json") << "[0, 60, 20, 20]";
  CHECK_THROWS_WITH(load(folder / "more.json").busiest(4, 2, 4), contains("expert 1 ") && contains("60 %") && contains("50 % at most"));
}

TEST_CASE("a load that is none is named") {
  const TemporaryFolder folder;
  std::ofstream(folder / "words.json") << "[1, \"two\"]";
  for (const auto& text :
       {std::string("zipf:-1"), std::string("zipf:x"), std::string("zipf:nan"), std::string("even"), folder / "words.json"})
    CHECK_THROWS_WITH(ExpertLoad::parse("--imbalance", text), contains("--imbalance " + text));
}

TEST_CASE("the busiest rank computes and gets more, and its products alone") {
  Sample s(kMoe + "100", platforms::load("dgx-h100"), "megatron-core");
  s.job.plan.dp = s.job.plan.ep = 8;
  s.profile.launch = costmodel::LaunchMode::Captured;  // the host has no part in it
  s.job.micro_batch = 1;
  const auto even = s.parts();
  const auto time = s.time().seconds;
  s.job.recipe.expert_load = ExpertLoad::parse("--imbalance", "zipf:1");
  const auto uneven = s.parts();
  CHECK(uneven.expert_load > 1.5);
  CHECK(sample::work_of(uneven, RateKind::FlashAttention) == sample::work_of(even, RateKind::FlashAttention));
  CHECK(sample::work_of(uneven, RateKind::Matmul) > sample::work_of(even, RateKind::Matmul));
  CHECK(s.time().seconds > time);
  s.job.plan.ep = 1;  // every rank has all experts
  CHECK(s.parts().expert_load == 1);
}

TEST_CASE("of room for more than every token no more is computed than what is chosen") {
  Sample exact(kMoe + "100", platforms::load("dgx-h100"), "megatron-core"),
      roomy(kMoe + "150", platforms::load("dgx-h100"), "megatron-core");
  for (auto* s : {&exact, &roomy}) s->job.plan.dp = s->job.plan.ep = 8, s->job.micro_batch = 1;
  CHECK(roomy.parts().expert_load == Approx(1 / 1.5).epsilon(0.01));
  CHECK(sample::work_of(roomy.parts(), RateKind::Matmul) == Approx(sample::work_of(exact.parts(), RateKind::Matmul)).epsilon(0.01));
  for (auto* s : {&exact, &roomy}) s->job.recipe.expert_load = ExpertLoad::parse("--imbalance", "zipf:1");
  CHECK(roomy.parts().expert_load == Approx(exact.parts().expert_load / 1.5).epsilon(0.01));
}

TEST_CASE("room that tokens leave empty is neither kept nor moved") {
  Sample exact(kMoe + "100", platforms::load("dgx-h100"), "megatron-core"),
      roomy(kMoe + "400", platforms::load("dgx-h100"), "megatron-core");  // 8 experts of 2 choices: room for all
  for (auto* s : {&exact, &roomy}) s->job.plan.dp = s->job.plan.ep = 8, s->job.micro_batch = 1;
  CHECK(roomy.parts().used_slots == Approx(0.25));
  CHECK(roomy.memory().activations == Approx(exact.memory().activations).epsilon(0.03));
  CHECK(sample::bytes_of(roomy.parts().parts[1].forward) == Approx(sample::bytes_of(exact.parts().parts[1].forward)).epsilon(0.05));
}

TEST_CASE("tensor parallelism splits experts however narrow they are") {
  // 64 experts of 48 features: sums of what they make are more bytes than their products are worth.
  Sample s("zoo:moe?layers=2&hidden=512&heads=8&kv_heads=8&ffn=48&seq=512&vocab=100&experts=64&top_k=8&batch=8",
           platforms::load("dgx-h100"), "megatron-core");
  const auto parameters = [&](int tp) {
    s.job.plan.tp = tp;
    double sum = 0;
    for (const auto& part : s.parts().parts) sum += part.repeats * part.weights.all;
    return sum;
  };
  const double experts = 2.0 * 64 * 3 * 512 * 48, saved = parameters(1) - parameters(4);
  CHECK(saved >= experts * 3 / 4);
  CHECK(saved < experts);
}

TEST_CASE("products in groups that are not of experts do not follow the load of experts") {
  // Of compressed attention the result is multiplied in 4 groups; the experts are 8, of which every token has 2.
  const auto work = [](const char* capacity) {
    Sample s(
        std::string("zoo:deepseek-v4?layers=5&hidden=256&heads=4&head_dim=64&rope_dim=16&q_lora=64&o_groups=4&o_lora=64&experts=8&top_k=2&"
                    "moe_ffn=256&vocab=100&batch=1&seq=2048&index_heads=2&index_dim=16&index_top=64&capacity=") +
            capacity,
        platforms::load("dgx-h100"), "megatron-core");
    const auto parts = s.parts();
    CHECK(parts.expert_load == Approx(100 / std::stod(capacity)).epsilon(0.01));
    return sample::work_of(parts, RateKind::Matmul);
  };
  CHECK(work("200") == Approx(work("100")).epsilon(0.02));
}

TEST_CASE("experts without room for every token have as many whoever chooses them") {
  Sample s(kMoe + "50", platforms::load("dgx-h100"), "megatron-core");
  CHECK(s.parts().expert_load == 1);
  s.job.recipe.expert_load = ExpertLoad::parse("--imbalance", "zipf:1");
  CHECK_THROWS_WITH(s.parts(), contains("capacity=100"));
  Sample dense("zoo:gpt?layers=2&hidden=64&heads=4&seq=32&vocab=100&batch=2", platforms::load("dgx-h100"), "megatron-core");
  dense.job.recipe.expert_load = s.job.recipe.expert_load;
  CHECK_THROWS_AS(dense.parts(), Refusal);
}

/// Bytes of the exchanges of an axis in the forward pass of the model.
double exchanged(const ModelParts& parts, ExchangeAxis axis) {
  double sum = 0;
  for (const auto& part : parts.parts)
    for (const auto& step : part.forward)
      if (step.exchange && step.exchange->axis == axis) sum += step.exchange->bytes * part.repeats;
  return sum;
}

TEST_CASE("ranks that share the sequences share the experts' tokens, too") {
  Sample s("zoo:moe?layers=2&hidden=512&heads=4&kv_heads=2&ffn=1024&seq=4096&vocab=100&experts=8&top_k=2&batch=1&capacity=100",
           platforms::load("dgx-h100"), "megatron-core");
  const auto whole = s.parts();
  s.job.plan.cp = 4;
  const auto shared = s.parts();
  // A quarter of the products, but for tiles that are not full, and of the passes over tokens in the expert layer.
  CHECK(sample::work_of(shared, RateKind::Matmul) / sample::work_of(whole, RateKind::Matmul) == Approx(0.25).epsilon(0.15));
  CHECK(sample::bytes_of(sample::block_of(shared).forward) / sample::bytes_of(sample::block_of(whole).forward) ==
        Approx(0.25).epsilon(0.1));
  CHECK(shared.parts.size() == whole.parts.size());
  // Keys and values of 2 heads of 128 features in 16 bits for the rank's 1024 tokens, by 2 layers.
  CHECK(exchanged(shared, ExchangeAxis::Context) == 2 * (2.0 * 1024 * 2 * 128 * 2));
}

TEST_CASE("experts that ranks of a sequence share are as much work as those that replicas share") {
  // Eight ranks, eight samples: one each, or an eighth of all of them; and one sample together, which is an eighth of that.
  const std::string zoo =
      "zoo:moe?layers=1&hidden=2048&heads=32&kv_heads=8&ffn=4096&seq=16384&vocab=100&experts=8&top_k=2&capacity=100&batch=";
  const auto parts = [&](int batch, double micro_batch, int dp, int cp) {
    Sample s(zoo + std::to_string(batch), platforms::load("dgx-h100"), "megatron-core");
    s.job.micro_batch = micro_batch;
    s.job.plan.dp = dp;
    s.job.plan.cp = cp;
    s.job.plan.ep = 8;
    return s.parts();
  };
  const auto replicas = parts(8, 1, 8, 1), sequences = parts(8, 8, 1, 8), one = parts(1, 1, 1, 8);
  // All eight are counted as eight times one, with its tiles and waves that are not full.
  for (const auto kind : {RateKind::Matmul, RateKind::FlashAttention}) {
    CHECK(sample::work_of(sequences, kind) == Approx(sample::work_of(replicas, kind)).epsilon(0.3));
    CHECK(8 * sample::work_of(one, kind) == Approx(sample::work_of(sequences, kind)).epsilon(0.3));
  }
  CHECK(exchanged(sequences, ExchangeAxis::Expert) == Approx(exchanged(replicas, ExchangeAxis::Expert)));
}

TEST_CASE("of a sequence that tensor parallelism splits every rank sends its part to the experts") {
  Sample s(kMoe + "100", platforms::load("dgx-h100"), "megatron-core");
  s.job.plan.dp = s.job.plan.ep = 4;
  const double alone = exchanged(s.parts(), ExchangeAxis::Expert);
  s.job.plan.tp = 2;
  CHECK(exchanged(s.parts(), ExchangeAxis::Expert) == alone);
  s.job.plan.sequence_parallel = true;
  CHECK(exchanged(s.parts(), ExchangeAxis::Expert) == alone / 2);
}

TEST_CASE("a library that runs experts one by one launches as many products") {
  Sample s(kMoe + "100", platforms::load("dgx-h100"), "megatron-core");
  const auto launches = [&] {
    double sum = 0;
    for (const auto& step : sample::block_of(s.parts()).forward)
      if (!step.exchange && step.row.kind == RateKind::Matmul) sum += step.row.launches * step.row.count;
    return sum;
  };
  // Queries, keys, values, their result and the router are five products of their own; gate, up and down are of 8 experts, and a library's
  // launch takes the host 0.3 of a framework's.
  CHECK(launches() == Approx(5 + 3 * 0.3 * 8));
  s.profile.launches_each_expert = false;
  CHECK(launches() == 5 + 3);
}

namespace {

/// Bytes of element-wise kernels in one pass of a block.
double moved(const Sample& s, std::vector<PassStep> Part::*pass) {
  const auto parts = s.parts();
  return sample::bytes_of(sample::block_of(parts).*pass);
}

constexpr double kSlots = 8.0 * 512 * 2;  // tokens of the sample job, two experts each

}  // namespace

TEST_CASE("products of experts that gate and cast as they write leave nothing between them to be moved") {
  Sample s(kMoe + "100", platforms::load("gb200-nvl72"), "nemo", "mxfp8");
  const auto passes = [&](bool fused) {
    s.job.recipe.fused_experts = fused;
    return std::pair{moved(s, &Part::forward), moved(s, &Part::backward)};
  };
  const auto [forward_apart, backward_apart] = passes(false);
  const auto [forward_fused, backward_fused] = passes(true);
  // Gate · sigmoid(gate) · up is one chain to NeMo: it reads two results of 1,024 features in 16 bits and writes one, which is cast.
  const double cast = s.job.precision_on(0).cast_bytes;
  CHECK(forward_apart - forward_fused == Approx(kSlots * 1024 * (3 * 2 + cast)));
  // Back it reads the gradient and both, writes the gradients of both, and these are cast before the two products that read them.
  CHECK(backward_apart - backward_fused == Approx(kSlots * 1024 * (5 * 2 + 2 * cast)));
  // What is kept for the backward pass is the same, since the recipe fuses the kernels of both passes.
  s.job.recipe.fused_experts = false;
  const auto kept = sample::block_of(s.parts()).kept.others;
  s.job.recipe.fused_experts = true;
  CHECK(sample::block_of(s.parts()).kept.others == kept);
}

TEST_CASE("a step with experts in mxfp8 is captured where the framework's recipes do so") {
  const auto capture = [](const char* framework, const char* precision, const std::string& zoo, const Recipe& recipe = {}) {
    Sample s(zoo, platforms::load("gb200-nvl72"), framework, precision);
    s.job.recipe = recipe;
    return s.parts().capture;
  };
  using costmodel::LaunchMode;
  const auto moe = kMoe + "100", dense = std::string("zoo:gpt?layers=2&hidden=512&heads=4&seq=512&vocab=100&batch=8");
  const auto whole = capture("nemo-26.06", "mxfp8", moe);
  CHECK((whole.launch == LaunchMode::Captured && whole.fused_experts && whole.overlapped_experts));
  for (const auto& [framework, precision, zoo] : {std::tuple{"nemo", "mxfp8", moe}, std::tuple{"nemo-26.06", "bf16", moe},
                                                  std::tuple{"nemo-26.06", "fp8", moe}, std::tuple{"nemo-26.06", "mxfp8", dense}}) {
    INFO(framework << " " << precision << " " << zoo);
    const auto eager = capture(framework, precision, zoo);
    CHECK((eager.launch == LaunchMode::Eager && !eager.fused_experts && !eager.overlapped_experts));
  }
  // Of other narrow numbers the answer says that the framework would capture the step in mxfp8.
  for (const auto* precision : {"fp8", "nvfp4"}) CHECK(capture("nemo-26.06", precision, moe).only_in_mxfp8);
  for (const auto* precision : {"bf16", "mxfp8"}) CHECK(!capture("nemo-26.06", precision, moe).only_in_mxfp8);
  CHECK((!capture("nemo-26.06", "nvfp4", dense).only_in_mxfp8 && !capture("nemo", "nvfp4", moe).only_in_mxfp8));
  // A recipe that says otherwise counts, for each by itself.
  Recipe recipe;
  recipe.captured = false;
  const auto eager = capture("nemo-26.06", "mxfp8", moe, recipe);
  CHECK((eager.launch == LaunchMode::Eager && !eager.fused_experts && !eager.overlapped_experts));
  recipe = {};
  recipe.expert_overlap = false;
  const auto waits = capture("nemo-26.06", "mxfp8", moe, recipe);
  CHECK((waits.launch == LaunchMode::Captured && waits.fused_experts && !waits.overlapped_experts));
  recipe = {};
  recipe.captured = true;
  const auto graph = capture("nemo", "bf16", moe, recipe);
  CHECK((graph.launch == LaunchMode::Captured && !graph.fused_experts));
  recipe.captured = false;
  CHECK(capture("mlperf", "bf16", moe, recipe).launch == LaunchMode::Eager);
}

TEST_CASE("experts that tensor parallelism does not split are whole, and spread over its ranks, too") {
  Sample s(kMoe + "100", platforms::load("dgx-h100"), "megatron-core");
  s.job.micro_batch = 1;
  const auto parts = [&](const char* plan) {
    s.job.plan = plan::parse_plan(plan);
    return s.parts();
  };
  // Four replicas have a quarter of the experts each, two ranks half of every one; or each of eight ranks one whole expert.
  const auto split = parts("dp=4,tp=2,ep=4,sequence_parallel=on"), whole = parts("dp=4,tp=2,ep=8,sequence_parallel=on");
  const auto weights = [](const ModelParts& model) { return sample::block_of(model).expert_weights.all; };
  CHECK(weights(split) == 2 * 3 * 512 * (1024.0 / 2));
  CHECK(weights(whole) == 3 * 512 * 1024);
  // As much work, but for tiles that are not full.
  CHECK(sample::work_of(whole, RateKind::Matmul) == Approx(sample::work_of(split, RateKind::Matmul)).epsilon(0.15));
  // Every rank sends its half of the sequence to the experts and gets it back: 512/2 tokens, 2 choices, 512 features, 16 bits, 2 layers.
  CHECK(exchanged(whole, ExchangeAxis::Expert) == 2 * 2 * (256.0 * 2 * 512 * 2));
  CHECK(exchanged(split, ExchangeAxis::Expert) == exchanged(whole, ExchangeAxis::Expert));
  // Whole experts have no parts to be gathered for and summed: per layer a gather of rows for all experts, their sum, and the gather of
  // what comes back fall away, each of 512 tokens, 2 choices, 512 features and 16 bits.
  CHECK(exchanged(split, ExchangeAxis::Tensor) - exchanged(whole, ExchangeAxis::Tensor) == 2 * 3 * (512.0 * 2 * 512 * 2));
  // They have one copy, as all ranks of the stage together; 8 devices of a node are the nearest ones.
  const auto groups = groups_of(s.job.platform, plan::parse_plan("dp=4,tp=2,ep=8"));
  CHECK((groups.expert.ranks == 8 && groups.expert.per_node == 8));
  CHECK(plan::parse_plan("dp=4,cp=2,tp=2,ep=16").has_whole_experts());
  for (const auto* others : {"dp=8,tp=2,ep=8", "dp=4,cp=2,tp=2,ep=8", "dp=8,ep=8", "dp=12,ep=8"})
    CHECK(!plan::parse_plan(others).has_whole_experts());
}

TEST_CASE("frameworks that leave experts to replicas refuse to spread them over tensor parallelism, too") {
  const auto platform = platforms::load("dgx-a100");
  SplitLimits limits;
  limits.experts = 8;
  const auto refused = [&](const char* framework, const char* plan) {
    const auto faults = plan_violations({plan::parse_plan(plan), *costmodel::find_framework(framework), platform, limits, 8});
    for (const auto& fault : faults) CHECK(!contains("times tp").match(fault.remedy));  // would be refused, too
    return std::ranges::count(faults, "ep", &plan::Violation::key);
  };
  for (const auto* framework : {"deepspeed", "megatron-deepspeed"})
    for (const auto* plan : {"tp=4,dp=2,ep=8", "tp=2,dp=2,ep=8"}) CHECK(refused(framework, plan) == 1);
  CHECK(refused("deepspeed", "tp=4,dp=2,ep=2") == 0);
  CHECK(refused("megatron-core", "tp=4,dp=2,ep=8") == 0);
}

TEST_CASE("ranks that have copies of the same experts lie along dp, and along cp unless that shares the experts out") {
  const auto platform = platforms::with_devices(platforms::load("dgx-h100"), 32);
  for (const auto& [text, copies, on_node] :
       {std::tuple{"dp=32,ep=8", 4, 1}, std::tuple{"dp=32,ep=4", 8, 2}, std::tuple{"dp=8,ep=8", 1, 1}, std::tuple{"dp=32", 32, 8},
        std::tuple{"dp=16,cp=2,ep=4", 8, 2}, std::tuple{"dp=4,cp=2,ep=8", 1, 1}, std::tuple{"dp=4,cp=2,tp=2,ep=16", 1, 1},
        std::tuple{"dp=4,tp=3,ep=6", 2, 2}, std::tuple{"dp=16,tp=2,ep=4", 4, 1}}) {
    CAPTURE(text);
    const auto plan = plan::parse_plan(text);
    const auto group = groups_of(platform, plan).expert_copies;
    CHECK(expert_copies(plan) == copies);
    CHECK((group.ranks == copies && group.per_node == on_node));
  }
}

TEST_CASE("under ZeRO-3 experts travel among the ranks that have copies of them") {
  Sample s("zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=1024&seq=128&vocab=100&experts=8&top_k=2&batch=16&capacity=100",
           platforms::with_devices(platforms::load("dgx-h100"), 16), "torchtitan");
  s.job.micro_batch = 1;
  const auto block = [&](const char* plan) {
    s.job.plan = plan::parse_plan(plan);
    const auto part = sample::block_of(s.parts());
    const auto time = s.ask([](const StagedStep& step) {
      const auto& timer = *step.lanes.front().timers.front();
      const auto repeated = std::ranges::find_if(timer.model().parts, &Part::repeated);
      return timer.time_of(static_cast<std::size_t>(repeated - timer.model().parts.begin()), Recomputed::AsPlanned);
    });
    return std::pair{part, time};
  };
  using costmodel::CollectiveKind;
  const costmodel::CollectiveLibrary network(s.platform);
  const auto& c = costmodel::published_constants().values;
  const auto seconds = [&](CollectiveKind kind, double bytes, costmodel::Group group) { return network.seconds(kind, bytes, group, c); };
  // Of eight on a node every rank has one expert, and its neighbour over there a copy; gradients of 16 bits travel in 32.
  const auto& [part, time] = block("dp=16,ep=8,zero=3");
  const double slowdown = 1 + c[costmodel::Coefficient::Spread];  // of two nodes
  const double expert = 3 * 512 * 1024, rest = part.weights.all - expert;
  CHECK(part.expert_weights.all == expert);
  CHECK(time.gather_bytes == Approx(2 * rest));
  CHECK(time.gather == Approx(slowdown * (seconds(CollectiveKind::AllGather, 2 * rest, {16, 8}) +
                                          seconds(CollectiveKind::AllGather, 2 * expert, {2, 1}))));
  CHECK(time.scatter == Approx(slowdown * (seconds(CollectiveKind::ReduceScatter, 4 * rest, {16, 8}) +
                                           seconds(CollectiveKind::ReduceScatter, 4 * expert, {2, 1}))));
  // One node: nobody has another's expert.
  const auto& [alone, own] = block("dp=8,ep=8,zero=3");
  CHECK(own.experts.gather == 0);
  CHECK(own.gather == Approx(seconds(CollectiveKind::AllGather, 2 * rest, {8, 8})));
  CHECK(own.scatter == Approx(seconds(CollectiveKind::ReduceScatter, 4 * rest, {8, 8})));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
