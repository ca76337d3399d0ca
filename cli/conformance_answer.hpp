#pragma once
#include "cli/command.hpp"

namespace rehearsal::cli {

Action add_conformance(CLI::App&);

}  // namespace rehearsal::cli
