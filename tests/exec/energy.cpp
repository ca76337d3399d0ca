// Counters of energy: which are read, how they are added up, and what is said where there are none.
#include "exec/energy.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"

using namespace rehearsal;
using rehearsal::exec::EnergyMeter;

namespace {

/// A folder as /sys/class/powercap is.
class Counters {
 public:
  Counters() : folder_(std::filesystem::temp_directory_path() / ("rehearsal-powercap-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Counters() { std::filesystem::remove_all(folder_); }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  void set(const std::string& zone, const std::string& name, const std::string& microjoules) const {
    std::filesystem::create_directories(folder_ / zone);
    write(zone, "name", name);
    write(zone, "energy_uj", microjoules);
    write(zone, "max_energy_range_uj", "262143328850");
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  void write(const std::string& zone, const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / zone / file) << text << "\n";
  }

  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE("packages and memory are counted once") {
  const Counters counters;
  counters.set("intel-rapl:0", "package-0", "1000000");
  counters.set("intel-rapl:0:0", "core", "700000");  // within its package
  counters.set("intel-rapl:0:1", "dram", "200000");  // beside it
  counters.set("intel-rapl:1", "package-1", "5000000");
  counters.set("intel-rapl:2", "psys", "9000000");  // counts both packages once more
  EnergyMeter meter(counters.folder());
  CHECK(meter.absence().empty());
  CHECK(meter.since_last().value() == 0);
  counters.set("intel-rapl:0", "package-0", "4000000");  // 3 J
  counters.set("intel-rapl:0:0", "core", "2700000");     // of those 3
  counters.set("intel-rapl:0:1", "dram", "700000");      // 0.5 J
  counters.set("intel-rapl:1", "package-1", "6250000");  // 1.25 J
  counters.set("intel-rapl:2", "psys", "19000000");
  CHECK(meter.since_last().value() == Approx(3 + 0.5 + 1.25));
  CHECK(meter.since_last().value() == 0);
}

TEST_CASE("a counter that began anew has counted its range") {
  const Counters counters;
  counters.set("intel-rapl:0", "package-0", "262143000000");  // 328,850 microjoules below its range
  EnergyMeter meter(counters.folder());
  counters.set("intel-rapl:0", "package-0", "671150");
  CHECK(meter.since_last().value() == Approx(1.0));
}

TEST_CASE("where nothing is counted the reason is said") {
  const Counters counters;
  EnergyMeter none(counters.folder());
  CHECK_THAT(none.absence(), contains("no counter of energy") && contains(counters.folder().string()));
  CHECK(none.since_last().value() == 0);
  counters.set("intel-rapl:0", "package-0", "not a number");  // as a file reads that only root may read: not at all
  CHECK_THAT(EnergyMeter(counters.folder()).absence(), contains("read by root alone"));
  CHECK_THAT(EnergyMeter(counters.folder() / "elsewhere").absence(), contains("no counter of energy"));
}
