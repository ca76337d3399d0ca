#pragma once
// Collectives that users name: of a question about them, of a log.

#include <algorithm>
#include <array>
#include <string>

#include "base/names.hpp"
#include "costmodel/collective_kind.hpp"

namespace rehearsal::cli {

inline constexpr std::array kNamedCollectives{costmodel::CollectiveKind::AllReduce, costmodel::CollectiveKind::ReduceScatter,
                                              costmodel::CollectiveKind::AllGather, costmodel::CollectiveKind::AllToAll,
                                              costmodel::CollectiveKind::Broadcast, costmodel::CollectiveKind::Reduce};

/// Of --kind. Throws BadInput for another name.
[[nodiscard]] inline costmodel::CollectiveKind collective_named(const std::string& text) {
  const auto names = names_of_rows(kNamedCollectives, [](costmodel::CollectiveKind kind) { return costmodel::name(kind); });
  const auto name = known_name("--kind", text, names);
  return kNamedCollectives[static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())];
}

}  // namespace rehearsal::cli
