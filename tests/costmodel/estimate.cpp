// How errors of many estimates add up.
#include "costmodel/interval.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

TEST_CASE("errors add up within a mechanism and are independent between mechanisms") {
  Total total;
  total.add({Seconds(3), Mechanism::MatrixRate, 0.1, Evidence::Exact});
  total.add({Seconds(1), Mechanism::MatrixRate, 0.3, Evidence::Fitted});
  total.add({Seconds(4), Mechanism::MemoryRate, 0.2, Evidence::Datasheet});
  CHECK(total.seconds().value() == Approx(8));
  // Products (3·0.1 + 1·0.3) / 8 = 0.075, traffic 4·0.2 / 8 = 0.1; sqrt(0.075² + 0.1²) = 0.125.
  CHECK(total.log_error() == Approx(0.125));
  const auto interval = total.interval();
  CHECK(interval.value == Approx(8));
  CHECK(interval.low == Approx(8 * std::exp(-1.6448536 * 0.125)));
  CHECK(interval.high == Approx(8 * std::exp(1.6448536 * 0.125)));
  const auto evidence = total.evidence();
  CHECK(evidence[0] == Approx(3.0 / 8));
  CHECK(evidence[1] == Approx(1.0 / 8));
  CHECK(evidence[2] == Approx(4.0 / 8));
}

TEST_CASE("the same kernel many times is as unsure as once") {
  Total once, often, layers;
  const Estimate kernel{Seconds(2e-3), Mechanism::Launch, 0.2, Evidence::Exact};
  once.add(kernel);
  often.add(kernel, 50);
  layers.add(once, 50);
  for (const auto* total : {&often, &layers}) {
    CHECK(total->seconds().value() == Approx(0.1));
    CHECK(total->log_error() == Approx(0.2));
    CHECK(total->evidence()[0] == Approx(1));
  }
  // 6 ms of products at 0.1 and 2 ms of traffic at 0.3: 0.6 / 8 each.
  Total layer, step;
  layer.add({Seconds(2e-3), Mechanism::MatrixRate, 0.1, Evidence::Fitted});
  step.add(layer, 3);
  step.add({Seconds(2e-3), Mechanism::MemoryRate, 0.3, Evidence::Datasheet});
  CHECK(step.log_error() == Approx(0.075 * std::sqrt(2.0)));
  CHECK(step.evidence()[1] == Approx(0.75));
}

TEST_CASE("time that overlaps is taken off again, and makes nothing surer") {
  Total total;
  total.add({Seconds(4), Mechanism::MatrixRate, 0.1, Evidence::Exact});
  total.add({Seconds(-1), Mechanism::LinkBandwidth, 0.3, Evidence::Fitted});
  CHECK(total.seconds().value() == Approx(3));
  CHECK(total.log_error() == Approx(std::sqrt(0.4 * 0.4 + 0.3 * 0.3) / 3));
  CHECK(total.evidence()[0] == Approx(0.8));
}

TEST_CASE("a factor on the whole brings its own error") {
  Total total;
  total.add({Seconds(2), Mechanism::MatrixRate, 0.3, Evidence::Exact});
  total.scale(1.5, Mechanism::Composition, 0.4);
  CHECK(total.seconds().value() == Approx(3));
  CHECK(total.log_error() == Approx(0.5));  // sqrt(0.3² + 0.4²)
  total.add({Seconds(1), Mechanism::MemoryRate, 0, Evidence::Datasheet});
  CHECK(total.evidence()[0] == Approx(0.75));
}

TEST_CASE("of nothing there is no error, and it rests on nothing") {
  const Total nothing;
  CHECK(nothing.log_error() == 0);
  CHECK(nothing.interval().high == 0);
  for (const double share : nothing.evidence()) CHECK(share == 0);
}

}  // namespace
}  // namespace rehearsal::costmodel
