#include "predict/frameworks/job.hpp"

#include <utility>

#include "base/error.hpp"

namespace rehearsal::predict::frameworks {

Recompute recompute_from_text(const std::string& text) {
  static const std::pair<const char*, Recompute> kKinds[] = {{"none", Recompute::None},
                                                             {"full", Recompute::Full},
                                                             {"full-except-last", Recompute::FullExceptLast},
                                                             {"selective", Recompute::Selective},
                                                             {"selective-op", Recompute::SelectiveOps}};
  for (const auto& [name, kind] : kKinds)
    if (text == name) return kind;
  throw BadInput("recompute", "'" + text + "' is none of none, full, full-except-last, selective, selective-op");
}

}  // namespace rehearsal::predict::frameworks
