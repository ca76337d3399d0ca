#pragma once
// Reads KIND:PATH?KEY=VALUE.

#include <string>
#include <vector>

#include "exec/data/dataset.hpp"

namespace rehearsal::exec {

/// "a-{00..02}-{x,y}.tar" -> a-00-x.tar, a-00-y.tar, a-01-x.tar, ... Throws BadInput for braces that do not close, or count down.
[[nodiscard]] std::vector<std::string> expanded_braces(const std::string& text);

struct FoundData {
  const DataKind* kind = nullptr;
  DataPlace place;
};
/// Throws BadInput when a source is of no kind, of another kind than the one before, or has keys that its kind does not have.
[[nodiscard]] FoundData find_data(const std::vector<std::string>& sources);

}  // namespace rehearsal::exec
