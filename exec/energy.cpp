#include "exec/energy.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace rehearsal::exec {
namespace {

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

std::string word_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// "intel-rapl:0" is a package (AMD's have the same name), "intel-rapl:0:1" a part of one. A package counts its cores and what is beside
/// them, not the memory. "psys" counts what packages count, too.
bool is_counted(const std::string& zone, const std::string& name) {
  const auto colons = std::ranges::count(zone, ':');
  return (colons == 1 && name.starts_with("package")) || (colons == 2 && name == "dram");
}

}  // namespace

EnergyMeter::EnergyMeter(const std::filesystem::path& counters) {
  std::error_code ignored;
  bool locked = false;
  for (const auto& entry : std::filesystem::directory_iterator(counters, ignored)) {
    const auto zone = entry.path().filename().string();
    if (!zone.starts_with("intel-rapl:") || !is_counted(zone, word_in(entry.path() / "name"))) continue;
    const auto file = entry.path() / "energy_uj";
    const auto now = number_in(file);
    const auto range = number_in(entry.path() / "max_energy_range_uj");
    locked = locked || !now;
    if (now && range) counters_.push_back({file, *range, *now});
  }
  if (!counters_.empty()) return;
  absence_ = locked ? "the counters below " + counters.string() + " can be read by root alone; chmod a+r */energy_uj lets others read them"
                    : "this machine shows no counter of energy (RAPL) below " + counters.string();
}

Joules EnergyMeter::since_last() {
  double microjoules = 0;
  for (auto& counter : counters_) {
    const auto now = number_in(counter.file);
    if (!now) continue;
    microjoules += static_cast<double>(*now >= counter.last ? *now - counter.last : counter.range - counter.last + *now);
    counter.last = *now;
  }
  return Joules(microjoules * 1e-6);
}

}  // namespace rehearsal::exec
