#include "cli/vary.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "cli/counts.hpp"
#include "cli/mixed_frameworks.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/settings.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostValues = 64;

/// "16", "100 GB/s": the number, and what follows it.
std::pair<double, std::string> number_and_unit(const std::string& asked, const std::string& text) {
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  if (!number || !(*number > 0) || !std::isfinite(*number))
    throw BadInput(asked, "the ends of A..B must be numbers above 0, with or without a unit");
  return {*number, std::string(unit)};
}

std::vector<std::string> doubled(const std::string& asked, const std::string& first, const std::string& last) {
  const auto [low, unit] = number_and_unit(asked, first);
  const auto [high, unit_of_last] = number_and_unit(asked, last);
  if (!unit.empty() && unit != unit_of_last) throw BadInput(asked, "both ends of A..B must have one unit");
  if (high < low) throw BadInput(asked, "ends below where it begins");
  std::vector<std::string> values;
  for (double value = low; value < high && values.size() < kMostValues; value *= 2) values.push_back(Json(value).dump() + unit_of_last);
  values.push_back(last);
  for (auto& value : values)  // whole numbers stay such
    if (const auto point = value.find(".0" + unit_of_last); point != std::string::npos && point + 2 + unit_of_last.size() == value.size())
      value.erase(point, 2);
  return values;
}

/// What became of all values.
struct VariedSoFar {
  bool answered = false;           ///< one of them is
  std::optional<Refusal> refused;  ///< the first that is, and why
  std::optional<BadInput> wrong;   ///< the first that its key cannot have

  void refuse(const Error& why, const std::string& setting) {
    if (why.status() == ExitStatus::Refused && !refused) refused = Refusal(setting + ": " + why.what());
    if (why.status() == ExitStatus::BadInput && !wrong) wrong = BadInput(why.what());
  }
  [[nodiscard]] std::optional<Refusal> why_none() const {
    if (answered) return std::nullopt;
    if (!refused && wrong) throw *wrong;
    return refused;
  }
};

/// One figure of the question, set to another value.
class Varied {
 public:
  Varied(const VaryQuestion& q, const std::string& key) : q_(q) {
    const auto settings = platforms::setting_names(q.setup.platform());
    Names names = names_of_rows(plan::plan_keys(), &plan::PlanKey::key);
    names.insert(names.end(), kVariedSizes.begin(), kVariedSizes.end());
    names.insert(names.end(), settings.begin(), settings.end());
    framework_ = q.framework();
    if (q.base != nullptr) base_ = to_json(*q.base, q.setup.steps());
    key_ = known_name("--vary " + key, key, names);
  }

  [[nodiscard]] const std::string& key() const { return key_; }

  /// What it is in the estimate that all is compared with; empty where that has no text.
  [[nodiscard]] std::string now() const {
    if (const auto* row = plan::find_plan_key(key_)) return row->print(q_.plan);
    if (key_ == "batch") return std::to_string(q_.setup.predictor().batch());
    if (key_ == "devices") return std::to_string(platforms::device_count(q_.setup.platform()));
    if (key_ == "nodes") return std::to_string(platforms::node_count(q_.setup.platform()));
    return platforms::setting(q_.setup.platform(), key_);
  }

  [[nodiscard]] Json row(const std::string& value, VariedSoFar& all_values) {
    Json row{{"key", key_}, {"value", value}};
    try {
      const auto assessment = with(value);
      const auto all = to_json(assessment, steps_);
      add_answer(row, all, assessment);
      if (is_another(value)) unused_ = unused_.value_or(true) && all == base_;
      if (const auto x = number_of(value); x && assessment.framework == framework_) points.push_back({*x, assessment.step.value()});
      all_values.answered = true;
    } catch (const Error& error) {
      if (error.status() != ExitStatus::Refused && error.status() != ExitStatus::BadInput) throw;
      unused_ = false;
      row["refused"] = error.what();
      all_values.refuse(error, key_ + "=" + value);
    }
    return row;
  }

  [[nodiscard]] std::optional<double> number_of(const std::string& value) const {
    if (!value.starts_with("x")) return si_number(count_digits(value));
    const auto before = si_number(now());
    const auto factor = parse_number<double>(std::string_view(value).substr(1));
    return before && factor ? std::optional(*before * *factor) : std::nullopt;
  }

  /// Other values gave the same answer, in all that an estimate says.
  [[nodiscard]] bool unused() const { return unused_.value_or(false); }

  std::vector<Point> points;

 private:
  [[nodiscard]] bool is_another(const std::string& value) const {
    const auto before = number_of(now()), after = number_of(value);
    return before && after ? *before != *after : value != now();
  }

  predict::Assessment with(const std::string& value) {
    if (const auto* row = plan::find_plan_key(key_)) {
      auto plan = q_.plan;
      plan::set_plan_key(plan, *row, value);
      plan::check_whole_plan(plan);
      if (!plan.searched.empty()) throw BadInput("--vary " + key_ + "=" + value, "give a value; `search --plan` looks for the best");
      return assessed(q_.setup, q_.setup.answering(), plan);
    }
    auto model = q_.model;
    auto platform = q_.platform;
    if (q_.base != nullptr) platform.framework = framework_;  // all but the figure is what it was
    if (key_ == "batch")
      model.batch = whole(value);
    else if (key_ == "devices")
      platform.devices = whole(value);
    else if (key_ == "nodes")
      platform.nodes = whole(value);
    else
      platform.settings.emplace_back(key_, value);
    JobSetup setup(model, platform);
    const auto plan = q_.platform.plan.empty() || q_.base == nullptr ? setup.plan(model, platform).plan : q_.plan;
    return assessed(setup, setup.predictor(), plan);
  }

  predict::Assessment assessed(const JobSetup& setup, predict::Predictor& predictor, const plan::Plan& plan) {
    steps_ = setup.steps();
    auto a = assess(predictor, plan, q_.fidelity, nullptr);
    a.goodput = predict::goodput_of(a, predictor.platform_for(plan), q_.goodput.question(steps_));
    return a;
  }

  [[nodiscard]] std::int64_t whole(const std::string& value) const {
    const auto number = parse_number<std::int64_t>(count_digits(value));
    if (!number || *number < 1) throw BadInput("--vary " + key_ + "=" + value, "must be a whole number above 0");
    return *number;
  }

  void add_answer(Json& row, const Json& all, const predict::Assessment& a) const {
    row["framework"] = a.framework;
    for (const char* key : {"plan", "step_seconds", "total_seconds"})
      if (std::string_view(key) != "total_seconds" || steps_ > 1) row[key] = all.at(key);
    if (a.goodput) {
      row["finished_seconds"] = all.at("goodput").at("finished_seconds");
      row["effective"] = all.at("goodput").at("effective");
    }
    row["memory_bytes"] = all.at("memory_bytes").at("value");
    row["fits"] = a.fits();
    row["out_of_memory_chance"] = all.at("out_of_memory_chance");
    const char* rate = all.contains("tokens_per_second") ? "tokens_per_second" : "samples_per_second";
    row[rate] = all.at(rate);
    for (const char* key : {"energy_joules", "cost_dollars"}) row[key] = all.at(key);
  }

  const VaryQuestion& q_;
  Json base_;              ///< null where that is refused
  std::string framework_;  ///< of the estimate
  std::string key_;
  double steps_ = 1;
  std::optional<bool> unused_;  ///< nothing while no other value was tried
};

}  // namespace

std::vector<std::string> listed_values(const std::string& asked, const std::string& text) {
  if (const auto dots = text.find(".."); dots != std::string::npos) return doubled(asked, text.substr(0, dots), text.substr(dots + 2));
  auto values = split(text, ',');
  if (std::ranges::find(values, "") != values.end()) throw BadInput(asked, "has an empty value");
  return values;
}

Variation parse_variation(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw BadInput("--vary " + text, "write KEY=V1,V2,... or KEY=A..B, for example --vary micro_batch=1..8");
  return {text.substr(0, equals), listed_values("--vary " + text, text.substr(equals + 1))};
}

std::optional<double> si_number(const std::string& text) {
  if (const auto number = parse_number<double>(text)) return number;
  std::optional<double> value;
  const auto attempt = [&]<class Q>(Q) {
    if (value) return;
    try {
      value = parse_quantity<Q>(text).value();
    } catch (const BadInput&) {
      value.reset();  // of another kind
    }
  };
  attempt(Seconds());
  attempt(Bytes());
  attempt(BytesPerSecond());
  attempt(FlopsPerSecond());
  attempt(Watts());
  attempt(Hertz());
  attempt(DollarsPerHour());
  attempt(KilogramsPerJoule());
  attempt(DollarsPerJoule());
  return value;
}

std::optional<double> elasticity(const std::vector<Point>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& p : points) {
    if (!(p.x > 0) || !(p.y > 0)) return std::nullopt;
    const double a = std::log(p.x), b = std::log(p.y);
    x += a, y += b, xx += a * a, xy += a * b;
  }
  constexpr double kSame = 1e-12;
  const double spread = n * xx - x * x;
  if (points.size() < 2 || spread < kSame) return std::nullopt;
  const double slope = (n * xy - x * y) / spread;
  return std::fabs(slope) < kSame ? 0 : slope;  // the same step, but for rounding
}

std::optional<Refusal> add_variations(Json& result, const VaryQuestion& q, const std::vector<std::string>& variations) {
  auto rows = Json::array();
  auto elasticities = Json::object();
  auto unused = Json::array();
  VariedSoFar all_values;
  for (const auto& text : variations) {
    const auto variation = parse_variation(text);
    Varied varied(q, variation.key);
    for (const auto& value : variation.values) rows.push_back(varied.row(value, all_values));
    if (const auto x = q.base != nullptr ? varied.number_of(varied.now()) : std::nullopt)
      varied.points.push_back({*x, q.base->step.value()});
    const auto slope = elasticity(varied.points);
    elasticities[varied.key()] = slope ? Json(*slope) : Json(nullptr);
    if (varied.unused()) unused.push_back(varied.key());
  }
  leave_out_one_framework(rows, q.framework());
  result["vary"] = rows;
  result["elasticities"] = elasticities;
  if (!unused.empty()) result["without_effect"] = unused;
  return all_values.why_none();
}

}  // namespace rehearsal::cli
