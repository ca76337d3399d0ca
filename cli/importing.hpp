#pragma once
// What `import` is asked for; kinds of files that have a source of their own.

#include <optional>
#include <string>

#include "cli/platform_options.hpp"
#include "cli/terminal.hpp"
#include "exchange/frameworks/import.hpp"

namespace rehearsal::cli {

struct ImportOptions {
  std::string file, output, kind;
  ModelOptions model;
  PlatformOptions platform;
  std::optional<int> ranks, ranks_per_node;
  bool collectives = false;
};

/// A trace of the PyTorch profiler.
int import_profile(const ImportOptions&, Terminal&);
/// A configuration of another framework, into a plan file.
int import_configuration(const ImportOptions&, const exchange::ImportedJob&, Terminal&);

}  // namespace rehearsal::cli
