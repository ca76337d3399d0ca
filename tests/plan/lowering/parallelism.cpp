// Which collectives every parallelism comes down to: counted, with the pattern that the literature has for it.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

constexpr const char* kGpt = "gpt?layers=3&hidden=64&heads=4&seq=16&vocab=96";

graph::TrainingGraph training_of(const std::string& model, std::int64_t batch) {
  return graph::build_training_graph(graph::with_initial_values(graph::zoo::build(model, batch)), {});
}

/// Collectives of one rank by body, kind and axis; bytes of the whole vector of the first of them, and of the longest.
struct Counted {
  std::map<std::string, int> number;
  std::map<std::string, std::int64_t> bytes, most_bytes;
};

Counted collectives(const std::string& model, std::int64_t batch, const std::string& plan) {
  const auto training = training_of(model, batch);
  const auto program = lower(training, parse_plan(plan), TableBackend(), {});
  Counted counted;
  const Role& role = program.role(0);
  for (const Body& body : role.bodies) {
    for (const Instruction& i : body.instructions) {
      if (i.kind != InstructionKind::Collective) continue;
      const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
      const auto key = std::string(name(body.kind)) + " " + std::string(name(info.kind)) + " " + program.axes[info.axis].name;
      if (counted.number[key]++ == 0) counted.bytes[key] = message_bytes(role, i, 0);
      counted.most_bytes[key] = std::max(counted.most_bytes[key], message_bytes(role, i, 0));
    }
  }
  return counted;
}

}  // namespace

TEST_CASE("tensor parallel GPT: one all-reduce per half of a block and direction (Megatron-LM, Shoeybi et al. 2019, section 3)") {
  const auto c = collectives(kGpt, 4, "tp=2");
  // 3 blocks x (attention, MLP); nothing else travels in the layers.
  CHECK(c.number == std::map<std::string, int>{{"forward all-reduce tp", 6}, {"backward all-reduce tp", 6}});
  CHECK(c.bytes.at("forward all-reduce tp") == 4 * 16 * 64 * 4);  // batch x seq x hidden in f32
}

TEST_CASE("vocabulary parallel embedding and loss exchange sums by token, never the logits (Shoeybi et al. 2019, section 3)") {
  const auto c = collectives("gpt?layers=3&hidden=64&heads=4&seq=16&vocab=2000", 4, "tp=2");
  // Forward: 6 of the blocks, the embedding's sum, the loss' total over all classes of every token, and the loss itself; backward: 6 of the
  // blocks and the gradient of the last block's result.
  CHECK(c.number == std::map<std::string, int>{{"forward all-reduce tp", 9}, {"backward all-reduce tp", 7}});
  CHECK(c.most_bytes.at("forward all-reduce tp") == 4 * 16 * 64 * 4);  // batch x seq x hidden in f32; the logits are 31 times that
}

TEST_CASE("a table of words that no product shares is split as well (Megatron-Core's VocabParallelEmbedding)") {
  const auto c = collectives("llama?layers=3&hidden=64&heads=4&kv_heads=4&seq=16&vocab=2000", 4, "tp=2");
  // As in the GPT above, whose last product shares the table: 6 of the blocks, the embedding's sum, the loss' total and the loss.
  CHECK(c.number == std::map<std::string, int>{{"forward all-reduce tp", 9}, {"backward all-reduce tp", 7}});
  const auto training =
      graph::build_training_graph(graph::zoo::build("llama?layers=1&hidden=64&heads=4&kv_heads=4&seq=16&vocab=2000", 4), {});
  const auto program = lower(training, parse_plan("tp=2"), TableBackend(), {});
  const auto& buffers = program.roles.front().buffers;
  const auto table = std::ranges::find_if(
      buffers, [](const Buffer& b) { return b.category == MemoryCategory::Parameters && b.name.find("embed") != std::string::npos; });
  REQUIRE(table != buffers.end());
  CHECK(table->shapes.front() == graph::Shape{1000, 64});
}

TEST_CASE("what two ranks have of a vocabulary is put together as the loss wants it, not summed") {
  const auto training =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=1&hidden=64&heads=4&seq=16&vocab=2000", 4)), {});
  const auto program = lower(training, parse_plan("tp=2"), TableBackend(), {});
  std::map<graph::LabelKind, int> found;
  for (const auto& collective : program.roles.front().collectives) ++found[collective.reduction];
  CHECK(found[graph::LabelKind::LogSumExp] == 1);  // the loss' total over all classes of every token
  CHECK(found[graph::LabelKind::Sum] > 1);
}

TEST_CASE("with sequence parallelism every all-reduce becomes a reduce-scatter and an all-gather (Korthikanti et al. 2022, section 4.2)") {
  const auto c = collectives(kGpt, 4, "tp=2,sequence_parallel=on");
  CHECK(c.number.at("forward reduce-scatter tp") == 6);
  CHECK(c.number.at("forward all-gather tp") == 6);
  CHECK(c.number.at("backward reduce-scatter tp") == 6);
  CHECK(c.number.at("backward all-gather tp") == 6);
  CHECK_FALSE(c.number.contains("forward all-to-all tp"));
}

TEST_CASE("context parallel GPT gathers keys and values") {
  const auto c = collectives(kGpt, 4, "cp=2");
  CHECK(c.number.at("forward all-gather cp") == 6);  // K and V of 3 layers
  CHECK(c.number.at("backward reduce-scatter cp") == 6);
  CHECK(c.bytes.at("forward all-gather cp") == 4 * 16 * 64 * 4);
}

TEST_CASE("all-to-all attention exchanges the sequence for heads and back (DeepSpeed-Ulysses, Jacobs et al. 2023, section 3.1)") {
  const auto c = collectives(kGpt, 4, "cp=2,attention=all-to-all");
  CHECK(c.number.at("forward all-to-all cp") == 6);  // q, k and v in one, and the result, of 3 layers
  CHECK(c.number.at("backward all-to-all cp") == 6);
  CHECK_FALSE(c.number.contains("forward all-gather cp"));
  CHECK_FALSE(c.number.contains("backward reduce-scatter cp"));
  // Of q, k, v [4, 16/2, 3 x 64] in f32 a rank sends the half whose heads are the other's, and receives as much.
  CHECK(c.bytes.at("forward all-to-all cp") == 2 * (4 * 8 * 3 * 64 * 4 / 2));
  // 4 heads over tp=2 and cp=2: tp's stay where they are.
  const auto both = collectives(kGpt, 4, "tp=2,cp=2,attention=all-to-all");
  CHECK(both.number.at("forward all-to-all cp") == 6);
  CHECK_FALSE(both.number.contains("forward all-gather tp"));
}

namespace {

/// Kernels of a role that run for nodes of this name.
int kernels_of(const Role& role, const graph::Graph& g, const std::string& node, BodyKind kind) {
  int count = 0;
  for (const Body& body : role.bodies)
    for (const Instruction& i : body.instructions)
      count += body.kind == kind && i.kind == InstructionKind::Kernel && g[i.node].name == node;
  return count;
}

/// The longest that any buffer of this tensor is along a dimension.
std::int64_t longest(const Role& role, const graph::Graph& g, const std::string& tensor, std::size_t dim) {
  std::int64_t most = 0;
  for (const Buffer& b : role.buffers)
    if (b.tensor != graph::TensorId::None && g[b.tensor].name == tensor && b.shapes.front().size() > dim)
      most = std::max(most, b.shapes.front()[dim]);
  return most;
}

}  // namespace

TEST_CASE("ring attention passes blocks of keys and values from rank to rank (Liu et al. 2023, section 3)") {
  const int ranks = GENERATE(2, 4);
  const auto plan = "cp=" + std::to_string(ranks) + ",attention=ring";
  const auto c = collectives(kGpt, 4, plan);
  // 3 layers, N - 1 turns: forward K and V, backward K, V and their two gradients.
  CHECK(c.number.at("forward shift cp") == 3 * 2 * (ranks - 1));
  CHECK(c.number.at("backward shift cp") == 3 * 4 * (ranks - 1));
  CHECK_FALSE(c.number.contains("forward all-gather cp"));
  CHECK_FALSE(c.number.contains("backward reduce-scatter cp"));
  // A block is [4, 16/N, 64] in f32; a rank's vector holds one that it sends and one that it receives.
  for (const auto* way : {"forward shift cp", "backward shift cp"}) {
    CHECK(c.bytes.at(way) == 2 * (4 * 16 / ranks * 64 * 4));
    CHECK(c.most_bytes.at(way) == c.bytes.at(way));
  }
}

TEST_CASE("in a ring a rank holds blocks of keys, of values and of scores, and none of a masked block") {
  constexpr int kRanks = 4;
  const auto training = training_of(kGpt, 4);
  const auto program = lower(training, parse_plan("cp=4,attention=ring"), TableBackend(), {});
  CHECK(program.roles.size() == kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Role& role = program.role(rank);
    const auto& g = training.graph;
    INFO("rank " << rank);
    for (const auto* keys : {"h.0.attn.scores", "h.0.attn.softmax", "h.0.attn.softmax.grad"})
      CHECK(longest(role, g, keys, 3) == 16 / kRanks);
    CHECK(longest(role, g, "h.0.attn.k.heads", 3) == 16 / kRanks);
    CHECK(longest(role, g, "h.0.attn.v.heads", 2) == 16 / kRanks);
    // The rows of rank r see the keys of ranks 0 to r.
    CHECK(kernels_of(role, g, "h.0.attn.scores", BodyKind::Forward) == rank + 1);
    CHECK(kernels_of(role, g, "h.0.attn.mix.grad", BodyKind::Backward) >= rank + 1);
  }
  // With longer sequences than anything else of the model is large: what gathering holds of all keys, the ring holds of N-th parts.
  const auto longer = training_of("gpt?layers=2&hidden=16&heads=2&seq=512&vocab=32", 1);
  const auto arena = [&](const char* plan) { return lower(longer, parse_plan(plan), TableBackend(), {}).role(3).memory.arena_bytes; };
  CHECK(arena("cp=4,attention=ring") < arena("cp=4") / 2);
}

TEST_CASE("what a mask hides from a rank is known before a run, of long sequences too") {
  const auto masked = [](const graph::TrainingGraph& training) {
    return lower(training, parse_plan("cp=3,attention=ring"), TableBackend(), {}).sharding->rings.front().masked;
  };
  const std::vector<bool> above_the_diagonal{false, true, true, false, false, true, false, false, false};
  CHECK(masked(training_of("gpt?layers=1&hidden=8&heads=2&seq=16&vocab=12", 1)) == above_the_diagonal);
  // 25 million pairs, of which none is looked at: rows are compared with keys.
  CHECK(masked(training_of("gpt?layers=1&hidden=8&heads=2&seq=5000&vocab=12", 1)) == above_the_diagonal);
  CHECK(masked(training_of("bert?layers=1&hidden=8&heads=2&seq=16&vocab=12", 1)).empty());

  // Windows of 4 keys before each of 12 rows, as numbers that are added; the last row of another mask sees nothing.
  const auto windows = [&](bool whole) {
    graph::zoo::Layers layers;
    const auto x = layers.builder().add_input("x", {DType::F32, {2, 12, 6}});
    const auto scores = layers.matmul("scores", layers.dense("q", x, 6), layers.transpose("turned", layers.dense("k", x, 6), {0, 2, 1}));
    graph::Value window{{DType::F32, {12, 12}}, {}, {}};
    for (int n = 0; n < 144; ++n) {
      const int row = n / 12, key = n % 12;
      window.reals.push_back(key <= row && key > row - 4 && (whole || row < 11) ? 0 : -HUGE_VAL);
    }
    const auto seen = layers.add("seen", scores, layers.builder().add_constant("window", std::move(window)));
    const auto weights = layers.node("weights", "Softmax", std::vector{seen}, {{"axis", std::int64_t{-1}}});
    const auto y = layers.dense("last", layers.matmul("mix", weights, layers.dense("v", x, 6)), 3);
    graph::TrainingOptions options;
    options.loss = "mse";
    return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(y, "y")), options);
  };
  // Rows 0-3, 4-7, 8-11: the last ones see keys from 5 on.
  CHECK(masked(windows(true)) == std::vector<bool>{false, true, true, false, false, true, true, false, false});
  CHECK(masked(windows(false)).empty());
}

TEST_CASE("attention that no ring can compute gathers its keys with a warning, or is refused, by name") {
  const auto training = [](bool good) {
    graph::zoo::Layers layers;
    auto x = layers.builder().add_input("x", {DType::F32, {4, 8, 6}});
    for (const auto* name : {"good", "bad"}) {
      if (std::string(name) == "good" && !good) continue;
      const std::string n = name;
      const auto q = layers.dense(n + ".q", x, 6), k = layers.dense(n + ".k", x, 6), v = layers.dense(n + ".v", x, 6);
      const auto scores = layers.matmul(n + ".scores", q, layers.transpose(n + ".turned", k, {0, 2, 1}));
      auto weights = layers.node(n + ".weights", "Softmax", std::vector{scores}, {{"axis", std::int64_t{-1}}});
      if (n == "bad") weights = layers.node("bad.square", "Mul", std::vector{weights, weights});
      x = layers.matmul(n + ".mix", weights, v);
    }
    const auto y = layers.dense("last", x, 3);
    graph::TrainingOptions options;
    options.loss = "mse";
    return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(y, "y")), options);
  };
  const auto plan = parse_plan("cp=2,attention=ring");
  const auto both = lower(training(true), plan, TableBackend(), {});
  REQUIRE(both.sharding->rings.size() == 1);
  REQUIRE_FALSE(both.warnings.empty());
  CHECK_THAT(both.warnings.front(), contains("bad.weights") && contains("gathered") && contains("bad.square"));
  CHECK_THROWS_WITH(lower(training(false), plan, TableBackend(), {}),
                    contains("bad.weights") && contains("bad.square") && contains("attention=ring"));
  CHECK_THROWS_AS(lower(training_of("resnet18?image=64&classes=10", 4), plan, TableBackend(), {}), Refusal);
}

TEST_CASE("expert parallelism sends tokens to their experts and back (GShard, Lepikhin et al. 2020, section 3.2)") {
  const auto c =
      collectives("moe?layers=3&hidden=64&heads=4&kv_heads=2&ffn=128&vocab=96&seq=16&experts=4&top_k=2&capacity=125", 4, "dp=2,ep=2");
  CHECK(c.number.at("forward all-to-all ep") == 6);  // dispatch and combine of 3 layers
  CHECK(c.number.at("backward all-to-all ep") == 6);
  CHECK_FALSE(c.number.contains("forward all-gather ep"));  // the router sees all experts, of its own samples
  // Capacity: 1.25 x 16 tokens x 2 choices / 4 experts = 10 rows of 64. Of its 2 samples' 4 x 10 rows a rank sends those of 2 experts.
  CHECK(c.bytes.at("forward all-to-all ep") == 2 * (2 * 2 * 10 * 64 * 4));
}

TEST_CASE("a degree that only some operators can use says for which share of the work, a key without effect says so") {
  const auto training = training_of(kGpt, 4);
  const auto warnings = [&](const char* plan) { return lower(training, parse_plan(plan), TableBackend(), {}).warnings; };
  const auto two = warnings("tp=2"), eight = warnings("tp=8");
  REQUIRE(two.size() == 1);  // normalizations, and the logits of a small model
  REQUIRE(eight.size() == 1);
  CHECK_THAT(eight.front(), contains("% of the FLOPs are computed by every coordinate of tp"));
  CHECK(std::stoi(eight.front()) > std::stoi(two.front()));  // 4 heads are too few for 8 ranks: attention is computed by all of them
  CHECK_THAT(warnings("sequence_parallel=on").front(), contains("tp=1"));
  CHECK_THAT(warnings("zero=1").front(), contains("dp=1"));
  // 4 heads are enough for cp=4, for cp=5 too few, and tp=2 leaves 2 of them.
  CHECK(warnings("cp=4,attention=all-to-all").empty());
  for (const auto* plan : {"cp=5,attention=all-to-all", "tp=2,cp=4,attention=all-to-all"}) {
    const auto few = warnings(plan);
    INFO(plan);
    CHECK(std::ranges::count_if(few, [](const std::string& w) {
            return w.starts_with(
                "attention=all-to-all: keys and values are gathered for attention of h.0.attn.softmax: it has too few heads");
          }) == 1);
  }
}

TEST_CASE("spatial parallel ResNet exchanges the rows that its windows need, and nothing where they tile") {
  const auto c = collectives("resnet18?image=64&classes=10", 4, "spatial=2x1");
  // Height 64 -> 32 (7x7, stride 2: the loader brings the halo), 16 (pool), 16, 8, 4, 2. Every 3x3 convolution and the 3x3 pool need rows
  // of the other half: 1 + 16, as many as there are; the 1x1 projections do not. Forward: sums of 20 normalizations.
  CHECK(c.number.at("forward halo height") == 17);
  CHECK(c.number.at("forward all-reduce height") >= 20);
  CHECK_FALSE(c.number.contains("forward all-gather height"));
  // Backward: dY of the 16 convolutions, and dY and X of the pool, whose windows begin in the neighbour's rows.
  CHECK(c.number.at("backward halo height") == 18);
  CHECK_FALSE(c.number.contains("backward all-gather height"));
  // One row of [4, 64 channels, width 16] in f32, sent and received.
  CHECK(c.bytes.at("forward halo height") >= 4 * 64 * 16 * 4);
}

TEST_CASE("the rows of an image are split wherever they stand: channels may come last") {
  const auto rows_of = [](bool channels_last) {
    graph::zoo::Layers l;
    auto x = l.input("x", channels_last ? graph::Shape{2, 8, 12, 3} : graph::Shape{2, 3, 8, 12});
    if (channels_last) x = l.transpose("first", x, {0, 3, 1, 2});
    x = l.flatten("flat", l.global_average("average", l.conv("conv", x, 4, graph::zoo::Square{}, true)));
    x = l.linear("fc", x, 5);
    const auto model = std::move(l).finish(x, "logits");
    const auto training = graph::build_training_graph(graph::with_initial_values(model), {});
    CHECK(use_of_dimensions(training, graph::LogicalDims(training.graph)).image_axes == 2);  // what a search can split
    const auto program = lower(training, parse_plan("spatial=2x1"), TableBackend(), {});
    return program.sharding->layout(training.graph.find("x"))[0];
  };
  CHECK(rows_of(true).dim == 1);
  CHECK(rows_of(true).split());
  CHECK(rows_of(false).dim == 2);
}

TEST_CASE("what is a sum along several axes is summed once, over all their ranks") {
  const auto c = collectives("resnet18?image=64&classes=10", 8, "dp=2,spatial=2x2");
  CHECK(c.number.at("forward all-reduce width.height.dp") >= 20);  // normalizations
  CHECK(c.number.at("backward all-reduce width.height.dp") >= 20);
  CHECK_FALSE(c.number.contains("forward all-reduce height"));
  // tp lies between width and dp and takes no part: its ranks hold parts of different weights.
  const auto apart = collectives("resnet18?image=64&classes=10", 8, "dp=2,spatial=2,tp=2");
  CHECK(apart.number.contains("backward all-reduce dp"));
  CHECK_FALSE(apart.number.contains("backward all-reduce width.dp"));
}
