#pragma once
#include <cstdint>
#include <string_view>

namespace rehearsal::costmodel {

/// What a group of ranks does together with a vector.
enum class CollectiveKind : std::uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, Halo, Shift };
inline constexpr int kCollectiveKinds = static_cast<int>(CollectiveKind::Shift) + 1;
/// "all-reduce"
[[nodiscard]] std::string_view name(CollectiveKind);

}  // namespace rehearsal::costmodel
