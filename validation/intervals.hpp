#pragma once
// Intervals from how far off predictions were of what their constants had not seen.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/evidence.hpp"

namespace rehearsal::validation {

/// One measured quantity and how far off it is, in the log, under fitted constants and under those fitted without others that are like it.
struct FittedQuantity {
  std::size_t record = 0;  ///< of the span that was given
  std::string key, group, source;
  std::string family;  ///< of the record
  double weight = 1, widening = 1;
  double residual = 0, left_out = 0;  ///< log(predicted / measured), rates turned round so that above 0 is too slow; without its source
  costmodel::RunTraits traits;
  /// As `left_out`, without all quantities of its device, framework, precision, kind.
  std::array<double, costmodel::kNamedNovelties> without{};
};

/// Groups of other quantities are memory, energy and collectives.
[[nodiscard]] bool is_time_group(std::string_view group);

/// What intervals hold of quantities that are alike in something and were left out of what the intervals are made from.
struct LeftOutFamily {
  /// "source", "device", "framework", "precision", "kind"; or "family": kept records of one family, their sources left out.
  std::string by;
  std::string name;
  int quantities = 0;
  double held = 0;          ///< share
  double median_ratio = 1;  ///< of an interval's upper end over its lower end
};

struct IntervalCheck {
  double coverage = 0;  ///< share of all quantities inside the interval that is made without their source
  std::vector<LeftOutFamily> families;
};

/// Sets the half-widths of all groups to the 90 % quantile of |left-out residual| / widening, sources weighted by 1/sqrt(quantities); of
/// times also what runs like them were off by, and what a question's being new adds: so much that of nine tenths of the devices
/// (frameworks, …) left out with all their quantities, of those that have several, 85 % lie inside.
[[nodiscard]] IntervalCheck set_intervals(costmodel::FittedEvidence&, const std::vector<FittedQuantity>&);

}  // namespace rehearsal::validation
