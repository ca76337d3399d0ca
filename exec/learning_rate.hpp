#pragma once
// How the learning rate changes from step to step.

#include <cstdint>
#include <string>
#include <string_view>

namespace rehearsal::exec {

/// `t` steps of `steps` have passed since the warmup; the rate as a factor of the optimizer's own.
struct LearningRateRow {
  std::string_view name;
  std::string_view description;
  std::string_view parameter;  ///< what it takes besides "steps"; empty: nothing
  double otherwise = 0;        ///< the parameter's default
  double (*factor)(double t, double steps, double parameter);
};

/// A schedule as --schedule writes it ("cosine", "polynomial:power=2", "step:every=30,factor=0.1"), after a linear warmup.
class LearningRate {
 public:
  LearningRate() = default;
  /// Throws BadInput naming the flag for a schedule or key that is not known, or a value outside its range.
  /// `warmup_from`: the factor from which the warmup rises.
  LearningRate(const std::string& schedule, std::int64_t warmup, double warmup_from = 0);
  /// Factor of step 1, 2, ...: from + (1 - from) n / warmup up to the warmup's end, then the schedule's. `last_step` ends it where the text
  /// does not.
  [[nodiscard]] double factor(std::int64_t step, std::int64_t last_step) const;
  [[nodiscard]] bool constant() const;
  /// "cosine to step 1000 after a warmup of 10 steps": the same text, the same rates at every step.
  [[nodiscard]] std::string to_text(std::int64_t last_step) const;

 private:
  void set(const std::string& key, const std::string& value, const std::string& text);

  std::string schedule_ = "constant";     ///< names as the rows have them
  const LearningRateRow* row_ = nullptr;  ///< nullptr: constant
  std::int64_t warmup_ = 0, steps_ = 0, every_ = 0;
  double parameter_ = 0, warmup_from_ = 0;
};

}  // namespace rehearsal::exec
