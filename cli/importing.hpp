#pragma once
// What `import` is asked for; kinds of files that have a source of their own.

#include <iosfwd>
#include <optional>
#include <string>

#include "cli/platform_options.hpp"
#include "cli/terminal.hpp"
#include "exchange/frameworks/plan_import.hpp"
#include "exchange/profile/profile.hpp"

namespace rehearsal::cli {

struct ImportCommand {
  std::string file, output, kind;
  ModelOptions model;
  PlatformOptions platform;
  std::optional<int> ranks, ranks_per_node;
  bool collectives = false;
};

/// A kind of files that say what a device did.
struct ProfileKind {
  const char* name;
  exchange::GpuProfile (*read)(std::istream&, const std::string& file);
  const char* without_steps;  ///< why one without marks of steps makes no record
};
int import_profile(const ImportCommand&, const ProfileKind&, Terminal&);
/// A configuration of another framework, into a plan file.
int import_configuration(const ImportCommand&, const exchange::ImportedJob&, Terminal&);

}  // namespace rehearsal::cli
