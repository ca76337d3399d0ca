#pragma once
// Flags of a command line as users keep them: a file of flags, a shell script, or YAML with a flag a line.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearsal::exchange {

/// Keys and their values, as they stand in a file.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Flags by name ("--num-layers", with dashes for underscores), the last of several. What was asked for is remembered, so that the rest
/// can be told.
class Flags {
 public:
  /// Every word of the text that begins with -- is a flag; the words behind it in its line are its values, up to the next one, a sign
  /// of the shell, a program (.py) or variables of flags (${NAME[@]}, $..._ARGS). Comments and quotes are left out; $NAME, ${NAME} and
  /// ${NAME:-otherwise} stand for what the text set before.
  Flags(const std::string& text, std::string file);
  /// Keys of a file of another form, the last of several.
  Flags(const Settings&, std::string file);

  /// Whether a flag is given, as a switch or with a value. YAML's `false` is as if it were not there.
  [[nodiscard]] bool has(std::string_view flag);
  /// Whether it is given as `false`.
  [[nodiscard]] bool denied(std::string_view flag);
  /// Its only value; nothing where the flag is not given. Throws BadInput naming file and flag: none or several, or a variable that
  /// nothing set.
  [[nodiscard]] std::optional<std::string> text(std::string_view flag);
  /// Throws BadInput, too, where the value is no such number.
  [[nodiscard]] std::optional<std::int64_t> whole(std::string_view flag);
  [[nodiscard]] std::optional<double> number(std::string_view flag);
  /// Flags that nobody asked for, in alphabetical order.
  [[nodiscard]] std::vector<std::string> rest() const;
  [[nodiscard]] bool empty() const { return flags_.empty(); }

 private:
  struct Flag {
    std::vector<std::string> values;
    bool asked = false;
  };
  void read_line(const std::string& line);
  void add(const std::string& word, std::string& open);
  [[nodiscard]] std::string replaced(const std::string& word) const;
  Flag* find(std::string_view flag);

  std::string file_;
  std::map<std::string, Flag, std::less<>> flags_;
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace rehearsal::exchange
