#pragma once
// Moving one tensor between two layouts that differ on one mesh axis: what each rank packs for the others, what travels, and where it goes.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// One axis' step of a conversion. Both layouts agree on every other axis.
struct Redistribution {
  graph::TensorId tensor = graph::TensorId::None;
  graph::NodeId user = graph::NodeId::None;  ///< whose operand the tensor is: constants have dimensions of their own at every use
  std::size_t operand = 0;
  Layout from, to;
  std::size_t axis = 0;  ///< into Sharding::axes
  ConversionKind kind = ConversionKind::AllGather;
  Turn turn = {};  ///< of Shift: the turn before it; both layouts leave the dimension whole
  /// All-gathers and reduce-scatters: so many before it in its list, and behind it, share its vector, in which every rank's block holds its
  /// blocks of all of them, in order.
  std::int32_t before = 0, behind = 0;
};

/// How an all-gather or reduce-scatter shares one tensor among ranks.
struct Dealing {
  DealtOut out;
  std::int64_t count = 0;  ///< elements of the whole
  bool in_order = false;   ///< every rank's block follows the one before it in the whole tensor: the tensor can be the vector
};
/// The same, with what is shared in equally many units joined.
[[nodiscard]] std::vector<DealtOut> in_fewer(const std::vector<DealtOut>&);
[[nodiscard]] Dealing dealing_of(const Sharding&, const Redistribution&, const Coordinates& at);

/// Cuts a region to the block of its turn.
void keep_turn(const Sharding&, const Turn&, const Coordinates& at, Region&);

/// A block of the message vector.
struct PackedBlock {
  std::int64_t peer = 0;  ///< coordinate along the axis
  Region region;          ///< of the whole tensor, in row-major order of its own
  std::int64_t offset = 0, count = 0;
};

/// Of one rank. The vector of an all-gather or reduce-scatter holds every rank's block in order of coordinate. That of an exchange
/// (all-to-all, halo, shift) holds first what is sent, by destination, then what is received, by source; a rank's own elements do not
/// travel.
struct Packing {
  std::vector<PackedBlock> packed;    ///< copied from the source before the message
  std::vector<PackedBlock> unpacked;  ///< copied to the target after it
  std::int64_t count = 0;             ///< elements of the vector
};
/// Of `list[which]`, in the vector that it shares.
[[nodiscard]] Packing packing_of(const Sharding&, std::span<const Redistribution> list, std::size_t which, const Coordinates& at);
[[nodiscard]] inline Packing packing_of(const Sharding& sharding, const Redistribution& alone, const Coordinates& at) {
  return packing_of(sharding, {&alone, 1}, 0, at);
}

/// What a coordinate holds before and after.
[[nodiscard]] Region region_before(const Sharding&, const Redistribution&, const Coordinates& at);
[[nodiscard]] Region region_after(const Sharding&, const Redistribution&, const Coordinates& at);

}  // namespace rehearsal::plan
