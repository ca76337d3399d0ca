#pragma once
// Answers what plans cost: one model, batch, arithmetic and optimizer on one platform, as one framework runs them. Every command that
// predicts asks a Predictor, search among them.

#include <span>
#include <string>
#include <vector>

#include "costmodel/framework.hpp"
#include "graph/graph.hpp"
#include "predict/assessment.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// A step that can be played: instructions, and what each of them costs.
struct PlayableStep {
  plan::Program program;
  ProgramCosts costs;
};

using Timeline = std::vector<std::vector<TimedInstruction>>;

/// What of a model plans can split: bounds of a search.
struct SplitLimits {
  std::int64_t experts = 1;       ///< ep divides it
  std::int64_t sequence = 1;      ///< tokens that cp shares out; 1: no sequence
  std::int64_t blocks = 1;        ///< of the longest chain of equal ones
  std::int64_t all_blocks = 0;    ///< of all chains of equal ones
  std::int64_t heads = 0;         ///< of causal attention, the fewest that a layer has; 0: there is none
  std::int64_t stages = 1;        ///< that can have work
  std::size_t image_axes = 0;     ///< that spatial parallelism can split
  bool weights = false;           ///< tensor parallelism has something to split
  bool batch_statistics = false;  ///< BatchNormalization: micro-batches are other mathematics
  bool even_replicas = false;     ///< dp divides the batch
  bool decompositions = false;    ///< the optimizer decomposes matrices, which replicas may share out
  bool two_copies = false;        ///< schedules may keep two copies of the model
  bool some_blocks = false;       ///< nothing finer than recompute=full:N fits a plan to its memory
  bool whole_experts = false;     ///< ep may take ranks of tp, too, where it is more than dp and cp have (Plan::has_whole_experts())
  std::vector<plan::AttentionForm> attention_forms{plan::AttentionForm::Gather};  ///< what costs least time first
  std::vector<plan::Recompute> recompute{plan::Recompute{}};                      ///< what costs least time first
};

/// What is known of a plan before anyone asks how long its step takes.
struct Outlook {
  std::int64_t memory_bytes = 0;  ///< as closed() will say, or at least; 0: not known
  bool checked = false;           ///< closed() will not refuse the plan, and say just this memory; else it may say more
  std::int64_t memory_capacity = 0;
  double memory_margin = 0;  ///< as closed() will say
  Seconds step;              ///< closed() will not say less
  costmodel::JobCost cost;   ///< of one step: nor less than this
  [[nodiscard]] bool fits() const { return memory_bytes <= memory_capacity; }
  /// Assessment::may_fit()
  [[nodiscard]] bool may_fit() const { return fits_with(memory_margin, memory_bytes, memory_capacity); }
};

class Predictor {
 public:
  Predictor() = default;
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;
  virtual ~Predictor() = default;

  /// All that plans may use, as it is written.
  [[nodiscard]] virtual const platforms::Platform& platform() const = 0;
  /// The groups of nodes that this plan uses, in its order. Throws Refusal where it names others.
  [[nodiscard]] virtual const platforms::Platform& platform_for(const plan::Plan&) const { return platform(); }
  /// Values of the key `fill` that are worth trying, most promising first.
  [[nodiscard]] virtual std::span<const std::vector<std::string>> orders_of_nodes() const {
    static const std::vector<std::string> listed;
    return {&listed, 1};
  }
  [[nodiscard]] virtual const costmodel::FrameworkProfile& framework() const = 0;
  /// As which this plan is predicted: framework(), but where plans of one kind are usually run with another (predict/frameworks/
  /// usual_predictor.hpp).
  [[nodiscard]] virtual const costmodel::FrameworkProfile& framework_for(const plan::Plan&) const { return framework(); }
  /// Whose nodes and tensors Programs name.
  [[nodiscard]] virtual const graph::Graph& graph() const = 0;
  [[nodiscard]] virtual std::int64_t batch() const = 0;
  [[nodiscard]] virtual const SplitLimits& limits() = 0;
  /// Everything that stands in a plan's way but memory, each with what would mend it; empty: it can be assessed.
  [[nodiscard]] virtual std::vector<plan::Violation> violations(const plan::Plan&) = 0;

  /// By closed forms. A plan that does not fit in memory is assessed. Throws Refusal when the plan cannot be used at all.
  [[nodiscard]] virtual Assessment closed(const plan::Plan&) = 0;
  /// For a search, which asks this of every plan, and closed() of those that may win. Throws Refusal as closed() does, or leaves it to
  /// that.
  [[nodiscard]] virtual Outlook outlook(const plan::Plan&) { return {}; }
  /// Throws Refusal as closed() does.
  [[nodiscard]] virtual PlayableStep playable(const plan::Plan&) = 0;
  /// A Program that was stored: only our own ones can be. Throws Refusal otherwise.
  [[nodiscard]] virtual PlayableStep priced(plan::Program);
  /// Plays. `timeline`, where it is wanted, gets what ran when, by rank.
  [[nodiscard]] virtual Assessment played(const PlayableStep&, StepEvaluator&, Timeline* timeline) = 0;
  [[nodiscard]] virtual const costmodel::CostModel& cost_model_for(const plan::Plan&) const = 0;
  /// What it lowers this plan from; nullptr where it lowers none.
  [[nodiscard]] virtual const Workload* workload_for(const plan::Plan&) const { return nullptr; }
};

/// Data parallelism over all devices, or as many as the batch has samples, whether it fits or not.
[[nodiscard]] plan::Plan widest_replicas(Predictor&);
/// The same with the largest micro-batch that fits.
/// Throws Refusal saying by how much nothing fits.
[[nodiscard]] plan::Plan default_plan(Predictor&);

}  // namespace rehearsal::predict
