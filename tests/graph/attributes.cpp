#include "graph/attributes.hpp"

#include "base/error.hpp"
#include "graph/shape.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

TEST_CASE("attributes are equal whatever the order in which they were set") {
  Attributes a{{"pads", std::vector<std::int64_t>{0, 1}}, {"axis", std::int64_t{1}}};
  Attributes b{{"axis", std::int64_t{1}}};
  b.set("pads", std::vector<std::int64_t>{9});
  b.set("pads", std::vector<std::int64_t>{0, 1});
  CHECK(a == b);
  CHECK(a.to_text() == "axis=1;pads=[0,1]");
  a.erase("pads");
  CHECK_FALSE(a == b);
  CHECK_FALSE(a.has("pads"));
}

TEST_CASE("attributes of another kind are refused by name") {
  const Attributes a{{"axis", std::string("one")}, {"eps", 0.5}, {"count", std::int64_t{3}}};
  CHECK_THROWS_WITH(a.integer("axis", 0), contains("axis") && contains("a text") && contains("an integer"));
  CHECK_THROWS_AS(a.integers("eps"), BadInput);
  CHECK(a.number("count", 0) == 3.0);  // an integer is a number
  CHECK(a.number("absent", 7.5) == 7.5);
  CHECK(a.number("eps", 0) == 0.5);
}

TEST_CASE("numbers appear in the text in the shortest exact form") {
  CHECK(Attributes{{"e", 1e-5}, {"x", std::vector<double>{0.1, 2}}}.to_text() == "e=1e-05;x=[0.1,2]");
}

TEST_CASE("shapes broadcast as in NumPy") {
  CHECK(broadcast({4, 1, 3}, {5, 1}) == Shape{4, 5, 3});
  CHECK(broadcast({}, {2}) == Shape{2});
  CHECK(broadcast({0}, {1}) == Shape{0});
  CHECK_THROWS_WITH(broadcast({2, 3}, {2}), contains("[2,3]") && contains("[2]"));
}

TEST_CASE("axes count from either end") {
  CHECK(normalize_axis(-1, 4) == 3);
  CHECK(normalize_axis(3, 4) == 3);
  CHECK_THROWS_AS(normalize_axis(4, 4), BadInput);
  CHECK_THROWS_AS(normalize_axis(-5, 4), BadInput);
  CHECK_THROWS_AS(normalize_axis(0, 0), BadInput);
}

TEST_CASE("element counts that overflow are refused") {
  CHECK(element_count({}) == 1);
  CHECK(element_count({3, 0, 5}) == 0);
  CHECK_THROWS_AS(element_count({std::int64_t{1} << 32, std::int64_t{1} << 31}), BadInput);
  CHECK_THROWS_AS(element_count({-1}), BadInput);
}
