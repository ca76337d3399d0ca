#include "exchange/logs/link_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/short_number.hpp"
#include "costmodel/collective_library.hpp"
#include "costmodel/constants.hpp"
#include "costmodel/cost_model.hpp"
#include "platforms/json.hpp"
#include "platforms/settings.hpp"
#include "predict/collective_times.hpp"

namespace rehearsal::exchange {
namespace {

constexpr std::size_t kFigures = 2;  // of a link: bandwidth and latency
using Factors = std::array<double, kFigures>;

/// A kind of link in a platform's file.
struct LinkNames {
  std::string_view section;  ///< of a group of nodes
  std::array<std::string_view, kFigures> figures;
};
constexpr LinkNames kInside{"intra", {"link.bandwidth", "link.latency"}};
constexpr LinkNames kBetween{"nic", {"nic.bandwidth", "nic.latency"}};

std::string factor_text(double factor) { return "x" + short_number(factor, 6); }

platforms::Platform with_factors(const platforms::Platform& platform, const LinkNames& names, const Factors& factors) {
  auto changed = platform;
  for (std::size_t i = 0; i < kFigures; ++i)
    changed = platforms::with_setting(changed, std::string(names.figures[i]), factor_text(factors[i]));
  return changed;
}

/// Seconds of every sample of the log, as we predict them.
std::vector<double> predicted(const platforms::Platform& platform, const CollectiveLog& log, bool between) {
  std::vector<double> seconds;
  if (!log.kind) {
    const costmodel::CollectiveLibrary network(platform);
    for (const auto& sample : log.samples)
      seconds.push_back(network.send(sample.size.value(), between, costmodel::published_constants().values));
    return seconds;
  }
  const costmodel::CostModel model(platforms::device_of(platform, 0), costmodel::Calibration{}, "f32");
  const auto evaluator = predict::closed_form_evaluator();
  for (const auto& sample : log.samples) {
    const auto times = predict::collective_times({platform, model, *log.kind, log.ranks, sample.size}, *evaluator);
    const auto chosen = std::ranges::find(times, true, &predict::CollectiveTime::chosen);
    if (chosen == times.end()) throw Refusal("platform " + platform.name + " has no time of its own for this collective");
    seconds.push_back(chosen->seconds.value());
  }
  return seconds;
}

std::vector<double> log_errors(const std::vector<double>& seconds, const CollectiveLog& log) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < seconds.size(); ++i) errors.push_back(std::log(seconds[i] / log.samples[i].seconds.value()));
  return errors;
}

double sum_of_squares(const std::vector<double>& errors) {
  double sum = 0;
  for (const double e : errors) sum += e * e;
  return sum;
}

/// Levenberg and Marquardt on the logarithms of two factors.
class TwoFactorFit {
 public:
  using Errors = std::function<std::vector<double>(const Factors&)>;
  explicit TwoFactorFit(Errors errors) : errors_(std::move(errors)) {}

  Factors run() {
    constexpr int kSteps = 40;
    Factors at{1, 1};
    auto now = errors_(at);
    double damping = 1e-3;
    for (int step = 0; step < kSteps && damping < 1e6; ++step) {
      const auto next = moved(at, now, damping);
      const auto then = errors_(next);
      const double gain = sum_of_squares(now) - sum_of_squares(then);
      if (gain > 0)
        at = next, now = then, damping /= 4;
      else
        damping *= 8;
      if (gain > 0 && gain < 1e-10 * (1 + sum_of_squares(now))) break;
    }
    return at;
  }
  /// Whether any time depends on a figure, near where the search began.
  [[nodiscard]] bool has_effect(std::size_t figure) const { return effect_[figure]; }

 private:
  Factors moved(const Factors& at, const std::vector<double>& now, double damping) {
    constexpr double kNudge = 0.01, kFarthest = 1;
    std::array<std::vector<double>, kFigures> slopes;
    for (std::size_t i = 0; i < kFigures; ++i) {
      auto nudged = at;
      nudged[i] *= std::exp(kNudge);
      slopes[i] = errors_(nudged);
      for (std::size_t k = 0; k < now.size(); ++k) slopes[i][k] = (slopes[i][k] - now[k]) / kNudge;
      effect_[i] = effect_[i] || sum_of_squares(slopes[i]) > 1e-12;
    }
    const auto dot = [](const auto& a, const auto& b) {
      double sum = 0;
      for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
      return sum;
    };
    const double aa = dot(slopes[0], slopes[0]) * (1 + damping) + 1e-12, bb = dot(slopes[1], slopes[1]) * (1 + damping) + 1e-12;
    const double ab = dot(slopes[0], slopes[1]), a = -dot(slopes[0], now), b = -dot(slopes[1], now);
    const double determinant = aa * bb - ab * ab;
    const Factors steps{(a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant};
    auto next = at;
    for (std::size_t i = 0; i < kFigures; ++i)
      if (effect_[i]) next[i] = std::clamp(at[i] * std::exp(std::clamp(steps[i], -kFarthest, kFarthest)), 1e-4, 1e4);
    return next;
  }

  Errors errors_;
  std::array<bool, kFigures> effect_{};
};

/// What is said of a log and cannot be, or the log contradicts.
void require_possible(std::optional<int> ranks_per_node, const CollectiveLog& log) {
  if (!ranks_per_node) return;
  const auto option = "--ranks-per-node " + std::to_string(*ranks_per_node);
  if (*ranks_per_node < 1 || *ranks_per_node > log.ranks)
    throw BadInput(option, "must be from 1 to " + std::to_string(log.ranks) + ", the ranks of the log");
  if (log.nodes > 0 && *ranks_per_node * log.nodes != log.ranks)
    throw BadInput(option, "the log says itself that " + std::to_string(log.ranks) + " ranks were on " + std::to_string(log.nodes) +
                               (log.nodes == 1 ? " node" : " nodes") + "; leave it out");
}

/// Which links the log measured: the platform's first devices must lie as its ranks did.
bool between_nodes(const platforms::Platform& platform, const CollectiveLog& log, std::optional<int> ranks_per_node) {
  const int devices = platform.nodes.front().devices;
  int on_a_node = ranks_per_node.value_or(std::min(log.ranks, devices));
  if (log.nodes > 0) {
    if (log.ranks % log.nodes != 0)
      throw Refusal("the log has " + std::to_string(log.ranks) + " ranks on " + std::to_string(log.nodes) + " nodes, not as many on each");
    on_a_node = log.ranks / log.nodes;
  }
  if (!log.kind) return on_a_node == 1;
  if (on_a_node != std::min(log.ranks, devices))
    throw Refusal("the log has " + std::to_string(on_a_node) + " ranks on each node, and platform " + platform.name + " puts " +
                  std::to_string(std::min(log.ranks, devices)) + " there; give a platform whose nodes have as many devices");
  return log.ranks > devices;
}

void name_source(platforms::Platform& platform, const LinkNames& names, const std::string& source) {
  auto document = platforms::to_json(platform);
  for (auto& group : document.at("nodes"))
    for (const auto figure : names.figures)
      group[std::string(names.section)]["sources"][std::string(figure.substr(figure.find('.') + 1))] = source;
  platform = platforms::read_platform(document, source);
}

double mean_error(const std::vector<double>& seconds, const CollectiveLog& log, double& worst) {
  double sum = 0;
  worst = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const double error = std::abs(seconds[i] / log.samples[i].seconds.value() - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  return sum / static_cast<double>(seconds.size());
}

}  // namespace

LogFit fit_links(const platforms::Platform& platform, const CollectiveLog& log, const std::string& source,
                 std::optional<int> ranks_per_node) {
  require_possible(ranks_per_node, log);
  const bool between = between_nodes(platform, log, ranks_per_node);
  const auto& names = between ? kBetween : kInside;
  TwoFactorFit search([&](const Factors& f) { return log_errors(predicted(with_factors(platform, names, f), log, between), log); });
  const auto factors = search.run();
  LogFit fit{with_factors(platform, names, factors), {}, {}, 0, 0, 0};
  name_source(fit.platform, names, source);
  for (std::size_t i = 0; i < kFigures; ++i) {
    const std::string name(names.figures[i]);
    fit.figures.push_back({name, platforms::setting(platform, name), platforms::setting(fit.platform, name), search.has_effect(i)});
  }
  const auto before = predicted(platform, log, between), after = predicted(fit.platform, log, between);
  for (std::size_t i = 0; i < log.samples.size(); ++i)
    fit.rows.push_back({log.samples[i].size, log.samples[i].seconds, Seconds(before[i]), Seconds(after[i])});
  double worst_before = 0;
  fit.mean_before = mean_error(before, log, worst_before);
  fit.mean_after = mean_error(after, log, fit.worst_after);
  return fit;
}

}  // namespace rehearsal::exchange
