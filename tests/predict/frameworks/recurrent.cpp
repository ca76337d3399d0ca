// Recurrent layers, which are unrolled over time: their steps are many, their weights are there once.
#include <numeric>

#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using sample::Sample;

std::string translator(int steps) {
  const auto time = std::to_string(steps);
  return "zoo:gnmt?layers=2&hidden=64&vocab=100&batch=4&enc_seq=" + time + "&dec_seq=" + time;
}

/// A table of 100 x 64 for both sides: 6'400. Layers of 64 that read 64 (both directions of the encoder's first, the decoder's first) have
/// 8 x 64 x 64 weights and 4 x 64 biases, those that read 128 (the encoder's second and the decoder's) 12 x 64 x 64 and as many:
/// 3 x 33'024 + 2 x 49'408 = 197'888. Attention has two products of 64 x 64, a bias and a vector of 64: 8'320; the classifier 64 x 100 and
/// 100: 6'500.
constexpr double kWeights = 6'400 + 197'888 + 8'320 + 6'500;

/// Of the chunks of a pipeline together.
Weights weights_of_chunks(const FoldedModel& folded, const FrameworkJob& job) {
  const auto model = parts_of(folded, job, 0);
  const NodeLinks links(job.platform);
  const Timers timers(job, links, costmodel::published_constants().values, [&](std::size_t) -> const ModelParts& { return model; });
  Stager stager;
  Weights weights;
  for (const auto& chunk : stager.staged(job, timers).chunks) {
    weights += weights_of(model, chunk);
    REQUIRE(!chunk.empty());
    CHECK(model.parts[chunk.front().part].first_repetition == 0);  // a recurrence whose steps it has begins here
  }
  return weights;
}

}  // namespace

TEST_CASE("weights of a recurrent layer are counted once, however many steps it has") {
  for (const int steps : {8, 30, 60}) {
    INFO(steps);
    Sample s(translator(steps), platforms::load("dgx-a100"), "pytorch", "f32");
    double weights = 0;
    for (const auto& part : s.parts().parts) weights += part.repeats * part.weights.all;
    CHECK(weights == Approx(kWeights));
    const auto memory = s.memory();
    CHECK(memory.weights == Approx(4 * kWeights));
    CHECK(memory.gradients == Approx(4 * kWeights));
    CHECK(memory.optimizer == Approx(8 * kWeights));  // Adam's two numbers
    s.job.plan.dp = 2;
    const double summed = s.ask([](const StagedStep& step) {
      const auto buckets = gradient_buckets(*step.lanes.front().timers.front(), step.chunks.front(), 1e4);
      return std::accumulate(buckets.begin(), buckets.end(), 0.0);
    });
    CHECK(summed == Approx(kWeights));
  }
}

TEST_CASE("steps of a recurrent layer are no blocks: a pipeline is cut between layers, and none of them is in two stages") {
  Sample s(translator(60), platforms::load("dgx-a100"), "pytorch", "f32");
  const auto limits = s.model.limits();
  CHECK(limits.blocks == 1);
  CHECK(limits.all_blocks == 0);
  CHECK(grain_of(s.model, s.job) == Grain::Blocks);
  s.job.plan.pp = 4;
  CHECK(grain_of(s.model, s.job) == Grain::Nodes);
  const FoldedModel single(graph::zoo::build(translator(60)), Grain::Nodes);
  CHECK(limits.stages == static_cast<std::int64_t>(single.spans().size()));
  for (const auto* folded : {&std::as_const(s.model), &single}) CHECK(weights_of_chunks(*folded, s.job).all == Approx(kWeights));
}

TEST_CASE("blocks that share a tensor have it once") {
  // Two vectors of all heads, 64 numbers each, are read by all eight layers of a Transformer-XL.
  const std::string zoo = "zoo:transformer-xl?layers=8&hidden=64&heads=4&vocab=100&batch=2";
  Sample s(zoo, platforms::load("dgx-a100"), "pytorch", "f32");
  double parameters = 0, weights = 0, common = 0;
  const auto whole = graph::zoo::build(zoo);
  for (const auto& tensor : whole.tensors())
    if (graph::is_weight(tensor.role)) parameters += static_cast<double>(graph::element_count(tensor.type.shape));
  for (const auto& part : s.parts().parts) weights += part.repeats * part.weights.all, common += part.common_weights.all;
  CHECK(common == 2 * 64);
  CHECK(weights == Approx(parameters));
  s.job.plan.pp = 4;
  CHECK(weights_of_chunks(s.model, s.job).all == Approx(parameters));
  // A layer has an eighth of both vectors, and reads them whole: 128 - 16 numbers more.
  const auto model = s.parts();
  const auto& block = sample::block_of(model);
  CHECK(block.read_weights().all - block.weights.all == Approx(112));
}

}  // namespace rehearsal::predict::frameworks
