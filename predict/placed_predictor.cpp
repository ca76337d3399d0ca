#include "predict/placed_predictor.hpp"

#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/join.hpp"
#include "predict/predictor_by_plan.hpp"

namespace rehearsal::predict {
namespace {

using platforms::NodeOrder;

/// The groups of nodes that some plans use.
struct PartInUse {
  std::optional<platforms::Platform> reordered;
  const platforms::Platform* platform = nullptr;  ///< `reordered`, or the whole one where that is what it is
  std::unique_ptr<Predictor> predictor;           ///< nullptr: nobody has asked
};
using PartsInUse = std::map<NodeOrder, PartInUse>;

PartInUse& part_of(PartsInUse& parts, const platforms::Platform& whole, const NodeOrder& groups) {
  const auto [known, fresh] = parts.try_emplace(groups);
  auto& part = known->second;
  if (!fresh) return part;
  if (groups != platforms::order_of_groups(whole, {})) part.reordered = platforms::in_order(whole, groups);
  part.platform = part.reordered ? &*part.reordered : &whole;
  return part;
}

Predictor& predictor_of(PartsInUse& parts, const platforms::Platform& whole, const NodeOrder& groups, const MakePredictor& make) {
  auto& part = part_of(parts, whole, groups);
  if (!part.predictor) part.predictor = make(*part.platform, groups);
  return *part.predictor;
}

/// What answers questions that are about no plan: all groups, or those that can be used.
Predictor& usable(PartsInUse& parts, const platforms::Platform& whole, const MakePredictor& make) {
  const auto all = platforms::order_of_groups(whole, {});
  try {
    return predictor_of(parts, whole, all, make);
  } catch (const Refusal&) {
    NodeOrder some;
    for (const auto group : all) {
      try {
        static_cast<void>(predictor_of(parts, whole, {group}, make));
        some.push_back(group);
      } catch (const Refusal&) {
        continue;
      }
    }
    if (some.empty()) throw;
    return predictor_of(parts, whole, some, make);
  }
}

class PlacedPredictor final : public PredictorByPlan {
 public:
  /// `parts`: has `usable`.
  PlacedPredictor(const platforms::Platform& whole, MakePredictor make, std::unique_ptr<PartsInUse> parts, Predictor& usable)
      : PredictorByPlan(usable), whole_(whole), make_(std::move(make)), parts_(std::move(parts)) {}

  [[nodiscard]] const platforms::Platform& platform() const override { return whole_; }
  [[nodiscard]] const platforms::Platform& platform_for(const plan::Plan& plan) const override {
    return *part_of(*parts_, whole_, groups_of(plan)).platform;
  }
  [[nodiscard]] std::span<const std::vector<std::string>> orders_of_nodes() const override { return worth_trying_; }
  [[nodiscard]] const costmodel::FrameworkProfile& framework_for(const plan::Plan& plan) const override {
    return inner().framework_for(plan);
  }

  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override {
    try {
      return of(plan).violations(plan);
    } catch (const Refusal& refusal) {
      return {{"fill", refusal.what(), "use other nodes"}};
    }
  }
  [[nodiscard]] Assessment closed(const plan::Plan& plan) override { return with_warnings(of(plan).closed(plan)); }
  [[nodiscard]] PlayableStep priced(plan::Program program) override {
    auto& answering = of(program.plan);
    return answering.priced(std::move(program));
  }
  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    return with_warnings(of(step.program.plan).played(step, evaluator, timeline));
  }

 protected:
  [[nodiscard]] Predictor& of(const plan::Plan& plan) const override {
    const auto groups = groups_of(plan);
    try {
      return predictor_of(*parts_, whole_, groups, make_);
    } catch (const Refusal& refusal) {
      throw Refusal(std::string(refusal.what()) + "; a plan that leaves these devices idle can be: with fewer ranks, and the key fill");
    }
  }

 private:
  [[nodiscard]] NodeOrder groups_of(const plan::Plan& plan) const {
    auto order = order_of(plan);
    order.resize(platforms::groups_in_use(whole_, order, plan.ranks()));
    return order;
  }

  [[nodiscard]] const NodeOrder& order_of(const plan::Plan& plan) const {
    const auto known = orders_.find(plan.fill);
    return known != orders_.end() ? known->second : orders_[plan.fill] = platforms::order_of_groups(whole_, plan.fill);
  }

  [[nodiscard]] Assessment with_warnings(Assessment a) const {
    if (whole_.nodes.size() == 1) {
      if (!a.plan.fill.empty()) a.warnings.push_back("fill is without effect: platform " + whole_.name + " has one group of nodes");
      return a;
    }
    if (auto idle = idle_on_mixed(platforms::in_order(whole_, order_of(a.plan)), a.ranks); !idle.empty())
      a.warnings.push_back(std::move(idle));
    return a;
  }

  const platforms::Platform& whole_;
  MakePredictor make_;
  std::unique_ptr<PartsInUse> parts_;
  std::vector<std::vector<std::string>> worth_trying_ = platforms::orders_worth_trying(whole_);
  mutable std::map<std::vector<std::string>, NodeOrder> orders_;  ///< by Plan::fill
};

}  // namespace

void require_peaks(const platforms::Platform& platform, std::string_view arithmetic) {
  for (const auto& group : platform.nodes)
    if (!group.device.peak(arithmetic))
      throw Refusal("device " + group.device.name + " has no peak for " + std::string(arithmetic) + " in platform " + platform.name +
                    "; it has those of " + joined(group.device.peaks, ", ", [](const auto& peak) { return peak.first; }));
}

std::unique_ptr<Predictor> placed_predictor(const platforms::Platform& platform, MakePredictor make) {
  auto parts = std::make_unique<PartsInUse>();
  auto& base = usable(*parts, platform, make);
  return std::make_unique<PlacedPredictor>(platform, std::move(make), std::move(parts), base);
}

}  // namespace rehearsal::predict
