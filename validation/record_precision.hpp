#pragma once
// What authors call the arithmetic of a training.

#include <string>

namespace rehearsal::validation {

/// `text` (lower case) in the words that costmodel::precision_of() reads. Throws Refusal naming plan.precision where one of its words is
/// none that is known, or no word names a type that products are computed in.
[[nodiscard]] std::string known_precision(const std::string& text);

}  // namespace rehearsal::validation
