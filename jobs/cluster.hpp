#pragma once
// Which devices of a cluster of equal nodes are free, and where jobs can go.

#include <optional>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::jobs {

/// Numbers of devices, ascending.
using Devices = std::vector<int>;

class Cluster {
 public:
  /// Throws Refusal for a platform of several kinds of nodes: a job's pace would depend on where it is put.
  explicit Cluster(const platforms::Platform&);

  [[nodiscard]] int devices() const { return static_cast<int>(free_.size()); }
  [[nodiscard]] int per_node() const { return per_node_; }
  [[nodiscard]] int nodes() const { return devices() / per_node_; }
  [[nodiscard]] int free() const;
  /// Up to a node's devices, or whole nodes, as far as there are such.
  [[nodiscard]] bool can_have(int devices) const;

  /// Devices for a job, on as few nodes as hold it, as its pace was predicted: of the fullest node that has room, or whole free nodes, side
  /// by side where possible. Nothing where there are none. Those of `reserved` are not given.
  [[nodiscard]] std::optional<Devices> room(int devices, const Devices& reserved = {}) const;
  [[nodiscard]] bool is_free(const Devices&) const;
  void take(const Devices&);
  void release(const Devices&);

 private:
  [[nodiscard]] std::optional<Devices> within_node(int devices, const std::vector<bool>& usable) const;
  [[nodiscard]] std::optional<Devices> whole_nodes(int nodes, const std::vector<bool>& usable) const;

  int per_node_ = 1;
  std::vector<bool> free_;
};

}  // namespace rehearsal::jobs
