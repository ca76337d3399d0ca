#pragma once
// What can go wrong, by whose fault it is. The exit status of the program follows from the type.
// Library code throws these; it never prints and never exits.

#include <stdexcept>
#include <string>

namespace rehearsal {

enum class ExitStatus : int {
  Done = 0,
  BadInput = 1,      ///< a file, key, node or flag value is wrong
  Usage = 2,         ///< the command line itself is wrong
  Refused = 3,       ///< the honest "no": nothing fits, nothing trainable, no operator can use the split
  Environment = 4,   ///< rank lost, disk full, library refused
  Internal = 70,     ///< our own bug
  Interrupted = 75,  ///< told to stop, and stopped: the same again goes on
};

class Error : public std::runtime_error {
 public:
  Error(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

/// The user's input is wrong. The message names the file, the key or node, and what would be right.
class BadInput : public Error {
 public:
  explicit BadInput(const std::string& message) : Error(ExitStatus::BadInput, message) {}
  BadInput(const std::string& where, const std::string& what) : Error(ExitStatus::BadInput, where + ": " + what) {}
};

/// The command line lacks something, or has something that no command knows. The message names the option.
class WrongUsage : public Error {
 public:
  WrongUsage(const std::string& where, const std::string& what) : Error(ExitStatus::Usage, where + ": " + what) {}
};

/// The input is fine, the answer is no.
class Refusal : public Error {
 public:
  explicit Refusal(const std::string& message) : Error(ExitStatus::Refused, message) {}
};

/// The machine, another rank, the disk or a library failed.
class EnvironmentFailure : public Error {
 public:
  explicit EnvironmentFailure(const std::string& message) : Error(ExitStatus::Environment, message) {}
};

/// A broken invariant of ours. Never reachable from user input.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitStatus::Internal, message) {}
};

/// Throws InternalError when an invariant of ours does not hold.
inline void ensure(bool holds, const char* sentence) {
  if (!holds) throw InternalError(sentence);
}

}  // namespace rehearsal
