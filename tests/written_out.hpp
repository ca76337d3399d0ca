#pragma once
// Results that are written out, to be read: text that is compared with a stored file. REHEARSAL_WRITE_OUT=1 writes the files anew; whoever
// does so reads what `git diff` shows of them (docs/testing.md).

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/catch.hpp"

namespace rehearsal::test {

/// The first line in which they differ, with both; "" when none does.
inline std::string first_difference(const std::string& before, const std::string& now) {
  std::istringstream a(before), b(now);
  std::string was, is;
  for (int line = 1;; ++line) {
    const bool more_before = static_cast<bool>(std::getline(a, was)), more_now = static_cast<bool>(std::getline(b, is));
    if (!more_before && !more_now) return "";
    if (!more_before || !more_now || was != is)
      return "line " + std::to_string(line) + "\n  was: " + (more_before ? was : "(the end)") + "\n  is:  " + (more_now ? is : "(the end)");
  }
}

/// Fails where the file holds something else than `now`.
inline void check_written_out(const std::string& path, const std::string& now) {
  if (std::getenv("REHEARSAL_WRITE_OUT") != nullptr) std::ofstream(path) << now;
  std::stringstream stored;
  stored << std::ifstream(path).rdbuf();
  INFO(path << " differs in " << first_difference(stored.str(), now));
  CHECK(stored.str() == now);
}

}  // namespace rehearsal::test
