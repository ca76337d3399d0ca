// Which framework is meant where none is named.
#include "predict/frameworks/usual.hpp"

#include <algorithm>

#include "costmodel/constants.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"
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
    for (const auto kind : {ModelKind::Decoder, ModelKind::Other}) {
      INFO(name);
      const auto device = platforms::load_device(name);
      const auto& usual = costmodel::usual_framework(device, kind);
      CHECK((usual.name == "rehearse") == (device.kind == platforms::DeviceKind::Cpu));
      // It can do what plans ask for: a plan without --framework is not refused for a key.
      CHECK(usual.parallelism.empty());
    }
}

TEST_CASE("two profiles never claim one generation for one kind of models") {
  for (std::size_t kind = 0; kind < 2; ++kind) {
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
  mixed.nodes[0].count = 3, mixed.nodes[1].count = 1;
  CHECK(usual_framework(mixed, ModelKind::Decoder).name == "megatron-core");
  mixed.nodes[1].count = 4;
  CHECK(usual_framework(mixed, ModelKind::Decoder).name == "megatron");
  mixed.nodes[0].count = 4;
  const auto name = usual_framework(mixed, ModelKind::Decoder).name;
  std::swap(mixed.nodes[0], mixed.nodes[1]);
  CHECK(usual_framework(mixed, ModelKind::Decoder).name == name);
}

TEST_CASE("answers say how many published times of the framework were on the device, and else of others") {
  const auto& runs = costmodel::published_constants().evidence.runs;
  REQUIRE_FALSE(runs.empty());
  const auto& first = runs.front();
  const auto here = grounds_of(*costmodel::find_framework(first.framework), platforms::load_device(first.device));
  CHECK(here.times == first.times);
  CHECK(here.median_error == first.median_error);
  CHECK_THAT(here.sentence, contains(first.device));
  const auto elsewhere = grounds_of(*costmodel::find_framework("nemo"), platforms::load_device("MI300X-192GB"));
  CHECK_THAT(elsewhere.sentence, contains("other devices") && contains("none on MI300X"));
  const auto none = grounds_of(*costmodel::find_framework("habana"), platforms::load_device("Gaudi2-96GB"));
  CHECK(none.times == 0);
  CHECK_THAT(none.sentence, contains("no published time"));
}

}  // namespace
}  // namespace rehearsal::predict::frameworks
