#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rehearsal::plan {

/// Through which operands a pending sum may pass: f(sum of parts) = sum of f(part).
enum class LinearIn : std::uint8_t {
  First,  ///< in operand 0 alone
  All,    ///< in all operands together
};

/// nullopt for operators through which no pending sum may pass. Operators that enlarge or convert are left out: resolving before them moves
/// fewer bytes.
[[nodiscard]] std::optional<LinearIn> linear_in(std::string_view op);
[[nodiscard]] std::vector<std::string_view> linear_operators();

/// The operand that is added to the result once (a bias): where the result is a pending sum, one rank adds it and the others add zero.
/// -1: there is none.
[[nodiscard]] int addend_of(std::string_view op);

/// Is the operand a pair of sums over 'count' elements of the batch, by which the node normalizes?
[[nodiscard]] bool is_batch_statistic(std::string_view op, std::size_t operand);

}  // namespace rehearsal::plan
