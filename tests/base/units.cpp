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
  CHECK_THROWS_WITH(parse_quantity<Seconds>("3 GB"), contains("accepted: s, ms"));
}

TEST_CASE("quantities print with three digits and a fitting unit") {
  CHECK(to_text(Seconds(1.25e-3)) == "1.25 ms");
  CHECK(to_text(Bytes(24.5e9)) == "24.5 GB");
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(Seconds(120)) == "120 s");
  CHECK(to_text(Seconds(0)) == "0 s");
  CHECK(to_text(Seconds(1070.4)) == "1070 s");
  CHECK(to_text(Seconds(0.9999)) == "1000 ms");
  CHECK(to_text(Bytes(2.5e16)) == "25000 TB");
  CHECK(to_text(Bytes(0)) == "0 B");
}

TEST_CASE("money below a dollar keeps three digits, and cents where it has them") {
  // Cents alone would leave one digit of the cost of a step: 0.0159 of 0.0117 to 0.0215 as $0.02 of $0.01 to $0.02.
  CHECK(to_text(Dollars(0.0159)) == "$0.0159");
  CHECK(to_text(Dollars(0.011749)) == "$0.0117");
  CHECK(to_text(Dollars(0.00854)) == "$0.00854");
  CHECK(to_text(Dollars(0.01)) == "$0.01");
  CHECK(to_text(Dollars(0.4987)) == "$0.499");
  CHECK(to_text(Dollars(0.5)) == "$0.50");
  CHECK(to_text(Dollars(0.99949)) == "$0.999");
  CHECK(to_text(Dollars(0.9996)) == "$1.00");
  CHECK(to_text(Dollars(0)) == "$0");
  CHECK(to_text(Dollars(33853.214)) == "$33853.21");
  CHECK(to_text(Dollars(-1234.5)) == "$-1234.50");
}

TEST_CASE("electricity has a carbon intensity and a price") {
  // 0.36 kg/kWh is 1e-7 kg/J; 10 kWh = 36 MJ at 0.36 kg/kWh = 3.6 kg; at 0.12 $/kWh = 1.2 $.
  CHECK(parse_quantity<KilogramsPerJoule>("0.36 kg/kWh").value() == Approx(1e-7));
  CHECK((parse_quantity<KilogramsPerJoule>("360 g/kWh") * Joules(36e6)).value() == Approx(3.6));
  CHECK((parse_quantity<DollarsPerJoule>("0.12 $/kWh") * Joules(36e6)).value() == Approx(1.2));
}

TEST_CASE("exact text reads back as the same value") {
  CHECK(to_exact_text(BytesPerSecond(25e9)) == "25 GB/s");
  CHECK(to_exact_text(Seconds(1.5e-6)) == "1.5 us");
  CHECK(to_exact_text(BytesPerSecond(1e15)) == "1000 TB/s");
  for (const double value : {1.0 / 3, 2.0391e12, 1e-9, 80.0 * (1 << 30), 7.0 / 3.6e6})
    CHECK(parse_quantity<Bytes>(to_exact_text(Bytes(value))).value() == value);
  for (const double value : {1.0 / 3, 1.7e-6, 2.9e-7}) CHECK(parse_quantity<Seconds>(to_exact_text(Seconds(value))).value() == value);
}
