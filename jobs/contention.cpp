#include "jobs/contention.hpp"

#include <algorithm>
#include <limits>

namespace rehearsal::jobs {

Contention::Contention(const platforms::Platform& platform)
    : fabric_(platform),
      per_node_(platform.nodes.front().devices),
      card_rate_(platform.nodes.front().nic.bandwidth.value.value() * platform.nodes.front().nic.count / platform.nodes.front().devices) {
  const auto& node = platform.nodes.front();
  if (node.storage_bandwidth) node_storage_ = node.storage_bandwidth->value;
  all_storage_ = platform.storage_bandwidth ? platform.storage_bandwidth->value : BytesPerSecond(std::numeric_limits<double>::infinity());
}

double Contention::storage_demand(int devices) const {
  const int nodes = (devices + per_node_ - 1) / per_node_;
  return std::min(nodes * node_storage_.value(), all_storage_.value());
}

Seconds Contention::checkpoint_time(const Job& job, int devices) const {
  return knows_storage() ? Seconds(job.checkpoint.value() / storage_demand(devices)) : Seconds(0);
}

double Contention::writing(const Job& job, int devices) const {
  return job.checkpoint_every ? checkpoint_time(job, devices) / *job.checkpoint_every : 0;
}

Seconds Contention::step_alone(const Job& job, int devices) const { return job.pace(devices).step * (1 + writing(job, devices)); }

Contention::Demand Contention::demand_of(const Devices& devices) const {
  Demand demand;
  const auto count = static_cast<int>(devices.size());
  if (count <= per_node_) return demand;
  platforms::Route route;
  for (int n = 0; n < count; ++n) {
    const int from = devices[static_cast<std::size_t>(n)], to = devices[static_cast<std::size_t>((n + per_node_) % count)];
    fabric_.route(from, to, route);
    for (const auto link : route.links)
      if (fabric_.link(link).role == platforms::LinkRole::Network) demand[link] += card_rate_;
  }
  return demand;
}

namespace {

/// A job's part in everything that is shared.
struct Sharing {
  std::map<std::uint32_t, double> demand;
  double on_network = 0;  ///< share of its time
  double storage = 0, on_storage = 0;
};

double stretched(double own, double others, double capacity) { return std::max(1.0, (own + others) / std::max(capacity, own)); }

}  // namespace

std::vector<Seconds> Contention::steps(std::span<const Placed> placed) const {
  std::vector<Sharing> sharing;
  std::map<std::uint32_t, double> offered;  // sum of f d
  double stored = 0;
  for (const auto& p : placed) {
    const int count = static_cast<int>(p.devices.size());
    const auto& pace = p.job->pace(count);
    const double share = writing(*p.job, count);
    Sharing s{demand_of(p.devices), pace.on_network / pace.step / (1 + share), storage_demand(count), share / (1 + share)};
    for (const auto& [link, rate] : s.demand) offered[link] += s.on_network * rate;
    stored += s.on_storage * s.storage;
    sharing.push_back(std::move(s));
  }
  std::vector<Seconds> steps;
  for (std::size_t n = 0; n < placed.size(); ++n) {
    const auto& s = sharing[n];
    double network = 1;
    for (const auto& [link, rate] : s.demand)
      network = std::max(network, stretched(rate, offered[link] - s.on_network * rate, fabric_.link(link).bandwidth.value()));
    const auto& job = *placed[n].job;
    const int count = static_cast<int>(placed[n].devices.size());
    const auto& pace = job.pace(count);
    const double storage = stretched(s.storage, stored - s.on_storage * s.storage, all_storage_.value());
    steps.push_back(step_alone(job, count) + pace.on_network * (network - 1) + pace.step * writing(job, count) * (storage - 1));
  }
  return steps;
}

}  // namespace rehearsal::jobs
