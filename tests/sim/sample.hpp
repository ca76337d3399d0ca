#pragma once
// Small programs and platforms with round figures, for hand calculations.

#include <string>
#include <vector>

#include "plan/collectives/collective.hpp"
#include "plan/schedules/schedule.hpp"
#include "predict/playing.hpp"
#include "sim/evaluator.hpp"

namespace rehearsal::sim::sample {

inline constexpr double kPort = 100e9;    // B/s, a device's port inside its node
inline constexpr double kInside = 2e-6;   // s, device to device inside a node
inline constexpr double kCard = 10e9;     // B/s, a network card
inline constexpr double kBetween = 4e-6;  // s, device to device of another node: two cards of 1.5 us, a switch of 1 us

inline constexpr double kAdd = 1e12;  // B/s, rate of additions

/// `nodes` boxes of `devices` chips and `cards` cards behind one switch that is never full.
platforms::Platform cluster(int nodes, int devices, int cards);
/// One box whose devices are wired to their neighbours only: a pair's messages share no link with another pair's, nor with each other.
platforms::Platform chain(int devices);

/// A program written by hand: bodies of instructions with their seconds.
class Job {
 public:
  /// Axes innermost first.
  Job(std::vector<plan::MeshAxisInfo> axes, int micro_batches);

  plan::Role& role(std::uint32_t index) { return program.roles[index]; }
  /// Adds a role, whose ranks are then those of `ranks`.
  std::uint32_t add_role(int stage, const std::vector<int>& ranks);
  std::uint16_t add_body(std::uint32_t index, plan::BodyKind);
  /// To a body of role `index`. Returns the position in the body.
  std::uint32_t add_kernel(std::uint32_t index, std::uint16_t body, double seconds, std::vector<plan::Dependency> after = {});
  std::uint32_t add_collective(std::uint32_t index, std::uint16_t body, const plan::CollectiveInfo&, std::int64_t floats,
                               std::vector<plan::Dependency> after = {});
  struct Message {
    bool sends = true;
    std::int32_t stage_offset = 1;
    std::uint32_t channel = 0;
    std::int64_t floats = 0;
  };
  std::uint32_t add_message(std::uint32_t index, std::uint16_t body, const Message&, std::vector<plan::Dependency> after = {});

  [[nodiscard]] predict::StepCost play(predict::StepEvaluator&, const platforms::Platform&, bool keep_timeline = false) const;
  /// Seconds of the step by the closed form, and by simulation of every rank.
  [[nodiscard]] double closed_form(const platforms::Platform&) const;
  [[nodiscard]] double simulated(const platforms::Platform&) const;

  plan::Program program;
  predict::ProgramCosts costs;
  costmodel::Calibration calibration;
  bool host_progressed = false;

 private:
  std::uint32_t add(std::uint32_t index, std::uint16_t body, plan::Instruction, double seconds);
  plan::BufferIndex add_buffer(std::uint32_t index, std::int64_t floats);
};

struct PipelineShape {
  std::string schedule = "1f1b";
  int stages = 2, micro_batches = 1;
  double forward = 0, backward = 0;  ///< seconds of a stage's kernels
  std::int64_t floats = 0;           ///< of every message
};
Job pipeline(const PipelineShape&);

/// One collective over all ranks of an axis, alone.
Job one_collective(int ranks, const std::string& algorithm, plan::CollectiveKind kind, std::int64_t floats);

}  // namespace rehearsal::sim::sample
