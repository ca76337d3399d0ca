#pragma once
// The best plans so far.

#include <cstddef>
#include <vector>

#include "search/objective.hpp"

namespace rehearsal::search {

/// A plan, and those that differ from it in nothing that matters: the same degrees, within 0.1 % in time, energy, money and memory.
struct Listed {
  predict::Assessment answer;
  double excess = 0;  ///< over the limits
  std::vector<plan::Plan> alike;
};

class Shortlist {
 public:
  struct Options {
    const ObjectiveRow* by = nullptr;  ///< nullptr: everything that nothing else beats in all of objective_table()
    std::size_t most = 5;              ///< plans to keep; no bound without an objective
    bool folds = true;                 ///< alike plans are one entry
    std::vector<Limit> limits;         ///< plans over one of them are kept only while there is none that keeps all
    double steps = 1;                  ///< of the training that limits are about
  };
  explicit Shortlist(Options options) : options_(std::move(options)) {}

  /// Whether a plan with this outlook can still enter.
  [[nodiscard]] bool may_enter(const predict::Outlook&) const;
  void enter(predict::Assessment);
  /// Best first.
  [[nodiscard]] const std::vector<Listed>& plans() const { return plans_; }
  /// True when the plans listed keep all limits.
  [[nodiscard]] bool within_limits() const { return !plans_.empty() && plans_.front().excess <= 0; }
  void clear() { plans_.clear(); }

 private:
  [[nodiscard]] bool fold(Listed&);
  void enter_front(Listed);

  Options options_;
  std::vector<Listed> plans_;
};

}  // namespace rehearsal::search
