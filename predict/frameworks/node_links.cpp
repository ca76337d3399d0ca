#include "predict/frameworks/node_links.hpp"

namespace rehearsal::predict::frameworks {

NodeLinks::NodeLinks(const platforms::Platform& platform) : all_(platform) {
  if (platform.nodes.size() > 1) mixed_ = platform;
}

const costmodel::CollectiveLibrary& NodeLinks::among(const NodeKinds& kinds) const {
  if (!mixed_ || kinds.empty() || kinds.size() == mixed_->nodes.size()) return all_;
  const auto known = known_.find(kinds);
  return known != known_.end() ? known->second : known_.emplace(kinds, costmodel::CollectiveLibrary(*mixed_, kinds)).first->second;
}

}  // namespace rehearsal::predict::frameworks
