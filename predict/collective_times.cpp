#include "predict/collective_times.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "costmodel/constants.hpp"
#include "predict/group_links.hpp"

namespace rehearsal::predict {
namespace {

using plan::CollectiveKind;

constexpr std::int64_t kElementBytes = 4;

/// A Program in which all ranks do nothing but this.
plan::Program alone(const CollectiveQuestion& q, const std::string& algorithm) {
  plan::Program program;
  program.axes = {{"dp", q.ranks, 1}};
  program.ranks = q.ranks;
  program.batch = q.ranks;
  program.micro_batches = 1;
  program.role_of.assign(static_cast<std::size_t>(q.ranks), 0);
  auto& role = program.roles.emplace_back();
  role.variant_samples = {1};
  role.variant_of = {0};
  const auto elements = std::max<std::int64_t>(1, static_cast<std::int64_t>(q.size.value()) / kElementBytes);
  plan::Buffer vector;
  vector.shapes = {{elements}};
  vector.bytes = elements * kElementBytes;
  role.buffers.push_back(std::move(vector));
  role.collectives.push_back({q.kind, algorithm, 0});
  plan::Instruction collective;
  collective.kind = plan::InstructionKind::Collective;
  collective.stream = plan::Stream::Collective;
  collective.inputs = collective.outputs = {0};
  collective.collective = 0;
  role.bodies.push_back({plan::BodyKind::Update, 0, {std::move(collective)}});
  role.slots = {{0, 0}};
  return program;
}

Seconds time_of(const CollectiveQuestion& q, const plan::Program& program, StepEvaluator& evaluator) {
  ProgramCosts costs;
  costs.roles.emplace_back().seconds = {{{costmodel::Estimate{}}}};
  return evaluator.evaluate({program, costs, q.platform, q.model}).step;
}

CollectiveTime timed(const CollectiveQuestion& q, std::string name, Seconds seconds) {
  return {std::move(name), seconds, BytesPerSecond(q.size.value() * bus_factor(q.kind, q.ranks) / seconds.value())};
}

bool has_library(const platforms::Platform& platform) { return platforms::device_of(platform, 0).kind != platforms::DeviceKind::Cpu; }

/// Kinds of nodes that no rank is on slow nothing down.
costmodel::CollectiveLibrary library_of(const CollectiveQuestion& q) {
  return costmodel::CollectiveLibrary(q.platform.nodes.size() > 1 ? platforms::with_devices(q.platform, q.ranks) : q.platform);
}

std::vector<costmodel::LibraryOffer> offers_for(const CollectiveQuestion& q) {
  return library_of(q).offers(q.kind, q.size.value(), {q.ranks, 0}, costmodel::published_constants().values, q.release);
}

std::vector<CollectiveTime> times_of_library(const CollectiveQuestion& q) {
  std::vector<CollectiveTime> times;
  const auto as_library = [&](std::string name, std::string protocol, double seconds) {
    times.push_back(timed(q, std::move(name), Seconds(seconds)));
    times.back().protocol = std::move(protocol);
    times.back().library = true;
  };
  if (has_library_releases(q.platform)) {
    for (const auto& offer : offers_for(q))
      if (offer.why_not == costmodel::NotOffered::No) as_library(offer.row->algorithm, offer.row->protocol, offer.seconds);
  } else {
    // XLA's and Gaudi's own collectives are not in the table: their closed form stands for them.
    const auto& c = costmodel::published_constants().values;
    as_library("", "", library_of(q).seconds(q.kind, q.size.value(), {q.ranks, 0}, c));
  }
  if (const auto best = std::ranges::min_element(times, {}, &CollectiveTime::seconds); best != times.end()) best->chosen = true;
  return times;
}

}  // namespace

double bus_factor(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (kind == CollectiveKind::AllReduce) return 2 * others;
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce ? 1 : others;
}

std::size_t slowest_adding(const platforms::Platform& platform, int ranks) {
  std::size_t slowest = 0;
  int first = 0;
  for (std::size_t kind = 0; kind < platform.nodes.size() && first < ranks; ++kind) {
    const auto& group = platform.nodes[kind];
    first += group.count * group.devices;
    if (group.device.memory_bandwidth.value < platform.nodes[slowest].device.memory_bandwidth.value) slowest = kind;
  }
  return slowest;
}

bool has_library_releases(const platforms::Platform& platform) {
  return platforms::device_of(platform, 0).kind == platforms::DeviceKind::Gpu;
}

std::vector<CollectiveTime> collective_times(const CollectiveQuestion& q, StepEvaluator& evaluator) {
  constexpr int kFewest = 2;
  const auto devices = platforms::device_count(q.platform);
  if (q.ranks > devices)
    throw Refusal(std::to_string(q.ranks) + " ranks, but platform " + q.platform.name + " has " + std::to_string(devices) +
                  " devices; use fewer ranks, or more nodes (--nodes)");
  if (q.ranks < kFewest) throw Refusal("a collective needs at least two ranks; platform " + q.platform.name + " is asked for one");
  const auto program = alone(q, "");
  const platforms::Fabric fabric(q.platform);
  const auto chosen = plan::best_collective(q.kind, q.ranks, q.size, GroupLinks(program, q.platform, fabric, q.model).of({0, 0})).name;
  std::vector<CollectiveTime> times;
  for (const auto& row : plan::collective_table()) {
    if (row.kind != q.kind) continue;
    times.push_back(timed(q, std::string(row.name), time_of(q, alone(q, std::string(row.name)), evaluator)));
    times.back().chosen = !has_library(q.platform) && row.name == chosen;
  }
  if (has_library(q.platform)) std::ranges::move(times_of_library(q), std::back_inserter(times));
  return times;
}

std::vector<MissingAlgorithm> missing_algorithms(const CollectiveQuestion& q) {
  std::vector<MissingAlgorithm> missing;
  if (!has_library_releases(q.platform)) return missing;
  for (const auto& offer : offers_for(q))
    if (offer.why_not != costmodel::NotOffered::No)
      missing.push_back({offer.row->algorithm, offer.row->protocol, costmodel::reason_of(offer, q.kind)});
  return missing;
}

}  // namespace rehearsal::predict
