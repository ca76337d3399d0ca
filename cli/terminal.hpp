#pragma once
// How commands talk to the user: results on stdout, everything else on stderr.

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

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
  void warn(const std::string& sentence) const;
  void error(const std::string& sentence) const;
  [[nodiscard]] std::ostream& out() const { return out_; }
  [[nodiscard]] std::ostream& err() const { return err_; }
  /// A bar on a terminal, silence elsewhere; stops on Ctrl-C.
  [[nodiscard]] std::unique_ptr<Progress> progress(const std::string& label) const;

 private:
  std::ostream& out_;
  std::ostream& err_;
  bool json_ = false;
};

/// Lines of text for a result: "step  12.3 ms", nested objects indented, arrays of objects as tables.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json& result);

/// Ctrl-C asks long work to stop; a second one ends the program.
void install_interrupt_handler();
[[nodiscard]] bool interrupted();

}  // namespace rehearsal::cli
