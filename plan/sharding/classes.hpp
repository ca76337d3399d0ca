#pragma once
// Which coordinates of a mesh hold blocks of the same sizes, and so do the same.

#include <vector>

#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

class BlockClasses {
 public:
  explicit BlockClasses(const Sharding&);
  /// Equal for coordinates whose local tensors all have equal shapes. Under a window the place itself counts: borders differ. The axis in
  /// time does not: all coordinates go through all of it.
  [[nodiscard]] std::vector<std::int64_t> of(const Coordinates&) const;

 private:
  /// One dimension cut by axes, outer to inner.
  struct Cut {
    graph::AtomId atom = graph::AtomId::None;
    std::vector<std::size_t> axes;
    bool by_place = false;
    friend auto operator<=>(const Cut&, const Cut&) = default;
  };
  void add(const Layout&);

  const Sharding& s_;
  std::vector<Cut> cuts_;
  std::vector<std::size_t> by_coordinate_;  ///< axes whose every coordinate is a class of its own
};

}  // namespace rehearsal::plan
