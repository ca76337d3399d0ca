#pragma once
// What the counters of a machine say its processors and their memory took: RAPL, as Linux shows it below /sys/class/powercap
// (Documentation/power/powercap in the kernel; Intel SDM vol. 3B, "Platform specific power management support").

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::exec {

/// Of one node. A counter counts microjoules and begins anew at its range, after about twenty minutes of a busy server: it must be read
/// more often than that.
class EnergyMeter {
 public:
  explicit EnergyMeter(const std::filesystem::path& counters = "/sys/class/powercap");

  /// Why there is nothing to read, as a sentence; empty where there is something.
  [[nodiscard]] const std::string& absence() const { return absence_; }
  /// Since the last call, or since it was made; 0 where nothing can be read. All packages, and the memory beside them where it has a
  /// counter of its own.
  [[nodiscard]] Joules since_last();

 private:
  struct Counter {
    std::filesystem::path file;
    std::uint64_t range = 0, last = 0;  ///< microjoules
  };

  std::vector<Counter> counters_;
  std::string absence_;
};

}  // namespace rehearsal::exec
