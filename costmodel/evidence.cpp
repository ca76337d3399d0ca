#include "costmodel/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/interval.hpp"

namespace rehearsal::costmodel {
namespace {

/// How a question lies to the runs that were published.
struct Place {
  std::array<bool, kNovelties> is_new{};
  const SeenKind* nearest = nullptr;  ///< the run that the least widening leads to
  double log_widening = 0;            ///< from there, sizes included
};

bool same(const RunTraits& one, const RunTraits& other, std::size_t name) {
  return !one.names[name].empty() && one.names[name] == other.names[name];
}

/// Runs of the kind; of all kinds where it is new.
RunTraits largest_of(const FittedEvidence& evidence, const RunTraits& asked, bool new_kind) {
  RunTraits largest;
  for (const auto& seen : evidence.kinds) {
    if (!new_kind && !same(seen.traits, asked, static_cast<std::size_t>(Novelty::Kind))) continue;
    largest.devices = std::max(largest.devices, seen.traits.devices);
    largest.parameters = std::max(largest.parameters, seen.traits.parameters);
  }
  return largest;
}

double log_distance(const FittedEvidence& evidence, const Place& place, const RunTraits& seen, const RunTraits& asked) {
  double distance = 0;
  for (std::size_t n = 0; n < kNamedNovelties; ++n)
    if (!same(seen, asked, n)) distance += std::log(evidence.widening[n]) * (place.is_new[n] ? 1 : 0.5);
  return distance;
}

Place place_of(const FittedEvidence& evidence, const RunTraits& asked) {
  Place place;
  for (std::size_t n = 0; n < kNamedNovelties; ++n)
    place.is_new[n] = std::ranges::none_of(evidence.kinds, [&](const auto& seen) { return same(seen.traits, asked, n); });
  const auto largest = largest_of(evidence, asked, place.is_new[static_cast<std::size_t>(Novelty::Kind)]);
  place.is_new[static_cast<std::size_t>(Novelty::Devices)] = asked.devices > FittedEvidence::kMuchMore * largest.devices;
  place.is_new[static_cast<std::size_t>(Novelty::Parameters)] = asked.parameters > FittedEvidence::kMuchMore * largest.parameters;
  auto least = std::pair(std::numeric_limits<double>::infinity(), 0);
  for (const auto& seen : evidence.kinds) {
    const auto distance = std::pair(log_distance(evidence, place, seen.traits, asked), differences(seen.traits, asked));
    if (distance >= least) continue;
    least = distance;
    place.nearest = &seen;
  }
  if (place.nearest != nullptr) place.log_widening = least.first;
  for (std::size_t n = kNamedNovelties; n < kNovelties; ++n)
    if (place.is_new[n]) place.log_widening += std::log(evidence.widening[n]);
  const bool framework_counts = place.is_new[static_cast<std::size_t>(Novelty::Framework)];
  if (asked.framework_assumed && !framework_counts)
    place.log_widening += std::log(evidence.widening[static_cast<std::size_t>(Novelty::Framework)]);
  return place;
}

std::string count_text(double count) {
  constexpr double kMillion = 1e6, kBillion = 1e9;
  const auto rounded = [](double value) { return std::to_string(std::llround(value)); };
  if (count >= kBillion) return rounded(count / kBillion) + " billion";
  return count >= kMillion ? rounded(count / kMillion) + " million" : rounded(count);
}

std::string together(const RunTraits& t) {
  return t[Novelty::Kind] + ", " + t[Novelty::Precision] + ", by " + t[Novelty::Framework] + " on " + t[Novelty::Device];
}

}  // namespace

int differences(const RunTraits& one, const RunTraits& other) {
  int count = 0;
  for (std::size_t n = 0; n < kNamedNovelties; ++n) count += !same(one, other, n);
  return count;
}

std::map<std::string, double> FittedEvidence::factors() const {
  std::map<std::string, double> named{{"known", level}};
  for (std::size_t n = 0; n < kNovelties; ++n) named["new_" + std::string(kNoveltyNames[n])] = widening[n];
  return named;
}

double FittedEvidence::of(std::string_view group) const {
  const auto found = log_factor.find(group);
  return found != log_factor.end() ? found->second : log_factor.at("default");
}

double FittedEvidence::widening_of(const platforms::Device& device) const {
  return std::ranges::find(devices, device.name) == devices.end() ? kUnseenDevice : 1;
}

double FittedEvidence::widening_of(std::string_view framework) const {
  return !frameworks.empty() && std::ranges::find(frameworks, framework) == frameworks.end() ? kUnseenFramework : 1;
}

double FittedEvidence::half_width(std::string_view group, const RunTraits& asked) const {
  // A group counts as much as eight times. Sixteen times that are alike, often of one source, say as much as any number does; those that
  // differ in a name say a quarter of it, in two a sixteenth. Of another framework they say nothing: some are known far better than others.
  constexpr double kGroupTimes = 8, kMostTimes = 16, kOfAnotherName = 0.25;
  const double of_group = of(group);
  double times = 0, squares = 0;
  for (const auto& seen : kinds) {
    if (!same(seen.traits, asked, static_cast<std::size_t>(Novelty::Framework))) continue;
    const double weight = std::min<double>(seen.times, kMostTimes) * std::pow(kOfAnotherName, differences(seen.traits, asked));
    times += weight;
    squares += weight * std::pow(kNinetyPercent * seen.error, 2);
  }
  if (kinds.empty()) return of_group;
  const double counted = std::min(times, kMostTimes), square = times > 0 ? squares / times : 0;
  const double drawn = std::sqrt((kGroupTimes * of_group * of_group + counted * square) / (kGroupTimes + counted));
  return level * std::exp(place_of(*this, asked).log_widening) * drawn;
}

std::vector<std::string> FittedEvidence::new_in(const RunTraits& asked) const {
  std::vector<std::string> sentences;
  if (kinds.empty()) return sentences;
  const auto place = place_of(*this, asked);
  for (std::size_t n = 0; n < kNamedNovelties; ++n)
    if (place.is_new[n])
      sentences.push_back(std::string(kNoveltyNames[n]) + " " +
                          (asked.names[n].empty() ? "unknown" : asked.names[n] + ": no published time"));
  if (asked.framework_assumed) sentences.push_back("framework unknown, taken for " + asked[Novelty::Framework]);
  if (sentences.empty() && differences(place.nearest->traits, asked) > 0)
    sentences.push_back(together(asked) + ": each is known, not together; nearest: " + together(place.nearest->traits));
  const auto largest = largest_of(*this, asked, place.is_new[static_cast<std::size_t>(Novelty::Kind)]);
  if (place.is_new[static_cast<std::size_t>(Novelty::Devices)])
    sentences.push_back(count_text(asked.devices) + " devices: published are " + count_text(largest.devices) + " at most");
  if (place.is_new[static_cast<std::size_t>(Novelty::Parameters)])
    sentences.push_back(count_text(asked.parameters) + " parameters: published are " + count_text(largest.parameters) + " at most");
  return sentences;
}

}  // namespace rehearsal::costmodel
