#include "cli/counts.hpp"

#include <array>
#include <cmath>

#include <CLI/CLI.hpp>

#include "base/parse_number.hpp"

namespace rehearsal::cli {
namespace {

struct CountUnit {
  std::string_view unit;
  double factor;
};
constexpr std::array kCountUnits{CountUnit{"", 1},    CountUnit{"k", 1e3}, CountUnit{"K", 1e3},
                                 CountUnit{"M", 1e6}, CountUnit{"B", 1e9}, CountUnit{"T", 1e12}};
constexpr double kExact = 9e15;  // whole numbers that a double holds

}  // namespace

std::string count_digits(const std::string& text) {
  std::string_view unit = text;
  const auto number = take_number<double>(unit);
  if (!number) return text;
  for (const auto& row : kCountUnits) {
    if (row.unit != unit) continue;
    const double count = *number * row.factor;
    const double whole = std::round(count);
    if (!(std::fabs(count) < kExact) || std::fabs(count - whole) > 1e-9 * std::fabs(count)) return text;
    return std::to_string(static_cast<long long>(whole));
  }
  return text;
}

void as_count(CLI::Option* option) {
  option->transform([](const std::string& text) {
    const auto digits = count_digits(text);
    std::string_view rest = digits;
    if (const auto number = take_number<double>(rest); number && rest.empty() && std::fabs(*number) >= kExact)
      throw CLI::ValidationError(text + " is beyond the largest count, 9e15");
    return digits;
  });
}

}  // namespace rehearsal::cli
