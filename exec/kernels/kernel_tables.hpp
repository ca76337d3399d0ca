#pragma once
// The kernels of a backend: tables in order of preference. The first row that accepts a node and is expected to be quicker than those
// behind it runs it; where none is expected to be, the first that accepts.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/kernels/kernel.hpp"

namespace rehearsal::exec {

class KernelTables {
 public:
  /// Kernels are made for this device, which must outlive them; nullptr: the host.
  explicit KernelTables(ComputeDevice* device = nullptr) : device_(device) {}
  void add(std::span<const KernelRow> rows) { tables_.push_back(rows); }

  /// In order of preference.
  [[nodiscard]] std::vector<const KernelRow*> rows_of(std::string_view op) const;
  /// What the row says that runs the node; nothing when none accepts. `reasons`: why others, and it itself where none was expected to be
  /// quick, were not taken at once; an offer carries them, too.
  [[nodiscard]] std::optional<plan::KernelOffer> offer(const plan::LocalNode& node, std::string& reasons) const;
  /// What the row of this name says, whether it is expected to be quick or not; nothing when it refuses, with the reason.
  [[nodiscard]] std::optional<plan::KernelOffer> offer_by(std::string_view implementation, const plan::LocalNode& node,
                                                          std::string& reason) const;
  /// The kernel that was offered under this name; one that is shareable may be in use elsewhere. Throws Refusal naming operator and reason.
  [[nodiscard]] std::shared_ptr<Kernel> make(const std::string& implementation, const KernelRequest& request) const;
  /// Drops what make() remembers.
  void forget() const { shared_.clear(); }

 private:
  [[nodiscard]] std::shared_ptr<Kernel> make_by(const KernelRow&, const KernelRequest&, std::string& reason) const;

  ComputeDevice* device_;
  std::vector<std::span<const KernelRow>> tables_;
  mutable std::map<std::string, std::weak_ptr<Kernel>> shared_;
};

/// The same node in a micro-batch of another size.
[[nodiscard]] plan::LocalNode with_types(const plan::LocalNode&, const plan::LocalTypes&);
/// Of what a node computes, however its operands lie now: times of kernels are known by it.
[[nodiscard]] std::string node_key(const plan::LocalNode&);
/// Nodes of one signature get one offer.
[[nodiscard]] std::string signature_of(const plan::LocalNode&);

}  // namespace rehearsal::exec
