#pragma once
// Along which axis of a Program a framework's collectives go.

#include <cstdint>

#include "plan/program/program.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/frameworks/model_part.hpp"

namespace rehearsal::predict::frameworks {

class ProgramAxes {
 public:
  /// Both must outlive it.
  ProgramAxes(const FrameworkJob& job, const plan::Program& program) : job_(job), program_(program) {}

  [[nodiscard]] std::uint8_t replicas() const;
  /// Of replicas among which the plan shards.
  [[nodiscard]] std::uint8_t shards() const;
  /// Of ranks that have copies of the same experts.
  [[nodiscard]] std::uint8_t expert_copies() const;
  /// Of groups of replicas that have copies of each other's parts.
  [[nodiscard]] std::uint8_t copies() const;
  [[nodiscard]] std::uint8_t of(ExchangeAxis) const;

 private:
  const FrameworkJob& job_;
  const plan::Program& program_;
};

}  // namespace rehearsal::predict::frameworks
