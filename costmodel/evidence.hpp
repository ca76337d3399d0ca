#pragma once
// Which published runs predictions were compared with, and how wide intervals are: by how far those runs were off, and by how far a
// question lies from them.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// In what a question differs from a published run: it has another name of the first four, or much more of the last two.
enum class Novelty : std::uint8_t { Device, Framework, Precision, Kind, Devices, Parameters, Count };
inline constexpr std::size_t kNovelties = static_cast<std::size_t>(Novelty::Count), kNamedNovelties = 4;
inline constexpr std::array<std::string_view, kNovelties> kNoveltyNames{"device", "framework", "precision",
                                                                        "kind",   "devices",   "parameters"};

/// What the error of a run depends on, as far as we know.
struct RunTraits {
  std::array<std::string, kNamedNovelties> names;  ///< an empty one is that of no other run
  double devices = 1, parameters = 0;
  bool framework_assumed = false;  ///< nobody said which it is
  [[nodiscard]] const std::string& operator[](Novelty n) const { return names[static_cast<std::size_t>(n)]; }
  [[nodiscard]] std::string& operator[](Novelty n) { return names[static_cast<std::size_t>(n)]; }
};

/// How many of the names differ; an empty one differs from all.
[[nodiscard]] int differences(const RunTraits&, const RunTraits&);

/// Published times of a framework on a device, and how far off predictions of them are that were made without their source.
struct SeenRuns {
  std::string framework, device;
  int times = 0;
  double median_error = 0;
};

/// Published times of runs whose names are the same: the root of the mean square of their logarithmic errors, sources left out.
struct SeenKind {
  RunTraits traits;  ///< the most devices and parameters of any of them
  int times = 0;
  double error = 0;
};

/// Half-width of a 90 % interval as a log factor, by group of quantities, and what the fit has seen.
struct FittedEvidence {
  std::map<std::string, double, std::less<>> log_factor;
  std::vector<std::string> devices, frameworks;
  std::vector<SeenRuns> runs;
  std::vector<SeenKind> kinds;
  double level = 1;                         ///< of times of runs like published ones, over what is drawn from `kinds`
  std::array<double, kNovelties> widening;  ///< factor of the logarithm where a question is new in that

  FittedEvidence() { widening.fill(1); }
  /// level and widening by the names that files and reports have: "known", "new_device", …
  [[nodiscard]] std::map<std::string, double> factors() const;
  [[nodiscard]] double of(std::string_view group) const;  ///< "default" where the group has none
  static constexpr double kUnseenDevice = 1.5, kUnseenFramework = 1.3;
  static constexpr double kMuchMore = 2;  ///< times the devices or parameters of the largest run of a kind: a question is new in that
  /// How much wider intervals of memory, energy and collectives are: kUnseenDevice where no published run of the device entered the fit,
  /// else 1.
  [[nodiscard]] double widening_of(const platforms::Device&) const;
  /// kUnseenFramework where no published run of the framework entered the fit, else 1.
  [[nodiscard]] double widening_of(std::string_view framework) const;
  /// Of the time of a step, that of its group being known: drawn towards what runs of its framework were off by, the more of them there are
  /// and the more they are like it; wider by `widening` where none is like it, half as much (in the logarithm) where each name is known and
  /// not together with the others.
  [[nodiscard]] double half_width(std::string_view group, const RunTraits&) const;
  /// What half_width() makes wider, a sentence each; empty: published runs are like it.
  [[nodiscard]] std::vector<std::string> new_in(const RunTraits&) const;
};

}  // namespace rehearsal::costmodel
