#include "formats/onnx/symbols.hpp"

#include "base/error.hpp"
#include "tests/catch.hpp"

namespace rehearsal::formats {
namespace {

TEST_CASE("expressions of sizes", "[symbols]") {
  const Bindings b{{"batch", 4}, {"seq", 12}, {"DynamicDimension.0", 3}};
  CHECK(evaluate_size("batch", b) == 4);
  CHECK(evaluate_size("seq + 1", b) == 13);
  CHECK(evaluate_size("2*seq*batch", b) == 96);  // 2 * 12 * 4
  CHECK(evaluate_size("((batch*seq)//batch)", b) == 12);
  CHECK(evaluate_size("Min(512, seq)", b) == 12);
  CHECK(evaluate_size("Max(batch, seq - 10)", b) == 4);  // max(4, 2)
  CHECK(evaluate_size("DynamicDimension.0", b) == 3);
  CHECK(evaluate_size("-(2 - seq) % 7", b) == 3);  // 10 mod 7
  CHECK(evaluate_size("224", b) == 224);
}

TEST_CASE("symbols without a value are named", "[symbols]") {
  std::set<std::string> unbound;
  CHECK_FALSE(evaluate_size("2*a + b", {{"b", 1}}, &unbound).has_value());
  CHECK(unbound == std::set<std::string>{"a"});
  unbound.clear();
  CHECK_FALSE(evaluate_size("what is this?", {}, &unbound).has_value());  // no expression: one odd symbol
  CHECK(unbound == std::set<std::string>{"what is this?"});
  CHECK(evaluate_size("what is this?", {{"what is this?", 5}}) == 5);
}

TEST_CASE("impossible sizes", "[symbols]") {
  CHECK_THROWS_AS(evaluate_size("9223372036854775807 * 2", {}), BadInput);
  CHECK_THROWS_AS(evaluate_size("7 // (a - a)", {{"a", 1}}), BadInput);
  CHECK_THROWS_AS(evaluate_size("99999999999999999999", {}), BadInput);
  CHECK_FALSE(evaluate_size(std::string(10000, '('), {}).has_value());
}

}  // namespace
}  // namespace rehearsal::formats
