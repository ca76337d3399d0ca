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
    q.group = "g";
    q.source = "s" + std::to_string(i % 10);
    q.left_out = i / 100.0;
    quantities.push_back(q);
  }
  costmodel::FittedEvidence evidence;
  evidence.log_factor["default"] = 1;
  const double coverage = set_intervals(evidence, quantities);
  CHECK(evidence.of("g") == Approx(0.9));  // the 90th of 100 residuals 0.01, 0.02, ...
  CHECK(coverage == Approx(0.9).margin(0.02));
}

TEST_CASE("an interval is drawn to what published times of the framework were off by") {
  costmodel::FittedEvidence evidence;
  evidence.log_factor = {{"default", 0.45}, {"transformer", 0.3}};
  evidence.devices = {"A", "B"};
  evidence.frameworks = {"f", "g"};
  evidence.runs = {{"f", "A", 8, 0.1}, {"f", "B", 100, 0.5}, {"g", "B", 2, 0.2}};
  const auto width = [&](const std::string& framework, const std::string& device) {
    platforms::Device named;
    named.name = device;
    return evidence.half_width("transformer", framework, named);
  };
  // ln 1.1 is 0.0953, and 1.645 / 0.674 times that 0.2326: sqrt((8 0.3^2 + 8 0.2326^2) / 16)
  CHECK(width("f", "A") == Approx(0.2684).epsilon(1e-3));
  // ln 1.5 is 0.4055, drawn out 0.9896; 100 times count as 16: sqrt((8 0.3^2 + 16 0.9896^2) / 24)
  CHECK(width("f", "B") == Approx(0.8264).epsilon(1e-3));
  // None on A; ln 1.2 is 0.1823, drawn out 0.4450; two times: sqrt((8 0.3^2 + 2 0.4450^2) / 10)
  CHECK(width("g", "A") == Approx(0.3341).epsilon(1e-3));
  // A device that nobody ran on is wider by 1.5: sqrt((8 (1.5 0.3)^2 + 2 0.4450^2) / 10), but never surer than the worst of those with
  // runs.
  CHECK(width("g", "C") == Approx(0.4490).epsilon(1e-3));
  CHECK(width("f", "C") == width("f", "B"));
  CHECK(width("h", "A") == Approx(0.3 * 1.3));  // a framework without any
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
