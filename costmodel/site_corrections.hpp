#pragma once
// What measured runs of a site say about predictions: corrections per device and kind of quantity, shrunk while the runs are few.

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::costmodel {

/// What the logarithm of measured ÷ predicted may depend on: 1, and the shares of the time by mechanism.
inline constexpr std::size_t kSiteFeatures = 5;
inline constexpr std::array<std::string_view, kSiteFeatures> kSiteMechanisms{"all", "matrix", "memory", "communication", "overhead"};
using SiteFeatures = std::array<double, kSiteFeatures>;
/// Of a step: shares of its time in arithmetic, in element-wise traffic and in waiting for communication; the rest is overhead.
[[nodiscard]] SiteFeatures site_features(double matrix_share, double memory_share, double communication_share);
/// Of quantities that do not depend on where the time goes.
inline constexpr SiteFeatures kNoMechanism{1, 0, 0, 0, 0};

/// Log corrections of one device and group of quantities, with their covariance: log(measured / predicted) = features · mean + noise.
struct SiteCorrection {
  std::string device, group;
  int runs = 0;
  SiteFeatures mean{};
  std::array<SiteFeatures, kSiteFeatures> covariance{};
  double left = 0;  ///< root mean square of what is left of its runs' logarithms
};

/// A run of the site: what it is, and log(measured / predicted) of one of its quantities.
struct SiteRun {
  std::string id, device, group;
  SiteFeatures features{};
  double log_ratio = 0;
};

/// Whether it is so far from what was predicted that its record may not say what was run; it then counts less.
[[nodiscard]] bool is_odd(const SiteRun&);

struct Site {
  std::vector<SiteRun> runs;                ///< what it rests on; a run that comes again replaces itself
  std::vector<SiteCorrection> corrections;  ///< of each device and group, from `runs`
  [[nodiscard]] const SiteCorrection* find(std::string_view device, std::string_view group) const;
  /// Whether any quantity of the device is corrected.
  [[nodiscard]] bool knows(std::string_view device) const;
};

/// Linear regression with a normal prior around no correction: one run moves little, several settle it.
[[nodiscard]] Site learn_site(std::vector<SiteRun> runs);

/// What a correction does to an answer: the log factor, and by how much the interval narrows (a factor on its log half-width; above 1
/// where the runs learned from are still far from what is then predicted).
struct SiteEffect {
  double log_factor = 0, narrowing = 1;
  double left = 0;  ///< root mean square of the logarithms by which the runs learned from are still off
  /// That of an answer whose half-width is `without` the site: no narrower than what holds nine of ten of the site's own runs.
  [[nodiscard]] double half_width(double without) const;
};
[[nodiscard]] SiteEffect effect_of(const Site&, std::string_view device, std::string_view group, const SiteFeatures&);

/// The part "published" of a site file; empty where the file has none. Throws BadInput naming file and key.
[[nodiscard]] Site read_site(const std::string& path);
/// Whether it is a file with such a part.
[[nodiscard]] bool holds_site(const std::string& path);
/// Writes the part "published" into the file, all else in it unchanged; makes the file where there is none.
void write_site(const std::string& path, const Site&);

}  // namespace rehearsal::costmodel
