#pragma once
// Keeps a training from going on with numbers that are none.

#include <functional>

#include "exec/trainer.hpp"

namespace rehearsal::exec {

/// Judges steps as TrainerOptions::on_nan says; all of it is collective.
class FiniteSteps {
 public:
  FiniteSteps(Executor& executor, const Training& training, DataSource& data, OnNan on_nan)
      : executor_(executor), training_(training), data_(data), on_nan_(on_nan) {}

  /// For StepRequest; empty where every step may update.
  [[nodiscard]] std::function<bool()> may_update();
  /// Throws Refusal when the training is not to go on behind this step. `updated`: it was not left out.
  void judge(const StepReport&, bool updated);
  /// Throws Refusal naming a trained weight or state of the optimizer that is not finite.
  void require_finite_weights(std::int64_t step);

 private:
  [[noreturn]] void refuse(std::int64_t step, const std::string& first);
  /// A trained weight or state of the optimizer on this rank that is not finite.
  [[nodiscard]] std::optional<std::string> bad_weight() const;
  [[nodiscard]] std::string first_of_all(const std::optional<BadTensor>&);

  Executor& executor_;
  const Training& training_;
  DataSource& data_;
  OnNan on_nan_;
};

}  // namespace rehearsal::exec
