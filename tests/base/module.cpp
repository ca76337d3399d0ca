// What is opened only when it is wanted, and where it is looked for.

#include "base/module.hpp"

#include <cstdlib>

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("a module is there where the environment says so, and left out where it says none") {
  constexpr ModuleNames kAbsent{"librehearsal_absent.so", "REHEARSAL_ABSENT_MODULE", "what is absent", "Nothing makes it", "factory"};
  CHECK_FALSE(has_module(kAbsent));
  setenv("REHEARSAL_ABSENT_MODULE", "", 1);
  CHECK_FALSE(has_module(kAbsent));
  setenv("REHEARSAL_ABSENT_MODULE", "none", 1);
  CHECK_FALSE(has_module(kAbsent));
  setenv("REHEARSAL_ABSENT_MODULE", "/nowhere/module.so", 1);
  CHECK(has_module(kAbsent));  // who names it wants to be told that it is not there
  CHECK_THROWS_WITH(open_module(kAbsent), contains("what is absent is not installed: /nowhere/module.so does not exist"));
  CHECK_THROWS_AS(open_module(kAbsent), EnvironmentFailure);
}
