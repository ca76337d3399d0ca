#include "base/statistics.hpp"

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("medians of an even number are the upper one of the middle two, or the lower one") {
  CHECK(median_of({3, 1, 2}) == 2);
  CHECK(lower_median_of({3, 1, 2}) == 2);
  CHECK(median_of({4, 1, 3, 2}) == 3);
  CHECK(lower_median_of({4, 1, 3, 2}) == 2);
  CHECK(median_of({7}) == 7);
  CHECK(lower_median_of({7}) == 7);
}

TEST_CASE("quantiles are values that are there") {
  const std::vector<double> values{50, 10, 40, 20, 30, 80, 70, 60};
  CHECK(quantile_of(values, 0) == 10);
  CHECK(quantile_of(values, 0.25) == 30);  // two of eight are less
  CHECK(inner_quantile_of(values, 0.25) == 20);
  CHECK(quantile_of(values, 0.75) == 70);
  CHECK(inner_quantile_of(values, 0.75) == 60);
  CHECK(quantile_of(values, 1) == 80);
  CHECK(inner_quantile_of(values, 1) == 80);
}

TEST_CASE("of nothing everything is 0") {
  CHECK(mean_of({}) == 0);
  CHECK(median_of({}) == 0);
  CHECK(lower_median_of({}) == 0);
  CHECK(quantile_of({}, 0.25) == 0);
  CHECK(inner_quantile_of({}, 0.25) == 0);
  CHECK(log_deviation(0, 1) == 0);
}
