#pragma once
// The keys of a plan, one row each: what plan.cpp reads and writes as compact text and plan_json.cpp as a file.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace rehearsal::plan {

/// More ranks than any machine has; the product of the degrees may not exceed it.
inline constexpr std::int64_t kMostRanks = 10'000'000;

enum class KeyKind : std::uint8_t { Integer, Switch, Text, Names };  ///< in JSON: number, boolean, text, list of texts

struct PlanKey {
  std::string_view key;
  std::string_view section;  ///< of plan.json
  KeyKind kind;
  bool searchable;  ///< "auto" leaves it to the search
  /// Throws BadInput saying what would be right; the caller puts key and value before it.
  void (*parse)(Plan&, const std::string& value);
  std::string (*print)(const Plan&);  ///< empty: has no text, takes its neutral value
  std::string_view description;
  /// Names that it may have where they are rows of a table, in their order; nullptr: the description says what it may be.
  std::vector<std::string_view> (*values)() = nullptr;
};
/// With the names that the key may have.
[[nodiscard]] std::string description_of(const PlanKey&);

/// In the order of the canonical text.
[[nodiscard]] std::span<const PlanKey> plan_keys();
/// Null when there is no such key, in whatever spelling.
[[nodiscard]] const PlanKey* find_plan_key(std::string_view key);
/// Has the plan another value than the neutral one?
[[nodiscard]] bool is_set(const PlanKey&, const Plan&);
/// "'dpp' is no key; did you mean "dp"? Known keys: dp, tp, ..."
[[nodiscard]] std::string no_plan_key(std::string_view key);
/// Sets one key from its text, "auto" included. Throws BadInput naming key and value.
void set_plan_key(Plan&, const PlanKey&, const std::string& value);
/// Of a key of names, which the compact text separates by |, with what the text needs for itself as % and two digits. Throws BadInput.
[[nodiscard]] std::vector<std::string> names_in(const std::string& text);
[[nodiscard]] std::string text_of_names(const std::vector<std::string>&);
/// A sentence for every key that changes nothing because the axis it belongs to has one coordinate. `copies`: ranks among which sharded
/// updates are sharded.
[[nodiscard]] std::vector<std::string> keys_without_effect(const Plan&, int copies);
/// What is wrong with `zero_group`, whoever runs the plan.
[[nodiscard]] std::vector<Violation> shard_group_violations(const Plan&);
/// Throws BadInput when the keys contradict each other: more than kMostRanks ranks.
void check_whole_plan(const Plan&);

}  // namespace rehearsal::plan
