#include "exec/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::string_view kLearningRateStep = "step";

/// PyTorch's ConstantLR, StepLR, CosineAnnealingLR and PolynomialLR; "linear" falls to 0 as transformers' get_linear_schedule_with_warmup.
constexpr LearningRateRow kLearningRateRows[] = {
    {"constant", "the optimizer's own rate", "", 0, [](double, double, double) { return 1.0; }},
    {kLearningRateStep, "times `factor` after every `every` steps (default: a third of all)", "factor", 0.1,
     [](double drops, double, double factor) { return std::pow(factor, drops); }},
    {"cosine", "half a cosine, down to `final` of the rate", "final", 0,
     [](double t, double steps, double final) { return final + (1 - final) * (1 + std::cos(std::numbers::pi * t / steps)) / 2; }},
    {"polynomial", "(1 - t/steps)^power", "power", 1, [](double t, double steps, double power) { return std::pow(1 - t / steps, power); }},
    {"linear", "down to 0 in a line", "", 0, [](double t, double steps, double) { return 1 - t / steps; }},
};

double number_in(const std::string& value, const std::string& text) {
  const auto number = parse_number<double>(value);
  if (number && std::isfinite(*number) && *number >= 0) return *number;
  throw BadInput("--schedule " + text, "\"" + value + "\" must be a finite number, 0 or more");
}

std::int64_t count_in(const std::string& value, const std::string& text) {
  const double number = number_in(value, text);
  if (number < 1 || number > 1e15 || number != std::floor(number))
    throw BadInput("--schedule " + text, "\"" + value + "\" must be a whole number of steps, 1 or more");
  return static_cast<std::int64_t>(number);
}

}  // namespace

LearningRate::LearningRate(const std::string& schedule, std::int64_t warmup, double warmup_from)
    : warmup_(warmup), warmup_from_(warmup_from) {
  if (warmup < 0) throw BadInput("--warmup " + std::to_string(warmup), "must be a number of steps, 0 or more");
  const auto colon = schedule.find(':');
  const auto names = names_of_rows(kLearningRateRows, &LearningRateRow::name);
  const auto name = find_name(schedule.substr(0, colon), names);
  if (!name) throw BadInput("--schedule " + schedule, "\"" + schedule.substr(0, colon) + "\" is not known; use one of " + joined(names));
  row_ = std::ranges::find(kLearningRateRows, *name, &LearningRateRow::name);
  schedule_ = *name;
  parameter_ = row_->otherwise;
  if (colon == std::string::npos) return;
  std::istringstream pairs(schedule.substr(colon + 1));
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos) throw BadInput("--schedule " + schedule, "write NAME:KEY=VALUE,..., for example cosine:steps=100");
    set(pair.substr(0, equals), pair.substr(equals + 1), schedule);
  }
}

void LearningRate::set(const std::string& key, const std::string& value, const std::string& text) {
  Names keys{"steps"};
  if (row_->name == kLearningRateStep) keys.emplace_back("every");
  if (!row_->parameter.empty()) keys.push_back(row_->parameter);
  const auto known = find_name(key, keys);
  if (!known) throw BadInput("--schedule " + text, std::string(row_->name) + " takes no \"" + key + "\"; it takes " + joined(keys));
  if (*known == "steps")
    steps_ = count_in(value, text);
  else if (*known == "every")
    every_ = count_in(value, text);
  else
    parameter_ = number_in(value, text);
  schedule_ += (schedule_ == row_->name ? ":" : ",") + std::string(*known) + "=" + value;
}

double LearningRate::factor(std::int64_t step, std::int64_t last_step) const {
  if (step <= warmup_) return warmup_from_ + (1 - warmup_from_) * static_cast<double>(step) / static_cast<double>(warmup_);
  if (row_ == nullptr) return 1;
  const auto steps = std::max<std::int64_t>(1, (steps_ > 0 ? steps_ : last_step) - warmup_);
  const auto passed = std::min(step - 1 - warmup_, steps);
  if (row_->name == kLearningRateStep) {
    const auto every = every_ > 0 ? every_ : std::max<std::int64_t>(1, (steps + 2) / 3);
    const std::int64_t stairs = passed / every;
    return row_->factor(static_cast<double>(stairs), static_cast<double>(steps), parameter_);
  }
  return row_->factor(static_cast<double>(passed), static_cast<double>(steps), parameter_);
}

bool LearningRate::constant() const { return warmup_ == 0 && (row_ == nullptr || row_->name == "constant"); }

std::string LearningRate::to_text(std::int64_t last_step) const {
  std::string text = schedule_;
  const bool has_end = row_ != nullptr && row_->name != "constant" && every_ == 0;
  if (has_end && steps_ == 0) text += " to step " + std::to_string(last_step);
  if (warmup_ > 0) text += " after a warmup of " + std::to_string(warmup_) + " steps";
  return text;
}

}  // namespace rehearsal::exec
