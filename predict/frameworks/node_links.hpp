#pragma once
// The links that groups of ranks meet: those of the nodes that they are on, and of no others.

#include <map>
#include <optional>

#include "costmodel/collective_library.hpp"
#include "predict/frameworks/groups.hpp"

namespace rehearsal::predict::frameworks {

class NodeLinks {
 public:
  explicit NodeLinks(const platforms::Platform&);

  /// Of all nodes.
  [[nodiscard]] const costmodel::CollectiveLibrary& all() const { return all_; }
  /// Of ranks on these kinds of nodes. Looked up once for each set of them.
  [[nodiscard]] const costmodel::CollectiveLibrary& among(const NodeKinds&) const;

 private:
  costmodel::CollectiveLibrary all_;
  std::optional<platforms::Platform> mixed_;  ///< where nodes are of several kinds
  mutable std::map<NodeKinds, costmodel::CollectiveLibrary> known_;
};

}  // namespace rehearsal::predict::frameworks
