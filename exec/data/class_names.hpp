#pragma once
#include <string>
#include <vector>

namespace rehearsal::exec {

/// Throws BadInput when both number their classes by name, and not alike.
void require_same_classes(const std::vector<std::string>& sources, const std::vector<std::string>& others);

}  // namespace rehearsal::exec
