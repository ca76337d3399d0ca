#pragma once
// The role of a rank, pass by pass. Each pass is a row of role_passes(); behind each, builds with assertions and tests hold the role to
// plan/lowering/check_role.hpp.

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

/// What passes work on: one stage, or, where the pipeline is bidirectional, the stages of both copies that the rank has.
struct RoleWork {
  const LoweringContext& context;
  int stage = 0, rank = 0;                             ///< the rank stands for its role
  std::vector<std::unique_ptr<RoleBuilder>> copies{};  ///< until they are joined
  Role joined{};                                       ///< from then on

  [[nodiscard]] const Role& role() const { return copies.empty() ? joined : copies.front()->role(); }
};

struct RolePass {
  std::string_view name;
  std::string_view takes, leaves;  ///< what must hold before, and what holds behind it
  bool (*applies)(const LoweringContext&);
  void (*run)(RoleWork&);
};

/// In the order in which they run.
[[nodiscard]] std::span<const RolePass> role_passes();

enum class Watched { No, Yes };

/// The role of a rank of a stage. LoweringOptions::after_pass hears of every pass where that is wanted.
[[nodiscard]] Role build_role(const LoweringContext&, int stage, int rank, Watched);

}  // namespace rehearsal::plan
