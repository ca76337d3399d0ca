// The chance that a plan runs out of memory.
#include "predict/memory_risk.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

Assessment needs(std::int64_t low, std::int64_t bytes, std::int64_t high, std::int64_t capacity) {
  Assessment a;
  a.memory_low = low;
  a.memory_bytes = bytes;
  a.memory_high = high;
  a.memory_capacity = capacity;
  return a;
}

}  // namespace

TEST_CASE("a prediction that errs on both sides runs out as a log-normal need exceeds the capacity") {
  // 50 to 200 around 100: 5 % need more than 200, half need more than 100.
  CHECK(chance_of_running_out(needs(50, 100, 200, 100)) == Approx(0.5));
  CHECK(chance_of_running_out(needs(50, 100, 200, 200)) == Approx(0.05).epsilon(1e-3));
  CHECK(chance_of_running_out(needs(50, 100, 200, 50)) == Approx(0.95).epsilon(1e-3));
  // One standard deviation is ln 2 / 1.6449 = 0.4214; 100 * e^0.4214 = 152.4, above which 15.87 % of a normal distribution lie.
  CHECK(chance_of_running_out(needs(5000, 10000, 20000, 15240)) == Approx(0.1587).epsilon(2e-3));
  CHECK(chance_of_running_out(needs(50, 100, 200, 100'000)) < 1e-9);
}

TEST_CASE("a plan is said not to fit where it runs out in three of four cases") {
  // Half to twice of what is needed: at twice the capacity one of twenty needs less than there is. One of four does 0.6745 standard
  // deviations of ln 2 / 1.6449 below: at 2^(0.6745 / 1.6449) = 1.329 times the capacity.
  CHECK(chance_of_running_out(2, 2) == Approx(0.95).epsilon(1e-3));
  CHECK(largest_share(2) == Approx(1.329).epsilon(1e-3));
  CHECK(chance_of_running_out(largest_share(2), 2) == Approx(kImpossible).epsilon(1e-3));
  CHECK(chance_of_running_out(1, 2) == Approx(0.5));
  CHECK(chance_of_running_out(1.01, 1) == 1);
  auto a = needs(50, 100, 200, 51);
  a.memory_margin = 2 - 1;
  CHECK_FALSE(a.fits());
  CHECK(a.may_fit());
  CHECK_THAT(doubt(a), contains("it runs out of memory with a chance of 94 %") && contains("between 50 B and 200 B"));
  a.memory_capacity = 49;
  CHECK_FALSE(a.may_fit());
}

TEST_CASE("beside an arena that is laid out to the byte only what the process holds can be too much") {
  // 10 % hold more than 45 beside it: half of that is exceeded by the root of 10 %, twice that by its square.
  CHECK(chance_of_running_out(needs(1000, 1000, 1045, 1045)) == Approx(0.1));
  CHECK(chance_of_running_out(needs(10'000, 10'000, 10'450, 10'225)) == Approx(std::sqrt(0.1)));
  CHECK(chance_of_running_out(needs(1000, 1000, 1045, 1090)) == Approx(0.01));
  CHECK(chance_of_running_out(needs(1000, 1000, 1045, 999)) == 1);
  CHECK(chance_of_running_out(needs(1000, 1000, 1000, 1000)) == 0);
}

TEST_CASE("chances are said as people say them") {
  CHECK(chance_text(0.3412) == "34 %");
  CHECK(chance_text(0.0234) == "2.3 %");
  CHECK(chance_text(0.0001) == "less than 0.1 %");
  CHECK(chance_text(0.9999) == "more than 99.9 %");
}
