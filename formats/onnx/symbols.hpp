#pragma once
// Symbolic sizes: names such as "batch", and the expressions that exporters derive from them ("2*seq*batch", "Min(512, seq)").

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace rehearsal::formats {

/// Values of symbols by name.
using Bindings = std::map<std::string, std::int64_t>;

/// The value of an expression of + - * // % / Min Max floor, parentheses, integers and symbols.
/// nullopt when a symbol has no value (it is added to `unbound` when given). A text that is no expression is one symbol.
/// Throws BadInput naming the expression when it overflows or divides by zero.
[[nodiscard]] std::optional<std::int64_t> evaluate_size(std::string_view expression, const Bindings& bindings,
                                                        std::set<std::string>* unbound = nullptr);

}  // namespace rehearsal::formats
