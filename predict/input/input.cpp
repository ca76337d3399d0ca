#include "predict/input/input.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.hpp"
#include "plan/lowering/lowering.hpp"

namespace rehearsal::predict {
namespace {

using costmodel::Interval;
using platforms::NodeStorage;
using platforms::Sourced;

/// Standard deviations of logarithms. Nobody has fitted them: storage is shared with others and rarely as quick as its datasheet; cores
/// decode as quickly as they were measured to, and nobody knows how quickly others do.
constexpr double kOfStorage = 0.25, kOfDecoding = 0.15, kOfUnknownDecoding = 0.42;

/// Where a platform does not say it.
Sourced<BytesPerSecond> usual_decoding() {
  return {BytesPerSecond(60e6), "assumed: about 100 pictures of 500 x 375 a second, as PyTorch's DataLoader with Pillow does on one core"};
}

Interval interval(double value, double log_error) {
  const double factor = std::exp(costmodel::kNinetyPercent * log_error);
  return {value, value / factor, value * factor};
}
Interval longer(const Interval& a, const Interval& b) {
  return {std::max(a.value, b.value), std::max(a.low, b.low), std::max(a.high, b.high)};
}
Interval sum(const Interval& a, const Interval& b) { return {a.value + b.value, a.low + b.low, a.high + b.high}; }

const NodeStorage& storage_of(const platforms::NodeGroup& group) {
  static const NodeStorage unknown;
  return group.storage ? *group.storage : unknown;
}

bool shares_storage(const platforms::Platform& platform) {
  return (platform.storage && platform.storage->bandwidth) || std::ranges::all_of(platform.nodes, [](const platforms::NodeGroup& group) {
           return storage_of(group).bandwidth || storage_of(group).bandwidth_while_all;
         });
}

/// Does the data lie on the nodes' own disks? Where there is no other storage it does.
bool on_disk(const InputQuestion& q, const platforms::Platform& platform) { return q.data.on_disk || !shares_storage(platform); }

double value_or(const auto& figure, double fallback) { return figure ? figure->value.value() : fallback; }
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// How many nodes the storage is built for that gives each bandwidth_while_all.
int nodes_at_once(const NodeStorage& storage, const platforms::Platform& platform) {
  return std::max(storage.nodes_at_once, platforms::node_count(platform));
}

/// What one node does for a step.
struct NodeWork {
  const platforms::NodeGroup* group = nullptr;
  int ranks = 0, loading = 0;  ///< on it; of them those that want samples
  std::set<int> replicas;      ///< whose samples it wants
};

/// Which replica a rank belongs to, and whether it is of the first stage.
class RankPlaces {
 public:
  explicit RankPlaces(const plan::Plan& plan) : mesh_(plan::mesh_of(plan)) {}
  [[nodiscard]] bool first_stage(int rank) const { return along(rank, "pp") == 0; }
  [[nodiscard]] int replica(int rank) const {
    int number = 0;
    for (const auto& axis : mesh_)
      if (axis.name == "dp" || axis.name == "shard" || axis.name == "ep") number = number * axis.size + rank / axis.stride % axis.size;
    return number;
  }

 private:
  [[nodiscard]] int along(int rank, std::string_view name) const {
    for (const auto& axis : mesh_)
      if (axis.name == name) return rank / axis.stride % axis.size;
    return 0;
  }
  std::vector<plan::MeshAxisInfo> mesh_;
};

std::vector<NodeWork> work_of_nodes(const platforms::Platform& platform, const plan::Plan& plan) {
  const RankPlaces places(plan);
  std::map<int, NodeWork> nodes;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto place = platforms::place(platform, rank);
    auto& node = nodes[place.node];
    node.group = &platform.nodes[static_cast<std::size_t>(place.group)];
    ++node.ranks;
    if (!places.first_stage(rank)) continue;
    ++node.loading;
    node.replicas.insert(places.replica(rank));
  }
  std::vector<NodeWork> loading;
  for (auto& [number, node] : nodes)
    if (node.loading > 0) loading.push_back(std::move(node));
  return loading;
}

/// Room of a node for samples: in memory, and on disks that do not hold all of them anyway.
struct Room {
  double memory = 0, disk = 0;  ///< bytes
};
Room room_of(const InputQuestion& q, const NodeStorage& storage, bool data_on_disk) {
  if (q.cache_size) return {q.cache_size->value(), 0};
  return {value_or(storage.cache, 0), data_on_disk ? 0 : value_or(storage.disk_capacity, 0)};
}

/// Of one core.
Sourced<Seconds> work_of_sample(const DatasetFacts& data, const NodeStorage& storage) {
  if (data.work) return *data.work;
  if (!data.jpeg) return {Seconds(0), ""};
  const auto rate = storage.decoding.value_or(usual_decoding());
  return {*data.jpeg / rate.value, rate.source};
}
double error_of_decoding(const DatasetFacts& data, const NodeStorage& storage) {
  return data.work || storage.decoding ? kOfDecoding : kOfUnknownDecoding;
}

/// The times of one node, for samples that come from `from`.
class NodeInput {
 public:
  struct Setting {
    const InputQuestion& q;
    const platforms::Platform& platform;
    int reading;  ///< nodes
    double of_replica;
  };
  NodeInput(const Setting& setting, const NodeWork& node)
      : s_(setting), node_(node), storage_(storage_of(*node.group)), samples_(s_.of_replica * static_cast<double>(node.replicas.size())) {}

  [[nodiscard]] double samples() const { return samples_; }
  [[nodiscard]] CacheQuestion cache(double batch) const {
    const auto room = room_of(s_.q, storage_, on_disk(s_.q, s_.platform));
    const double all = s_.q.data.samples * s_.q.data.stored.value();
    // What of an epoch fills no batch is not trained on: a pass is whole with less than a batch missing.
    const double passes = std::floor((s_.q.steps * batch + batch - 1) / s_.q.data.samples);
    return {std::max(1, static_cast<int>(std::lround(batch / samples_))), all > 0 ? std::min(1.0, (room.memory + room.disk) / all) : 1.0,
            s_.q.steps > 0 ? passes : 0};
  }

  [[nodiscard]] InputTimes times(const CachedShares& from) const {
    InputTimes t;
    t.from = from;
    part(t, InputPart::Storage) = interval(storage_seconds(from.storage), kOfStorage);
    part(t, InputPart::Disk) = interval(disk_seconds(from), kOfStorage);
    part(t, InputPart::Network) = interval(network_seconds(from.peers), kOfStorage);
    part(t, InputPart::Decoding) = interval(decoding_seconds(), error_of_decoding(s_.q.data, storage_));
    for (std::size_t p = 0; p < t.parts.size(); ++p) {
      t.pace = longer(t.pace, t.parts[p]);
      if (t.parts[p].value > t.parts[static_cast<std::size_t>(t.longest)].value) t.longest = static_cast<InputPart>(p);
    }
    if (node_.group->device.kind == platforms::DeviceKind::Cpu)
      t.beside = interval(prepared_by_rank() / cores_of_rank(), error_of_decoding(s_.q.data, storage_));
    if (s_.q.threads == 0) read_when_wanted(t);
    return t;
  }

 private:
  static Interval& part(InputTimes& t, InputPart which) { return t.parts[static_cast<std::size_t>(which)]; }

  /// Nothing hides behind anything.
  static void read_when_wanted(InputTimes& t) {
    t.beside = {};
    for (const auto& one : t.parts) t.beside = sum(t.beside, one);
    t.pace = {};
  }

  [[nodiscard]] double cores_of_rank() const {
    return std::max(1.0, std::floor(static_cast<double>(node_.group->host_cores) / node_.ranks));
  }
  [[nodiscard]] double threads() const { return std::max(1.0, s_.q.threads ? static_cast<double>(*s_.q.threads) : cores_of_rank()); }
  [[nodiscard]] double bytes(double share) const { return samples_ * share * s_.q.data.stored.value(); }
  [[nodiscard]] double prepared_by_rank() const { return s_.of_replica * work_of_sample(s_.q.data, storage_).value.value(); }
  [[nodiscard]] double decoding_seconds() const { return prepared_by_rank() / std::min(threads(), cores_of_rank()); }
  [[nodiscard]] double waiting_for_requests(double share, double latency) const {
    return samples_ * share * s_.q.data.requests * latency / (threads() * node_.loading);
  }

  [[nodiscard]] double storage_seconds(double share) const {
    if (on_disk(s_.q, s_.platform))
      return std::max(bytes(share) / value_or(storage_.disk_bandwidth, kUnlimited),
                      waiting_for_requests(share, value_or(storage_.disk_latency, 0)));
    const double nodes = s_.reading;
    const double rate = rate_among(nodes);
    const double of_all = s_.platform.storage ? value_or(s_.platform.storage->bandwidth, kUnlimited) : kUnlimited;
    const double latency = s_.platform.storage ? value_or(s_.platform.storage->latency, 0) : 0;
    return std::max(bytes(share) / std::min(rate, of_all / nodes), waiting_for_requests(share, latency));
  }

  /// At which the node reads the shared file system while so many do.
  [[nodiscard]] double rate_among(double nodes) const {
    const double alone = value_or(storage_.bandwidth, kUnlimited);
    if (nodes == 1 && storage_.bandwidth) return alone;
    if (!storage_.bandwidth_while_all) return alone;
    const double together = storage_.bandwidth_while_all->value.value() * nodes_at_once(storage_, s_.platform);
    return std::min(alone, std::max(together, value_or(storage_.bandwidth, 0)) / nodes);
  }

  /// What a node has in its cache it reads for itself and for others; memory fills first.
  [[nodiscard]] double disk_seconds(const CachedShares& from) const {
    const auto room = room_of(s_.q, storage_, on_disk(s_.q, s_.platform));
    const double held = std::min(s_.q.data.samples * s_.q.data.stored.value(), room.memory + room.disk);
    if (from.own + from.peers <= 0 || held <= room.memory) return 0;
    const double share = (from.own + from.peers) * (held - room.memory) / held;
    return std::max(bytes(share) / value_or(storage_.disk_bandwidth, kUnlimited),
                    waiting_for_requests(share, value_or(storage_.disk_latency, 0)));
  }

  [[nodiscard]] double network_seconds(double share) const {
    if (share <= 0) return 0;
    return bytes(share) / (node_.group->nic.bandwidth.value.value() * node_.group->nic.count);
  }

  const Setting& s_;
  const NodeWork& node_;
  const NodeStorage& storage_;
  double samples_;
};

void require_option(bool right, const char* option, const std::string& what) {
  if (!right) throw BadInput(option, what);
}

void check_cache(const InputQuestion& q, const platforms::Platform& platform) {
  if (q.cache == nullptr || q.cache == &cache_kinds().front()) {
    require_option(!q.cache_size, "--cache", "a cache that keeps nothing has no size; write for example node=64GB");
    return;
  }
  for (const auto& group : platform.nodes) {
    const auto room = room_of(q, storage_of(group), on_disk(q, platform));
    if (room.memory + room.disk <= 0)
      throw BadInput("--cache " + std::string(q.cache->name),
                     "platform " + platform.name + " does not say how much room its nodes have for samples; write --cache " +
                         std::string(q.cache->name) + "=64GB, or add \"cache\": \"64 GB\" to the \"storage\" of its nodes");
    if (q.cache_size && *q.cache_size > group.host_memory.value)
      throw BadInput(
          "--cache " + std::string(q.cache->name) + "=" + to_text(*q.cache_size),
          "is more than the " + to_text(group.host_memory.value) + " of memory that a node of platform " + platform.name + " has");
    if (q.cache->asks_peers && platforms::node_count(platform) > 1 && group.nic.count == 0)
      throw BadInput("--cache " + std::string(q.cache->name),
                     "the nodes of platform " + platform.name + " have no network (\"nic\"); use --cache node");
  }
}

}  // namespace

Interval InputTimes::step(const Interval& computing) const { return longer(sum(computing, beside), pace); }

InputPart InputTimes::bound_by(const Interval& computing) const {
  return beside.value > 0 && computing.value + beside.value >= pace.value && pace.value > 0 ? InputPart::Decoding : longest;
}

std::string unknown_storage(const platforms::Platform& platform) {
  if (shares_storage(platform)) return {};
  const auto without = std::ranges::find_if(platform.nodes, [](const auto& group) { return !storage_of(group).disk_bandwidth; });
  if (without == platform.nodes.end()) return {};
  return "platform " + platform.name + " does not say how quickly samples are read; add \"storage\": {\"bandwidth\": \"5 GB/s\"} to node " +
         without->name + ", or measure it: rehearse calibrate --storage FOLDER";
}

void check_input(const InputQuestion& q, const platforms::Platform& platform) {
  require_option(q.data.samples >= 1, "--dataset", "has no samples; write for example samples=1.28M,bytes=110kB");
  require_option(q.data.stored.value() >= 0, "--dataset", "bytes of a sample must be from 0 on, for example bytes=110kB");
  require_option(q.data.requests >= 0 && std::isfinite(q.data.requests), "--dataset", "requests for a sample must be a number from 0 on");
  if (const auto unknown = unknown_storage(platform); !unknown.empty()) throw BadInput("--dataset", unknown);
  for (const auto& group : platform.nodes)
    if (q.data.on_disk && !storage_of(group).disk_bandwidth)
      throw BadInput("--dataset on=disk", "node " + group.name + " of platform " + platform.name +
                                              " has no disks that are known; add \"disk_bandwidth\": \"3 GB/s\" to its \"storage\"");
  check_cache(q, platform);
}

StepInput input_of(const InputQuestion& q, const platforms::Platform& platform, const plan::Plan& plan, std::int64_t batch) {
  const auto nodes = work_of_nodes(platform, plan);
  const NodeInput::Setting setting{q, platform, static_cast<int>(nodes.size()), static_cast<double>(batch) / plan.dp};
  const auto& cache = q.cache == nullptr ? cache_kinds().front() : *q.cache;
  StepInput found;
  found.epoch_steps = std::max(1.0, std::ceil(q.data.samples / static_cast<double>(batch)));
  bool any = false;
  for (const auto& node : nodes) {
    const NodeInput input(setting, node);
    found.bytes += q.data.stored * input.samples();
    const auto first = input.times({});
    const auto later = input.times(cache.behind_first_epoch(input.cache(static_cast<double>(batch))));
    const auto longer_one = [](const InputTimes& a, const InputTimes& b) { return a.step({}).value > b.step({}).value ? a : b; };
    found.first = any ? longer_one(first, found.first) : first;
    found.later = any ? longer_one(later, found.later) : later;
    any = true;
  }
  return found;
}

std::string grounds_of_input(const InputQuestion& q, const platforms::Platform& platform) {
  const auto& storage = storage_of(platform.nodes.front());
  std::vector<std::string> says;
  if (on_disk(q, platform)) {
    says.push_back("samples lie on the nodes' own disks, " +
                   with_source("which are read at " + to_text(storage.disk_bandwidth->value), *storage.disk_bandwidth));
  } else {
    if (storage.bandwidth)
      says.push_back("one node reads the shared file system at " + with_source(to_text(storage.bandwidth->value), *storage.bandwidth));
    if (storage.bandwidth_while_all)
      says.push_back(with_source(to_text(storage.bandwidth_while_all->value) + " of it are a node's while all " +
                                     std::to_string(nodes_at_once(storage, platform)) + " read",
                                 *storage.bandwidth_while_all));
    if (platform.storage && platform.storage->bandwidth)
      says.push_back("all nodes together read it at " +
                     with_source(to_text(platform.storage->bandwidth->value), *platform.storage->bandwidth));
    if (!platform.storage || !platform.storage->latency) says.emplace_back("what a request costs is not known, and left out");
  }
  if (const auto work = work_of_sample(q.data, storage); work.value.value() > 0)
    says.push_back("one core prepares a sample in " + with_source(to_text(work.value), work));
  if (q.cache != nullptr && q.cache != &cache_kinds().front()) says.push_back(std::string(q.cache->description));
  std::string text;
  for (const auto& sentence : says) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

}  // namespace rehearsal::predict
