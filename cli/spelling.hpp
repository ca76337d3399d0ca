#pragma once
// Values of options that are names.

#include "base/names.hpp"

namespace CLI {
class Option;
}

namespace rehearsal::cli {

/// The option takes these names in whatever spelling, and any other text as it is. They must outlive it.
void as_name(CLI::Option*, Names);

}  // namespace rehearsal::cli
