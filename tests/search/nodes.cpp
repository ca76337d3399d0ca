// Groups of several kinds of nodes: what a search finds does not depend on the order in which they are listed.
#include "base/random.hpp"
#include "tests/catch.hpp"
#include "tests/search/oracle.hpp"

using namespace rehearsal;
using namespace rehearsal::search;
using namespace rehearsal::search::oracle;

namespace {

struct KindOfNode {
  const char* of;
  int devices, count;
};

/// Nodes of the catalogue with so many devices each, on one switch.
platforms::Platform mixed(const std::vector<KindOfNode>& kinds) {
  auto platform = platforms::load("v100-pcie-4x-10gbe");
  platform.nodes.clear();
  for (const auto& kind : kinds) {
    auto& nodes = platform.nodes.emplace_back(platforms::load(kind.of).nodes.front());
    nodes.devices = kind.devices;
    nodes.count = kind.count;
    nodes.intra.wires.clear();
    nodes.intra.kind = platforms::IntraKind::Nvswitch;
  }
  return platform;
}

double quickest(const platforms::Platform& platform, bool own) {
  const std::vector<std::string> free{"dp", "tp", "pp", "zero", "micro_batch", "fill"};
  if (own) {
    OwnExecution setting(4, "gpt?layers=2&hidden=128&heads=4&seq=32&vocab=96", 4);
    setting.set_platform(platform);
    return found(*setting.predictor(), "time", free).plans.front().answer.step.value();
  }
  const auto predictor = predict::frameworks::framework_predictor(
      {graph::zoo::build("gpt?layers=8&hidden=1024&heads=16&seq=512&vocab=8192", 16), "f16", "adam"}, platform,
      *costmodel::find_framework("megatron-core"));
  return found(*predictor, "time", free).plans.front().answer.step.value();
}

/// Four pairs, each in both orders.
void check_pairs(bool own, int most_devices) {
  constexpr const char* kOf[] = {"dgx-a100", "dgx1-v100", "dgx-h100", "l40s-4x", "dgx1-p100"};
  std::uint64_t drawn = 0;
  const auto below = [&](int n) { return static_cast<int>(random_uniform(2026, 15, drawn++) * n); };
  for (int pair = 0; pair < 4; ++pair) {
    const int first = below(5), second = (first + 1 + below(4)) % 5;
    const KindOfNode a{kOf[first], 1 + below(most_devices), 1}, b{kOf[second], 1 + below(most_devices), 1 + below(2)};
    CAPTURE(a.of, a.devices, b.of, b.devices, b.count);
    CHECK(quickest(mixed({a, b}), own) == Approx(quickest(mixed({b, a}), own)).epsilon(1e-9));
  }
}

}  // namespace

TEST_CASE("a search finds the same on random pairs of groups, whichever is listed first") { check_pairs(false, 4); }

TEST_CASE("so does one of our own execution", "[slow]") { check_pairs(true, 2); }

TEST_CASE("of three groups a search takes the order that is best, and of devices in excess the quickest") {
  const std::vector<KindOfNode> kinds{{"dgx1-p100", 2, 1}, {"dgx1-v100", 2, 1}, {"dgx-a100", 2, 1}};
  const auto all = mixed(kinds);
  CHECK(quickest(all, false) == Approx(quickest(mixed({kinds[2], kinds[0], kinds[1]}), false)).epsilon(1e-9));
  const auto two = platforms::with_limits(all, {}, 2);
  CHECK(quickest(two, false) == Approx(quickest(mixed({kinds[2]}), false)).epsilon(1e-9));
  CHECK(quickest(platforms::with_limits(all, 1, {}), false) == Approx(quickest(mixed({kinds[2]}), false)).epsilon(1e-9));
}

TEST_CASE("ranks of tensor parallelism may fill the largest node, wherever it is listed") {
  const auto platform = mixed({{"dgx1-v100", 1, 1}, {"dgx-h100", 4, 1}});
  OwnExecution setting;
  setting.set_platform(platform);
  const auto predictor = setting.predictor();
  const PlanSpace space(*predictor, {}, {{"dp", "tp"}, {}});
  CHECK(std::ranges::count_if(space.shapes(), [](const plan::Plan& p) { return p.tp == 4; }) == 1);
}
