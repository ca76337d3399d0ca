// Tables of text.
#include "base/csv.hpp"

#include <sstream>

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("cells lie between commas, and quotes hold those that are none") {
  std::istringstream in(
      "\xEF\xBB\xBF"
      "a, b ,\"c, d\",\"say \"\"x\"\"\"\r\n\n  \n,,,\n1,2,3,last");
  CsvReader table(in, "table");
  std::vector<std::string> cells;
  REQUIRE(table.next(cells));
  CHECK(cells == std::vector<std::string>{"a", "b", "c, d", "say \"x\""});
  REQUIRE(table.next(cells));
  CHECK(cells == std::vector<std::string>{"", "", "", ""});
  CHECK_THROWS_WITH(table.refuse("is wrong"), contains("table:4") && contains("is wrong"));
  REQUIRE(table.next(cells));
  CHECK(cells == std::vector<std::string>{"1", "2", "3", "last"});
  CHECK_FALSE(table.next(cells));
}

TEST_CASE("rows of another length and open quotes are refused by their line") {
  std::vector<std::string> cells;
  const auto refused = [&](const std::string& text, const std::string& why) {
    std::istringstream in(text);
    CsvReader table(in, "table");
    REQUIRE(table.next(cells));
    CHECK_THROWS_WITH(table.next(cells), contains("table:2") && contains(why));
  };
  refused("a,b\n1\n", "has 1 cells; the first line names 2");
  refused("a,b\n1,2,3\n", "has 3 cells");
  refused("a,b\n1,\"2\n", "a quote is not closed");
}
