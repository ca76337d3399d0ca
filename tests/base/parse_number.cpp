#include "base/parse_number.hpp"

#include <cmath>
#include <cstdint>

#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("a number is the whole text or none") {
  CHECK(parse_number<std::int64_t>("-12") == -12);
  CHECK(parse_number<double>("1.5e3") == 1500.0);
  CHECK(std::isnan(parse_number<double>("nan").value()));
  for (const auto* text : {"", " 1", "1 ", "+1", "1x", "one", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_number<std::int64_t>(text));
  }
  CHECK_FALSE(parse_number<std::uint64_t>("-1"));
  CHECK_FALSE(parse_number<double>("1e999"));
  CHECK_FALSE(parse_number<double>("0x10"));
}

TEST_CASE("a number is taken off the front of a text") {
  std::string_view text = "30.5 min";
  CHECK(take_number<double>(text) == 30.5);
  CHECK(text == " min");
  CHECK_FALSE(take_number<double>(text));
  CHECK(text == " min");
}
