#pragma once
// How likely a plan is to run out of memory.

#include "predict/assessment.hpp"

namespace rehearsal::predict {

/// Above this chance a plan that is predicted to fit deserves a warning.
inline constexpr double kRisky = 0.1;
/// At or below this chance a plan is said to fit safely.
inline constexpr double kSafe = 0.05;
/// Above this chance a plan is said not to fit.
inline constexpr double kImpossible = 0.75;

/// The chance, 0 to 1, that the worst rank needs more memory than its device has, given the interval of the prediction.
/// A prediction with an error on both sides is taken to be log-normal around `memory_bytes`, with 5 % above `memory_high`: 0.5 where it
/// needs just the capacity. An arena that is laid out to the byte (`memory_low` is `memory_bytes`) cannot need less; what is held beside
/// it is taken to be exponential, with 10 % above `memory_high`: 1 where the arena alone is too large.
[[nodiscard]] double chance_of_running_out(const Assessment&);
/// The same of a log-normal need: `share` is what is needed over the capacity, and one of twenty needs more than `width` times as much.
[[nodiscard]] double chance_of_running_out(double share, double width);

/// With such a share the chance is kImpossible.
[[nodiscard]] double largest_share(double width);

/// "34 %", "less than 0.1 %", "more than 99.9 %"
[[nodiscard]] std::string chance_text(double chance);

}  // namespace rehearsal::predict
