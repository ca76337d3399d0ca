#include "exec/bench/collective_bench.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/bench/link_bench.hpp"
#include "exec/comm/measure.hpp"

namespace rehearsal::exec::bench {
namespace {

constexpr double kCoreSeconds = 0.3;
constexpr int kMessages = 24;
constexpr std::size_t kShort = 8, kLong = std::size_t{4} << 20;

/// Rank 0's number for all, so that every rank computes the same result.
double of_first_rank(Communicator& world, double value) {
  const auto bytes = world.broadcast({reinterpret_cast<const char*>(&value), sizeof(value)});
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

MeasuredLinks measured_links(Communicator& world) {
  const auto one_way = [&](std::size_t bytes) {
    const auto times = message_times(world, RankPair{}, bytes, kMessages);
    return of_first_rank(world, quantile_of(times, 0.25));
  };
  // Other work on the machine can hold up all short messages for longer than a long one takes.
  constexpr int kTries = 5;
  double brief = 0, large = 0;
  for (int n = 0; n < kTries && large <= brief; ++n) brief = one_way(kShort), large = one_way(kLong);
  if (large <= brief)
    throw EnvironmentFailure("bench collectives: messages of " + std::to_string(kLong) + " bytes took no longer than those of " +
                             std::to_string(kShort) + ", " + std::to_string(kTries) +
                             " times in a row: other work disturbs the measurement; try again when the machine is quiet");
  MeasuredLinks links;
  links.latency = Seconds(brief);
  links.bandwidth = BytesPerSecond(static_cast<double>(kLong) / (large - brief));
  links.reduction = BytesPerSecond(of_first_rank(world, measure_core(kCoreSeconds).reduction.value()));
  return links;
}

plan::CollectiveLinks as_links(const MeasuredLinks& m, int ranks) {
  return {m.latency, m.latency, m.bandwidth, m.bandwidth, m.reduction, ranks};
}

}  // namespace

Seconds lower_bound(plan::CollectiveKind kind, int ranks, Bytes size, const MeasuredLinks& links) {
  using plan::CollectiveKind;
  if (ranks < 2) return {};
  const double others = static_cast<double>(ranks - 1) / ranks;
  const Seconds latencies = static_cast<double>(std::bit_width(static_cast<unsigned>(ranks - 1))) * links.latency;
  const Seconds adding = size * others / links.reduction;
  const auto moving = [&](double share) { return size * share / links.bandwidth; };
  switch (kind) {
    case CollectiveKind::AllReduce:
      return std::max(latencies, moving(2 * others) + adding);
    case CollectiveKind::ReduceScatter:
      return std::max(latencies, moving(others) + adding);
    case CollectiveKind::Reduce:
      return std::max(latencies, moving(1) + adding);
    case CollectiveKind::Broadcast:
      return std::max(latencies, moving(1));
    default:
      return std::max(latencies, moving(others));
  }
}

CollectiveBench measure_collectives(Communicator& world, const CollectiveBenchOptions& options, Progress& progress) {
  if (world.size() < 2) throw Refusal("bench collectives: one rank has nobody to talk to; start it with mpirun -n 2 or more");
  CollectiveBench bench;
  bench.links = measured_links(world);
  const auto links = as_links(bench.links, world.size());
  const auto table = plan::collective_table();
  for (std::size_t n = 0; n < table.size() * options.sizes.size(); ++n) {
    const auto& row = table[n / options.sizes.size()];
    const std::size_t bytes = options.sizes[n % options.sizes.size()];
    const auto times = measure_collective(world, row, bytes, options.repetitions);
    const Bytes size(static_cast<double>(bytes));
    bench.results.push_back({row.kind, std::string(row.name), size, Seconds(quantile_of(times.ours, 0.25)),
                             Seconds(quantile_of(times.mpi, 0.25)), row.closed_form(world.size(), size, links),
                             lower_bound(row.kind, world.size(), size, bench.links)});
    progress.advance("collectives", static_cast<double>(n + 1), static_cast<double>(table.size() * options.sizes.size()));
    if (world.max(progress.stop_requested() ? 1.0 : 0.0) > 0) break;
  }
  return bench;
}

}  // namespace rehearsal::exec::bench
