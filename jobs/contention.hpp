#pragma once
// What jobs lose to each other on links and storage that they share.
//
// A job on several nodes sends round a ring of its nodes, device by device, at the rate of its cards while it waits for the network, a
// share f of its time. On a link of capacity c that it could fill at the rate d, its messages take longer by max(1, (d + sum of f_k d_k
// over the others) / max(c, d)): the others are there as often as they wait for the network themselves, and whoever is there shares fairly.
// The most crowded link counts. Checkpoints share the storage of all nodes in the same way.

#include <map>
#include <span>
#include <vector>

#include "jobs/cluster.hpp"
#include "jobs/job.hpp"
#include "platforms/fabric.hpp"

namespace rehearsal::jobs {

/// A job on its devices.
struct Placed {
  const Job* job;
  Devices devices;
};

class Contention {
 public:
  explicit Contention(const platforms::Platform&);

  /// Writing (or reading) one checkpoint from so many devices with nobody beside it; 0 where the platform does not say how quick storage
  /// is.
  [[nodiscard]] Seconds checkpoint_time(const Job&, int devices) const;
  /// Of a step, checkpoints included, with nobody beside it: what steps() gives a job that shares nothing, wherever it is.
  [[nodiscard]] Seconds step_alone(const Job&, int devices) const;
  /// The whole job on the devices that it asks for, without waiting and sharing.
  [[nodiscard]] Seconds alone(const Job& job) const { return step_alone(job, job.devices) * job.steps; }
  /// Of a step, checkpoints included, while all of these run.
  [[nodiscard]] std::vector<Seconds> steps(std::span<const Placed>) const;
  [[nodiscard]] bool knows_storage() const { return node_storage_.value() > 0; }

 private:
  /// By link, the rate at which a job could fill it.
  using Demand = std::map<std::uint32_t, double>;
  [[nodiscard]] Demand demand_of(const Devices&) const;
  [[nodiscard]] double storage_demand(int devices) const;
  /// Time of writing over that of training, with nobody beside it.
  [[nodiscard]] double writing(const Job&, int devices) const;

  platforms::Fabric fabric_;
  int per_node_;
  double card_rate_;  ///< bytes per second of a device's share of the node's cards
  BytesPerSecond node_storage_, all_storage_;
};

}  // namespace rehearsal::jobs
