// When and where a training emits and costs least, reckoned by hand.
#include "predict/hours/starts.hpp"

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

constexpr double kHour = 3600;

/// Two and a half hours at 10 kW on 16 devices; elsewhere 8 kg and 40 dollars.
MovableTraining training() { return {Seconds(2.5 * kHour), Watts(10e3), 16, 8, Dollars(40), std::nullopt}; }

TimedStart way(const std::vector<TimedStart>& ways, const std::string& region, const std::string& rule) {
  for (const auto& w : ways)
    if (w.region == region && w.rule == rule) return w;
  FAIL(region << ": nothing is " << rule);
  return {};
}

}  // namespace

TEST_CASE("carbon is what the hours of a training emit, and the best start lies in the file's span") {
  const Hours hours{{"0", "1", "2", "3"}, {{"DE", {400, 300, 200, 100}, {}}}};
  const auto ways = timed_starts(hours, training());
  REQUIRE(ways.size() == 2);
  // 10 kWh an hour: 10 * (400 + 300 + 200 / 2) g = 8 kg.
  const auto now = way(ways, "DE", "now");
  CHECK(now.carbon_kg == Approx(8));
  CHECK(now.cost.value() == Approx(40));
  CHECK(now.finished.value() == Approx(2.5 * kHour));
  // From hour 1: 10 * (300 + 200 + 50) = 5.5 kg; from 2: 10 * (200 + 100 + 200) = 5 kg, of which the last half hour is of the next round;
  // from 3: 10 * (100 + 400 + 150) = 6.5 kg.
  const auto least = way(ways, "DE", "least carbon");
  CHECK(least.line == 2);
  CHECK(least.carbon_kg == Approx(5));
  CHECK(least.finished.value() == Approx(4.5 * kHour));
}

TEST_CASE("prices are of devices that are paid for, and regions are told apart") {
  const Hours hours{{"0", "1", "2"}, {{"A", {}, {3, 1, 1}}, {"B", {50, 50, 50}, {2, 2, 2}}}};
  const auto ways = timed_starts(hours, training());
  REQUIRE(ways.size() == 3);
  CHECK(way(ways, "A", "now").cost.value() == Approx(16 * (3 + 1 + 0.5)));
  CHECK(way(ways, "A", "least cost").line == 1);
  CHECK(way(ways, "A", "least cost").cost.value() == Approx(16 * (1 + 1 + 1.5)));
  CHECK(way(ways, "A", "now").carbon_kg == Approx(8));  // what the platform says
  CHECK(way(ways, "B", "now").cost.value() == Approx(16 * 2 * 2.5));
  CHECK(way(ways, "B", "now").carbon_kg == Approx(10 * 50 * 2.5 / 1000));
}

TEST_CASE("a training that can be paused stands still in dear hours, and does again what a pause costs") {
  auto t = training();
  t.pause = Seconds(kHour / 2);
  const Hours hours{{"0", "1", "2", "3", "4"}, {{"A", {}, {1, 5, 1, 1, 2}}}};
  const auto ways = timed_starts(hours, t);
  // Sorted 1 1 1 2 5. Above $2: hour 0 runs, hour 1 pauses and adds half an hour to the 1.5 that are left, hours 2 and 3 run.
  const auto dear = way(ways, "A", "paused above $2/h");
  CHECK(dear.pauses == 1);
  CHECK(dear.finished.value() == Approx(4 * kHour));
  CHECK(dear.cost.value() == Approx(16 * (1 + 1 + 1)));
  CHECK(dear.carbon_kg == Approx(8.0 / 2.5 * 3));
  // Above $1: the same hours; it is told once.
  CHECK(ways.size() == 3);
  CHECK(way(ways, "A", "least cost").line == 2);  // 1 + 1 + 2/2
}

TEST_CASE("pauses that undo more than is done between them are no way to train") {
  auto t = training();
  t.pause = Seconds(kHour);
  const Hours hours{{"0", "1"}, {{"A", {100, 300}, {}}}};
  const auto ways = timed_starts(hours, t);
  REQUIRE(ways.size() == 1);  // what an hour does is lost in the next; starting in that is no better: 300 + 100 + 150 above 100 + 300 + 50
  CHECK(ways[0].rule == "now");
}

TEST_CASE("lines of three hours are three hours") {
  // Three hours at 400 and three at 100 g/kWh: 2.5 h from the first are 10 kW * 2.5 h * 400 g = 10 kg, from the second a quarter.
  const Hours hours{{"0:00", "3:00"}, {{"DE", {400, 100}, {2, 2}}}, Seconds(3 * kHour)};
  const auto ways = timed_starts(hours, training());
  CHECK(way(ways, "DE", "now").carbon_kg == Approx(10));
  const auto least = way(ways, "DE", "least carbon");
  CHECK(least.carbon_kg == Approx(2.5));
  CHECK(least.begins.value() == Approx(3 * kHour));
  CHECK(least.finished.value() == Approx(5.5 * kHour));
  CHECK(least.cost.value() == Approx(16 * 2 * 2.5));
}
