#pragma once
// How evenly tokens are spread over experts.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::predict::frameworks {

class ExpertLoad {
 public:
  /// Every expert has as many tokens.
  ExpertLoad() = default;
  /// "balanced"; "zipf:S" (the n-th most popular expert has tokens in proportion to n^-S, and any expert may be it); or a file with a JSON
  /// list of a number for every expert, in their order. Throws BadInput naming `where`.
  static ExpertLoad parse(std::string_view where, const std::string& text);

  /// Tokens of the busiest of `ranks` ranks over those of the mean one, where every token goes to `choices` different experts: no expert
  /// has more than all tokens once, the one in `choices` of what there is to share. Ranks have neighbouring experts, as many each. Of
  /// "zipf" the mean over many placements. Throws BadInput when a list has another number of experts, or more for one than that, Refusal
  /// when the ranks do not divide them.
  [[nodiscard]] double busiest(std::int64_t experts, std::int64_t choices, int ranks) const;
  [[nodiscard]] bool balanced() const { return exponent_ == 0 && shares_.empty(); }

 private:
  double exponent_ = 0;
  std::vector<double> shares_;  ///< of a list, over the largest
};

}  // namespace rehearsal::predict::frameworks
