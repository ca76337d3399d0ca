#pragma once
// What the instructions of a Program cost on a platform, and what a step of it costs: the interface that search, estimate and
// simulate share. Closed form and simulation are two StepEvaluators.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.hpp"
#include "costmodel/kernel_rows.hpp"
#include "graph/training.hpp"
#include "plan/program/program.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::predict {

/// Estimated duration of every instruction, by role, body and position; [variant] innermost.
struct RoleCosts {
  std::vector<std::vector<std::vector<costmodel::Estimate>>> seconds;  ///< [body][instruction][variant]
  /// [body][instruction]: of the host that issues the kernels and of the device that runs them. Empty where the host takes no time.
  std::vector<std::vector<costmodel::LaunchQueue>> launches;
};
struct ProgramCosts {
  std::vector<RoleCosts> roles;
  /// Messages and collectives have the time here that their library takes for them when nothing else is on the links. Otherwise they have
  /// zero, and their time follows from their steps.
  bool with_messages = false;
  double interference = 0;  ///< share of its speed that computation loses while collectives run beside it
};

/// One kernel call as a benchmark makes it, without a Program.
struct KernelCall {
  const graph::OpSchema& schema;
  graph::NodeView view;  ///< local types
  const plan::KernelInfo& kernel;
  DType otherwise = DType::F32;  ///< type of the computation where no result is of floating point
};
/// The same identity as an instruction of a Program that calls this kernel has.
[[nodiscard]] costmodel::KernelCase kernel_case(const KernelCall&, int threads);
/// Of a Reorder or Accumulate of tensors of this type. `info` says the formats of a Reorder; nullptr else.
[[nodiscard]] costmodel::KernelCase copy_case(plan::InstructionKind, const graph::TensorType&, const plan::KernelInfo* info,
                                              DType otherwise);

/// One instruction of a role, for micro-batches of one variant, on a rank with so many threads.
struct PlacedInstruction {
  const plan::Role& role;
  const plan::Instruction& instruction;
  std::size_t variant = 0;
  int threads = 1;
};
/// The cost model's question for an instruction that computes.
[[nodiscard]] costmodel::KernelCase kernel_case(const plan::Program&, const graph::Graph&, const PlacedInstruction&);

/// What a rank runs on.
struct RankDevice {
  const costmodel::CostModel& model;
  int threads = 1;
};
using DeviceOfRank = std::function<RankDevice(int rank)>;
[[nodiscard]] ProgramCosts cost_of(const plan::Program&, const graph::TrainingGraph&, const DeviceOfRank&);
[[nodiscard]] ProgramCosts cost_of(const plan::Program&, const graph::TrainingGraph&, const costmodel::CostModel&, int threads);

/// What a rank computes in a step.
struct BusySeconds {
  double once = 0, micro_batches = 0;
  [[nodiscard]] double all() const { return once + micro_batches; }
};
[[nodiscard]] BusySeconds busy_seconds(const plan::Program&, const plan::Role&, const RoleCosts&);
/// One rank for every stage, in order of stages, as plan::representatives(); where devices or roles of a stage differ, the ranks of the
/// replica that has most to do, and of each of its stages the one that takes longest: a larger part is not always the slower one.
[[nodiscard]] std::vector<int> busiest_representatives(const plan::Program&, const ProgramCosts&, const platforms::Platform&);
/// The same of every kind of replica, busiest_representatives() first: replicas are of one kind whose ranks have the same roles.
[[nodiscard]] std::vector<std::vector<int>> kinds_of_replicas(const plan::Program&, const ProgramCosts&, const platforms::Platform&);

/// Where a step's time goes, on the rank that the others wait for. Sums to the step.
struct Breakdown {
  Seconds compute, exposed_communication, bubble, recompute, optimizer, io;
  [[nodiscard]] Breakdown scaled(double factor) const;
};
/// A part by the key of results and by its name in sentences.
struct BreakdownPart {
  std::string_view key, name;
  Seconds Breakdown::*seconds;
};
inline constexpr std::array kBreakdownParts{
    BreakdownPart{"compute", "compute", &Breakdown::compute},
    BreakdownPart{"exposed_communication", "exposed communication", &Breakdown::exposed_communication},
    BreakdownPart{"bubble", "pipeline bubble", &Breakdown::bubble},
    BreakdownPart{"recompute", "recomputation", &Breakdown::recompute},
    BreakdownPart{"optimizer", "optimizer", &Breakdown::optimizer},
    BreakdownPart{"io", "input", &Breakdown::io}};

/// When one instruction of one rank ran: what both interpreters report.
struct TimedInstruction {
  std::uint16_t body = 0;
  std::uint32_t instruction = 0;
  std::int32_t micro_batch = 0;
  double begin = 0, end = 0;  ///< seconds
  double busy = 0;            ///< thread CPU seconds where measured, else end - begin
  bool issue = false;         ///< not the kernel itself, but the host that issues it
};

struct StepCost {
  costmodel::Total total;  ///< of the step
  Seconds step;
  Breakdown breakdown;
  int limiting_rank = 0;                ///< the one of `breakdown`
  Seconds imbalance;                    ///< that it computes more than the ranks do in the mean
  Joules devices_energy, links_energy;  ///< of one step, all devices and links; hosts and PUE are added by costmodel/money
  std::vector<double> busy_seconds;     ///< by rank, of the compute stream (one entry per role when folded)
  std::int64_t events = 0;
  std::vector<std::vector<TimedInstruction>> timeline;  ///< by rank; only when asked for, empty else
};

/// How the samples of steps come to the ranks of the first stage. Loaders read ahead, so those of step n = 0, 1, ... are there n · every
/// after the first ones.
struct InputPace {
  Seconds every;   ///< 0: they are there when they are wanted
  Seconds beside;  ///< that preparing those of one step takes from the cores that compute
  friend bool operator==(const InputPace&, const InputPace&) = default;
};

struct EvaluationRequest {
  const plan::Program& program;
  const ProgramCosts& costs;
  const platforms::Platform& platform;
  const costmodel::CostModel& model;
  bool keep_timeline = false;
  InputPace input = {};
  plan::StepKind kind = {};
};

class StepEvaluator {
 public:
  virtual ~StepEvaluator() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual StepCost evaluate(const EvaluationRequest&) = 0;
};

/// Plays every role's streams with closed forms for messages and collectives: no contention between different messages.
[[nodiscard]] std::unique_ptr<StepEvaluator> closed_form_evaluator();

}  // namespace rehearsal::predict
