#pragma once
// The product's own published records, asked.

#include <sstream>
#include <string>
#include <vector>

#include "validation/embedded_records.hpp"
#include "validation/validate.hpp"

namespace rehearsal::validation {

inline std::vector<Record> own_records() {
  std::istringstream in{std::string(embedded_records())};
  return read_records(in, "validation/records/published.jsonl").records;
}

/// Answers of the closed form, or with `player` those of steps that are played.
inline std::vector<Verdict> answers_to(const std::vector<Record>& records, const PlayerOf& player = {}) {
  Progress silent;
  return validate(records, costmodel::published_constants(), {}, silent, player);
}

}  // namespace rehearsal::validation
