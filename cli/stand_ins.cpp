#include "cli/stand_ins.hpp"

#include "base/error.hpp"
#include "predict/changes.hpp"
#include "predict/frameworks/usual_profile.hpp"

namespace rehearsal::cli {
namespace {

/// Whether a plan can run, as it is written or as recipes have it.
struct Room {
  bool enough = false;
  std::string hindrance;  ///< "as nemo runs it the plan needs 101 GB on rank 0, ...", or what the framework does not have
};
Room room_for(predict::Predictor& predictor, const plan::Plan& plan, const StandIns::Named& named) {
  try {
    const auto closed = predictor.closed(plan);
    if (closed.fits()) return {true, {}};
    const auto usual = named ? predict::usual_remedy(predictor, plan, *named) : std::nullopt;
    return {usual && usual->assessment.fits(),
            "as " + predictor.framework_for(plan).name + " runs it the plan " + predict::shortage(closed)};
  } catch (const Refusal& refusal) {
    const auto faults = predictor.violations(plan);
    return {false, faults.empty() ? refusal.what() : faults.front().key + ": " + faults.front().problem};
  }
}

}  // namespace

StandIns::Choice StandIns::choice(const plan::Plan& plan, const Named& named) const {
  const auto room = room_for(inner(), plan, named);
  if (room.enough) return {&inner(), {}};
  const auto kind = predict::frameworks::kind_of(graph(), plan);
  for (const auto* other : predict::frameworks::others_seen_on(platform_for(plan), kind, plan.ranks()))
    if (auto& predictor = as(*other); room_for(predictor, plan, named).enough)
      return {&predictor, room.hindrance + "; it is answered as " + other->name +
                              " does, of which there are published runs on such devices: name a --framework to have it otherwise"};
  return {&inner(), {}};
}

predict::Predictor& StandIns::of(const plan::Plan& plan) const {
  const auto text = plan::to_text(plan);
  auto& chosen = chosen_[text];
  if (chosen == nullptr) chosen = choice(plan, plan::named_keys(text)).by;
  return *chosen;
}

predict::Predictor& StandIns::as(const costmodel::FrameworkProfile& framework) const {
  auto& predictor = made_[&framework];
  if (!predictor) predictor = make_(framework);
  return *predictor;
}

}  // namespace rehearsal::cli
