#pragma once
// Two sets of answers to the same records, side by side.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "validation/validate.hpp"

namespace rehearsal::validation {

/// A record that both answered, by the first quantity of scored_key()'s order that both predicted and somebody measured.
struct Duel {
  std::string id, family, key;
  double measured = 0;
  costmodel::Interval first, second;
};

/// How often which of two is nearer to what was measured, as a factor: half and twice are equally far.
struct Nearer {
  int first = 0, second = 0, alike = 0;
};

struct AnswerComparison {
  Summary first, second;                  ///< over all records
  Summary first_of_both, second_of_both;  ///< over the records of `duels`, by their quantity
  std::vector<Duel> duels;                ///< in the records' order
  Nearer nearer;                          ///< over all duels
  std::map<std::string, Nearer> nearer_by_family;
};

/// One verdict a record in each, in the records' order.
[[nodiscard]] AnswerComparison compare(std::span<const Verdict> first, std::span<const Verdict> second, std::span<const Record>);

}  // namespace rehearsal::validation
