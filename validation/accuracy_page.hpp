#pragma once
#include <span>
#include <string>

#include "validation/validate.hpp"

namespace rehearsal::validation {

/// One self-contained HTML page: predicted against measured by family, the histogram of errors, a table of families, the worst ten.
[[nodiscard]] std::string validation_page(std::span<const Verdict>, std::span<const Record>);

}  // namespace rehearsal::validation
