// What a message asks of the network: latency, bytes and loads, on a network that only writes down.
#include "sim/messages.hpp"

#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;

namespace {

/// Writes down what is asked of it; time does not pass.
class WrittenDown final : public FairNetwork {
 public:
  [[nodiscard]] double now() const override { return 3; }
  void alarm(double time, Token token) override { alarms.push_back({time, token}); }
  void start(const MessageFlow& flow, Token token) override {
    flows.push_back({flow, token});
    loads.push_back(flow.loads == nullptr ? std::vector<double>{} : *flow.loads);
  }
  void run(Listener&) override {}

  std::vector<std::pair<double, Token>> alarms;
  std::vector<std::pair<MessageFlow, Token>> flows;
  std::vector<std::vector<double>> loads;
};

}  // namespace

TEST_CASE("communication that takes a factor longer has longer latencies and more bytes") {
  // Between nodes: 4 us over two cards of 10 GB/s.
  Routes routes(sample::cluster(2, 1, 1));
  for (const double factor : {1.0, 1.5, 0.5}) {
    INFO("factor " << factor);
    WrittenDown network;
    SimulatedMessages messages(routes, network, factor);
    messages.send({0, 1}, 1000, {true, 5, 6, 7});
    REQUIRE(network.alarms.size() == 1);
    CHECK(network.alarms.front().first == Approx(3 + sample::kBetween * factor).epsilon(1e-12));
    CHECK(occasion_of(network.alarms.front().second) == Occasion::LatencyPassed);
    CHECK(network.flows.empty());
    messages.latency_passed(number_of(network.alarms.front().second));
    REQUIRE(network.flows.size() == 1);
    const auto& [flow, token] = network.flows.front();
    CHECK(flow.bytes == Approx(1000 * factor));
    CHECK(flow.from == 0);
    CHECK(flow.to == 1);
    CHECK(flow.loads == nullptr);
    CHECK(flow.route == &routes.between(0, 1));
    CHECK(occasion_of(token) == Occasion::Arrived);
    const auto purpose = messages.arrived(number_of(token));
    CHECK(std::tuple(purpose.of_collective, purpose.which, purpose.sender, purpose.step) == std::tuple(true, 5U, 6U, 7U));
    CHECK(messages.factor() == factor);
  }
}

TEST_CASE("messages on their way are told apart, and are counted with their energy") {
  auto platform = sample::cluster(2, 1, 1);
  platform.nodes.front().nic.idle_power = Watts(2);
  platform.nodes.front().nic.busy_power = Watts(7);
  Routes routes(platform);
  WrittenDown network;
  SimulatedMessages messages(routes, network, 2);
  messages.send({0, 1}, 1e9, {false, 1, 0, 0});
  messages.send({1, 0}, 2e9, {false, 2, 0, 0});
  CHECK(number_of(network.alarms[0].second) != number_of(network.alarms[1].second));
  CHECK(messages.arrived(number_of(network.alarms[1].second)).which == 2);
  CHECK(messages.arrived(number_of(network.alarms[0].second)).which == 1);
  // The places of both are free again: of the next two each has its own.
  messages.send({0, 1}, 1, {false, 3, 0, 0});
  messages.send({0, 1}, 1, {false, 4, 0, 0});
  CHECK(messages.arrived(number_of(network.alarms[2].second)).which == 3);
  CHECK(messages.arrived(number_of(network.alarms[3].second)).which == 4);
  CHECK(messages.count() == 4);
  // Two cards of 5 W more while bytes cross them at 10 GB/s, 1 nJ a byte, whatever the factor on the time: 3e9 and 2 bytes.
  CHECK(messages.joules() == Approx(3.000000002).epsilon(1e-12));
}

TEST_CASE("one message that stands for many loads each link as all of them do") {
  // A route over cards of 10 GB/s, out and in: 5 and 2 messages cross them. Alone it takes 4 GB / 10 GB/s = 0.4 s, three times as long with
  // the factor.
  Routes routes(sample::cluster(2, 1, 1));
  WrittenDown network;
  SimulatedMessages messages(routes, network, 3);
  messages.send_one_of({5, 2}, {0, 1}, 4e9, {});
  messages.latency_passed(number_of(network.alarms.front().second));
  CHECK(network.flows.front().first.bytes == Approx(1.2));
  CHECK(network.loads.front() == std::vector<double>{50e9, 20e9});
  // The way of a rank to itself crosses nothing.
  messages.send_one_of({}, {0, 0}, 4e9, {});
  messages.latency_passed(number_of(network.alarms.back().second));
  CHECK(network.flows.back().first.bytes == Approx(12e9));
  CHECK(network.loads.back().empty());
}

TEST_CASE("the slowest link of a route says how long a message takes alone") {
  // Wires of 3, 1 and 2 times 100 GB/s in a row.
  auto platform = sample::chain(4);
  platform.nodes.front().intra.wires[0].count = 3;
  platform.nodes.front().intra.wires[2].count = 2;
  Routes routes(platform);
  WrittenDown network;
  SimulatedMessages messages(routes, network, 1);
  messages.send_one_of({1, 4, 2}, {0, 3}, 200e9, {});
  messages.latency_passed(number_of(network.alarms.front().second));
  CHECK(network.flows.front().first.bytes == Approx(2));
  CHECK(network.loads.front() == std::vector<double>{100e9, 400e9, 200e9});
}
