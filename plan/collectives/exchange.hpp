#pragma once
// All-to-all with sizes that differ from pair to pair: what conversions between two splits, and halos, need.

#include <span>

#include "plan/collectives/collective.hpp"
#include "plan/sharding/redistribution.hpp"

namespace rehearsal::plan {

/// Steps of the rank at coordinate `me`: in step s it sends to me + s and receives from me - s. A row's steps do not know the sizes of
/// other ranks' messages; these follow from the packing.
[[nodiscard]] std::vector<CollectiveStep> exchange_steps(int me, int ranks, const Packing&);

/// Of the rank at coordinate `me`, where every message takes its turn: sum over steps of the longer of the message that leaves and the one
/// that comes, over the links between their nodes, which all ranks of a node share that send equally far.
[[nodiscard]] Seconds exchange_time(int me, const std::vector<CollectiveStep>&, double element_bytes, const CollectiveLinks&);

/// Whose steps of a row, on a vector of `count` elements of which ranks have parts as CollectiveInfo::dealt says.
struct RowMember {
  int rank = 0, ranks = 1;
  std::int64_t count = 0;
  int ranks_per_node = 1;
  std::span<const DealtOut> dealt = {};
};
/// Where the parts of ranks begin in a vector of `count` elements, in order of rank, and where the last one ends.
[[nodiscard]] std::vector<std::int64_t> begins_of_parts(std::span<const DealtOut> dealt, int ranks, std::int64_t count);
[[nodiscard]] std::vector<CollectiveStep> steps_in_parts(const CollectiveRow&, const RowMember&);

/// One rank's part in a collective of a Program.
struct CollectiveMember {
  int rank = 0;
  int micro_batch = 0;
  std::int64_t count = 0;  ///< elements of the vector
  double element_bytes = 4;
  int ranks_per_node = 1;
};
/// Steps of one rank, whatever the kind of the collective.
[[nodiscard]] std::vector<CollectiveStep> steps_of(const Program&, const CollectiveInfo&, const Role&, const CollectiveMember&);
/// Its closed form.
[[nodiscard]] Seconds collective_time(const Program&, const CollectiveInfo&, const Role&, const CollectiveMember&, const CollectiveLinks&);

/// Of a Program that was read: throws BadInput naming an algorithm that there is not, or that does not fit its group.
void check_algorithms(const Program&);

/// Whether ranks put its parts into each other's memory.
[[nodiscard]] bool is_one_sided(const CollectiveInfo&);

}  // namespace rehearsal::plan
