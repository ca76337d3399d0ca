#include "predict/frameworks/job.hpp"

#include <utility>

namespace rehearsal::predict::frameworks {

std::optional<Recompute> recompute_named(std::string_view text) {
  constexpr std::pair<std::string_view, Recompute> kKinds[] = {{"none", Recompute::None},
                                                               {"full", Recompute::Full},
                                                               {"full-except-last", Recompute::FullExceptLast},
                                                               {"selective", Recompute::Selective},
                                                               {"selective-op", Recompute::SelectiveOps}};
  for (const auto& [name, kind] : kKinds)
    if (text == name) return kind;
  return std::nullopt;
}

}  // namespace rehearsal::predict::frameworks
