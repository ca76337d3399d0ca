#pragma once
// What training by a plan on a platform will take: the answer of `estimate`, and what a search compares.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/cost_model.hpp"
#include "costmodel/money.hpp"
#include "plan/backend.hpp"
#include "plan/lowering/lowering.hpp"
#include "predict/goodput.hpp"
#include "predict/plan_input.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// What plans of one job have asked about all of it: a search asks for the same again and again.
struct JobFacts {
  std::vector<plan::StageSpeed> speeds;  ///< by group of nodes; empty: no pipeline has asked
  std::optional<double> flops;           ///< of a step
};

/// Everything that stays the same when plans are compared.
struct Workload {
  const graph::TrainingGraph& training;
  std::shared_ptr<const graph::LogicalDims> dims;
  const platforms::Platform& platform;
  const plan::Backend& backend;
  const costmodel::CostModel& model;
  std::string peak_key = "f32";                                                ///< arithmetic whose peak MFU refers to
  std::shared_ptr<plan::RuleBook> rules = std::make_shared<plan::RuleBook>();  ///< what plans of this job found out about its dimensions
  std::vector<const costmodel::CostModel*> models = {};  ///< by group of nodes of the platform; empty: `model` on all of them
  std::shared_ptr<JobFacts> facts = std::make_shared<JobFacts>();

  /// Of the device that a rank is.
  [[nodiscard]] const costmodel::CostModel& model_of(int rank) const {
    return models.empty() ? model : *models[static_cast<std::size_t>(platforms::place(platform, rank).group)];
  }
};

/// Threads of one rank when `ranks` ranks run on the platform: cores of the node ÷ ranks of the node on CPUs, 1 elsewhere.
[[nodiscard]] int threads_per_rank(const platforms::Platform&, int ranks);
/// The same of one rank: nodes differ in their cores.
[[nodiscard]] int threads_of_rank(const platforms::Platform&, int ranks, int rank);

/// Clocks of a pipeline's stages that were lowered where they wait.
struct StageClocksAnswer {
  struct Stage {
    double share = 1;  ///< of the device's own clock
    Watts watts;       ///< that a device draws in the mean of a step
  };
  std::vector<Stage> stages;
  double slower = 0, saved = 0;  ///< shares of the step's time and of its energy at full clocks
};

/// Whether what is needed is at most the capacity and so much of it beyond.
[[nodiscard]] inline bool fits_with(double margin, std::int64_t bytes, std::int64_t capacity) {
  return static_cast<double>(bytes) <= static_cast<double>(capacity) * (1 + margin);
}

struct Assessment {
  plan::Plan plan;
  std::string platform;   ///< its name
  std::string framework;  ///< as which it was predicted
  int ranks = 1;
  costmodel::Interval step_seconds;
  Seconds step;
  double samples_per_second = 0;
  double tokens_per_sample = 0;  ///< 0: the model reads no sequence of tokens
  Breakdown breakdown;
  int limiting_rank = 0;              ///< the one of `breakdown`
  Seconds imbalance;                  ///< that it computes more than the ranks do in the mean
  std::optional<Seconds> stragglers;  ///< of `breakdown`'s exposed communication: waiting for ranks that are slow in one step or another
  std::string bottleneck;             ///< "compute", "exposed communication", "bubble", "memory", ...
  std::array<double, static_cast<std::size_t>(costmodel::Evidence::Count)> evidence{};
  std::vector<std::string> new_to_us;  ///< why the interval is wider than those of runs like published ones, a sentence each
  double mfu = 0;
  std::int64_t memory_bytes = 0;  ///< of the worst rank: arena, and what the profile's allocator adds
  /// 90 % of ranks need between these, and what that rests on, in a sentence.
  std::int64_t memory_low = 0, memory_high = 0;
  /// Of memory_bytes, what is needed when an allocator gives back what it holds for later: by this a plan runs out of memory or does not.
  /// 0: all of it.
  std::int64_t memory_needed = 0;
  std::string memory_rests_on;
  std::int64_t memory_capacity = 0;
  /// Share of the capacity that a plan may need beyond it and fit nevertheless, with a chance that is worth an answer (memory_risk.hpp);
  /// 0: exact.
  double memory_margin = 0;
  int worst_rank = 0;
  std::int64_t host_bytes = 0;  ///< that the worst rank offloads
  std::vector<std::int64_t> memory_by_category;
  costmodel::JobCost cost;  ///< of one step
  std::optional<StageClocksAnswer> stage_clocks;
  CheckpointSize checkpoint;
  std::optional<PlanInput> input;  ///< where data and storage are known: the step then waits for its samples
  std::optional<Goodput> goodput;  ///< where a training's length is known, and how often its devices fail
  std::int64_t events = 0;
  std::string why_not;                ///< of runners-up: why the winner won
  std::string shares;                 ///< of the batch, where devices or shares differ: a sentence
  std::vector<std::string> warnings;  ///< what the plan does that its user may not expect
  [[nodiscard]] bool fits() const { return memory_bytes <= memory_capacity; }
  /// Fits, or is too large by no more than the margin.
  [[nodiscard]] bool may_fit() const { return fits_with(memory_margin, memory_bytes, memory_capacity); }
};

/// A sentence where devices differ, and a plan of so many ranks leaves some idle: which. Else empty.
[[nodiscard]] std::string idle_on_mixed(const platforms::Platform&, int ranks);

using PassListener = std::function<void(const plan::PassResult&)>;

/// Lowers and evaluates. Throws Refusal when the plan cannot be used at all; a plan that does not fit in memory is assessed (fits() is
/// false).
[[nodiscard]] Assessment assess(const Workload&, const plan::Plan&, StepEvaluator&);
/// The same for a Program at hand.
[[nodiscard]] Assessment assess(const Workload&, const plan::Program&, StepEvaluator&, bool keep_timeline, StepCost* cost_out);
/// Lowers as assess() does: threads, links and bucket size follow from job and platform. `shares=speed` becomes shares with which devices
/// of several speeds end at the same time, equal ones where the model cannot do with others; stages are cut by the speed of their devices.
/// `after_pass`, where it is given, hears of every pass of lowering, unless shares=speed has several ways to try.
[[nodiscard]] plan::Program lower_for(const Workload&, const plan::Plan&, const PassListener& after_pass = {});
/// On ranks of so many threads that are nowhere in particular: as part of a larger plan, of which the platform may have fewer devices.
/// Shares are equal, stages are cut as on equal devices, `allreduce=auto` is a ring.
[[nodiscard]] plan::Program lower_anywhere(const Workload&, const plan::Plan&, int threads);
[[nodiscard]] ProgramCosts cost_of(const Workload&, const plan::Program&);

/// Positions of the longest sequence of tokens that a model reads (an input of integers, samples by positions); 0 when it reads none.
[[nodiscard]] std::int64_t tokens_per_sample(const graph::Graph&);

/// "needs 93.1 GB on rank 3, 13.1 GB more than the 80 GB that the device has"
[[nodiscard]] std::string shortage(const Assessment&);
/// The same of a plan that may fit nevertheless, and why it may.
[[nodiscard]] std::string doubt(const Assessment&);

}  // namespace rehearsal::predict
