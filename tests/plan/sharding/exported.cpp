// The same on networks as PyTorch exports them: data parallel, and micro-batches where no batch normalization stands in the way.

#include <filesystem>

#include "formats/onnx/model_import.hpp"
#include "tests/plan/sharding/mesh.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;

namespace {

const std::filesystem::path kModels = "../shared/models/train";

struct Case {
  std::string name, loss;
  std::int64_t classes;
  bool loops;  ///< has no batch normalization
};

TrainingGraph exported(const Case& c) {
  formats::ImportOptions options;
  options.batch = 5;
  TrainingOptions training;
  training.loss = c.loss;
  return build_training_graph(formats::import_onnx((kModels / c.name / "model.onnx").string(), options).graph, training);
}

std::size_t all_reduces(const Sharding& s) {
  std::size_t n = 0;
  for (const Conversion& c : s.conversions) {
    for (const ConversionStep& step : c.steps) n += step.kind == ConversionKind::AllReduce;
  }
  return n;
}

}  // namespace

TEST_CASE("exported networks: two ranks, and two micro-batches each, equal one rank") {
  if (!std::filesystem::exists(kModels)) {
    WARN("skipped: the exported models are not here (" << kModels.string() << ")");
    return;
  }
  const MeshAxis two{"dp", 2, {"batch"}, false}, loop{"time", 2, {"batch"}, true};
  const Case cases[] = {{"mlp_sgd", "", 2, true},
                        {"gpt2", "", 2, true},
                        {"gpt2_dynamo", "", 2, true},
                        {"hf_gpt2", "", 2, true},
                        {"resnet_bottleneck", "", 2, false},
                        {"densenet", "", 2, false},
                        {"vit", "", 2, true},
                        {"unet2d_dice", "dice", 2, false},
                        {"llama_ts", "", 2, true},
                        {"autoencoder_mse", "mse", 2, true}};
  for (const Case& c : cases) {
    INFO(c.name);
    const TrainingGraph t = exported(c);
    const LogicalDims dims(t.graph);
    CHECK(dims.misfits().empty());
    plan::test::check_equal(t, {two}, c.classes);
    const Sharding looped = shard(t, {two, loop});
    CHECK(looped.barriers.empty() == c.loops);
    if (c.loops) plan::test::check_equal(t, {two, loop}, c.classes);
  }
}

TEST_CASE("exported networks: one all-reduce per parameter that has a gradient of its own") {
  if (!std::filesystem::exists(kModels)) {
    WARN("skipped: the exported models are not here (" << kModels.string() << ")");
    return;
  }
  const std::vector<MeshAxis> two = {{"dp", 2, {"batch"}, false}};
  // Two for the loss (sum and weight). A batch normalization has two sums instead of the gradients of its two parameters: the count stays.
  for (const std::string name : {"mlp_sgd", "vgg_bn", "resnet_bottleneck", "densenet", "gpt2", "vit"}) {
    INFO(name);
    const TrainingGraph t = exported({name, "", 2, false});
    const Sharding s = shard(t, two);
    CHECK(all_reduces(s) == t.parameters.size() + 2);
    CHECK(s.use[0].flops_replicated < 1e-3 * s.use[0].flops_total);
    CHECK(s.use[0].replicas.empty());
  }
}
