#pragma once
// How commands talk to the user: results on stdout, everything else on stderr.

#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/progress.hpp"

namespace rehearsal::cli {

class Terminal {
 public:
  Terminal(std::ostream& out, std::ostream& err) : out_(out), err_(err) {}

  void set_json(bool json) { json_ = json; }
  [[nodiscard]] bool json() const { return json_; }
  /// Prints a result document: JSON as it is, or as text with units taken from the keys' suffixes. Only rank 0 of a run calls it.
  void print(const nlohmann::ordered_json& result) const;
  /// The same, but what stdout has not taken within so many seconds is dropped. Launchers that end a job stop reading what its ranks print,
  /// and a rank that waits for them is killed before it has told its status.
  void print_within(const nlohmann::ordered_json& result, double seconds) const;
  /// A line that is neither a warning nor an error.
  void say(const std::string& sentence) const;
  void warn(const std::string& sentence) const;
  void error(const std::string& sentence) const;
  [[nodiscard]] std::ostream& out() const { return out_; }
  [[nodiscard]] std::ostream& err() const { return err_; }
  /// True when what is written to err() is seen at once, on a terminal where a line can be drawn over another.
  [[nodiscard]] bool draws() const;
  /// A bar with rate and time left on a terminal, silence elsewhere; stops on Ctrl-C.
  [[nodiscard]] std::unique_ptr<Progress> progress(const std::string& label) const;

 private:
  [[nodiscard]] std::string text_of(const nlohmann::ordered_json& result) const;

  std::ostream& out_;
  std::ostream& err_;
  bool json_ = false;
};

/// Writes to a pipe or terminal what it takes within so many seconds; says whether that was all.
bool write_within(int file, std::string_view text, double seconds);

/// Ctrl-C asks long work to stop; a second one ends the program.
void install_interrupt_handler();
/// From now on what batch systems and launchers send before they end a job (SIGTERM, SIGUSR1) asks for the same.
void install_termination_handler();
[[nodiscard]] bool interrupted();

/// Says no more often than every so many seconds that it is time.
class Throttle {
 public:
  explicit Throttle(double seconds) : seconds_(seconds) {}
  [[nodiscard]] bool due();

 private:
  double seconds_, next_ = 0;
};

}  // namespace rehearsal::cli
