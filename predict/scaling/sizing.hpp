#pragma once
// What a budget buys: of a model of a given size how many tokens, of a family of sizes which one.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/interval.hpp"
#include "predict/scaling/language_model.hpp"
#include "predict/scaling/training_budget.hpp"

namespace rehearsal::predict::scaling {

/// A training of one model until the first of its budgets is spent.
struct Trained {
  LanguageModel model;
  Assessment assessment;               ///< of its plan; with goodput where failures are known
  double steps = 0;                    ///< whole ones
  const Budget* spent = nullptr;       ///< the one that ends it
  costmodel::Interval tokens{};        ///< low and high: because a step may take more or less than predicted
  costmodel::Interval least_tokens{};  ///< that bring the same loss in small batches (LawInBatches); laws are asked about these
  costmodel::Interval loss{};          ///< because of that, and because laws of the same data disagree
  [[nodiscard]] Flops flops() const { return Flops(model.per_token.value() * tokens.value); }
  [[nodiscard]] double batch() const { return tokens.value / steps; }  ///< in tokens
  [[nodiscard]] double tokens_over_least() const { return tokens.value / least_tokens.value; }
  /// What laws look at.
  [[nodiscard]] TrainingSize scale() const { return model.scale(least_tokens.value); }
};

/// Answers of so many steps: what failures add to them; nothing where nothing is known of them.
using WithFailures = std::function<std::optional<Goodput>(const Assessment&, double steps)>;

/// Throws Refusal where not even one step can be paid for. The budgets must outlive the answer.
[[nodiscard]] Trained train_until(std::span<const Budget>, const LanguageModel&, Assessment, const ScalingLaw&, const WithFailures&);

/// The law's loss of so many tokens; the interval is of the least and the most that laws of the same data say for the ends of `tokens`.
[[nodiscard]] costmodel::Interval loss_interval(const ScalingLaw&, const LanguageModel&, const costmodel::Interval& tokens);

/// Parameters that the law gives the compute of such a training, as it counts that; low and high are the least and the most that any law
/// gives it that later work has not superseded.
[[nodiscard]] costmodel::Interval best_size(const ScalingLaw&, const TrainingSize&);

/// One size of a family.
struct Tried {
  double asked = 0;  ///< parameters
  std::string model;
  std::optional<Trained> trained;
  std::string refused;  ///< where it cannot be trained
};

/// Whether a size was rounded to a model that is among the others.
[[nodiscard]] bool is_among(const std::vector<Tried>&, const Tried&);

/// Tries sizes around `first`, a factor of two apart, until the one of least loss has two larger and two smaller ones beside it. Then
/// halves the distances between these five, and once more between the five around the best of all: kernels are not equally quick on all
/// widths, so that the loss has several minima. No model twice, in order of size. Throws Refusal with the reason of the first where none
/// can be trained.
[[nodiscard]] std::vector<Tried> sizes_around(double first, const std::function<Tried(double parameters)>& train);

/// Position of the least loss; nothing where none was trained.
[[nodiscard]] std::optional<std::size_t> best_of(const std::vector<Tried>&);

}  // namespace rehearsal::predict::scaling
