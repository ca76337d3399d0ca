// Lines of files that were written by hand.
#include "base/text_lines.hpp"

#include <sstream>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/process.hpp"

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

TEST_CASE("text in UTF-16 is refused by name, whichever byte is first") {
  for (const auto* text : {"\xFF\xFE{", "\xFE\xFF"})
    CHECK_THROWS_WITH(refuse_utf16(text, "plans.txt"), contains("plans.txt") && contains("UTF-8"));
  for (const auto* text : {"", "{}", "\xEF\xBB\xBF{}", "\xFF"}) CHECK_NOTHROW(refuse_utf16(text, "plans.txt"));
}

TEST_CASE("a text is a file that can be read, in UTF-8") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(open_text(folder / ""), contains("is a folder"));
  CHECK_THROWS_WITH(open_text(folder / "none.csv"), contains("none.csv") && contains("cannot be read"));
  write_text(folder / "wide.csv", std::string("\xFF\xFEh\0", 4));
  CHECK_THROWS_WITH(open_text(folder / "wide.csv"), contains("wide.csv") && contains("UTF-8"));
  write_text(folder / "empty.csv", "");
  CHECK_NOTHROW(open_text(folder / "empty.csv"));
}
