#pragma once
// How a tensor lies on a mesh of ranks: per mesh axis replicated, split or a pending sum.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/dims/atoms.hpp"
#include "graph/split_rule.hpp"
#include "plan/block.hpp"

namespace rehearsal::plan {

enum class LayoutKind : std::uint8_t { Replicated, Split, Partial };

/// How one mesh axis lays out one tensor.
struct AxisLayout {
  LayoutKind kind = LayoutKind::Replicated;
  graph::LabelKind reduction = graph::LabelKind::Sum;  ///< of Partial: Sum, Max or Min
  std::int32_t halo = 0;  ///< of Split, only wanted, never produced: with the neighbours' rows that a window needs (halo_number())
  std::int16_t dim = 0, factor = 0;          ///< of Split
  graph::AtomId atom = graph::AtomId::None;  ///< of Split
  friend bool operator==(const AxisLayout&, const AxisLayout&) = default;

  [[nodiscard]] bool replicated() const { return kind == LayoutKind::Replicated; }
  [[nodiscard]] bool split() const { return kind == LayoutKind::Split; }
  [[nodiscard]] bool partial() const { return kind == LayoutKind::Partial; }
};
using Layout = std::vector<AxisLayout>;  ///< one per mesh axis

/// The ranks of an axis pass the blocks of a dimension round: in turn t a rank has the block of the coordinate t before its own.
struct Turn {
  std::int16_t axis = -1;  ///< of the sharding; -1: the tensor is not passed round
  std::int16_t dim = 0;
  std::int32_t number = 0;
  [[nodiscard]] bool any() const { return axis >= 0; }
  friend bool operator==(const Turn&, const Turn&) = default;
};

/// Position on every mesh axis.
using Coordinates = std::vector<std::int64_t>;
/// The indices of one dimension that a coordinate owns, ascending; several ranges when an inner factor is split.
using IndexSet = std::vector<Range>;
/// What a local tensor holds of the whole one: one index set per dimension.
using Region = std::vector<IndexSet>;

}  // namespace rehearsal::plan
