#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/assess.hpp"
#include "predict/frameworks/compose.hpp"
#include "predict/frameworks/lower.hpp"
#include "predict/frameworks/memory.hpp"
#include "predict/frameworks/spans.hpp"
#include "tests/catch.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr const char* kSmall = "zoo:gpt?layers=6&hidden=64&heads=4&seq=32&vocab=1000&batch=2";

AnalyticJob job_of(const platforms::Platform& platform, const char* framework, const ParallelPlan& plan) {
  return {platform, *costmodel::find_framework(framework), costmodel::precision_of(platform.nodes.front().device, "bf16"), plan, 0};
}

const Part& block_of(const ModelRows& rows) {
  for (const auto& part : rows.parts)
    if (part.repeated) return part;
  return rows.parts.front();
}

TEST_CASE("the blocks of a transformer are one span that repeats") {
  const auto graph = graph::zoo::build(kSmall);
  int repeated = 0;
  std::size_t covered = 0;
  for (const auto& span : repeated_spans(graph)) {
    repeated = std::max(repeated, span.repeats);
    CHECK(span.first == covered);
    covered += span.length * static_cast<std::size_t>(span.repeats);
  }
  CHECK(repeated == 6);
  CHECK(covered == graph.nodes().size());
}

TEST_CASE("tensor parallelism splits what Megatron splits") {
  const auto platform = platforms::load("dgx-a100");
  const auto graph = graph::zoo::build(kSmall);
  ParallelPlan plan;
  plan.tp = 2;
  plan.micro_batch = 2;
  const auto rows = lower_to_rows(graph, job_of(platform, "megatron", plan));
  const auto& block = block_of(rows);
  // h = 64, ffn = 256, halves of both products and of the biases of split results; norms and the other biases whole:
  // 2*2*64 + (64*192 + 192)/2 + 64*64/2 + 64 + (64*256 + 256)/2 + 256*64/2 + 64 = 25184.
  CHECK(block.parameters == Approx(25184));
  CHECK(block.reductions == Approx(2));  // after attention and after the MLP
  CHECK(block.reduction_bytes == Approx(2 * 32 * 64 * 2));
  plan.tp = 1;
  // 12 h^2 + 13 h of a block.
  CHECK(block_of(lower_to_rows(graph, job_of(platform, "megatron", plan))).parameters == Approx(12 * 64 * 64 + 13 * 64));
}

TEST_CASE("a block keeps what Korthikanti et al. count") {
  const auto platform = platforms::load("dgx-a100");
  const auto graph = graph::zoo::build("zoo:gpt?layers=4&hidden=1024&heads=16&seq=1024&vocab=1000&batch=1");
  const auto rows = lower_to_rows(graph, job_of(platform, "megatron", {}));
  // s·b·h·(34 + 5·a·s/h), equation 1 of "Reducing activation recomputation in large transformer models".
  const double expected = 1024.0 * 1024 * (34 + 5.0 * 16 * 1024 / 1024);
  CHECK(block_of(rows).kept.all() == Approx(expected).epsilon(0.04));
}

TEST_CASE("a pipeline takes its slowest stage for every micro-batch, and the others once") {
  CHECK(pipeline_seconds(8, 1, 4, 1) == Approx(11));  // 8 + 3
  CHECK(pipeline_seconds(8, 1, 4, 3) == Approx(9));   // the bubble divided by 3 chunks
  CHECK(pipeline_seconds(8, 2, 5, 1) == Approx(19));  // one stage of 2, three of 1
}

TEST_CASE("two things that overlap cost the longer and a share of the shorter") {
  CHECK(overlapped(3, 2, 0.25) == Approx(3.5));
  CHECK(overlapped(2, 3, 0) == Approx(3));
}

TEST_CASE("what must be slower is slower") {
  const auto platform = platforms::with_nodes(platforms::load("dgx-a100"), 4);
  const costmodel::Network network(platform);
  const auto& constants = costmodel::published_constants().values;
  const auto graph = graph::zoo::build("zoo:gpt?layers=8&hidden=1024&heads=16&seq=1024&vocab=50000&batch=2");
  const auto seconds = [&](const ParallelPlan& plan) {
    const auto job = job_of(platform, "megatron", plan);
    return compose(lower_to_rows(graph, job), job, network, constants);
  };
  ParallelPlan plan;
  plan.micro_batch = 2;
  const auto once = seconds(plan);
  plan.micro_batches = 4;
  CHECK(seconds(plan).seconds > 3 * once.seconds);
  plan.recompute = Recompute::Full;
  CHECK(seconds(plan).recompute > 0);
  CHECK(seconds(plan).seconds > 3.5 * once.seconds);
  plan.recompute = Recompute::None;
  plan.dp = 32;
  CHECK(seconds(plan).exposed > 0);
  plan.pp = 4;
  plan.dp = 8;
  const auto piped = seconds(plan);
  CHECK(piped.bubble > 0);
  plan.interleave = 2;
  CHECK(seconds(plan).bubble < piped.bubble);
}

TEST_CASE("context parallelism passes keys and values round, experts send tokens and get them back") {
  const auto platform = platforms::with_nodes(platforms::load("dgx-a100"), 4);
  const costmodel::Network network(platform);
  const auto& constants = costmodel::published_constants().values;
  const auto step = [&](const graph::Graph& graph, const ParallelPlan& plan) {
    const auto job = job_of(platform, "megatron-core", plan);
    return compose(lower_to_rows(graph, job), job, network, constants);
  };
  ParallelPlan plan;
  plan.dp = 8;
  const auto quarter = graph::zoo::build("zoo:llama?layers=2&hidden=512&heads=4&ffn=1024&seq=512&vocab=1000&batch=1");
  const auto alone = step(quarter, plan);
  plan.cp = 4;
  const auto round = step(quarter, plan);
  CHECK(alone.tensor == 0);
  CHECK(round.tensor > 0);
  CHECK(round.seconds > alone.seconds);  // attention sees four times the keys

  const auto experts = graph::zoo::build("zoo:moe?layers=2&hidden=512&heads=4&kv_heads=4&ffn=256&seq=512&vocab=1000&experts=8&batch=1");
  plan.cp = 1;
  const auto local = step(experts, plan);
  plan.ep = 8;
  const auto spread = step(experts, plan);
  CHECK(local.tensor == 0);
  CHECK(spread.tensor > 0);
}

TEST_CASE("a plan with experts counts their ranks as replicas of everything else") {
  plan::Plan plan;
  plan.dp = 2;
  plan.ep = 4;
  plan.cp = 2;
  const auto p = parallel_plan(plan, 16, *costmodel::find_framework("megatron-core"));
  CHECK(p.dp == 8);
  CHECK(p.ep == 4);
  CHECK(p.cp == 2);
  CHECK(p.micro_batch == 2);
  CHECK_THROWS_AS(parallel_plan(plan, 12, *costmodel::find_framework("megatron-core")), Refusal);
}

TEST_CASE("stages that are recomputed as a whole keep their input for every micro-batch and everything for one") {
  const auto platform = platforms::load("dgx-a100");
  const auto graph = graph::zoo::build(kSmall);
  ParallelPlan plan;
  plan.pp = 2;
  plan.micro_batch = 2;
  plan.micro_batches = 4;
  plan.gpipe = true;
  plan.recompute = Recompute::Full;
  const auto activations = [&] {
    return memory_of(lower_to_rows(graph, job_of(platform, "gpipe", plan)), job_of(platform, "gpipe", plan)).activations;
  };
  const double four = activations();
  plan.micro_batches = 5;
  const double five = activations();
  plan.micro_batches = 6;
  // the same is added for every further micro-batch: its input of a stage
  CHECK(five - four == Approx(activations() - five));
  CHECK(five > four);
  CHECK(five - four < 0.2 * four);
}

TEST_CASE("sharding divides states, recomputation drops activations") {
  const auto platform = platforms::load("dgx-a100");
  const auto graph = graph::zoo::build(kSmall);
  ParallelPlan plan;
  plan.micro_batch = 2;
  plan.dp = 8;
  const auto memory = [&] {
    return memory_of(lower_to_rows(graph, job_of(platform, "megatron", plan)), job_of(platform, "megatron", plan));
  };
  const auto whole = memory();
  // Megatron keeps 2 + 4 + 12 bytes a parameter: 6 (12·64² + 13·64) + 1000·64 + 32·64 + 2·64 parameters.
  const double parameters = 6 * (12.0 * 64 * 64 + 13 * 64) + 1000 * 64 + 32 * 64 + 2 * 64;
  CHECK(whole.states == Approx(18 * parameters));
  plan.zero = 1;
  CHECK(memory().states == Approx((6 + 12 / 8.0) * parameters));
  plan.recompute = Recompute::Full;
  CHECK(memory().activations < whole.activations);
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
