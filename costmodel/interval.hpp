#pragma once
// A predicted duration, how sure we are of it, and why.

#include <array>
#include <cstdint>
#include <string_view>

#include "base/units.hpp"

namespace rehearsal::costmodel {

/// What makes a prediction wrong. Errors are fully correlated within a mechanism (a matrix rate that is 5 % too high makes every
/// matrix product 5 % too fast) and independent between mechanisms, so a thousand operators do not average their error away.
enum class Mechanism : std::uint8_t { MatrixRate, ConvolutionRate, MemoryRate, Launch, LinkBandwidth, Composition, Count };
inline constexpr std::size_t kMechanisms = static_cast<std::size_t>(Mechanism::Count);
[[nodiscard]] std::string_view name(Mechanism);

/// What a duration rests on, best first.
enum class Evidence : std::uint8_t {
  Exact,      ///< this very kernel and shape was measured on this machine
  Fitted,     ///< a curve through measurements of its family on this machine
  Datasheet,  ///< peak rates of the platform file and general efficiencies
  Count
};
[[nodiscard]] std::string_view name(Evidence);

/// A duration with the standard deviation of its natural logarithm, per mechanism.
struct Estimate {
  Seconds seconds;
  Mechanism mechanism = Mechanism::MemoryRate;  ///< the one that dominates
  double log_error = 0.0;                       ///< of that mechanism
  Evidence evidence = Evidence::Datasheet;
};

/// A 90 % interval.
struct Interval {
  double value = 0, low = 0, high = 0;
};

/// Adds up estimates (of the critical path of a step) and their errors.
class Total {
 public:
  void add(const Estimate&, double times = 1.0);
  void add(const Total& other, double times = 1.0);
  /// Multiplies the whole by a factor that is itself uncertain.
  void scale(double factor, Mechanism, double log_error);
  [[nodiscard]] Seconds seconds() const { return seconds_; }
  /// Standard deviation of log(total): sqrt(sum over mechanisms of (sum of seconds·error / total)²).
  [[nodiscard]] double log_error() const;
  /// 90 %: value · exp(±1.645 · log_error).
  [[nodiscard]] Interval interval() const;
  /// Share of the time resting on each evidence; sums to 1.
  [[nodiscard]] std::array<double, static_cast<std::size_t>(Evidence::Count)> evidence() const;

 private:
  Seconds seconds_;
  std::array<double, kMechanisms> weighted_error_{};
  std::array<double, static_cast<std::size_t>(Evidence::Count)> by_evidence_{};
};

/// z of a two-sided 90 % interval of a normal distribution.
inline constexpr double kNinetyPercent = 1.6448536269514722;

}  // namespace rehearsal::costmodel
