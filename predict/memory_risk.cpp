#include "predict/memory_risk.hpp"

#include <cmath>
#include <iomanip>
#include <numbers>
#include <sstream>

namespace rehearsal::predict {
namespace {

constexpr double kNinetyFifth = 1.6449;    // standard deviations below which 95 % of a normal distribution lie
constexpr double kThreeQuarters = 0.6745;  // the same of 75 %, as kImpossible is
constexpr double kBeyondHigh = 0.1;        // of what is held beside an arena

double beside_exact(double needed, double high, double capacity) {
  if (needed > capacity) return 1;
  if (high <= needed) return 0;
  return std::pow(kBeyondHigh, (capacity - needed) / (high - needed));
}

}  // namespace

double chance_of_running_out(double share, double width) {
  const double deviation = std::log(width) / kNinetyFifth;
  if (deviation <= 0) return share > 1 ? 1 : 0;
  return 0.5 * std::erfc(-std::log(share) / deviation / std::numbers::sqrt2);
}

double largest_share(double width) { return std::pow(width, kThreeQuarters / kNinetyFifth); }

double chance_of_running_out(const Assessment& a) {
  if (a.memory_bytes <= 0) return 0;
  const auto all = static_cast<double>(a.memory_bytes);
  const auto needed = a.memory_needed > 0 ? static_cast<double>(a.memory_needed) : all,
             high = needed * static_cast<double>(a.memory_high) / all;
  const auto capacity = static_cast<double>(a.memory_capacity);
  return a.memory_low == a.memory_bytes ? beside_exact(needed, high, capacity) : chance_of_running_out(needed / capacity, high / needed);
}

std::string chance_text(double chance) {
  constexpr double kLeastSaid = 1e-3, kWithDigits = 0.1;
  if (chance < kLeastSaid) return "less than 0.1 %";
  if (chance > 1 - kLeastSaid) return "more than 99.9 %";
  std::ostringstream text;
  text << std::fixed << std::setprecision(chance < kWithDigits ? 1 : 0) << 100 * chance << " %";
  return text.str();
}

}  // namespace rehearsal::predict
