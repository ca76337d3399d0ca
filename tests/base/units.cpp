#include "base/units.hpp"

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

TEST_CASE("quantities convert where physics does") {
  // 50 MB over 25 GB/s = 2 ms; 1 kW for 10 s = 10 kJ; 3.6 $/h for 1000 s = 1 $.
  CHECK((Bytes(50e6) / BytesPerSecond(25e9)).value() == Approx(2e-3));
  CHECK((Watts(1000) * Seconds(10)).value() == Approx(1e4));
  CHECK((DollarsPerHour(3.6) * Seconds(1000)).value() == Approx(1.0));
}

TEST_CASE("quantities are read with their unit") {
  CHECK(parse_quantity<BytesPerSecond>("25 GB/s").value() == Approx(25e9));
  CHECK(parse_quantity<BytesPerSecond>("100 Gbit/s").value() == Approx(12.5e9));  // 100e9 / 8
  CHECK(parse_quantity<Seconds>("1.5 us").value() == Approx(1.5e-6));
  CHECK(parse_quantity<Bytes>("80GiB").value() == Approx(80.0 * 1024 * 1024 * 1024));
  CHECK(parse_quantity<FlopsPerSecond>("312 TFLOP/s").value() == Approx(312e12));
}

TEST_CASE("a quantity without its unit is refused in words") {
  for (const char* text : {"", "25", "25 bananas", "GB/s", "nan GB/s", "1e999 GB/s", "25 GB/s 25 GB/s", "inf GB/s"})
    CHECK_THROWS_AS(parse_quantity<BytesPerSecond>(text), BadInput);
  CHECK_THROWS_WITH(parse_quantity<Seconds>("3 GB"), Catch::Matchers::Contains("accepted: s, ms"));
}

TEST_CASE("quantities print with three digits and a fitting unit") {
  CHECK(to_text(Seconds(1.25e-3)) == "1.25 ms");
  CHECK(to_text(Bytes(24.5e9)) == "24.5 GB");
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(Seconds(120)) == "120 s");
}
