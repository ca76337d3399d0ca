// The order of samples.
#include "exec/data/order.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/catch.hpp"

using rehearsal::exec::SampleOrder;

namespace {

std::vector<std::int64_t> epoch(const SampleOrder& order, std::int64_t samples, std::int64_t number) {
  std::vector<std::int64_t> rows;
  for (std::int64_t n = 0; n < samples; ++n) rows.push_back(order.row(number * samples + n));
  return rows;
}

}  // namespace

TEST_CASE("an epoch has every sample once") {
  for (const std::int64_t samples : {1, 2, 3, 5, 16, 17, 48, 1000}) {
    const SampleOrder order(samples, 7, true);
    std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    for (std::int64_t number = 0; number < 3; ++number) {
      auto rows = epoch(order, samples, number);
      std::sort(rows.begin(), rows.end());
      CHECK(rows == all);
    }
  }
}

TEST_CASE("orders of epochs and seeds differ, the same are the same") {
  const SampleOrder order(1000, 7, true);
  CHECK(epoch(order, 1000, 0) != epoch(order, 1000, 1));
  CHECK(epoch(order, 1000, 0) != epoch(SampleOrder(1000, 8, true), 1000, 0));
  CHECK(epoch(order, 1000, 4) == epoch(SampleOrder(1000, 7, true), 1000, 4));
}

TEST_CASE("without shuffling, rows come as they are stored") {
  const SampleOrder order(5, 7, false);
  CHECK(order.row(3) == 3);
  CHECK(order.row(13) == 3);  // of the third epoch
}

TEST_CASE("a sample is as far from its place as chance has it, and not near its neighbour") {
  constexpr std::int64_t kSamples = 1000, kEpochs = 20;
  const SampleOrder order(kSamples, 3, true);
  double far = 0, step = 0;
  for (std::int64_t number = 0; number < kEpochs; ++number) {
    const auto rows = epoch(order, kSamples, number);
    for (std::size_t n = 0; n < rows.size(); ++n) {
      far += static_cast<double>(std::abs(rows[n] - static_cast<std::int64_t>(n))) / (kSamples * kEpochs);
      step += static_cast<double>(std::abs(rows[n] - rows[(n + 1) % rows.size()])) / (kSamples * kEpochs);
    }
  }
  // Of two places drawn evenly among n: (n - 1/n) / 3, and (n + 1) / 3 of two that differ.
  CHECK(far == Approx(333).epsilon(0.03));
  CHECK(step == Approx(333.7).epsilon(0.03));
}
