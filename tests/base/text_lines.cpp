// Lines of files that were written by hand.
#include "base/text_lines.hpp"

#include <sstream>

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("lines come without a byte-order mark and without what ends them") {
  std::istringstream in(
      "\xEF\xBB\xBF"
      "one\r\n\r\ntwo\n\xEF\xBB\xBFthree");
  TextLines lines(in);
  std::string line;
  for (const auto* expected : {"one", "", "two", "\xEF\xBB\xBFthree"}) {
    REQUIRE(lines.next(line));
    CHECK(line == expected);
  }
  CHECK(lines.number() == 4);
  CHECK_FALSE(lines.next(line));
  CHECK(lines.number() == 4);
  CHECK(without_byte_order_mark("\xEF\xBB\xBF[1]") == "[1]");
  CHECK(without_byte_order_mark("[1]\xEF\xBB\xBF") == "[1]\xEF\xBB\xBF");
}
