#pragma once
// Quantities left out in turn, and how they lie to intervals that are made from the others.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "validation/intervals.hpp"

namespace rehearsal::validation {

constexpr std::size_t kFewestQuantities = 8;
constexpr double kCoverage = 0.9;  ///< of a group's quantities that its half-width holds

struct Weighted {
  double value, weight;
};
/// The least value that so much of the weight lies at or below; 0 of none.
[[nodiscard]] double weighted_quantile(std::vector<Weighted> values, double share);
/// The least of the values that so many of them lie at or below.
[[nodiscard]] double upper_quantile(std::vector<double> values, double share);

/// What the quantities that are kept say: half-widths of groups, and runs that are alike. `like`: names, widening and defaults.
[[nodiscard]] costmodel::FittedEvidence evidence_without(const std::vector<FittedQuantity>&, const costmodel::FittedEvidence& like,
                                                         const std::function<bool(const FittedQuantity&)>& keeps);

/// Which quantities are left out, and which of these are asked for.
struct LeaveOutTurn {
  std::string name;
  std::function<bool(const FittedQuantity&)> keeps, asks;
  std::function<double(const FittedQuantity&)> error;
};
enum class Asked : std::uint8_t { Times, Everything };
/// A turn for each source, or for each name of a novelty ("device", ...).
[[nodiscard]] std::vector<LeaveOutTurn> turns_by(const std::vector<FittedQuantity>&, std::string_view by, Asked = Asked::Times);

/// A quantity that was asked for.
struct Overrun {
  const FittedQuantity* quantity;
  double half_width, ratio;  ///< |error| over half_width
  bool alike;                ///< runs with all its names were kept
};
[[nodiscard]] std::vector<Overrun> overruns_of(const LeaveOutTurn&, const costmodel::FittedEvidence& like,
                                               const std::vector<FittedQuantity>&);

}  // namespace rehearsal::validation
