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

/// A number in the fewest digits that mean it.
[[nodiscard]] std::string digits(double);
/// "key: value" of nested objects from dotted keys, in the order given. Values are written as they are.
[[nodiscard]] std::string nested_json(const Sheet&);

/// Is optimizer state offloaded that nobody shares? Frameworks which offload what they shard then shard it among one, and nothing moves.
[[nodiscard]] bool offloads_alone(const TrainingJob&);

/// Of keys that no framework here has, or that all take alike.
void no_spatial(const TrainingJob&, Sheet&);
void equal_shares(const TrainingJob&, Sheet&);
void no_local_steps(const TrainingJob&, Sheet&);
void no_outer_step(const TrainingJob&, Sheet&);
void no_staleness(const TrainingJob&, Sheet&);
void no_servers(const TrainingJob&, Sheet&);
void whole_decompositions(const TrainingJob&, Sheet&);
void own_allreduce(const TrainingJob&, Sheet&);
void own_algorithms(const TrainingJob&, Sheet&);
void no_batch_statistics(const TrainingJob&, Sheet&);
inline constexpr std::array kRulesOfAll{ExportRule{"spatial", no_spatial},
                                        ExportRule{"shares", equal_shares},
                                        ExportRule{"local_steps", no_local_steps},
                                        ExportRule{"outer", no_outer_step},
                                        ExportRule{"staleness", no_staleness},
                                        ExportRule{"servers", no_servers},
                                        ExportRule{"decompositions", whole_decompositions},
                                        ExportRule{"allreduce", own_allreduce},
                                        ExportRule{"algorithms", own_algorithms},
                                        ExportRule{"bn", no_batch_statistics}};
/// A framework's own rules, and those of all.
template <std::size_t kOwn>
constexpr std::array<ExportRule, kOwn + kRulesOfAll.size()> with_rules_of_all(const std::array<ExportRule, kOwn>& own) {
  std::array<ExportRule, kOwn + kRulesOfAll.size()> rules{};
  std::ranges::copy(kRulesOfAll, std::ranges::copy(own, rules.begin()).out);
  return rules;
}

/// What several have in common.
void no_compression(const TrainingJob&, Sheet&);
void no_exact_steps(const TrainingJob&, Sheet&);
void even_cuts(const TrainingJob&, Sheet&);
void usual_order(const TrainingJob&, Sheet&);
void cross_entropy(const TrainingJob&, Sheet&);
void no_part_offloaded(const TrainingJob&, Sheet&);
void always_overlaps(const TrainingJob&, Sheet&);
void fusion_of_program(const TrainingJob&, Sheet&);
/// Of keys whose value another rule writes, or that are neutral whatever they are.
void nothing(const TrainingJob&, Sheet&);

}  // namespace rehearsal::exchange
