// Intervals of what was left out, and publications.

#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"
#include "validation/constants_fit.hpp"
#include "validation/intervals.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {
namespace {

TEST_CASE("intervals hold nine tenths of the left-out residuals") {
  std::vector<FittedQuantity> quantities;
  for (int i = 1; i <= 100; ++i) {
    FittedQuantity q;
    q.group = "memory";
    q.source = "s" + std::to_string(i % 10);
    q.left_out = i / 100.0;
    quantities.push_back(q);
  }
  costmodel::FittedEvidence evidence;
  evidence.log_factor["default"] = 1;
  const double coverage = set_intervals(evidence, quantities).coverage;
  CHECK(evidence.of("memory") == Approx(0.9));  // the 90th of 100 residuals 0.01, 0.02, ...
  CHECK(coverage == Approx(0.9).margin(0.02));
}

/// Eight sources measured each of ten devices once, and all were off by 0.1. Without a device's quantities two of the devices are further
/// off, by 0.3 and 0.9.
std::vector<FittedQuantity> ten_devices() {
  std::vector<FittedQuantity> quantities;
  for (int device = 0; device < 10; ++device)
    for (int source = 0; source < 8; ++source) {
      FittedQuantity q;
      q.group = "transformer";
      q.source = "s" + std::to_string(source);
      q.traits.names = {"d" + std::to_string(device), "torch", "16-bit", "decoder"};
      q.left_out = 0.1;
      q.without = {device == 9 ? 0.9 : device == 8 ? 0.3 : 0.1, 0.1, 0.1, 0.1};
      quantities.push_back(q);
    }
  return quantities;
}

TEST_CASE("an interval is so much wider for a new device that nine of ten devices left out are held") {
  costmodel::FittedEvidence evidence;
  evidence.log_factor["default"] = 1;
  const auto check = set_intervals(evidence, ten_devices());
  CHECK(evidence.of("transformer") == 0.1);
  REQUIRE(evidence.kinds.size() == 10);
  CHECK(evidence.kinds.front().times == 8);
  CHECK(evidence.kinds.front().error == Approx(0.1));
  // The group counts eight times and runs that are alike, 1.645 · 0.1 wide, sixteen times: sqrt((8 · 0.01 + 16 · 0.02706) / 24) = 0.1462,
  // of which 0.1 is 0.684.
  CHECK(evidence.level == Approx(0.6840).epsilon(1e-3));
  // Left out in turn the devices are 1 (eight of them), 3 and 9 times as far off as that is wide; nine of ten are within 3.
  using costmodel::Novelty;
  CHECK(evidence.widening[static_cast<std::size_t>(Novelty::Device)] == Approx(3));
  CHECK(evidence.widening[static_cast<std::size_t>(Novelty::Framework)] == 1);  // there is but one
  CHECK(evidence.widening[static_cast<std::size_t>(Novelty::Devices)] == 1);    // none is larger
  const auto family = [&](const std::string& name) {
    return *std::ranges::find_if(check.families, [&](const auto& f) { return f.by == "device" && f.name == name; });
  };
  CHECK(family("d0").quantities == 8);
  CHECK(family("d0").held == 1);
  CHECK(family("d0").median_ratio == Approx(std::exp(2 * 0.3)));  // three times 0.1 to either side
  CHECK(family("d9").held == 0);
}

TEST_CASE("an interval is wider for larger runs than were published where larger ones were further off") {
  costmodel::FittedEvidence evidence;
  evidence.log_factor["default"] = 1;
  auto quantities = ten_devices();
  for (auto& q : quantities) q.traits.names.front() = "d";
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    const bool large = i % 8 < 4;  // of half of the sources
    quantities[i].traits.devices = large ? 64 : 1;
    quantities[i].left_out = large ? 0.2 : 0.1;
  }
  static_cast<void>(set_intervals(evidence, quantities));
  // From runs on one device the group's 0.1 and what they were off by make 0.1462 (as above). From all of them the group is 0.2, the root
  // of the mean square of 0.1 and 0.2 is 0.1581, times 1.645 is 0.2601: sqrt((8 · 0.04 + 16 · 0.06765) / 24) = 0.2416, and the level, by
  // the larger errors, about 0.2 / 0.2416 = 0.83 (a source that is left out shifts it). 0.2 / (0.83 · 0.1462) = 1.65.
  CHECK(evidence.widening[static_cast<std::size_t>(costmodel::Novelty::Devices)] == Approx(1.65).epsilon(0.05));
}

TEST_CASE("a publication is one repository's document") {
  Record r;
  r.source = "NVIDIA/DeepLearningExamples (commit 729963dd) PyTorch/Classification/ConvNets/resnet50v1.5/README.md, training";
  CHECK(publication_of(r) == "NVIDIA/DeepLearningExamples PyTorch/Classification/ConvNets");
  r.source = "Narayanan et al. 2021 (arXiv 2104.04473) Table 2";
  CHECK(publication_of(r) == "Narayanan et al. 2021");
}

}  // namespace
}  // namespace rehearsal::validation
