// A file of hourly figures, and what is wrong with some.
#include "predict/hours/hours_file.hpp"

#include "tests/catch.hpp"
#include "tests/process.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

TEST_CASE("regions have carbon, prices or both") {
  const TemporaryFolder folder;
  const auto path = folder / "hours.csv";
  write_text(path, "hour,carbon:DE, price:DE ,carbon:FR\r\n00:00,400,2.5,30\n\n01:00, 300 ,2,20.5\n");
  const auto hours = read_hours_file(path);
  CHECK(hours.names == std::vector<std::string>{"00:00", "01:00"});
  REQUIRE(hours.regions.size() == 2);
  CHECK(hours.regions[0].name == "DE");
  CHECK(hours.regions[0].carbon == std::vector<double>{400, 300});
  CHECK(hours.regions[0].price == std::vector<double>{2.5, 2});
  CHECK(hours.regions[1].name == "FR");
  CHECK(hours.regions[1].carbon == std::vector<double>{30, 20.5});
  CHECK(hours.regions[1].price.empty());
}

TEST_CASE("lines are as far apart as their times") {
  const TemporaryFolder folder;
  const auto path = folder / "hours.csv";
  const auto line_of = [&](const std::string& first, const std::string& second, const std::string& third) {
    write_text(path, "hour,carbon:DE\n" + first + ",1\n" + second + ",1\n" + third + ",1\n");
    return read_hours_file(path).line.value();
  };
  CHECK(line_of("0", "1", "2") == 3600);
  CHECK(line_of("0:00", "3:00", "6:00") == 3 * 3600);
  CHECK(line_of("23:00", "23:30", "0:00") == 1800);  // past midnight
  CHECK(line_of("2025-12-31T22:00:00Z", "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z") == 3600);
  CHECK(line_of("2025-10-26 02:00+02:00", "2025-10-26 02:00+01:00", "2025-10-26 03:00+01:00") == 3600);  // the clock goes back
  CHECK(line_of("Monday", "Tuesday", "Wednesday") == 3600);
  CHECK(line_of("1e300", "2e300", "3e300") == 3600);  // names as well: no hour is that late
  write_text(path, "hour,carbon:DE\n5:00,1\n");
  CHECK(read_hours_file(path).line.value() == 3600);
}

TEST_CASE("a file of hours that is none is refused by line and column") {
  const TemporaryFolder folder;
  const auto path = folder / "hours.csv";
  const auto refused = [&](const std::string& text, const std::string& line, const std::string& why) {
    write_text(path, text);
    INFO(text);
    CHECK_THROWS_WITH(read_hours_file(path), contains(path + line) && contains(why));
  };
  CHECK_THROWS_WITH(read_hours_file(folder / "none.csv"), contains("cannot be read"));
  refused("", "", "empty");
  refused("hour,carbon:DE\n", "", "no hours");
  refused("time,carbon:DE\n0,1\n", ":1", "called hour");
  refused("hour\n0\n", ":1", "others follow");
  refused("hour,wind:DE\n0,1\n", ":1", "wind:DE");
  refused("hour,carbon:\n0,1\n", ":1", "carbon:REGION");
  refused("hour,carbon\n0,1\n", ":1", "\"carbon\" is neither carbon:REGION");  // a start would be in a region without a name
  refused("hour,carbon:DE,price\n0,1,2\n", ":1", "\"price\" is neither carbon:REGION");
  refused("hour,carbon:DE,carbon:DE\n0,1,2\n", ":1", "twice");
  refused("hour,carbon:DE\n0,1\n1,2,3\n", ":3", "has 3 cells; the first line names 2");
  refused("hour,carbon:DE\n0,much\n", ":2", "\"much\" in column 2 must be a number from 0 to 10000");
  refused("hour,carbon:DE\n0,-1\n", ":2", "from 0");
  refused("hour,price:DE\n0,nan\n", ":2", "\"nan\"");
  refused("hour,price:DE\n0:00,1\n1:00,1\n3:00,1\n", ":4", "\"3:00\" is 120 min after \"1:00\", the lines before are 60 min apart");
  refused("hour,price:DE\n5,1\n5,1\n", ":3", "\"5\" does not follow \"5\"");
  refused("hour,price:DE\n0,1\n1e-9,1\n", ":3", "\"1e-9\" is less than a minute after \"0\"");
  refused("hour,price:DE\n0,1\ninf,1\n", ":3", "\"inf\" follows \"0\"");
  refused("hour,price:DE\n100,1\n90,1\n", ":3", "\"90\" does not follow \"100\"");
  refused("hour,price:DE\n2025-07-02 00:00,1\n2025-07-01 12:00,1\n", ":3", "\"2025-07-01 12:00\" does not follow");
  refused("hour,price:DE\n0:00,1\n2025-07-01 12:00,1\n", ":3", "does not follow \"0:00\"");
  refused("hour,price:DE\n5:00,1\nsix,1\n", ":3", "\"six\" follows \"5:00\"");
}
