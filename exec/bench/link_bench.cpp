#include "exec/bench/link_bench.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/statistics.hpp"
#include "exec/bench/measured.hpp"
#include "exec/comm/measure.hpp"

namespace rehearsal::exec::bench {
namespace {

constexpr std::size_t kSizes[] = {8, 256, 4096, 65536, 524288, 4194304, 16777216};
constexpr int kRepetitions = 24, kFew = 6, kFewest = 3, kWarmUp = 2, kTag = 1;
constexpr std::size_t kLarge = 1 << 20;
constexpr double kBandwidthCounts = 10;  // a message that takes so many times the latency tells the bandwidth

void exchange(Communicator& world, int peer, bool begins, std::vector<std::byte>& data) {
  for (const bool sends : {begins, !begins}) {
    auto request = sends ? world.send(peer, data.data(), data.size(), Channel::Service, kTag)
                         : world.receive(peer, data.data(), data.size(), Channel::Service, kTag);
    world.wait(request, "a message that is measured");
  }
}

costmodel::LinkSample sample(std::string what, int ranks, std::size_t bytes, const std::vector<double>& times) {
  costmodel::LinkSample s;
  s.what = std::move(what);
  s.ranks = ranks;
  s.size = Bytes(static_cast<double>(bytes));
  if (times.empty()) return s;
  s.seconds = Seconds(quantile_of(times, 0.25));
  const double low = quantile_of(times, 0.1), middle = median_of(times);
  s.spread = low > 0 ? std::log(middle / low) / 1.28 : 0;  // the first decile of a normal distribution is 1.28 deviations below
  return s;
}

int lowest_rank(const Communicator& world, int node) {
  int rank = 0;
  while (world.node_of(rank) != node) ++rank;
  return rank;
}

/// Two ranks of one node, where a node has two.
std::optional<RankPair> neighbours(const Communicator& world) {
  for (int rank = 0; rank + 1 < world.size(); ++rank)
    for (int other = rank + 1; other < world.size(); ++other)
      if (world.node_of(rank) == world.node_of(other)) return RankPair{rank, other};
  return std::nullopt;
}

/// Every node and the next one, around.
std::vector<RankPair> node_pairs(const Communicator& world) {
  std::vector<RankPair> pairs;
  const int nodes = world.nodes();
  for (int node = 0; node + 1 < nodes; ++node) pairs.push_back({lowest_rank(world, node), lowest_rank(world, node + 1)});
  if (nodes > 2) pairs.push_back({lowest_rank(world, nodes - 1), 0});
  return pairs;
}

/// The messages of one pair, the time that they may take, and what they have shown.
class BenchMessages {
 public:
  BenchMessages(Communicator& world, RankPair pair, std::string what, double seconds)
      : world_(world), pair_(pair), what_(std::move(what)), seconds_(seconds) {}

  void measure(std::size_t bytes) {
    auto s = sample(what_, 2, bytes, message_times(world_, pair_, bytes, repetitions(bytes)));
    const double own[] = {s.seconds.value(), s.spread, now_seconds() - begin_};
    const auto all = world_.exchange(own, "a measurement of messages");
    const auto first = std::size(own) * static_cast<std::size_t>(pair_.first);
    s.seconds = Seconds(all[first]), s.spread = all[first + 1], elapsed_ = all[first + 2];
    samples_.push_back(std::move(s));
  }
  /// The time is over, and the bandwidth known.
  [[nodiscard]] bool enough() const {
    const bool known = samples_.back().seconds.value() > kBandwidthCounts * samples_.front().seconds.value();
    return elapsed_ > seconds_ && (known || samples_.back().what == "point-to-point");
  }
  [[nodiscard]] const std::vector<costmodel::LinkSample>& samples() const { return samples_; }

 private:
  /// As many as fit into the rest of the time, judged by the size before.
  [[nodiscard]] int repetitions(std::size_t bytes) const {
    const int usual = bytes > kLarge ? kFew : kRepetitions;
    if (samples_.empty()) return usual;
    const auto& before = samples_.back();
    const double round_trip = 2 * before.seconds.value() * static_cast<double>(bytes) / before.size.value();
    return std::clamp(static_cast<int>((seconds_ - elapsed_) / round_trip) - kWarmUp, kFewest, usual);
  }

  Communicator& world_;
  RankPair pair_;
  std::string what_;
  double seconds_, begin_ = now_seconds(), elapsed_ = 0;
  std::vector<costmodel::LinkSample> samples_;
};

std::vector<costmodel::LinkSample> messages(Communicator& world, RankPair pair, const std::string& what, double seconds) {
  BenchMessages messages(world, pair, what, seconds);
  for (const auto bytes : kSizes) {
    messages.measure(bytes);
    if (messages.enough()) break;
  }
  return messages.samples();
}

std::vector<costmodel::LinkSample> rings(Communicator& world, double seconds) {
  std::vector<costmodel::LinkSample> samples;
  const double begin = now_seconds();
  const auto& ring = plan::collective(plan::CollectiveKind::AllReduce, "ring");
  for (const auto bytes : kSizes) {
    const auto times = measure_collective(world, ring, bytes, bytes > kLarge ? kFew : kRepetitions);
    samples.push_back(sample("ring", world.size(), bytes, times.ours));
    if (world.max(now_seconds() - begin) >= seconds) break;
  }
  return samples;
}

}  // namespace

/// One way: half of a round trip.
std::vector<double> message_times(Communicator& world, RankPair pair, std::size_t bytes, int repetitions) {
  std::vector<std::byte> data(bytes);
  std::vector<double> times;
  world.barrier("a measurement of messages");
  const bool begins = world.rank() == pair.first;
  if (!begins && world.rank() != pair.second) return times;
  for (int i = 0; i < repetitions + kWarmUp; ++i) {
    const double begin = now_seconds();
    exchange(world, begins ? pair.second : pair.first, begins, data);
    if (i >= kWarmUp && begins) times.push_back((now_seconds() - begin) / 2);
  }
  return times;
}

std::vector<costmodel::LinkSample> measure_links(Communicator& world, double seconds) {
  std::vector<costmodel::LinkSample> samples;
  const auto add = [&](const std::vector<costmodel::LinkSample>& more) { samples.insert(samples.end(), more.begin(), more.end()); };
  const auto pairs = node_pairs(world);
  const double share = seconds / 2;
  if (const auto pair = neighbours(world)) add(messages(world, *pair, "point-to-point", share));
  for (const auto& pair : pairs) add(messages(world, pair, "between nodes", share / static_cast<double>(pairs.size())));
  if (world.nodes() == 1 && world.size() > 1) add(rings(world, share));
  return samples;
}

}  // namespace rehearsal::exec::bench
