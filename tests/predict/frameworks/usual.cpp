// Which framework is meant where none is named.
#include <algorithm>

#include "costmodel/constants.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"
#include "predict/changes.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/frameworks/usual_predictor.hpp"
#include "predict/frameworks/usual_profile.hpp"
#include "tests/catch.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using costmodel::ModelKind;

TEST_CASE("a decoder is what attends to earlier positions alone") {
  for (const auto* decoder : {"gpt?layers=2&hidden=64&heads=2&seq=16&vocab=64", "llama?layers=2&hidden=64&heads=2&ffn=64&seq=16&vocab=64",
                              "mpt?layers=2&hidden=64&heads=2&seq=16&vocab=64"})
    CHECK(kind_of(graph::zoo::build(decoder, 2)) == ModelKind::Decoder);
  for (const auto* other :
       {"resnet18?image=32", "bert?layers=2&hidden=64&heads=2&seq=16&vocab=64", "vit?layers=2&hidden=64&heads=2&image=32"})
    CHECK(kind_of(graph::zoo::build(other, 2)) == ModelKind::Other);
}

TEST_CASE("every device of the catalogue has one usual framework for every kind of model, processors our own") {
  for (const auto& name : platforms::device_names())
    for (const auto kind : {ModelKind::Decoder, ModelKind::ShardedDecoder, ModelKind::Other}) {
      INFO(name);
      const auto device = platforms::load_device(name);
      const auto& usual = costmodel::usual_framework(device, kind);
      CHECK((usual.name == "rehearse") == (device.kind == platforms::DeviceKind::Cpu));
      // It can do what plans ask for: a plan without --framework is not refused for a key. A sharded decoder's has no stages.
      for (const auto* key : {"tp", "cp", "ep", "zero", "sequence_parallel", "pp", "interleave"}) {
        if (kind == ModelKind::ShardedDecoder && (key == std::string("pp") || key == std::string("interleave"))) continue;
        CHECK((usual.parallelism.empty() || std::ranges::find(usual.parallelism, key) != usual.parallelism.end()));
      }
    }
}

TEST_CASE("a decoder of which every block sees compressed tokens behind its window is one") {
  CHECK(
      kind_of(graph::zoo::build("deepseek-v4?layers=2&hidden=256&heads=4&head_dim=64&rope_dim=16&q_lora=64&o_groups=4&o_lora=64&experts=8&"
                                "top_k=2&moe_ffn=256&vocab=100&seq=256&index_heads=2&index_dim=16&index_top=16&first_many=1",
                                1)) == ModelKind::Decoder);
}

TEST_CASE("decoders whose parameters are sharded are run with FSDP where attention is fused, and with DeepSpeed elsewhere") {
  const auto model = graph::zoo::build("gpt?layers=2&hidden=64&heads=2&seq=16&vocab=64", 2);
  const auto kind = [&](const char* plan) { return kind_of(model, plan::parse_plan(plan)); };
  CHECK(kind("dp=8,zero=3") == ModelKind::ShardedDecoder);
  for (const auto* plan : {"dp=8,zero=2", "dp=4,tp=2,zero=3", "dp=4,pp=2,zero=3"}) CHECK(kind(plan) == ModelKind::Decoder);
  CHECK(kind_of(graph::zoo::build("resnet18", 2), plan::parse_plan("dp=8,zero=3")) == ModelKind::Other);
  const auto name = [](const char* device) {
    return costmodel::usual_framework(platforms::load_device(device), ModelKind::ShardedDecoder).name;
  };
  CHECK(name("A100-SXM4-80GB") == "composer");
  CHECK(name("H100-SXM5-80GB") == "torchtitan");
  CHECK(name("B200-SXM-180GB") == "torchtitan");
  CHECK(name("GB200-186GB") == "nemo-26.06");  // of the same generation: by its name
  CHECK(name("V100-SXM2-16GB") == "deepspeed");
}

TEST_CASE("a plan that fits only as recipes have it is answered so, unless it names the keys") {
  auto platform = platforms::with_devices(platforms::load("dgx-h100"), 8);
  const auto ask = [&](const auto& question) {
    const auto predictor =
        framework_predictor({graph::zoo::build("gpt?layers=4&hidden=1024&heads=16&seq=512&vocab=1000", 8), "bf16", "adam"}, platform,
                            *costmodel::find_framework("nemo"));
    return question(*predictor);
  };
  const auto bytes = [&](const char* plan) {
    return ask([&](Predictor& p) { return static_cast<double>(p.closed(plan::parse_plan(plan)).memory_needed); });
  };
  const auto usual = [&](const char* plan) {
    return ask([&](Predictor& p) { return usual_remedy(p, plan::parse_plan(plan), plan::named_keys(plan)); });
  };
  const double given = bytes("dp=2,tp=4"), with = bytes("dp=2,tp=4,zero=1,sequence_parallel=on");
  REQUIRE(with < given);
  CHECK_FALSE(usual("dp=2,tp=4").has_value());  // it fits
  platform.nodes.front().device.memory.value = Bytes(1.001 * with);
  const auto remedy = usual("dp=2,tp=4");
  REQUIRE(remedy.has_value());
  CHECK(remedy->changes == std::vector<std::string>{"sequence_parallel=on", "zero=1"});
  CHECK(remedy->assessment.plan == plan::parse_plan("dp=2,tp=4,zero=1,sequence_parallel=on"));
  CHECK_FALSE(usual("dp=2,tp=4,zero=0").has_value());  // asked for so, and the other key alone is not enough
  platform.nodes.front().device.memory.value = Bytes(0.999 * with);
  CHECK_FALSE(usual("dp=2,tp=4").has_value());  // so little is missing that it may fit as it is written
  const double margin = ask([](Predictor& p) { return p.closed(plan::parse_plan("dp=2,tp=4")).memory_margin; });
  platform.nodes.front().device.memory.value = Bytes(0.999 * given / (1 + margin));
  CHECK(usual("dp=2,tp=4").has_value());  // it cannot, and as recipes have it it may
  platform.nodes.front().device.memory.value = Bytes(0.999 * with / (1 + margin));
  CHECK_FALSE(usual("dp=2,tp=4").has_value());
}

TEST_CASE("a pipeline that says no schedule and fits only as recipes have it is cut into the chunks that they have") {
  // 16 blocks on 2 stages: 4 chunks of two blocks each; 8 micro-batches go round 2 stages.
  auto platform = platforms::with_devices(platforms::load("dgx-h100"), 8);
  const auto ask = [&](const char* framework, const auto& question) {
    const auto predictor =
        framework_predictor({graph::zoo::build("gpt?layers=16&hidden=1024&heads=16&seq=512&vocab=1000", 32), "bf16", "adam"}, platform,
                            *costmodel::find_framework(framework));
    return question(*predictor);
  };
  using Changes = std::vector<std::string>;
  const auto chunks = [&](const char* framework, const char* plan) {
    return ask(framework, [&](Predictor& p) {
      const auto usual = with_usual_chunks(p, {plan::parse_plan(plan), {}}, plan::named_keys(plan));
      return usual ? usual->changes : Changes{};
    });
  };
  CHECK(chunks("nemo", "dp=4,pp=2,micro_batch=1") == Changes{"schedule=interleaved,interleave=4"});
  CHECK(chunks("nemo", "dp=4,pp=2,micro_batch=1,schedule=1f1b").empty());
  CHECK(chunks("nemo", "dp=4,pp=2,micro_batch=1,interleave=1").empty());
  CHECK(chunks("nemo", "dp=4,pp=2,micro_batch=8").empty());  // one micro-batch cannot go round
  CHECK(chunks("nemo", "dp=8,micro_batch=1").empty());
  CHECK(chunks("megatron", "dp=4,pp=2,micro_batch=1").empty());  // its recipes leave stages whole
  CHECK(usual_chunks(96, 8) == 6);                               // 12 blocks a stage
  CHECK(usual_chunks(80, 2) == 8);                               // 20 chunks of two would be more than 8
  CHECK(usual_chunks(12, 12) == 1);                              // a block is not cut

  // Chunks hold more activations: with memory between the two the keys alone are taken, with more of it both.
  const std::string plan = "dp=4,pp=2,micro_batch=2", keys = plan + ",zero=1", both = keys + ",schedule=interleaved,interleave=4";
  const auto bytes = [&](const std::string& text) {
    return ask("nemo", [&](Predictor& p) { return static_cast<double>(p.closed(plan::parse_plan(text)).memory_needed); });
  };
  const double given = bytes(plan), without = bytes(keys), with = bytes(both);
  REQUIRE(without < with);
  REQUIRE(with < given);
  const auto remedy_in = [&](double memory) {
    platform.nodes.front().device.memory.value = Bytes(memory);
    return ask("nemo", [&](Predictor& p) { return usual_remedy(p, plan::parse_plan(plan), plan::named_keys(plan))->changes; });
  };
  CHECK(remedy_in((without + with) / 2) == Changes{"zero=1"});
  CHECK(remedy_in(1.001 * with) == Changes{"zero=1", "schedule=interleaved,interleave=4"});
}

TEST_CASE("two profiles never claim one generation for one kind of models") {
  for (std::size_t kind = 0; kind < costmodel::kModelKinds; ++kind) {
    std::vector<std::string> claimed;
    for (const auto& profile : costmodel::framework_profiles())
      claimed.insert(claimed.end(), profile.usual_on[kind].begin(), profile.usual_on[kind].end());
    std::ranges::sort(claimed);
    CHECK(std::ranges::adjacent_find(claimed) == claimed.end());
    CHECK(std::ranges::count(claimed, "") == 1);
  }
}

TEST_CASE("attention is fused by default on devices for which such kernels were written, and not before") {
  const auto attention = [](const char* device) {
    return costmodel::usual_framework(platforms::load_device(device), ModelKind::Decoder).attention;
  };
  for (const auto* device : {"A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB", "MI300X-192GB", "RTX-4090-24GB"})
    CHECK(attention(device) == costmodel::AttentionKernel::FlashTuned);
  for (const auto* device : {"V100-SXM2-16GB", "P100-SXM2-16GB"}) CHECK(attention(device) == costmodel::AttentionKernel::Plain);
}

TEST_CASE("of a mixed platform the framework of most devices is meant, whatever the order of nodes") {
  auto mixed = platforms::load("dgx-a100", {});
  mixed.nodes.push_back(platforms::load("dgx1-v100", {}).nodes.front());
  const auto usual = [&] { return usual_framework(mixed, ModelKind::Decoder, platforms::device_count(mixed)).name; };
  mixed.nodes[0].count = 3, mixed.nodes[1].count = 1;
  CHECK(usual() == "megatron-core");
  mixed.nodes[1].count = 4;
  CHECK(usual() == "megatron");
  mixed.nodes[0].count = 4;
  const auto name = usual();
  std::swap(mixed.nodes[0], mixed.nodes[1]);
  CHECK(usual() == name);
}

TEST_CASE("devices that a plan leaves idle say nothing about the framework") {
  auto mixed = platforms::load("dgx-a100", {});
  mixed.nodes.push_back(platforms::load("dgx1-v100", {}).nodes.front());
  mixed.nodes[0].count = 1, mixed.nodes[1].count = 4;
  const auto usual = [&](int ranks) { return usual_framework(mixed, ModelKind::Decoder, ranks).name; };
  CHECK(usual(8) == "megatron-core");
  CHECK(usual(15) == "megatron-core");  // seven of them are V100s
  CHECK(usual(17) == "megatron");
  // Every plan is answered so, whatever was asked before.
  const auto model = graph::zoo::build("gpt?layers=2&hidden=64&heads=2&seq=16&vocab=64", 32);
  PredictorsByFramework predictors;
  for (const auto* framework : usual_frameworks(mixed, model))
    predictors[framework] = framework_predictor({model, "f16", "adamw"}, mixed, *framework);
  CHECK(predictors.size() == 4);  // plain and sharded, on either device
  const auto predictor = usual_predictor(std::move(predictors), *costmodel::find_framework("megatron"));
  for (const auto& [plan, framework] : {std::pair{"dp=8,micro_batch=1", "megatron-core"}, std::pair{"dp=32,micro_batch=1", "megatron"},
                                        std::pair{"dp=8,zero=3", "composer"}, std::pair{"dp=32,zero=3", "deepspeed"}}) {
    CHECK(predictor->framework_for(plan::parse_plan(plan)).name == framework);
    CHECK(predictor->closed(plan::parse_plan(plan)).framework == framework);
  }
}

TEST_CASE("answers say how many published times of the framework were on the device, and else of others") {
  const auto& runs = costmodel::published_constants().evidence.runs;
  REQUIRE_FALSE(runs.empty());
  const auto& first = runs.front();
  const auto here = grounds_of(*costmodel::find_framework(first.framework), platforms::load_device(first.device));
  CHECK(here.times == first.times);
  CHECK(here.median_error == first.median_error);
  CHECK_THAT(here.sentence, contains(first.device));
  // A release of which there are no times on a device rests on those of what it is a release of.
  const auto seen_on_b200 = std::ranges::find_if(runs, [](const auto& r) { return r.framework == "nemo" && r.device == "B200-SXM-180GB"; });
  REQUIRE(seen_on_b200 != runs.end());
  const auto release = grounds_of(*costmodel::find_framework("nemo-26.06"), platforms::load_device("B200-SXM-180GB"));
  CHECK(release.times == seen_on_b200->times);
  CHECK_THAT(release.sentence, contains("of nemo on B200-SXM-180GB") && contains("none there of its release nemo-26.06"));
  const auto elsewhere = grounds_of(*costmodel::find_framework("nemo"), platforms::load_device("MI300X-192GB"));
  CHECK_THAT(elsewhere.sentence, contains("other devices") && contains("none on MI300X"));
  const auto none = grounds_of(*costmodel::find_framework("habana"), platforms::load_device("Gaudi2-96GB"));
  CHECK(none.times == 0);
  CHECK_THAT(none.sentence, contains("no published time"));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
