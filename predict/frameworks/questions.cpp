#include "predict/frameworks/questions.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "predict/frameworks/lower.hpp"
#include "predict/violations.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr std::size_t kTimersKept = 256;

}  // namespace

Questions::Questions(graph::Graph model, TrainingSetting setting, const costmodel::Constants& constants)
    : setting_(std::move(setting)),
      model_(std::move(model), Grain::Blocks),
      links_(setting_.platform),
      constants_(constants),
      limits_(model_.limits()) {
  limits_.whole_experts = setting_.profile.whole_experts;
}

std::vector<plan::Violation> Questions::violations(const plan::Plan& plan) const {
  const auto question = asked(plan);
  auto violations = plan_violations(question);
  if (const int blocks = setting_.recipe.offloaded_blocks; blocks > 0 && plan.offload != plan::Offload::Activations)
    violations.push_back({"offload", "--recipe offload_layers=" + std::to_string(blocks) + " says of how many blocks activations are moved",
                          "offload=activations"});
  else if (blocks > limits_.blocks)
    violations.push_back(
        {"offload",
         "--recipe offload_layers=" + std::to_string(blocks) + ": the model has " + std::to_string(limits_.blocks) + " equal blocks",
         "leave it out to move all"});
  if (plan.offload == plan::Offload::Activations && limits_.all_blocks == 0)
    violations.push_back({"offload", "activations are moved block by block, and the model has no blocks that repeat",
                          "offload=none, or --framework rehearse, which moves tensor by tensor"});
  if (const auto& row = graph::optimizer_row(setting_.optimizer); row.product_flops && plan.offload == plan::Offload::Optimizer)
    violations.push_back({"offload", setting_.optimizer + " multiplies matrices in its update, and no framework does that on the host",
                          "offload=none, or an optimizer without products"});
  if (setting_.recipe.update_in_backward && question.micro_batches() > 1)
    violations.push_back({"micro_batch",
                          "an update in the backward pass takes the gradient of a whole step, and there are " +
                              std::to_string(question.micro_batches()) + " micro-batches",
                          "micro_batch=" + std::to_string(question.replica_batch())});
  return violations;
}

FrameworkJob Questions::job_of(const plan::Plan& plan) const {
  const auto question = asked(plan);
  FrameworkJob job{setting_.platform,
                   setting_.profile,
                   plan,
                   setting_.precision,
                   static_cast<double>(model_.batch()),
                   static_cast<double>(question.micro_batch()),
                   question.micro_batches(),
                   {}};
  job.recipe = setting_.recipe;
  job.recipe.optimizer = setting_.optimizer;
  job.recipe.channels_last = setting_.profile.channels_last;
  job.recipe.channels_last_single = setting_.profile.channels_last_single;
  return job;
}

const FoldedModel& Questions::by_nodes() {
  if (!by_nodes_) by_nodes_ = std::make_unique<FoldedModel>(model_.whole(), Grain::Nodes);
  return *by_nodes_;
}

const ModelParts& Questions::parts(const FrameworkJob& job, const FoldedModel& model, std::size_t group) {
  auto& known = parts_[{degrees_of(job), grain_of(model_, job), group}];
  if (!known) known = std::make_unique<ModelParts>(parts_of(model, job, group));
  return *known;
}

const Questions::Timed& Questions::timed(const FrameworkJob& job) {
  const auto grain = grain_of(model_, job);
  const auto& p = job.plan;
  auto recompute = p.recompute;
  recompute.blocks = std::min(recompute.blocks, 1);  // however many there are, they take as long
  const TimersKey key{
      degrees_of(job), grain, p.dp, p.pp, p.zero, p.zero_group, recompute, p.offload, p.order, p.overlap, p.compression.type_on_the_way()};
  if (const auto known = timed_.find(key); known != timed_.end()) return *known->second;
  if (timed_.size() >= kTimersKept) {
    last_.reset();
    for (const auto& [of, timed] : timed_) stager_.forget(*timed->timers);
    timed_.clear();
  }
  auto timed = std::make_unique<Timed>(Timed{job, grain == Grain::Blocks ? &model_ : &by_nodes(), std::nullopt});
  const auto& own = *timed;
  timed->timers.emplace(own.job, links_, constants_,
                        [&](std::size_t kind) -> const ModelParts& { return parts(own.job, *own.model, kind); });
  return *(timed_[key] = std::move(timed));
}

const Questions::Question& Questions::ask(const plan::Plan& plan) {
  if (last_ && last_->job.plan == plan) return *last_;
  if (const auto faults = violations(plan); !faults.empty())
    throw Refusal("plan " + plan::to_text(plan) + (faults.size() > 1 ? " has " + std::to_string(faults.size()) + " faults: " : ": ") +
                  to_text(faults));
  auto job = job_of(plan);
  const auto& shared = timed(job);
  last_.reset();
  last_ = std::make_unique<Question>(std::move(job), *shared.model, stager_, *shared.timers);
  if (setting_.recipe.stage_clocks) last_->clocks = lower_clocks(last_->step, constants_);
  return *last_;
}

}  // namespace rehearsal::predict::frameworks
