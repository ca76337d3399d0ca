#pragma once
// Whether what passes leave is checked behind each of them.

#include <cstdlib>

namespace rehearsal {

/// In builds with assertions; in others where REHEARSAL_CHECK_PROGRAMS is set, as it is for the tests.
[[nodiscard]] inline bool checks_every_pass() {
#ifdef NDEBUG
  static const bool asked = std::getenv("REHEARSAL_CHECK_PROGRAMS") != nullptr;
  return asked;
#else
  return true;
#endif
}

}  // namespace rehearsal
