#pragma once
// What rules of several frameworks share.

#include <algorithm>
#include <array>
#include <cstddef>

#include "exchange/frameworks/plan_export.hpp"

namespace rehearsal::exchange {

[[nodiscard]] FrameworkRow megatron_core_row();
[[nodiscard]] FrameworkRow torchtitan_row();
[[nodiscard]] FrameworkRow deepspeed_row();
[[nodiscard]] FrameworkRow fsdp2_row();

/// "key: value" of nested objects from dotted keys, in the order given. Values are written as they are.
[[nodiscard]] std::string nested_json(const Sheet&);

/// Is optimizer state offloaded that nobody shares? Frameworks which offload what they shard then shard it among one, and nothing moves.
[[nodiscard]] bool offloads_alone(const TrainingJob&);

/// Of keys that no framework here has, or that all take alike.
void equal_shares(const TrainingJob&, Sheet&);
void launched_in_order(const TrainingJob&, Sheet&);
inline constexpr std::array kRulesOfAll{
    ExportRule{"spatial", nullptr, "it does not split images", "leave it out"},
    ExportRule{"shares", equal_shares},
    ExportRule{"local_steps", nullptr, "its replicas sum gradients in every step", "use local_steps=0"},
    ExportRule{"outer", nullptr, "its replicas never part", "leave it out"},
    ExportRule{"staleness", nullptr, "its replicas wait for each other in every step", "leave it out"},
    ExportRule{"servers", nullptr, "no replica serves the others", "leave it out"},
    ExportRule{"decompositions", nullptr, "it has no optimizer that decomposes matrices", "leave it out"},
    ExportRule{"allreduce", nullptr, "NCCL chooses the algorithm", "use allreduce=auto"},
    ExportRule{"algorithms", nullptr, "NCCL chooses them", "leave it out; a search with --framework writes plans without it"},
    ExportRule{"fill", launched_in_order},
    ExportRule{"bn", nullptr, "its models say themselves what they normalize by", "leave it out"}};
/// A framework's own rules, and those of all.
template <std::size_t kOwn>
constexpr std::array<ExportRule, kOwn + kRulesOfAll.size()> with_rules_of_all(const std::array<ExportRule, kOwn>& own) {
  std::array<ExportRule, kOwn + kRulesOfAll.size()> rules{};
  std::ranges::copy(kRulesOfAll, std::ranges::copy(own, rules.begin()).out);
  return rules;
}

/// What several have in common.
inline constexpr ExportRule kNoExactSteps{"exact_steps", nullptr, "it sums gradients alike in all steps", "leave it out"};
inline constexpr ExportRule kEvenCuts{"cuts", nullptr, "nodes of ours are no modules of its models",
                                      "leave it out: it splits layers evenly"};
inline constexpr ExportRule kWholeOffload{"offload", nullptr, "it offloads parameters, gradients and states together, or nothing",
                                          "use offload=none"};
void no_compression(const TrainingJob&, Sheet&);
void usual_order(const TrainingJob&, Sheet&);
void cross_entropy(const TrainingJob&, Sheet&);
void always_overlaps(const TrainingJob&, Sheet&);
void fusion_of_program(const TrainingJob&, Sheet&);
/// Of keys whose value another rule writes, or that are neutral whatever they are.
void nothing(const TrainingJob&, Sheet&);

}  // namespace rehearsal::exchange
