#pragma once
// Parts of the program that are opened only when they are wanted, because of what the libraries behind them need or cost.

#include <filesystem>
#include <string_view>

namespace rehearsal {

struct ModuleNames {
  std::string_view file;       ///< "librehearsal_sim.so": beside the program, or in lib/ of its prefix
  std::string_view variable;   ///< of the environment: names the file when it is elsewhere
  std::string_view what;       ///< of messages: "the simulator"
  std::string_view remedy;     ///< what to install or do when it is not there
  std::string_view factory;    ///< the function that it exports
  bool own_libraries = false;  ///< it has another version of a library that the program has, too: each of them calls its own
};

/// True where the module is there, or the environment says where it should be; "none" there leaves one out that is.
[[nodiscard]] bool has_module(const ModuleNames&);

/// The factory and the file that it is from. Throws EnvironmentFailure when the module is not there, cannot be opened, or lacks it. The
/// module stays open.
struct OpenedModule {
  void* factory = nullptr;
  std::filesystem::path file;
};
[[nodiscard]] OpenedModule open_module(const ModuleNames&);

}  // namespace rehearsal
