#pragma once
// What the help of a command says, taken from its parser. The terminal and man pages show it.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rehearsal::cli {

struct HelpEntry {
  std::string name;   ///< "--batch", "-h,--help", "MODEL", "search"
  std::string value;  ///< "N", "TEXT", "text|json"; empty for what takes none
  std::string text;   ///< with its default, where it has one
};
struct HelpGroup {
  std::string title;
  std::vector<HelpEntry> entries;
};
struct HelpPage {
  std::string command;  ///< "rehearse", "rehearse estimate"
  std::string summary, usage;
  std::vector<HelpGroup> groups;
  std::vector<std::string> examples;
};

/// The commands of a parser that its help shows.
[[nodiscard]] std::vector<const CLI::App*> shown_commands(const CLI::App&);
/// Arguments, commands and options by group; the keys of a plan where the command takes one.
[[nodiscard]] HelpPage help_page(const CLI::App&);
/// For a window of so many columns.
[[nodiscard]] std::string help_text(const HelpPage&, std::size_t columns);
/// A page for man(1), in the macros of man(7).
[[nodiscard]] std::string man_page(const HelpPage&, const std::string& version);

/// Options that are added while this lives stand under `title`.
class OptionGroup {
 public:
  OptionGroup(CLI::App&, const std::string& title);
  ~OptionGroup();
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  CLI::App& app_;
  std::string before_;
};

/// The title of what every command has: --help and --format.
inline constexpr const char* kOutputGroup = "Output";

}  // namespace rehearsal::cli
