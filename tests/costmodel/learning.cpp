// What samples from training say of operators and families of them, by hand.
#include "costmodel/learning.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/cost_model.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

constexpr double kPriorOfFamily = 0.3, kPriorOfOperator = 0.15;

platforms::Device chip() {
  platforms::Device device;
  device.name = "chip";
  device.peaks.emplace("f32", FlopsPerSecond(1e12));
  device.memory_bandwidth = BytesPerSecond(300e9);
  return device;
}

Sample benchmark(const std::string& op, const std::string& shape, double seconds) {
  Sample s;
  s.kernel = {op, "", shape, graph::CostFamily::Elementwise, {Flops(1e6), Bytes(1e6)}, DType::F32, 1};
  s.count = 10;
  s.cpu_median = s.wall_median = Seconds(seconds);
  return s;
}

/// Of a kernel that a benchmark measured at `alone` seconds, in training.
Sample trained(Sample s, double seconds, std::int64_t count) {
  s.from_training = true;
  s.count = count;
  s.cpu_median = s.wall_median = Seconds(seconds);
  return s;
}

/// Kernels of two operators that take 1 s alone, and what they take in training, how often.
Calibration learned(const std::vector<std::pair<double, std::int64_t>>& of_relu,
                    const std::vector<std::pair<double, std::int64_t>>& of_gelu) {
  Calibration c;
  const auto add = [&](const char* op, const auto& seen) {
    for (std::size_t n = 0; n < seen.size(); ++n) {
      const auto alone = benchmark(op, std::to_string(n), 1);
      c.samples.push_back(alone);
      if (seen[n].first >= 0) c.samples.push_back(trained(alone, seen[n].first, seen[n].second));
    }
  };
  add("Relu", of_relu);
  add("Gelu", of_gelu);
  learn_kernel_corrections(c, chip(), "f32");
  return c;
}

const Correction& of(const Calibration& c, const std::string& scope) {
  const auto at = std::ranges::find(c.corrections, scope, &Correction::scope);
  REQUIRE(at != c.corrections.end());
  return *at;
}

/// What robust_mean() says of logarithms with weights: mean, variance and effective number.
struct Weighed {
  double mean = 0, variance = 0, count = 0;
};
Weighed weighed(const std::vector<std::pair<double, double>>& logs) {
  double weight = 0, sum = 0, square = 0, squares = 0;
  for (const auto& [x, w] : logs) weight += w, sum += w * x, square += w * x * x, squares += w * w;
  return {sum / weight, square / weight - sum / weight * sum / weight, weight * weight / squares};
}

TEST_CASE("an operator's correction weighs its kernels by the time that they were seen to take") {
  // 1.2 s once and 1.5 s three times: weights 1.2 and 4.5, effective number 5.7² / (1.2² + 4.5²) = 1.4980. The family has this one vote, of
  // four with its prior.
  const auto c = learned({{1.2, 1}, {1.5, 3}}, {});
  const auto relu = weighed({{std::log(1.2), 1.2}, {std::log(1.5), 4.5}});
  CHECK(relu.count == Approx(1.4980).epsilon(1e-4));
  const double family = relu.mean / 4;
  CHECK(std::log(of(c, "family:elementwise").factor) == Approx(family));
  CHECK(of(c, "family:elementwise").log_error == Approx(std::sqrt(0.75) * kPriorOfFamily));
  CHECK(of(c, "family:elementwise").observations == 1);
  CHECK(of(c, "family:elementwise").threads == 1);
  const double share = relu.count / (relu.count + 1);
  CHECK(std::log(of(c, "op:Relu").factor) == Approx(family + share * (relu.mean - family)));
  CHECK(of(c, "op:Relu").log_error == Approx(std::sqrt(share * relu.variance + (1 - share) * kPriorOfOperator * kPriorOfOperator)));
  CHECK(of(c, "op:Relu").observations == 1);
  // Of a kernel that was seen no time, as some traces say, as of one that was seen once.
  CHECK(of(learned({{1.2, 0}, {1.5, 3}}, {}), "op:Relu").factor == of(c, "op:Relu").factor);
}

TEST_CASE("operators of a family have a vote each, and are drawn to their mean") {
  const auto c = learned({{1.2, 1}, {1.2, 1}}, {{2, 8}});
  const double relu = std::log(1.2), gelu = std::log(2);
  // Two votes of five with the prior's three; far apart by less than e of the middle one.
  const double family = (relu + gelu) / 2 * 2 / 5, variance = std::pow((gelu - relu) / 2, 2);
  CHECK(std::log(of(c, "family:elementwise").factor) == Approx(family));
  CHECK(of(c, "family:elementwise").log_error == Approx(std::sqrt(0.4 * variance + 0.6 * kPriorOfFamily * kPriorOfFamily)));
  CHECK(std::log(of(c, "op:Relu").factor) == Approx(family + 2.0 / 3 * (relu - family)));
  CHECK(std::log(of(c, "op:Gelu").factor) == Approx(family + 1.0 / 2 * (gelu - family)));
  CHECK(of(c, "op:Gelu").log_error == Approx(std::sqrt(0.5) * kPriorOfOperator));
}

TEST_CASE("a kernel far from the others of its operator is clipped to a factor e of the middle one") {
  // 1, 1 and 10 times as long with weights 1, 1 and 10: the middle one is the last, whose logarithm 2.3 draws the others up to 1.3.
  const double far = std::log(10.0);
  const auto c = learned({{1, 1}, {1, 1}, {10, 1}}, {});
  const auto relu = weighed({{far - 1, 1}, {far - 1, 1}, {far, 10}});
  const double family = relu.mean / 4, share = relu.count / (relu.count + 1);
  CHECK(std::log(of(c, "op:Relu").factor) == Approx(family + share * (relu.mean - family)));
  // 1, 1, 1 with weights 9 in all and 2.7 with 2.7: clipped from below.
  const double near = std::log(2.9);
  const auto other = learned({{1, 3}, {1, 3}, {1, 3}, {2.9, 1}}, {});
  const auto mean = weighed({{0, 3}, {0, 3}, {0, 3}, {1, 2.9}});
  CHECK(near > 1);
  CHECK(std::log(of(other, "family:elementwise").factor) == Approx(mean.mean / 4));
  // More than e^3 times as long says that it was disturbed: no more than that counts.
  const auto disturbed = learned({{100, 1}}, {});
  CHECK(std::log(of(disturbed, "family:elementwise").factor) == Approx(3.0 / 4));
  const auto quick = learned({{0.001, 1}}, {});
  CHECK(std::log(of(quick, "family:elementwise").factor) == Approx(-3.0 / 4));
}

TEST_CASE("what was not seen in training, or in no time, says nothing") {
  CHECK(learned({{-1, 0}}, {}).corrections.empty());
  CHECK(learned({{0, 5}}, {}).corrections.empty());
}

TEST_CASE("operators that no benchmark measured tell about themselves alone") {
  Calibration c;
  c.samples.push_back(benchmark("Relu", "a", 1));
  c.samples.push_back(trained(benchmark("Relu", "a", 1), 1.2, 4));
  c.samples.push_back(trained(benchmark("Gelu", "a", 1), 3, 4));
  learn_kernel_corrections(c, chip(), "f32");
  CHECK(std::log(of(c, "family:elementwise").factor) == Approx(std::log(1.2) / 4));
  CHECK(of(c, "op:Gelu").factor > of(c, "op:Relu").factor);
  // Where benchmarks measured nothing of the family, what training says of all of it counts.
  Calibration alone;
  alone.samples.push_back(trained(benchmark("Gelu", "a", 1), 3, 4));
  learn_kernel_corrections(alone, chip(), "f32");
  CHECK(of(alone, "family:elementwise").factor > 1.5);
}

TEST_CASE("a time that was not measured leaves the other, in either order") {
  const auto merged = [](double first, double second) {
    Calibration c;
    auto s = trained(benchmark("Relu", "a", 1), 1, 4);
    s.cpu_min = Seconds(first), s.cpu_quartile = Seconds(2 * first), s.wall_min = Seconds(3 * first);
    (void)merge_sample(c, s);
    s.cpu_min = Seconds(second), s.cpu_quartile = Seconds(2 * second), s.wall_min = Seconds(3 * second);
    CHECK_FALSE(merge_sample(c, s));
    CHECK(c.samples.front().cpu_quartile.value() == Approx(2 * c.samples.front().cpu_min.value()));
    CHECK(c.samples.front().wall_min.value() == Approx(3 * c.samples.front().cpu_min.value()));
    return c.samples.front().cpu_min.value();
  };
  CHECK(merged(0, 0.5) == 0.5);
  CHECK(merged(0.5, 0) == 0.5);
  CHECK(merged(0, 0) == 0);
  CHECK(merged(0.5, 2) == Approx(1));  // the geometric mean of as many
}

TEST_CASE("what training taught is taken back, and benchmarks stay") {
  auto c = learned({{1.2, 1}, {1.5, 3}}, {{2, 8}});
  const auto samples = std::ranges::count(c.samples, false, &Sample::from_training);
  REQUIRE(samples < static_cast<std::ptrdiff_t>(c.samples.size()));
  forget_training(c);
  CHECK(std::ranges::ssize(c.samples) == samples);
  CHECK(c.corrections.empty());
  CHECK_FALSE(c.fits.empty());
}

}  // namespace
}  // namespace rehearsal::costmodel
