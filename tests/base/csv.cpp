// Tables of text.
#include "base/csv.hpp"

#include <sstream>

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("cells lie between commas, and quotes hold those that are none") {
  std::istringstream in("a, b ,\"c, d\",\"say \"\"x\"\"\"\r\n\n  \n,\nlast");
  CsvReader table(in, "table");
  std::vector<std::string> cells;
  REQUIRE(table.next(cells));
  CHECK(cells == std::vector<std::string>{"a", "b", "c, d", "say \"x\""});
  REQUIRE(table.next(cells));
  CHECK(cells == std::vector<std::string>{"", ""});
  CHECK_THROWS_WITH(table.refuse("is wrong"), contains("table:4") && contains("is wrong"));
  REQUIRE(table.next(cells));
  CHECK(cells == std::vector<std::string>{"last"});
  CHECK_FALSE(table.next(cells));
}
