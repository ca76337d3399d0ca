#pragma once
// Models that Rehearsal writes itself, without weights: "zoo:gpt?layers=96&hidden=12288".

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.hpp"

namespace rehearsal::graph::zoo {

/// Tokens: contexts of 1M are 2^20, and the longest published one is 10M.
inline constexpr std::int64_t kLongestSequence = 16'777'216;

struct ZooParameter {
  std::string_view name;
  std::int64_t otherwise;  ///< default
  std::int64_t least, most;
  std::string_view description;
  std::string_view with = {};  ///< parameter without which, where it is 0, this one means nothing
};

/// The parameters of one model, all given.
using ZooValues = std::map<std::string, std::int64_t, std::less<>>;

struct ZooRow {
  std::string_view name;
  std::string_view description;  ///< with the source of the architecture
  std::span<const ZooParameter> parameters;
  Graph (*build)(const ZooValues&);
};

[[nodiscard]] std::span<const ZooRow> zoo_table();

/// A published model: a row of the table with its sizes.
struct ZooPreset {
  std::string_view name;
  std::string_view model;   ///< name of the row, or of another preset
  std::string_view values;  ///< "key=value&...", over that one's
};
[[nodiscard]] std::span<const ZooPreset> zoo_presets();

/// What a reference asks for, completed with defaults.
struct ZooChoice {
  const ZooRow* row;
  ZooValues values;
};
/// Parses "zoo:NAME?key=value&..." (the prefix may be left out), NAME being of a row or a preset. Throws BadInput naming an unknown model
/// or parameter and those that exist, or a value that is no number in its range.
[[nodiscard]] ZooChoice parse(std::string_view reference);
/// As parse(), with other defaults for some parameters.
[[nodiscard]] ZooChoice parse(std::string_view reference, const ZooValues& defaults);

/// "zoo:NAME?key=value&..." with every parameter.
[[nodiscard]] std::string to_text(const ZooChoice&);

/// The model's forward graph; `batch` stands over the reference's own. Parameters have no values: see with_initial_values().
[[nodiscard]] Graph build(std::string_view reference, std::optional<std::int64_t> batch = std::nullopt);

}  // namespace rehearsal::graph::zoo
