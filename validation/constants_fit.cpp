#include "validation/constants_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <thread>

#include <Eigen/Dense>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "validation/intervals.hpp"

namespace rehearsal::validation {
namespace {

using costmodel::Coefficient;
using costmodel::Constants;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDifference = 0.02;   // step of finite differences in the log
constexpr double kRobustScale = 0.08;  // errors below count quadratically
constexpr double kPriorWeight = 0.32;  // of one prior standard deviation, in units of an average quantity
constexpr double kLargestStep = 0.35, kLargestLeftOutStep = 0.5;
constexpr int kReweightings = 25;
constexpr double kMultiple[] = {1, 0.5, 0.25, 0.125};
constexpr double kIncompleteWeight = 0.35, kAssumedWeight = 0.6, kSideWeight = 0.5;

struct Question {
  const Prepared* prepared;
  const Record* record;
  std::string key;
  double log_measured = 0, sign = 1;
};

class Fit {
 public:
  Fit(std::span<const Record> records, costmodel::ConstantsFile start) : records_(records), file_(std::move(start)) {
    for (std::size_t i = 0; i < costmodel::kCoefficients; ++i)
      if (file_.facts[i].fitted) free_.push_back(static_cast<Coefficient>(i));
    prepare();
    if (quantities_.empty())
      throw Refusal("no record has a figure that is predicted, so there is nothing to fit; `rehearse validate` says why");
    weigh();
  }

  FitOutcome run(int steps, Progress& progress);

 private:
  void prepare();
  void weigh();
  void ask(std::size_t record, const Prepared&, const std::string& key);
  [[nodiscard]] VectorXd residuals(const Constants&) const;
  [[nodiscard]] MatrixXd jacobian(const VectorXd& at, const VectorXd& base) const;
  [[nodiscard]] VectorXd step(const MatrixXd&, const VectorXd& residual, const VectorXd& weight, const VectorXd& at) const;
  [[nodiscard]] double objective(const VectorXd& residual, const VectorXd& at) const;
  [[nodiscard]] Constants constants_at(const VectorXd& at) const;
  [[nodiscard]] VectorXd clamped(const VectorXd& at) const;
  [[nodiscard]] const costmodel::CoefficientFacts& facts(std::size_t f) const { return file_.facts[static_cast<std::size_t>(free_[f])]; }
  [[nodiscard]] std::vector<costmodel::SeenRuns> seen_runs() const;
  using LabelOf = std::function<const std::string&(const FittedQuantity&)>;
  [[nodiscard]] std::vector<double> errors_without(const VectorXd& at, const MatrixXd&, const VectorXd& residual, const LabelOf&) const;
  void leave_out(const VectorXd& at, const VectorXd& residual);
  VectorXd minimise(VectorXd at, int steps, Progress&);

  std::span<const Record> records_;
  costmodel::ConstantsFile file_;
  std::vector<Coefficient> free_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
  std::vector<Question> questions_;
  std::vector<FittedQuantity> quantities_;
  std::vector<TaughtNothing> nothing_;
  VectorXd weight_;
};

void Fit::ask(std::size_t record, const Prepared& p, const std::string& key) {
  const auto measured = records_[record].measured.number(key);
  if (!measured || *measured <= 0) return;
  const auto answers = answer(p, records_[record], file_.values);
  if (!answers.values.contains(key)) return;
  questions_.push_back({&p, &records_[record], key, std::log(*measured), is_rate(key) ? -1.0 : 1.0});
  FittedQuantity q;
  q.record = record;
  q.key = key;
  q.group = evidence_group(p, key);
  q.source = publication_of(records_[record]);
  q.family = records_[record].family;
  q.widening = is_time_group(q.group) ? assumed_widening(p) : widening_of(p, file_.evidence);
  q.traits = traits_of(p);
  quantities_.push_back(std::move(q));
}

void Fit::prepare() {
  Preparer preparer;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const auto& r = records_[i];
    if (r.measured.all().empty()) continue;
    try {
      auto p = std::make_unique<Prepared>(preparer.prepare(r));
      for (const auto& key : {time_key(r), std::string("memory_gib"), std::string("avg_gpu_power_W"), std::string("avg_node_power_W"),
                              std::string("energy_kwh_per_epoch")})
        if (!key.empty()) ask(i, *p, key);
      prepared_.push_back(std::move(p));
    } catch (const Refusal& refused) {
      nothing_.push_back({r.id, refused.what()});
    }
  }
}

void Fit::weigh() {
  std::map<std::pair<std::string, std::string>, int> of_source;
  for (const auto& q : quantities_) ++of_source[{q.source, q.group}];
  weight_.resize(static_cast<Eigen::Index>(quantities_.size()));
  for (std::size_t i = 0; i < quantities_.size(); ++i) {
    auto& q = quantities_[i];
    const auto& assumed = questions_[i].prepared->job.assumed;
    q.weight = 1 / std::sqrt(of_source[{q.source, q.group}]);
    if (!records_[q.record].complete) q.weight *= kIncompleteWeight;
    if (std::find(assumed.begin(), assumed.end(), "micro-batch") != assumed.end() || q.key == "tflops_per_gpu") q.weight *= kAssumedWeight;
    if (q.group == "memory" || q.group == "energy") q.weight *= kSideWeight;
    weight_(static_cast<Eigen::Index>(i)) = q.weight;
  }
  weight_ /= weight_.mean();
}

Constants Fit::constants_at(const VectorXd& at) const {
  auto c = file_.values;
  for (std::size_t f = 0; f < free_.size(); ++f) c.set(free_[f], std::exp(at(static_cast<Eigen::Index>(f))));
  return c;
}

VectorXd Fit::clamped(const VectorXd& at) const {
  VectorXd inside = at;
  for (std::size_t f = 0; f < free_.size(); ++f) {
    auto& x = inside(static_cast<Eigen::Index>(f));
    x = std::clamp(x, std::log(facts(f).low), std::log(facts(f).high));
  }
  return inside;
}

VectorXd Fit::residuals(const Constants& c) const {
  VectorXd result(static_cast<Eigen::Index>(questions_.size()));
  const Prepared* last = nullptr;
  Answer a;
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    const auto& q = questions_[i];
    if (q.prepared != last) a = answer(*q.prepared, *q.record, c);
    last = q.prepared;
    result(static_cast<Eigen::Index>(i)) = q.sign * (std::log(a.values.at(q.key)) - q.log_measured);
  }
  return result;
}

MatrixXd Fit::jacobian(const VectorXd& at, const VectorXd& base) const {
  MatrixXd result(base.size(), at.size());
  const auto column = [&](Eigen::Index f) {
    VectorXd moved = at;
    const bool up = at(f) + kDifference <= std::log(facts(static_cast<std::size_t>(f)).high);
    moved(f) += up ? kDifference : -kDifference;
    result.col(f) = (residuals(constants_at(moved)) - base) / (up ? kDifference : -kDifference);
  };
  std::jthread other([&] {
    for (Eigen::Index f = 1; f < at.size(); f += 2) column(f);
  });
  for (Eigen::Index f = 0; f < at.size(); f += 2) column(f);
  other.join();
  return result;
}

VectorXd Fit::step(const MatrixXd& j, const VectorXd& residual, const VectorXd& weight, const VectorXd& at) const {
  VectorXd prior(at.size()), offset(at.size());
  for (std::size_t f = 0; f < free_.size(); ++f) {
    const auto i = static_cast<Eigen::Index>(f);
    prior(i) = kPriorWeight / (facts(f).spread * facts(f).spread);
    offset(i) = at(i) - std::log(facts(f).prior);
  }
  VectorXd d = VectorXd::Zero(at.size());
  for (int n = 0; n < kReweightings; ++n) {
    const VectorXd error = residual + j * d;
    const VectorXd q = weight.array() / error.array().abs().max(kRobustScale);
    MatrixXd a = j.transpose() * q.asDiagonal() * j;
    a.diagonal() += prior;
    const VectorXd g = j.transpose() * q.asDiagonal() * residual + VectorXd(prior.array() * offset.array());
    const VectorXd next = clamped(at - a.ldlt().solve(g)) - at;
    const double change = (next - d).cwiseAbs().maxCoeff();
    d = 0.5 * (d + next);
    if (change < 1e-4) break;
  }
  return d;
}

double Fit::objective(const VectorXd& residual, const VectorXd& at) const {
  double sum = (weight_.array() * residual.array().abs()).sum();
  for (std::size_t f = 0; f < free_.size(); ++f) {
    const double z = (at(static_cast<Eigen::Index>(f)) - std::log(facts(f).prior)) / facts(f).spread;
    sum += 0.5 * kPriorWeight * z * z;
  }
  return sum;
}

VectorXd Fit::minimise(VectorXd at, int steps, Progress& progress) {
  for (int n = 0; n < steps && !progress.stop_requested(); ++n) {
    progress.advance("steps", n, steps);
    const VectorXd residual = residuals(constants_at(at));
    const MatrixXd j = jacobian(at, residual);
    const VectorXd d = step(j, residual, weight_, at).cwiseMax(-kLargestStep).cwiseMin(kLargestStep);
    const double before = objective(residual, at);
    bool better = false;
    for (const double share : kMultiple) {
      const VectorXd next = clamped(at + share * d);
      if (objective(residuals(constants_at(next)), next) >= before) continue;
      at = next;
      better = true;
      break;
    }
    if (!better) break;
  }
  return at;
}

/// Of every quantity, by constants that those with its label had no part in.
std::vector<double> Fit::errors_without(const VectorXd& at, const MatrixXd& j, const VectorXd& residual, const LabelOf& label) const {
  std::set<std::string> labels;
  std::vector<double> errors(quantities_.size());
  for (const auto& q : quantities_) labels.insert(label(q));
  for (const auto& left : labels) {
    VectorXd weight = weight_;
    for (std::size_t i = 0; i < quantities_.size(); ++i)
      if (label(quantities_[i]) == left) weight(static_cast<Eigen::Index>(i)) = 0;
    const VectorXd d = step(j, residual, weight, at).cwiseMax(-kLargestLeftOutStep).cwiseMin(kLargestLeftOutStep);
    const auto c = constants_at(clamped(at + d));
    for (std::size_t i = 0; i < quantities_.size(); ++i) {
      if (label(quantities_[i]) != left) continue;
      const auto& q = questions_[i];
      errors[i] = q.sign * (std::log(answer(*q.prepared, *q.record, c).values.at(q.key)) - q.log_measured);
    }
  }
  return errors;
}

void Fit::leave_out(const VectorXd& at, const VectorXd& residual) {
  const auto j = jacobian(at, residual);
  const auto by_source = errors_without(at, j, residual, [](const auto& q) -> const std::string& { return q.source; });
  for (std::size_t i = 0; i < quantities_.size(); ++i) quantities_[i].left_out = by_source[i];
  for (std::size_t n = 0; n < costmodel::kNamedNovelties; ++n) {
    const auto by_name = errors_without(at, j, residual, [n](const auto& q) -> const std::string& { return q.traits.names[n]; });
    for (std::size_t i = 0; i < quantities_.size(); ++i) quantities_[i].without[n] = by_name[i];
  }
}

/// Times of training steps alone: what an estimate is asked for first.
std::vector<costmodel::SeenRuns> Fit::seen_runs() const {
  std::map<std::pair<std::string, std::string>, std::vector<double>> errors;
  for (std::size_t i = 0; i < quantities_.size(); ++i) {
    const auto& p = *questions_[i].prepared;
    if (!is_time_group(quantities_[i].group)) continue;
    errors[{p.job.framework->name, p.job.machine.platform.nodes.front().device.name}].push_back(
        std::fabs(std::expm1(quantities_[i].left_out)));
  }
  std::vector<costmodel::SeenRuns> runs;
  for (const auto& [key, all] : errors) runs.push_back({key.first, key.second, static_cast<int>(all.size()), median_of(all)});
  return runs;
}

FitOutcome Fit::run(int steps, Progress& progress) {
  VectorXd at(static_cast<Eigen::Index>(free_.size()));
  for (std::size_t f = 0; f < free_.size(); ++f) at(static_cast<Eigen::Index>(f)) = std::log(file_.values[free_[f]]);
  at = minimise(at, steps, progress);
  file_.values = constants_at(at);
  const VectorXd residual = residuals(file_.values);
  leave_out(at, residual);
  FitOutcome outcome;
  std::set<std::string> devices, frameworks;
  for (std::size_t i = 0; i < quantities_.size(); ++i) {
    quantities_[i].residual = residual(static_cast<Eigen::Index>(i));
    const auto& p = *questions_[i].prepared;
    devices.insert(p.job.machine.platform.nodes.front().device.name);
    if (!p.collective && p.job.framework->name != "generic") frameworks.insert(p.job.framework->name);
  }
  file_.evidence.devices.assign(devices.begin(), devices.end());
  file_.evidence.frameworks.assign(frameworks.begin(), frameworks.end());
  outcome.quantities = quantities_;
  outcome.nothing = nothing_;
  file_.evidence.runs = seen_runs();
  outcome.intervals = set_intervals(file_.evidence, quantities_);
  outcome.constants = file_;
  outcome.fitted_constants = static_cast<int>(free_.size());
  return outcome;
}

}  // namespace

FitOutcome fit_constants(std::span<const Record> records, const costmodel::ConstantsFile& start, int steps, Progress& progress) {
  return Fit(records, start).run(steps, progress);
}

std::string publication_of(const Record& r) {
  static const std::regex kCommit(R"( ?\(commit [^)]*\))");
  const auto text = std::regex_replace(r.source, kCommit, "");
  constexpr int kWords = 4, kFolders = 3;
  std::string result;
  int words = 0, folders = 0;
  const bool repository = text.find('/') < text.find(' ');
  for (const char c : text) {
    if (c == ' ' && (++words == (repository ? 2 : kWords) || holds(result, "mlcommons"))) break;
    if (repository && words == 1 && c == '/' && ++folders == kFolders) break;
    if (c == ',' || c == '(') break;
    result += c;
  }
  return result;
}

}  // namespace rehearsal::validation
