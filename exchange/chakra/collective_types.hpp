#pragma once
// Chakra's numbers of collectives.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "costmodel/collective_kind.hpp"

namespace rehearsal::exchange {

struct CollectiveType {
  std::int64_t number;
  std::string_view name;
  std::optional<costmodel::CollectiveKind> ours;
};
inline constexpr std::array kCollectiveTypes{CollectiveType{0, "all-reduce", costmodel::CollectiveKind::AllReduce},
                                             CollectiveType{1, "reduce", costmodel::CollectiveKind::Reduce},
                                             CollectiveType{2, "all-gather", costmodel::CollectiveKind::AllGather},
                                             CollectiveType{3, "gather", std::nullopt},
                                             CollectiveType{4, "scatter", std::nullopt},
                                             CollectiveType{5, "broadcast", costmodel::CollectiveKind::Broadcast},
                                             CollectiveType{6, "all-to-all", costmodel::CollectiveKind::AllToAll},
                                             CollectiveType{7, "reduce-scatter", costmodel::CollectiveKind::ReduceScatter},
                                             CollectiveType{8, "reduce-scatter of blocks", std::nullopt},
                                             CollectiveType{9, "barrier", std::nullopt}};

/// Nothing for exchanges between neighbours, which Chakra has no number for.
[[nodiscard]] constexpr std::optional<std::int64_t> collective_type(costmodel::CollectiveKind kind) {
  for (const auto& row : kCollectiveTypes)
    if (row.ours == kind) return row.number;
  return std::nullopt;
}

}  // namespace rehearsal::exchange
