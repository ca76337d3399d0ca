#pragma once
// Which keys attention never sees, as far as that is known before a run: masks that are constants.

#include <map>
#include <optional>

#include "graph/value.hpp"
#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// Reads masks; remembers those that several layers share.
class ConstantMasks {
 public:
  explicit ConstantMasks(const graph::Graph& graph) : g_(graph) {}

  /// AttentionRing::masked of a ring whose nodes are known. Empty where nothing is masked for sure: another mask depends on data or hides
  /// other pairs, a row would see no key at all, or there are too many pairs of rows and keys to look at and no comparison of a number of
  /// the row with one of the key makes them.
  [[nodiscard]] std::vector<bool> masked_blocks(const Sharding&, const AttentionRing&);

 private:
  /// How the ranks share the rows.
  struct View {
    std::int64_t rows, blocks, row_dim;
  };
  class Seen;
  struct Hidden {
    bool any = false;          ///< some pair of row and key
    std::vector<bool> blocks;  ///< as AttentionRing::masked
  };
  const graph::Value* value_of(graph::TensorId);
  bool see_chosen(const AttentionRing&, const RingNode&, const View&, Seen&);
  bool look_through(const AttentionRing&, const RingNode&, const View&, Hidden&);

  const graph::Graph& g_;
  std::map<graph::TensorId, std::optional<graph::Value>> known_;
  std::map<std::vector<std::int64_t>, std::vector<bool>> found_;  ///< by what masks and how the ranks share rows and keys
};

}  // namespace rehearsal::plan
