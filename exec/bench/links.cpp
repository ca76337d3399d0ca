#include "exec/bench/links.hpp"

#include <cmath>

#include "exec/bench/measured.hpp"
#include "exec/comm/measure.hpp"

namespace rehearsal::exec::bench {
namespace {

constexpr std::size_t kSizes[] = {8, 256, 4096, 65536, 524288, 4194304, 16777216};
constexpr int kRepetitions = 24, kFew = 6, kTag = 1;
constexpr std::size_t kLarge = 1 << 20;

void exchange(Communicator& world, std::vector<std::byte>& data) {
  const int peer = 1 - world.rank();
  for (const bool sends : {world.rank() == 0, world.rank() != 0}) {
    auto request = sends ? world.send(peer, data.data(), data.size(), Channel::Service, kTag)
                         : world.receive(peer, data.data(), data.size(), Channel::Service, kTag);
    while (!world.done(request)) {
    }
  }
}

costmodel::LinkSample sample(std::string what, int ranks, std::size_t bytes, const std::vector<double>& times) {
  costmodel::LinkSample s;
  s.what = std::move(what);
  s.ranks = ranks;
  s.size = Bytes(static_cast<double>(bytes));
  s.seconds = Seconds(quantile(times, 0.25));
  const double low = quantile(times, 0.1), middle = quantile(times, 0.5);
  s.spread = low > 0 ? std::log(middle / low) / 1.28 : 0;  // the first decile of a normal distribution is 1.28 deviations below
  return s;
}

}  // namespace

/// One way: half of a round trip.
std::vector<double> message_times(Communicator& world, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  std::vector<double> times;
  world.barrier("a measurement of messages");
  if (world.rank() > 1) return times;
  for (int i = 0; i < (bytes > kLarge ? kFew : kRepetitions) + 2; ++i) {
    const double begin = now_seconds();
    exchange(world, data);
    if (i >= 2) times.push_back((now_seconds() - begin) / 2);
  }
  return times;
}

std::vector<costmodel::LinkSample> measure_links(Communicator& world, double seconds) {
  std::vector<costmodel::LinkSample> samples;
  if (world.size() < 2) return samples;
  const double begin = now_seconds();
  const auto in_time = [&] { return world.max(now_seconds() - begin) < seconds; };
  const auto& ring = plan::collective(plan::CollectiveKind::AllReduce, "ring");
  for (const auto bytes : kSizes) {
    samples.push_back(sample("point-to-point", 2, bytes, message_times(world, bytes)));
    if (!in_time()) break;
    const auto times = measure_collective(world, ring, bytes, bytes > kLarge ? kFew : kRepetitions);
    samples.push_back(sample("ring", world.size(), bytes, times.ours));
    if (!in_time()) break;
  }
  return samples;
}

}  // namespace rehearsal::exec::bench
