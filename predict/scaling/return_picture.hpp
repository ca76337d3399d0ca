#pragma once
// What larger batches save and cost on the way to a target, drawn.

#include <optional>
#include <span>
#include <string>

namespace rehearsal::predict::scaling {

/// One batch size.
struct BatchPoint {
  double batch = 0, seconds = 0, dollars = 0;
};

/// An SVG with two panels over the batch, all axes logarithmic: the time to the target, beside what it would be if twice the batch took
/// half of the time, and the money. `critical`: drawn where it lies among the batches. `target` is the title.
[[nodiscard]] std::string to_svg(std::span<const BatchPoint>, std::optional<double> critical, const std::string& target);

}  // namespace rehearsal::predict::scaling
