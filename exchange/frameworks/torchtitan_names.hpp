#pragma once
// What torchtitan calls models, schedules and recomputation.

#include <array>
#include <string_view>

#include "plan/choices.hpp"

namespace rehearsal::exchange {

struct TitanModel {
  std::string_view preset, module, function;
  std::string_view flavor;  ///< beside `module`, in its older TOML files
};
inline constexpr std::array kTitanModels{TitanModel{"llama3-8b", "llama3", "llama3_8b", "8B"},
                                         TitanModel{"llama3-70b", "llama3", "llama3_70b", "70B"},
                                         TitanModel{"qwen3-0.6b", "qwen3", "qwen3_0_6b", "0.6B"},
                                         TitanModel{"qwen3-1.7b", "qwen3", "qwen3_1_7b", "1.7B"},
                                         TitanModel{"qwen3-14b", "qwen3", "qwen3_14b", "14B"},
                                         TitanModel{"qwen3-32b", "qwen3", "qwen3_32b", "32B"},
                                         TitanModel{"qwen3-30b-a3b", "qwen3", "qwen3_30b_a3b", "30B-A3B"}};

struct TitanSchedule {
  std::string_view ours, theirs;
};
inline constexpr std::array kTitanSchedules{TitanSchedule{"gpipe", "GPipe"},
                                            TitanSchedule{"1f1b", "1F1B"},
                                            TitanSchedule{"interleaved", "Interleaved1F1B"},
                                            TitanSchedule{"breadth-first", "LoopedBFS"},
                                            TitanSchedule{"zb-v", "ZBVZeroBubble"},
                                            TitanSchedule{"dualpipe-v", "DualPipeV"}};

struct TitanRecompute {
  plan::RecomputeRule rule;
  std::string_view written;  ///< in Python
  std::string_view mode;     ///< in TOML; selective with the option "op"
};
inline constexpr std::array kTitanRecompute{TitanRecompute{plan::RecomputeRule::None, "None", "none"},
                                            TitanRecompute{plan::RecomputeRule::SelectiveOps, "SelectiveAC.Config()", "selective"},
                                            TitanRecompute{plan::RecomputeRule::Full, "FullAC.Config()", "full"}};

}  // namespace rehearsal::exchange
