#pragma once
// What another predictor said of the same records: one JSON object a line, {"id", "predicted": {KEY: number or {value, low, high}}} or
// {"id", "refused": "reason"}, with the keys and units of a record's `measured`. `rehearse validate --format json` writes this form.

#include <iosfwd>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "validation/record.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {

struct AnswerFile {
  std::vector<Verdict> verdicts;       ///< one a record, in their order; without an answer refused as kNotAnswered
  std::set<std::string> unknown_ids;   ///< that no record has
  std::set<std::string> unknown_keys;  ///< of predictions that no record measures
};

inline constexpr const char* kNotAnswered = "no answer";

/// A prediction without bounds has low = value = high. Throws BadInput naming `where`, the line and the key: no JSON, an id given twice,
/// values that are no positive numbers, bounds that the value is not between.
[[nodiscard]] AnswerFile read_answers(std::istream& in, const std::string& where, std::span<const Record>);
[[nodiscard]] AnswerFile read_answer_file(const std::string& path, std::span<const Record>);

}  // namespace rehearsal::validation
