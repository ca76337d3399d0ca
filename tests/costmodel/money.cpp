// What a job costs, by hand.
#include "costmodel/money.hpp"

#include <array>

#include "base/error.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

/// Two nodes of 4 devices at 10 $/h and three of 2 at 4 $/h, whose hosts draw 500 W and 200 W; PUE 1.2, 1e-7 kg and 2e-7 $ a joule.
platforms::Platform two_groups() {
  platforms::NodeGroup large, small;
  large.count = 2, large.devices = 4;
  large.host_power = Watts(500);
  large.price = {DollarsPerHour(10), "a quote"};
  small.count = 3, small.devices = 2;
  small.host_power = Watts(200);
  small.price = DollarsPerHour(4);
  platforms::Platform platform;
  platform.nodes = {large, small};
  platform.pue = 1.2;
  platform.carbon_intensity = KilogramsPerJoule(1e-7);
  platform.electricity_price = {DollarsPerJoule(2e-7), "a contract"};
  return platform;
}

constexpr Seconds kHour{3600};

TEST_CASE("whole nodes are paid for, and their hosts draw power") {
  // Nine ranks: both large nodes and one small one. Energy 1 MJ + 3600 s · (2·500 + 200) W = 5.32 MJ, times 1.2 = 6.384 MJ.
  const auto cost = job_cost(two_groups(), 9, kHour, Joules(1e6));
  CHECK(cost.money.value() == Approx(24));
  CHECK(cost.energy.value() == Approx(6.384e6));
  CHECK(cost.carbon_kg == Approx(0.6384));
  for (const auto& [ranks, dollars] : {std::pair{1, 10.0}, {4, 10.0}, {5, 20.0}, {8, 20.0}, {10, 24.0}, {11, 28.0}, {14, 32.0}}) {
    INFO(ranks << " ranks");
    CHECK(job_cost(two_groups(), ranks, kHour, Joules(0)).money.value() == Approx(dollars));
  }
}

TEST_CASE("devices of a node are paid for together") {
  // Two nodes of 4 first, then three of 2: the 9th rank begins a small node, of whose 2 devices both are paid for.
  for (const auto& [ranks, paid] : {std::pair{0, 0}, {1, 4}, {4, 4}, {5, 8}, {8, 8}, {9, 10}, {10, 10}, {11, 12}, {14, 14}}) {
    INFO(ranks << " ranks");
    CHECK(paid_devices(two_groups(), ranks) == paid);
  }
}

TEST_CASE("without a price of nodes the electricity is what it costs") {
  auto platform = two_groups();
  for (auto& nodes : platform.nodes) nodes.price = {};
  CHECK(job_cost(platform, 9, kHour, Joules(1e6)).money.value() == Approx(6.384e6 * 2e-7));
  CHECK(price_basis(platform) == "electricity alone: " + to_exact_text(DollarsPerJoule(2e-7)) +
                                     " (a contract); the platform says no price of its nodes (--price X)");
  // A price far below a dollar is a price.
  platform.nodes[0].price = DollarsPerHour(0.01);
  CHECK(job_cost(platform, 1, kHour, Joules(1e9)).money.value() == Approx(0.01));
}

TEST_CASE("what money rests on is said with its source") {
  CHECK(price_basis(two_groups()) ==
        "10 $/h for a node of 4, yours (a quote); 4 $/h for a node of 2, yours (no source given); nodes in use are paid whole");
  CHECK_THAT(price_basis(platforms::Platform{}), contains("nothing: "));
}

TEST_CASE("prices on two bases do not compare platforms, and a price of one's own does") {
  auto first = two_groups(), second = two_groups();
  first.name = "first", second.name = "second";
  const auto mixed = [&] { return mixed_price_bases(std::array<const platforms::Platform*, 2>{&first, &second}); };
  CHECK(mixed().empty());  // both yours
  for (auto& nodes : first.nodes) nodes.price_basis = {platforms::PriceTerm::OnDemand, "AWS", "2025"};
  CHECK_THAT(price_basis(first), contains("10 $/h for a node of 4, on demand, AWS, 2025 (a quote)"));
  CHECK_THAT(mixed(), contains("first: on demand, AWS, 2025; second: yours") && contains("--price"));
  second = first;
  second.name = "second";
  CHECK(mixed().empty());
  second.nodes[0].price_basis.date = "2024";
  CHECK_THAT(mixed(), contains("second: on demand, AWS, 2024 and on demand, AWS, 2025"));
  second.nodes[0].price_basis = {platforms::PriceTerm::Bought, "", ""};
  CHECK_THAT(mixed(), contains("bought, undated"));
  for (auto& nodes : second.nodes) nodes.price = {};
  CHECK_THAT(mixed(), contains("second: electricity alone"));
  first = with_costs(first, {2.5, {}, {}}), second = with_costs(second, {2.5, {}, {}});
  CHECK(mixed().empty());
  CHECK_THAT(price_basis(first), contains("10 $/h for a node of 4, yours (--price)"));
}

TEST_CASE("figures given by hand stand over those of the platform") {
  const auto platform = with_costs(two_groups(), {2.5, 1.1, 400.0});
  CHECK(platform.nodes[0].price.value.value() == Approx(10));  // four devices
  CHECK(platform.nodes[1].price.value.value() == Approx(5));
  CHECK(platform.pue.value == Approx(1.1));
  CHECK(platform.carbon_intensity.value.value() == Approx(0.4 / 3.6e6));  // a kilowatt hour is 3.6 MJ
  CHECK(with_costs(two_groups(), {}) == two_groups());
}

TEST_CASE("a figure out of bounds is refused with the bounds, which themselves are allowed") {
  const auto with = [](std::optional<double> price, std::optional<double> pue, std::optional<double> grams) {
    return with_costs(two_groups(), {price, pue, grams});
  };
  CHECK_NOTHROW(with(0.01, 1, 0));
  CHECK_THROWS_WITH(with(0.0, {}, {}),
                    contains("--price: must be above 0 and at most 1000000; leave it out"));  // it would count as no price
  CHECK_NOTHROW(with(1e6, 10, 1e4));
  CHECK_THROWS_WITH(with(-0.01, {}, {}), contains("--price: must be above 0"));
  CHECK_THROWS_WITH(with(1.1e6, {}, {}), contains("--price"));
  CHECK_THROWS_WITH(with({}, 0.99, {}), contains("--pue") && contains("from 1 to 10"));
  CHECK_THROWS_WITH(with({}, 10.1, {}), contains("--pue"));
  CHECK_THROWS_WITH(with({}, {}, -1), contains("--carbon") && contains("from 0 to 10000"));
  CHECK_THROWS_AS(with({}, {}, 1.1e4), BadInput);
}

}  // namespace
}  // namespace rehearsal::costmodel
