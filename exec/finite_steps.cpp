#include "exec/finite_steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.hpp"

namespace rehearsal::exec {
namespace {

/// Sorts finds of different ranks: what comes first in a step stands first.
std::string place_of(const BadTensor& bad, int stage) {
  char text[48];
  const int forth_and_back = bad.in_backward ? 999999 - stage : stage;
  std::snprintf(text, sizeof text, "%d %08d %06d ", bad.in_backward ? 1 : 0, bad.micro_batch + 1, forth_and_back);
  return text;
}

std::string sentence_of(const BadTensor& bad, const Communicator& world) {
  std::string text = "The first tensor that is not is '" + bad.tensor + "': " + bad.what;
  if (!bad.made_by.empty()) text += ", from " + bad.made_by;
  if (bad.in_backward) text += " in the backward pass";
  if (world.size() > 1) text += ", on rank " + std::to_string(world.rank());
  return text;
}

}  // namespace

std::function<bool()> FiniteSteps::may_update() {
  if (on_nan_ == OnNan::Go) return {};
  return [this] {
    const double finite = executor_.passes_are_finite(on_nan_ == OnNan::Skip) ? 1 : 0;
    const auto all = training_.world.exchange({&finite, 1}, "the update", [this] { executor_.progress(); });
    return std::ranges::all_of(all, [](double f) { return f == 1; });
  };
}

void FiniteSteps::judge(const StepReport& report, bool updated) {
  const auto loss = training_.graph.loss;
  if (on_nan_ != OnNan::Stop || std::isfinite(report.loss) || loss == graph::TensorId::None) return;  // what has no loss is not judged
  std::optional<BadTensor> bad;
  if (!updated) {  // the weights are still those of the step
    bad = executor_.find_non_finite(report.step - 1, data_);
    if (auto weight = bad_weight())
      bad = BadTensor{*weight, "the update of step " + std::to_string(report.step - 1) + " left it so", "", false, -1};
  }
  const auto found = first_of_all(bad);
  refuse(report.step, found.empty() ? "Its tensor is '" + training_.graph.graph[loss].name + "'" : found);
}

std::string FiniteSteps::first_of_all(const std::optional<BadTensor>& own) {
  auto& world = training_.world;
  const int stage = training_.program.role(world.rank()).stage;
  const auto text = own ? place_of(*own, stage) + "\n" + sentence_of(*own, world) : std::string();
  std::string first;
  for (const auto& found : world.gather(text))
    if (!found.empty() && (first.empty() || found < first)) first = found;
  return first.substr(first.find('\n') + 1);
}

void FiniteSteps::refuse(std::int64_t step, const std::string& first) {
  throw Refusal("step " + std::to_string(step) + ": the loss is not finite. " + first +
                ". Use a smaller --lr or --clip-norm; --on-nan skip leaves such steps out, --on-nan go trains on");
}

std::optional<std::string> FiniteSteps::bad_weight() const {
  const auto& g = training_.graph.graph;
  const auto is_bad = [&](graph::TensorId t) {
    const auto block = executor_.stored(t);
    const auto dtype = g[t].type.dtype;
    return is_float(dtype) && count_non_finite(dtype, block.data(), static_cast<std::int64_t>(block.size() / size_of(dtype))).any();
  };
  for (const auto& p : training_.graph.parameters) {
    if (is_bad(p.value)) return g[p.value].name;
    for (const auto slot : p.slots)
      if (is_bad(slot)) return g[slot].name;
  }
  return std::nullopt;
}

void FiniteSteps::require_finite_weights(std::int64_t step) {
  if (on_nan_ == OnNan::Go) return;
  if (const auto bad = bad_weight())
    throw Refusal("step " + std::to_string(step) + ": '" + *bad +
                  "' is not finite after the update, and is not saved. Use a smaller --lr or --clip-norm, or --on-nan go");
}

}  // namespace rehearsal::exec
