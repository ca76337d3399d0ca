#include "costmodel/site_corrections.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include <Eigen/Dense>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "costmodel/interval.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

using Json = nlohmann::ordered_json;
using Matrix = Eigen::Matrix<double, kSiteFeatures, kSiteFeatures>;
using Vector = Eigen::Matrix<double, kSiteFeatures, 1>;

// Of published runs: sites differ from the model by 0.11 (median) in the log, and in the rates of single mechanisms by more; runs of one
// site differ from each other by 0.06. With these three runs of a site bring the median error of its others from 10 to 6 %.
constexpr double kNoise = 0.06;
constexpr SiteFeatures kPriorSpread{0.15, 0.30, 0.30, 0.50, 0.30};
constexpr double kOddRun = 0.5;  // a log ratio beyond says that the run is not what its record says; it counts less

Vector vector_of(const SiteFeatures& f) { return Eigen::Map<const Vector>(f.data()); }

double prior_variance(const SiteFeatures& f) {
  double v = 0;
  for (std::size_t i = 0; i < kSiteFeatures; ++i) v += f[i] * f[i] * kPriorSpread[i] * kPriorSpread[i];
  return v;
}

SiteCorrection posterior(std::span<const SiteRun> runs) {
  Matrix precision = Matrix::Zero();
  for (std::size_t i = 0; i < kSiteFeatures; ++i)
    precision(static_cast<int>(i), static_cast<int>(i)) = 1 / (kPriorSpread[i] * kPriorSpread[i]);
  Vector weighted = Vector::Zero();
  for (const auto& run : runs) {
    const double scale = std::max(1.0, std::fabs(run.log_ratio) / kOddRun), noise = kNoise * scale;
    const auto f = vector_of(run.features);
    precision += f * f.transpose() / (noise * noise);
    weighted += f * run.log_ratio / (noise * noise);
  }
  const Matrix covariance = precision.inverse();
  const Vector mean = covariance * weighted;
  SiteCorrection c{runs.front().device, runs.front().group, static_cast<int>(runs.size()), {}, {}, 0};
  for (const auto& run : runs) c.left += std::pow(run.log_ratio - vector_of(run.features).dot(mean), 2);
  c.left = std::sqrt(c.left / static_cast<double>(runs.size()));
  for (int i = 0; i < static_cast<int>(kSiteFeatures); ++i) {
    c.mean[static_cast<std::size_t>(i)] = mean(i);
    for (int j = 0; j < static_cast<int>(kSiteFeatures); ++j)
      c.covariance[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = covariance(i, j);
  }
  return c;
}

/// Values of one object of a site file, by key; what is missing or of another kind is refused with the path to it.
class SiteValues {
 public:
  SiteValues(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw BadInput(where_, std::string("must be an object, ") + kWriter);
  }
  [[nodiscard]] std::string text(const char* key) const {
    const auto& value = at(key, "a text");
    if (!value.is_string()) refuse(key, "a text");
    return value.get<std::string>();
  }
  [[nodiscard]] double number(const char* key) const {
    const auto& value = at(key, "a number");
    if (!value.is_number()) refuse(key, "a number");
    return value.get<double>();
  }
  [[nodiscard]] SiteFeatures features(const char* key) const {
    const auto what = "a list of " + std::to_string(kSiteFeatures) + " numbers: of " + joined(kSiteMechanisms);
    const auto& value = at(key, what);
    if (!value.is_array() || value.size() != kSiteFeatures || !std::ranges::all_of(value, &Json::is_number)) refuse(key, what);
    return value.get<SiteFeatures>();
  }
  [[nodiscard]] const Json& list(const char* key) const {
    const auto& value = at(key, "a list");
    if (!value.is_array()) refuse(key, "a list");
    return value;
  }

 private:
  static constexpr const char* kWriter = "as `rehearse learn RECORDS --into` writes it";

  [[nodiscard]] const Json& at(const char* key, const std::string& what) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw BadInput(where_ + "." + key, "is missing; it must be " + what + ", " + kWriter);
    return *found;
  }
  [[noreturn]] void refuse(const char* key, const std::string& what) const {
    throw BadInput(where_ + "." + key, "must be " + what + ", " + kWriter);
  }

  const Json& object_;
  std::string where_;
};

std::vector<SiteRun> site_runs_of(const Json& published, const std::string& where) {
  std::vector<SiteRun> runs;
  for (const auto& item : SiteValues(published, where).list("runs")) {
    const SiteValues run(item, where + ".runs[" + std::to_string(runs.size()) + "]");
    runs.push_back({run.text("id"), run.text("device"), run.text("group"), run.features("features"), run.number("log_ratio")});
  }
  return runs;
}

Json json_of(const SiteCorrection& c) { return {{"device", c.device}, {"group", c.group}, {"runs", c.runs}, {"log_factors", c.mean}}; }

}  // namespace

SiteFeatures site_features(double matrix_share, double memory_share, double communication_share) {
  const double communication = std::min(1.0, communication_share);
  return {1, matrix_share, memory_share, communication, std::max(0.0, 1 - matrix_share - memory_share - communication)};
}

bool is_odd(const SiteRun& run) { return std::fabs(run.log_ratio) > kOddRun; }

const SiteCorrection* Site::find(std::string_view device, std::string_view group) const {
  for (const auto& c : corrections)
    if (c.device == device && c.group == group) return &c;
  return nullptr;
}

bool Site::knows(std::string_view device) const {
  return std::ranges::any_of(corrections, [&](const SiteCorrection& c) { return c.device == device; });
}

Site learn_site(std::vector<SiteRun> runs) {
  std::map<std::pair<std::string, std::string>, std::vector<SiteRun>> sorted;
  for (const auto& run : runs) sorted[{run.device, run.group}].push_back(run);
  Site site{std::move(runs), {}};
  for (const auto& [key, group] : sorted) site.corrections.push_back(posterior(group));
  return site;
}

double SiteEffect::half_width(double without) const { return std::max(without * narrowing, kNinetyPercent * left); }

SiteEffect effect_of(const Site& site, std::string_view device, std::string_view group, const SiteFeatures& features) {
  const auto* c = site.find(device, group);
  if (c == nullptr) return {};
  SiteEffect effect;
  double variance = 0;
  for (std::size_t i = 0; i < kSiteFeatures; ++i) {
    effect.log_factor += c->mean[i] * features[i];
    for (std::size_t j = 0; j < kSiteFeatures; ++j) variance += features[i] * c->covariance[i][j] * features[j];
  }
  const double noise = kNoise * kNoise, left = std::max(noise, c->left * c->left);
  effect.narrowing = std::sqrt((variance + left) / (prior_variance(features) + noise));
  effect.left = c->left;
  return effect;
}

Site read_site(const std::string& path) {
  if (!std::ifstream(path)) throw BadInput(path, "cannot be read; `rehearse learn RECORDS --into " + path + "` writes it");
  const Json json = platforms::read_json_file(path);
  if (!json.is_object()) throw BadInput(path, "must be an object, as `rehearse learn` writes it");
  if (!json.contains("published")) return {};
  return learn_site(site_runs_of(json.at("published"), path + ": published"));
}

bool holds_site(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const Json json = platforms::read_json_file(path);
  return json.is_object() && json.contains("published");
}

void write_site(const std::string& path, const Site& site) {
  Json json = std::filesystem::exists(path) ? Json(platforms::read_json_file(path)) : Json{{"schema", 1}};
  auto corrections = Json::array();
  for (const auto& c : site.corrections) corrections.push_back(json_of(c));
  auto runs = Json::array();
  for (const auto& run : site.runs)
    runs.push_back(
        {{"id", run.id}, {"device", run.device}, {"group", run.group}, {"features", run.features}, {"log_ratio", run.log_ratio}});
  json["published"] = {{"mechanisms", kSiteMechanisms}, {"corrections", corrections}, {"runs", runs}};
  write_file_atomically(path, json.dump(1) + "\n");
}

}  // namespace rehearsal::costmodel
