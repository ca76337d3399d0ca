// What a step takes: pipelines, messages, and what waits for what.

#include "costmodel/accelerator.hpp"
#include "predict/frameworks/groups.hpp"
#include "predict/frameworks/recipe.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;

platforms::Platform nodes(int count) { return platforms::with_nodes(platforms::load("dgx-a100"), count); }

/// Passes that the host has no part in, and nothing is sent between nodes.
Sample& without_host(Sample& s) {
  s.profile.launch = costmodel::LaunchMode::Captured;
  return s;
}

TEST_CASE("what must be slower is slower") {
  Sample s("zoo:gpt?layers=8&hidden=1024&heads=16&seq=1024&vocab=50000&batch=2", nodes(4), "megatron");
  const auto once = s.time();
  s.job.micro_batches = 4;
  CHECK(s.time().seconds > 3 * once.seconds);
  s.job.plan.recompute.rule = plan::RecomputeRule::Full;
  CHECK(s.time().recompute > 0);
  CHECK(s.time().seconds > 3.5 * once.seconds);
  s.job.plan.recompute.rule = plan::RecomputeRule::None;
  s.job.plan.dp = 32;
  CHECK(s.time().exposed > 0);
  s.job.plan.pp = 4;
  s.job.plan.dp = 8;
  const auto piped = s.time();
  CHECK(piped.bubble > 0);
  s.job.plan.interleave = 2;
  s.job.plan.schedule = "interleaved";
  CHECK(s.time().bubble < piped.bubble);
}

TEST_CASE("what is computed again goes with the blocks that are") {
  Sample s("zoo:gpt?layers=8&hidden=1024&heads=16&seq=1024&vocab=50000&batch=2", platforms::load("dgx-a100"), "megatron-core");
  without_host(s);
  s.job.micro_batches = 2;
  const auto with = [&](const char* value) {
    s.job.plan.recompute = plan::parse_recompute(value);
    return s.time();
  };
  const auto none = with("none"), full = with("full");
  REQUIRE(full.recompute > 0);
  for (const int blocks : {1, 3, 8}) {
    CAPTURE(blocks);
    const auto some = with(("full:" + std::to_string(blocks)).c_str());
    CHECK(some.recompute == Approx(full.recompute * blocks / 8));
    CHECK(some.seconds - none.seconds == Approx((full.seconds - none.seconds) * blocks / 8));
  }
  s.job.plan.pp = 4;  // of the two blocks of every stage one
  const auto staged = with("full");
  CHECK(with("full:1").recompute == Approx(staged.recompute / 2));
  CHECK(with("full:2").seconds == Approx(staged.seconds));
}

TEST_CASE("a pipeline of equal stages has the bubble of its schedule") {
  // Embedding and head are small beside the blocks; messages are small beside their passes.
  Sample s("zoo:gpt?layers=8&hidden=2048&heads=16&seq=2048&vocab=64&batch=1", platforms::load("dgx-a100"), "megatron-core");
  without_host(s);
  s.job.plan.pp = 4;
  s.job.micro_batches = 8;
  const auto share = [&](const char* schedule, int chunks) {
    s.job.plan.schedule = schedule;
    s.job.plan.interleave = chunks;
    const auto t = s.time();
    return t.bubble / (t.seconds - t.bubble);
  };
  CHECK(share("1f1b", 1) == Approx(3.0 / 8).epsilon(0.05));          // (p-1)/m
  CHECK(share("gpipe", 1) == Approx(3.0 / 8).epsilon(0.05));         // the same
  CHECK(share("interleaved", 2) == Approx(3.0 / 16).epsilon(0.08));  // (p-1)/(v m)
}

TEST_CASE("a handover costs while it is on its way, and what comes before it is the bubble") {
  // Two stages, one micro-batch. The second one, which has the head, waits for the first one's forward pass, which is the bubble, and for
  // its result. While it waits for the other stage's backward pass its gradient leaves; then both send their shares of the gradient of the
  // embedding that both have.
  Sample s("zoo:gpt?layers=8&hidden=2048&heads=16&seq=2048&vocab=8000&batch=1", platforms::load("dgx-a100"), "megatron-core");
  without_host(s);
  s.job.plan.pp = 2;
  s.job.micro_batches = 1;
  const auto t = s.time();
  const double messages = s.ask([](const StagedStep& step) {
    const auto& timer = *step.lanes.front().timers.front();
    return 2 * timer.send(step.boundary_bytes(0), timer) + timer.send(timer.tied_embedding_bytes(), timer);
  });
  CHECK(t.stage == 1);
  CHECK(t.handovers == Approx(messages));
  CHECK(t.exposed == Approx(messages));
  CHECK(t.bubble == Approx(t.seconds - t.busy - messages).epsilon(0.01));  // the first kernel of a pass is launched while nothing runs
  CHECK(t.imbalance > 0);
}

TEST_CASE("kernels, exchanges, handovers and waiting are all that a stage's step has") {
  Sample s("zoo:gpt?layers=8&hidden=2048&heads=16&seq=2048&vocab=8000&batch=1", platforms::load("dgx-a100"), "megatron-core");
  without_host(s);
  s.job.plan.pp = 2;
  s.job.plan.tp = 2;
  s.job.micro_batches = 4;
  const auto t = s.time();
  CHECK(t.exchanges > 0);
  CHECK(t.busy + t.bubble + t.exposed == Approx(t.seconds).epsilon(0.01));
}

TEST_CASE("many micro-batches go on as the first rounds of them do") {
  Sample s("zoo:gpt?layers=8&hidden=512&heads=8&seq=512&vocab=1000&batch=1", platforms::load("dgx-a100"), "megatron-core");
  s.job.plan.pp = 4;
  const auto seconds = [&](int m) {
    s.job.micro_batches = m;
    return s.time().seconds;
  };
  // Up to 20 micro-batches every one is looked at, beyond rounds are added up: the steps between must not be seen.
  const double per_round = (seconds(20) - seconds(12)) / 2;
  CHECK(seconds(24) - seconds(20) == Approx(per_round).epsilon(1e-9));
  CHECK(seconds(64) - seconds(20) == Approx(11 * per_round).epsilon(1e-9));
}

TEST_CASE("context parallelism passes keys and values round, experts send tokens and get them back") {
  Sample s("zoo:llama?layers=2&hidden=512&heads=4&ffn=1024&seq=2048&vocab=1000&batch=1", nodes(4), "megatron-core");
  const auto alone = s.time();
  s.job.plan.cp = 4;
  const auto round = s.time();
  CHECK(alone.exchanges == 0);
  CHECK(round.exchanges > 0);
  Sample e("zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=256&seq=512&vocab=1000&experts=8&batch=8", nodes(4), "megatron-core");
  e.job.micro_batch = 1;
  e.job.plan.dp = 8;
  const auto local = e.time();
  e.job.plan.ep = 8;
  CHECK(local.exchanges == 0);
  CHECK(e.time().exchanges > 0);
}

TEST_CASE("a token travels once to every node where it has experts, where the framework knows the nodes") {
  // 4 nodes of 8 devices, each of which has an expert; a token picks 4 of the 32.
  Sample s("zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=256&seq=512&vocab=1000&experts=32&top_k=4&batch=32&capacity=100", nodes(4),
           "megatron-core");
  s.job.micro_batch = 1;
  s.job.plan.dp = s.job.plan.ep = 32;
  s.profile.tensor_overlap = false;
  std::vector<double> sent;  // in the forward pass of a block: to the experts and back
  for (const auto& step : sample::block_of(s.parts()).forward)
    if (step.exchange && step.exchange->axis == ExchangeAxis::Expert) {
      CHECK(step.exchange->kind == costmodel::CollectiveKind::AllToAll);
      sent.push_back(step.exchange->bytes);
    }
  REQUIRE(sent.size() == 2);
  const auto seconds = [&](bool by_node, bool overlap) {
    s.profile.dispatches_by_node = by_node;
    s.job.recipe.expert_overlap = overlap;
    return s.ask([&](const StagedStep& step) {
      const auto& timer = *step.lanes.front().timers.front();
      double most = 0;
      for (const auto& part : timer.parts()) most = std::max(most, part.forward.exchanges);
      return most;
    });
  };
  const costmodel::CollectiveLibrary network(s.job.platform);
  const auto& c = costmodel::published_constants().values;
  const double slowdown = 1 + c[costmodel::Coefficient::Spread] * 2;  // of four nodes
  const auto sum = [&](const auto& one) { return slowdown * (one(sent[0]) + one(sent[1])); };
  const auto all_to_all = [&](double bytes, costmodel::Group group) {
    return network.seconds(costmodel::CollectiveKind::AllToAll, bytes, group, c);
  };
  const double everywhere = sum([&](double bytes) { return all_to_all(bytes, {32, 8}); });
  CHECK(seconds(false, false) == Approx(everywhere));
  // 4 choices among 4 nodes are 4·(1 - (3/4)^4) = 2.734 different ones, 0.6836 of the bytes; inside a node all of them.
  const double by_node = sum([&](double bytes) { return std::max(all_to_all(bytes, {8, 8}), all_to_all(bytes * 0.68359375, {32, 8})); });
  CHECK(seconds(true, false) == Approx(by_node));
  CHECK(by_node < everywhere);
  // A recipe that says otherwise counts.
  s.job.recipe = parse_recipe("--recipe", "dispatcher=Hybrid-EP");
  CHECK(seconds(false, false) == Approx(by_node));
  s.job.recipe = parse_recipe("--recipe", "dispatcher=all-to-all");
  CHECK(seconds(true, false) == Approx(everywhere));
  s.job.recipe = {};
  CHECK(seconds(true, true) == Approx((1 - c[costmodel::Coefficient::TensorOverlap]) * by_node));
}

TEST_CASE("ranks that share experts are the nearest of data and context parallelism") {
  const auto experts = [](const char* plan) { return groups_of(nodes(8), plan::parse_plan(plan)).expert; };
  // 8 devices a node, tensor parallelism inside: 8/2 of a node's ranks have the same part of every weight.
  CHECK(experts("dp=16,tp=2,ep=8").per_node == 4);
  CHECK(experts("dp=16,tp=2,ep=8").ranks == 8);
  // Context parallelism stands between them and is wholly part of them.
  CHECK(experts("dp=8,cp=2,tp=2,ep=16").ranks == 16);
  CHECK(experts("dp=8,cp=2,tp=2,ep=16").per_node == 4);
  // Only half of the context is: four of dp and two of cp's four.
  CHECK(experts("dp=4,cp=4,ep=8").ranks == 8);
  CHECK(experts("dp=4,cp=4,ep=8").per_node == 8);
}

TEST_CASE("sums of gradients hide behind the backward pass, and slow it while they run") {
  Sample s("zoo:gpt?layers=12&hidden=1024&heads=16&seq=1024&vocab=1000&batch=8", platforms::load("dgx-a100"), "pytorch");
  without_host(s).profile.coordination = costmodel::Coordination::None;
  const double alone = s.time().seconds;
  s.job.plan.dp = 8;
  s.job.plan.overlap = false;
  const double apart = s.time().seconds;
  s.job.plan.overlap = true;
  const double together = s.time().seconds;
  CHECK(alone < together);
  CHECK(together < apart);
  s.job.plan.zero = 1;  // scatters, and gathers during the first forward pass: as many bytes
  CHECK(s.time().seconds == Approx(together).epsilon(0.05));
}

TEST_CASE("sharded gradients are summed in 32 bits where a recipe or the framework says so") {
  const auto seconds = [](const char* framework, std::optional<bool> said) {
    Sample s("zoo:gpt?layers=2&hidden=1024&heads=16&seq=128&vocab=1000&batch=1", platforms::load("dgx-h100"), framework);
    s.job.plan.dp = 64, s.job.plan.zero = 3, s.job.plan.overlap = false;
    s.job.recipe.fp32_reduction = said;
    return s.time().seconds;
  };
  CHECK(seconds("torchtitan", {}) == seconds("torchtitan", true));  // as it does
  CHECK(seconds("torchtitan", false) < seconds("torchtitan", true));
  CHECK(seconds("composer", {}) == seconds("composer", false));
  CHECK(seconds("composer", true) > seconds("composer", false));
}

TEST_CASE("weights of fp8 products are gathered in 8 bits where a recipe or the framework says so") {
  const auto bytes = [](const char* framework, const char* precision, std::optional<bool> said, const char* platform = "dgx-h100") {
    Sample s("zoo:gpt?layers=2&hidden=256&heads=4&seq=128&vocab=1000&batch=1", platforms::load(platform), framework, precision);
    s.job.plan = plan::parse_plan("dp=8,zero=1");
    s.job.recipe.fp8_gather = said;
    return s.ask([](const StagedStep& step) { return step.lanes.front().timers.front()->gathered_bytes(); });
  };
  // A block has 12 h² + 13 h parameters; around both are 1,000 words and 128 places of h, and the last norm's 2 h.
  const double blocks = 2 * (12.0 * 256 * 256 + 13 * 256), rest = (1000 + 128 + 2) * 256.0;
  const double mean = (blocks + 2 * rest) / (blocks + rest);
  CHECK(bytes("megatron-core", "fp8", true) == Approx(mean));
  CHECK(bytes("megatron-core", "fp8-block", true) == Approx(mean));
  CHECK(bytes("megatron-core", "fp8", {}) == 2);
  CHECK(bytes("torchtitan", "fp8", {}) == Approx(mean));  // as it does
  CHECK(bytes("torchtitan", "fp8", false) == 2);
  CHECK(bytes("torchtitan", "fp8-rowwise", true) == 2);           // the backward pass needs them with scales per column
  CHECK(bytes("megatron-core", "mxfp8", true, "dgx-b200") == 2);  // the same of 32 values
  CHECK(bytes("megatron-core", "fp8", true, "dgx-b200") == Approx(mean));
  CHECK(bytes("torchtitan", "bf16", true) == 2);
}

TEST_CASE("in groups of replicas gradients are scattered inside each, and their parts summed over the groups") {
  constexpr double kElements = 1e7, kBytes = 4 * kElements;
  Sample s("zoo:gpt?layers=2&hidden=1024&heads=16&seq=128&vocab=1000&batch=1", platforms::with_devices(platforms::load("dgx-a100"), 16),
           "pytorch", "fp32");
  s.job.plan = plan::parse_plan("dp=16,zero=2,zero_group=8");
  const auto of_timer = [&](double (StepTimer::*seconds)(double) const) {
    return s.ask([&](const StagedStep& step) { return (step.lanes.front().timers.front()->*seconds)(kElements); });
  };
  const costmodel::CollectiveLibrary network(s.job.platform);
  const auto& c = costmodel::published_constants().values;
  const double slowdown = 1 + c[costmodel::Coefficient::Spread];  // of two nodes
  const double inside = network.seconds(costmodel::CollectiveKind::ReduceScatter, kBytes, {8, 8}, c);
  const double between = network.seconds(costmodel::CollectiveKind::AllReduce, kBytes / 8, {2, 1}, c);
  CHECK(of_timer(&StepTimer::reduction) == Approx(slowdown * (inside + between)));
  CHECK(of_timer(&StepTimer::sum_of_copies) == Approx(slowdown * between));
  CHECK(of_timer(&StepTimer::parameter_gather) ==
        Approx(slowdown * network.seconds(costmodel::CollectiveKind::AllGather, kBytes, {8, 8}, c)));
  s.job.plan.zero_group = 0;
  CHECK(of_timer(&StepTimer::sum_of_copies) == 0);
}

TEST_CASE("gradients that travel in 16 bits take half the bytes of f32, and two passes over them") {
  constexpr double kElements = 1e8;
  Sample s("zoo:gpt?layers=2&hidden=1024&heads=16&seq=128&vocab=1000&batch=1", platforms::with_devices(platforms::load("dgx-a100"), 16),
           "pytorch", "fp32");
  const auto ask = [&](const char* plan, double (*seconds)(const StepTimer&)) {
    s.job.plan = plan::parse_plan(plan);
    return s.ask([&](const StagedStep& step) { return seconds(*step.lanes.front().timers.front()); });
  };
  const auto sum = [](const StepTimer& t) { return t.reduction(kElements); };
  const auto half = [](const StepTimer& t) { return t.reduction(kElements / 2); };
  CHECK(ask("dp=16,compression=bf16", sum) == Approx(ask("dp=16", half)));
  CHECK(ask("dp=16,compression=f16", sum) == Approx(ask("dp=16", half)));
  // Rounded: 4 bytes read and 2 written; back: 2 read and 4 written. An A100's memory moves 2039 GB/s; two nodes are a little slower.
  const auto update = [](const StepTimer& t) { return t.update({.all = kElements, .trained = kElements, .moved = 7 * kElements}, 1); };
  const double more = ask("dp=16,compression=bf16", update) - ask("dp=16", update);
  CHECK(more >= 12 * kElements / 2039e9);
  CHECK(more <= 1.5 * 12 * kElements / 2039e9);
  CHECK(ask("dp=1,compression=bf16", update) == ask("dp=1", update));
}

TEST_CASE("who keeps a part of the gradients takes in the sum of every micro-batch, and groups of replicas meet once") {
  Sample s("zoo:gpt?layers=2&hidden=1024&heads=16&seq=128&vocab=1000&batch=1", platforms::with_devices(platforms::load("dgx-a100"), 16),
           "pytorch", "fp32");
  without_host(s).profile.coordination = costmodel::Coordination::None;
  s.job.micro_batches = 4;
  for (const std::string groups : {"", ",zero_group=8"}) {
    INFO(groups);
    // Nothing runs beside a sum with overlap=off: three more sums than with zero=1, each of all gradients within the ranks that share them.
    const auto exposed = [&](const std::string& zero) {
      s.job.plan = plan::parse_plan("dp=16,overlap=off,zero=" + zero + groups);
      return s.time().exposed;
    };
    const double once = exposed("1"), every = exposed("2");
    const double sum = s.ask([&](const StagedStep& step) {
      const auto& timer = *step.lanes.front().timers.front();
      double seconds = 0;
      for (const double bucket : gradient_buckets(timer, step.chunks.front(), bucket_elements(step.job, step.job.precision_on(0))))
        seconds += timer.reduction(bucket) - timer.sum_of_copies(bucket);
      return seconds;
    });
    CHECK(every - once == Approx(3 * sum).epsilon(1e-9));
    // Beside the passes of others they cost less, and not less than nothing.
    s.job.plan.overlap = true;
    const double beside = s.time().exposed;
    s.job.plan.zero = 1;
    CHECK(beside > s.time().exposed);
    CHECK(beside < every);
  }
}

TEST_CASE("sharded parameters are gathered a layer ahead") {
  Sample s("zoo:gpt?layers=12&hidden=1024&heads=16&seq=1024&vocab=1000&batch=8", platforms::load("dgx-a100"), "torchtitan");
  without_host(s);
  s.job.recipe.optimizer = "none";  // whose work would be shared out, too
  const double alone = s.time().seconds;
  s.job.plan.dp = 8;
  s.job.plan.zero = 3;
  const double ahead = s.time().seconds;
  s.job.plan.overlap = false;
  const double apart = s.time().seconds;
  CHECK(alone < ahead);
  CHECK(ahead < apart);
}

TEST_CASE("a host that is slower than its device sets the pace") {
  Sample s("zoo:gpt?layers=12&hidden=64&heads=4&seq=32&vocab=1000&batch=1", platforms::load("dgx-a100"), "megatron");
  const double bound = s.time().seconds;
  CHECK(without_host(s).time().seconds < 0.5 * bound);
}

TEST_CASE("gradients of several micro-batches are added up, unless the product does it") {
  Sample s("zoo:gpt?layers=4&hidden=256&heads=4&seq=64&vocab=1000&batch=1", platforms::load("dgx-a100"), "pytorch-examples", "fp16");
  without_host(s);  // a host that is slower than so small a model would hide the sums
  s.job.micro_batches = 8;
  const double apart = s.time().seconds;
  s.profile.fused_accumulation = true;
  const double fused = s.time().seconds;
  const auto parts = s.parts();
  double parameters = 0;
  for (const auto& part : parts.parts) parameters += part.weights.trained * part.repeats;
  const auto& constants = costmodel::published_constants().values;
  // 4-byte sums read and written, 2-byte gradients read, for each of 8 micro-batches.
  const double expected = 8 * (4 + 4 + 2) * parameters / costmodel::memory_rate(s.platform.nodes.front().device, constants);
  CHECK(apart - fused == Approx(expected));
}

TEST_CASE("an optimizer that is written operator by operator moves more and launches more") {
  Sample s("zoo:bert?layers=2&hidden=64&heads=2&seq=32&vocab=100&batch=2", platforms::load("dgx1-v100"), "tensorflow1", "fp32");
  REQUIRE(s.profile.composed_optimizer);
  const auto update = [&](const char* optimizer) {
    s.job.recipe.optimizer = optimizer;
    return s.time().optimizer;
  };
  const double composed = update("adam"), momentum = update("sgd");
  s.profile.composed_optimizer = false;
  CHECK(composed > 10 * update("adam"));
  CHECK(update("sgd") == Approx(momentum));  // one kernel a parameter everywhere
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
