#include "predict/plan_summary.hpp"

#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/join.hpp"
#include "predict/changes.hpp"

namespace rehearsal::predict {
namespace {

std::string bytes_text(std::int64_t bytes) { return to_text(Bytes(static_cast<double>(bytes))); }

std::string percent(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.*f %%", share < 0.1 ? 1 : 0, 100 * share);
  return buffer;
}

std::string counted(std::int64_t n, const std::string& one) { return std::to_string(n) + " " + one + (n == 1 ? "" : "s"); }

std::string of_dp(const plan::Plan& p) {
  constexpr std::array kShared{"", " and share the optimizer's state", " and share gradients and the optimizer's state",
                               " and share parameters, gradients and the optimizer's state"};
  if (p.local_steps > 0)
    return counted(p.dp, "replica") + " with samples of their own, which train by themselves and meet every " +
           counted(p.local_steps, "step") + " (bytes are of one that meets)";
  return counted(p.dp, "replica") + " with samples of their own, which sum their gradients" + kShared[static_cast<std::size_t>(p.zero)] +
         (p.has_shard_groups() ? " in groups of " + std::to_string(p.shard_ranks()) : "") + (p.overlap ? "" : ", after the backward pass") +
         (p.decompositions == plan::Decompositions::Spread ? "; each decomposes some of the optimizer's matrices for all" : "");
}
std::string of_tp(const plan::Plan& p) {
  return "every product with weights is shared by " + std::to_string(p.tp) + " ranks" +
         (p.sequence_parallel ? ", what lies between products along the sequence" : ", what lies between products is on all of them");
}
std::string of_pp(const plan::Plan& p) {
  return counted(p.pp, "stage") + " of the model one after the other, schedule " + p.schedule +
         (p.interleave > 1 ? ", " + std::to_string(p.interleave) + " chunks each" : "");
}
std::string of_cp(const plan::Plan& p) {
  return "every sequence is cut into " + std::to_string(p.cp) + " parts; attention: " + std::string(name(p.attention));
}
std::string of_ep(const plan::Plan& p) {
  return "experts are spread over " + std::to_string(p.ep) + " ranks, tokens go to theirs and back";
}
std::string of_groups(const plan::Plan& p) {
  return "groups with weights of their own (of convolutions, or heads) are spread over " + std::to_string(p.ep) +
         " ranks, what they compute with goes to theirs and back";
}

struct AxisRow {
  std::string_view axis;
  int plan::Plan::*degree;
  std::string (*does)(const plan::Plan&);
};
constexpr std::array kAxes{AxisRow{"dp", &plan::Plan::dp, of_dp}, AxisRow{"tp", &plan::Plan::tp, of_tp},
                           AxisRow{"pp", &plan::Plan::pp, of_pp}, AxisRow{"cp", &plan::Plan::cp, of_cp},
                           AxisRow{"ep", &plan::Plan::ep, of_ep}};

/// Whether a message runs along an axis, by what explain() calls it: "all-reduce (ring) over tp", "send to stage 1".
bool runs_along(const MessageCost& m, std::string_view axis) {
  if (m.what.starts_with("send to stage")) return axis == "pp";
  const auto over = m.what.rfind(" over ");
  return over != std::string::npos && std::string_view(m.what).substr(over + std::string_view(" over ").size()) == axis;
}

AxisRole role_of(const AxisRow& row, const plan::Plan& plan, const std::vector<StagePlan>& stages) {
  AxisRole role{std::string(row.axis), plan.*row.degree, row.does(plan), 0, {}};
  for (const auto& stage : stages) {
    std::int64_t bytes = 0;
    Seconds seconds;
    for (const auto& layer : stage.layers)
      for (const auto& m : layer.messages) {
        if (!runs_along(m, row.axis)) continue;
        bytes += m.bytes * m.times * layer.alike;
        seconds += m.seconds * static_cast<double>(m.times * layer.alike);
      }
    if (seconds > role.communication || role.bytes == 0) role.bytes = bytes, role.communication = seconds;
  }
  return role;
}

/// The parts of a step that differ by at least kWorthSaying of it: "pipeline bubble 3.1 ms less".
std::string differences(const Breakdown& a, const Breakdown& b, Seconds step) {
  std::vector<std::string> texts;
  for (const auto& part : kBreakdownParts) {
    const double more = (a.*part.seconds - b.*part.seconds).value();
    if (std::fabs(more) >= kWorthSaying * step.value())
      texts.push_back(std::string(part.name) + " " + to_text(Seconds(std::fabs(more))) + (more > 0 ? " more" : " less"));
  }
  return joined(texts);
}

}  // namespace

std::vector<AxisRole> axis_roles(const plan::Plan& plan, const std::vector<StagePlan>& stages, bool has_experts) {
  std::vector<AxisRole> roles;
  for (const auto& row : kAxes) {
    if (plan.*row.degree == 1) continue;
    roles.push_back(role_of(row, plan, stages));
    if (row.axis == "ep" && !has_experts) roles.back().does = of_groups(plan);
  }
  const int parts = plan.spatial[0] * plan.spatial[1] * plan.spatial[2];
  if (parts > 1)
    roles.push_back({"spatial", parts, "every image is cut into " + std::to_string(parts) + " parts, which exchange borders", 0, {}});
  return roles;
}

std::string schedule_comparison(Predictor& predictor, const Assessment& now) {
  if (now.plan.pp == 1) return {};
  auto other = now.plan;
  other.schedule = now.plan.schedule == "1f1b" ? "gpipe" : "1f1b";
  other.interleave = 1;
  std::optional<Assessment> there;
  Assessment here;
  try {
    here = predictor.closed(now.plan);
    there = predictor.closed(other);
  } catch (const Refusal&) {
    return {};
  }
  const double longer = here.step / there->step - 1;
  std::string text = now.plan.schedule + " against " + other.schedule + ": ";
  if (std::fabs(longer) < kWorthSaying)
    text += "the step takes as long";
  else
    text += "the step takes " + percent(std::fabs(longer)) + (longer > 0 ? " longer" : " less");
  const auto parts = differences(here.breakdown, there->breakdown, there->step);
  if (!parts.empty()) text += " (" + parts + ")";
  text += "; memory " + bytes_text(here.memory_bytes) + " against " + bytes_text(there->memory_bytes) + ".";
  const bool both = (here.plan.schedule == "gpipe" || there->plan.schedule == "gpipe") &&
                    (here.plan.schedule == "1f1b" || there->plan.schedule == "1f1b");
  if (both)
    text +=
        " Both fill and empty the pipeline once: with stages of equal work and messages that cost nothing their bubbles are equal. gpipe "
        "holds what the backward pass needs of all micro-batches of a step, 1f1b of at most as many as there are stages.";
  return text;
}

}  // namespace rehearsal::predict
