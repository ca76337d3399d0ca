#pragma once
// The space of plans, one row for each key that a search varies, walked lazily: degrees first, then micro-batches, then the rest.

#include <optional>
#include <string>
#include <vector>

#include "predict/predictor.hpp"

namespace rehearsal::search {

/// Keys of a plan that a search varies.
[[nodiscard]] std::vector<std::string> searchable_keys();
/// Words that allow other mathematics (predict::FreeKey::allowed_by).
[[nodiscard]] std::vector<std::string> allowed_words();

struct FreeKeys {
  std::vector<std::string> keys;
  std::vector<std::string> allowed;  ///< of allowed_words()
  std::optional<int> ranks;          ///< of every plan; nothing: of as many devices as are best
};

class PlanSpace {
 public:
  /// `fixed`: the user's plan; keys in `free` are varied. Throws BadInput when one is free that cannot be.
  PlanSpace(predict::Predictor&, plan::Plan fixed, FreeKeys free);

  /// Degrees of parallelism, those of most ranks first.
  [[nodiscard]] std::vector<plan::Plan> shapes() const;
  /// A shape with every micro-batch, the smallest first.
  [[nodiscard]] std::vector<plan::Plan> micro_batches(const plan::Plan& shape) const;
  /// With every value of all other keys but `recompute`.
  [[nodiscard]] std::vector<plan::Plan> variants(const plan::Plan& with_micro_batch) const;
  /// With every value of `recompute`, "none" first.
  [[nodiscard]] std::vector<plan::Plan> recomputing(const plan::Plan& variant) const;
  /// Plans that differ in one key, or have half of one degree and twice another.
  [[nodiscard]] std::vector<plan::Plan> neighbours(const plan::Plan&) const;

 private:
  [[nodiscard]] bool varies(std::string_view key) const;
  [[nodiscard]] bool allows(std::string_view word) const;
  /// With every value of the keys that vary and are wanted.
  template <class Wanted>
  [[nodiscard]] std::vector<plan::Plan> with_free_keys(const plan::Plan& from, const Wanted& wanted) const;

  predict::Predictor& predictor_;
  plan::Plan fixed_;
  std::vector<std::string> free_, allowed_;
  std::optional<int> ranks_;
};

}  // namespace rehearsal::search
