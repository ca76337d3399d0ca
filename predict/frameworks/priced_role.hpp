#pragma once
// What ranks do, under construction: instructions, and what each costs.

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "plan/program/program.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::predict::frameworks {

class PricedRole {
 public:
  explicit PricedRole(std::string framework) : framework_(std::move(framework)) {}
  [[nodiscard]] plan::Role take_role() { return std::move(role_); }
  [[nodiscard]] RoleCosts take_costs() { return std::move(costs_); }

 protected:
  /// What an instruction lasts: of host and device.
  using Cost = costmodel::LaunchQueue;
  static Cost alone(double seconds) { return {0, seconds, seconds}; }

  std::uint16_t open(plan::BodyKind kind, int chunk);
  /// Returns where the instruction stands, for those that wait for it.
  plan::Dependency emit(std::uint16_t body, plan::Instruction i, const Cost& cost);

  /// One of so many bytes, which all instructions of that size name.
  plan::BufferIndex bytes_buffer(double bytes);
  std::int32_t kernel(std::string_view op);
  plan::Instruction collective_instruction(costmodel::CollectiveKind kind, std::uint8_t axis, double bytes, plan::Stream stream);
  plan::Instruction message(plan::InstructionKind kind, int to_stage, std::uint32_t channel, double bytes);

  plan::Role role_;
  RoleCosts costs_;
  int stage_ = 0;

 private:
  std::int32_t collective(costmodel::CollectiveKind kind, std::uint8_t axis);

  std::string framework_;
  std::map<std::int64_t, plan::BufferIndex> buffers_;
  std::map<std::string, std::int32_t, std::less<>> kernels_;
  std::map<std::pair<costmodel::CollectiveKind, std::uint8_t>, std::int32_t> collectives_;
};

}  // namespace rehearsal::predict::frameworks
