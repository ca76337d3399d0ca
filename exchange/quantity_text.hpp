#pragma once
#include <string>

namespace rehearsal::exchange {

/// A number in six significant digits: as exact as anything fitted is.
[[nodiscard]] std::string short_number(double);

}  // namespace rehearsal::exchange
