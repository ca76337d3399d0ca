// 1-bit Adam (Tang et al., ICML 2021, algorithm 1): once Adam's second moment has settled it stays as it is, and what ranks sum,
// compressed, is the first moment that each would have with its own gradient. The update takes that sum for the new first moment.

#include <algorithm>

#include "base/error.hpp"
#include "plan/compressors.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;

namespace {

constexpr std::string_view kAdam = "AdamUpdate", kMean = "LinearCombination";
constexpr double kUsualBeta1 = 0.9;

}  // namespace

/// Throws Refusal unless the gradient goes into an update by Adam as it is.
const graph::TrainedParameter& RoleBuilder::updated_by_adam(BufferIndex gradient) const {
  const auto t = role_.buffers[gradient].tensor;
  const auto& all = c_.training.parameters;
  const auto parameter = std::ranges::find(all, t, &graph::TrainedParameter::gradient);
  ensure(parameter != all.end(), "a gradient that travels compressed is one of a parameter");
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    throw Refusal("plan: compression=" + to_text(c_.plan.compression) + ": " + why + "; " + remedy + ", or compression=none");
  };
  const auto& users = c_.consumers[graph::index(t)];
  const auto& update = g_[parameter->update];
  if (graph::schema(update).name != kAdam)
    refuse("it sums first moments, and " + g_[parameter->value].name + " is updated by " + std::string(graph::schema(update).name),
           "use --optimizer adam or adamw");
  if (g_[t].type.dtype != g_[update.inputs[0]].type.dtype)
    refuse("it sums first moments, which are " + std::string(name(g_[update.inputs[0]].type.dtype)) + ", and the gradient of " +
               g_[parameter->value].name + " is " + std::string(name(g_[t].type.dtype)),
           "use --dtype f32");
  if (users.size() != 1 || users.front() != parameter->update)
    refuse("the gradient of " + g_[parameter->value].name + " goes through " +
               (users.empty() ? "nothing" : std::string(graph::schema(g_[users.front()]).name)) +
               " before Adam, which would take a moment for a gradient",
           "leave out --clip-norm, --loss-scale and --noise-scale");
  if (update.attributes.number("weight_decay", 0) != 0 && update.attributes.number("decoupled", 0) == 0)
    refuse("weight decay is added to gradients by adam, and they are moments here", "use --optimizer adamw, or --weight-decay 0");
  if (c_.plan.offload == Offload::Optimizer) refuse("moments wait in the host's memory", "use offload=none");
  return *parameter;
}

/// Of every gradient: beta1 times a rank's part of the moment, and (1 - beta1) times the gradient. Summed, that is the new moment.
void RoleBuilder::moments_in_place_of(const std::vector<BufferIndex>& parts, SumPlace place) {
  for (const auto part : parts) {
    const auto& parameter = updated_by_adam(part);
    const double beta1 = g_[parameter.update].attributes.number("beta1", kUsualBeta1);
    emit_kernel_of(parameter.update, kMean, {{"alpha", beta1 / c_.program.axes[place.mesh_axis].size}, {"beta", 1 - beta1}},
                   {{stored_buffer(parameter.slots.front()), part}, place.body, place.when}, {part});
  }
}

/// Of an update that gets a moment in place of a gradient from some step on; nothing of others.
std::optional<graph::Attributes> RoleBuilder::update_of_moments(NodeId n) const {
  const auto* row = compressor(c_.plan.compression.rule);
  if (row == nullptr || !row->of_moments || graph::schema(g_[n]).name != kAdam || !travels_compressed_.contains(g_[n].inputs[1]))
    return std::nullopt;
  auto attributes = g_[n].attributes;
  attributes.set("moments_from", c_.plan.exact_steps);
  return attributes;
}

}  // namespace rehearsal::plan
