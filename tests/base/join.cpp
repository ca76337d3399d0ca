#include "base/join.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("texts are joined by a separator that stands only between them") {
  CHECK(joined(std::vector<std::string>{}).empty());
  CHECK(joined(std::vector<std::string>{"dp"}) == "dp");
  CHECK(joined(std::vector<std::string_view>{"dp", "pp", "tp"}) == "dp, pp, tp");
  CHECK(joined(std::vector<std::string>{"", "a", ""}, "|") == "|a|");
}

TEST_CASE("what is joined can be a member or a function of the elements") {
  struct Row {
    std::string_view name;
    int rank;
  };
  const std::vector<Row> rows = {{"relu", 2}, {"tanh", 4}};
  CHECK(joined(rows, "; ", &Row::name) == "relu; tanh");
  CHECK(joined(rows, " ", [](const Row& row) { return std::to_string(row.rank); }) == "2 4");
}
