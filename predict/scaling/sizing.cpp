#include "predict/scaling/sizing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "predict/scaling/batch_return.hpp"

namespace rehearsal::predict::scaling {
namespace {

std::string amount_text(const BudgetRow& row, double amount) {
  if (row.key == "dollars") return to_text(Dollars(amount));
  if (row.key == "seconds") return to_text(Seconds(amount));
  return row.key == "joules" ? to_text(Joules(amount)) : to_text(Flops(amount));
}

/// Steps that a budget pays for. What failures add to a training depends a little on its length, so that is asked twice.
double steps_for(const Budget& budget, double flops_of_step, Assessment& a, const WithFailures& with_failures) {
  a.goodput.reset();
  double steps = budget.amount / budget.row->spent({a, flops_of_step, 1});
  constexpr int kTimes = 2;
  for (int n = 0; n < kTimes && steps >= 1; ++n) {
    a.goodput = with_failures(a, std::floor(steps));
    steps = budget.amount / budget.row->spent({a, flops_of_step, 1});
  }
  if (steps >= 1) return std::floor(steps);
  throw Refusal("--budget " + budget.text + ": not enough for one step, which takes " +
                amount_text(*budget.row, budget.row->spent({a, flops_of_step, 1})));
}

}  // namespace

costmodel::Interval loss_interval(const ScalingLaw& law, const LanguageModel& model, const costmodel::Interval& tokens) {
  costmodel::Interval loss{law.loss_of(model.scale(tokens.value)), std::numeric_limits<double>::infinity(), 0};
  for (const auto& other : scaling_laws()) {
    if (other.loss == nullptr || other.data != law.data) continue;
    loss.low = std::min(loss.low, other.loss_of(model.scale(tokens.high)));
    loss.high = std::max(loss.high, other.loss_of(model.scale(tokens.low)));
  }
  return loss;
}

costmodel::Interval best_size(const ScalingLaw& law, const TrainingSize& training) {
  const double own = law.best(law.flops_of(training)).parameters;
  costmodel::Interval size{own, own, own};
  for (const auto& other : scaling_laws()) {
    if (other.best == nullptr || !other.superseded.empty()) continue;
    const double parameters = other.best(other.flops_of(training)).parameters;
    size = {own, std::min(size.low, parameters), std::max(size.high, parameters)};
  }
  return size;
}

Trained train_until(std::span<const Budget> budgets, const LanguageModel& model, Assessment assessment, const ScalingLaw& law,
                    const WithFailures& with_failures) {
  Trained t{.model = model, .assessment = std::move(assessment)};
  auto& a = t.assessment;
  const double tokens_of_step = a.samples_per_second * a.step.value() * model.tokens_per_sample;
  for (const auto& budget : budgets) {
    const double steps = steps_for(budget, model.per_token.value() * tokens_of_step, a, with_failures);
    if (t.spent != nullptr && steps >= t.steps) continue;
    t.spent = &budget;
    t.steps = steps;
  }
  a.goodput = with_failures(a, t.steps);
  const double tokens = t.steps * tokens_of_step;
  // Compute buys the same tokens however long they take.
  const bool exact = t.spent->row->key == "flops";
  t.tokens = {tokens, exact ? tokens : tokens * a.step_seconds.value / a.step_seconds.high,
              exact ? tokens : tokens * a.step_seconds.value / a.step_seconds.low};
  const LawInBatches batched(law, model);
  const auto least = [&](double all) { return batched.in_small_batches(all, tokens_of_step); };
  t.least_tokens = {least(t.tokens.value), least(t.tokens.low), least(t.tokens.high)};
  t.loss = loss_interval(law, model, t.least_tokens);
  return t;
}

std::optional<std::size_t> best_of(const std::vector<Tried>& sizes) {
  std::optional<std::size_t> best;
  for (std::size_t n = 0; n < sizes.size(); ++n)
    if (sizes[n].trained && (!best || sizes[n].trained->loss.value < sizes[*best].trained->loss.value)) best = n;
  return best;
}

namespace {

constexpr std::size_t kBeside = 2, kMostSizes = 24;
constexpr double kApart = 2;

/// Where a size is missing: above the largest (1), below the smallest (-1), nowhere (0).
int missing_side(const std::vector<Tried>& sizes) {
  const auto best = best_of(sizes);
  if (!best) return sizes.back().trained ? 1 : -1;  // too large for the machine: look below
  const auto trained_or_refused = [&](std::size_t n) { return !sizes[n].refused.empty(); };
  if (*best < kBeside && !trained_or_refused(0)) return -1;
  const auto above = sizes.size() - 1 - *best;
  return above < kBeside && !trained_or_refused(sizes.size() - 1) ? 1 : 0;
}

/// Between those that are at most two places from the best.
std::vector<double> between_best(const std::vector<Tried>& sizes, std::size_t best) {
  std::vector<double> asked;
  const auto last = std::min(best + kBeside, sizes.size() - 1);
  for (auto n = best - std::min(best, kBeside); n < last; ++n)
    if (sizes[n].trained || sizes[n + 1].trained) asked.push_back(std::sqrt(sizes[n].asked * sizes[n + 1].asked));
  return asked;
}

}  // namespace

bool is_among(const std::vector<Tried>& sizes, const Tried& size) {
  return !size.model.empty() && std::ranges::find(sizes, size.model, &Tried::model) != sizes.end();
}

std::vector<Tried> sizes_around(double first, const std::function<Tried(double)>& train) {
  std::vector<Tried> sizes{train(first)};
  const auto why = sizes.front().refused;
  for (int side = missing_side(sizes); side != 0 && sizes.size() < kMostSizes; side = missing_side(sizes)) {
    if (side > 0)
      sizes.push_back(train(sizes.back().asked * kApart));
    else
      sizes.insert(sizes.begin(), train(sizes.front().asked / kApart));
  }
  constexpr int kHalvings = 2;
  for (int n = 0; n < kHalvings; ++n) {
    const auto best = best_of(sizes);
    if (!best) throw Refusal(why);
    for (const double asked : between_best(sizes, *best))
      if (auto between = train(asked); !is_among(sizes, between))
        sizes.insert(std::ranges::find_if(sizes, [&](const Tried& t) { return t.asked > asked; }), std::move(between));
  }
  return sizes;
}

}  // namespace rehearsal::predict::scaling
