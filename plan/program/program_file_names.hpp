#pragma once
// Names of a Program's file, by what they stand for.

#include <array>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "plan/program/program.hpp"

namespace rehearsal::plan::program_file {

inline constexpr int kProgramJsonSchema = 1;
inline constexpr std::array<std::string_view, 3> kWhen{"always", "first micro-batch", "last micro-batch"};
inline constexpr std::array<std::string_view, 5> kLifetimes{"persistent", "step", "saved", "transient", "sent"};
inline constexpr std::array<std::string_view, 3> kVersions{"delayed", "newest", "next"};
inline constexpr std::array<std::string_view, 3> kPhases{"forward", "backward", "update"};
inline constexpr std::array<std::string_view, 5> kReductions{graph::name(graph::LabelKind::Parallel), graph::name(graph::LabelKind::Sum),
                                                             graph::name(graph::LabelKind::Max), graph::name(graph::LabelKind::Min),
                                                             graph::name(graph::LabelKind::LogSumExp)};
inline constexpr std::array<std::string_view, 3> kFormats{name(Format::Plain), name(Format::ChannelsLast), name(Format::Packed)};

template <class Enum>
[[nodiscard]] std::string text_of(const auto& names, Enum value) {
  return std::string(names[static_cast<std::size_t>(value)]);
}

[[nodiscard]] nlohmann::ordered_json axes_json(const Program&);

}  // namespace rehearsal::plan::program_file
