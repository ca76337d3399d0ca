#include "plan/lowering/known_shardings.hpp"

#include "plan/lowering/lowering.hpp"
#include "plan/sharding/fusion.hpp"

namespace rehearsal::plan {
namespace {

/// Ranks whose parts differ cannot exchange what is sharded in equal ones.
void refuse_exchanged_samples(const graph::Graph& g, const Sharding& sharding) {
  for (const Conversion& c : sharding.conversions)
    for (const ConversionStep& step : c.steps) {
      const auto uneven = [&](const AxisLayout& l) { return l.split() && sharding.deals_unevenly(step.axis, l.atom); };
      if (step.kind != ConversionKind::Slice && (uneven(step.from) || uneven(step.to)))
        throw UnevenShares("plan: shares: all replicas exchange their parts of " + g[c.tensor].name +
                           ", which must be equal for that; use shares=equal");
    }
}

}  // namespace

std::shared_ptr<const Sharding> sharded(const graph::TrainingGraph& training, const std::shared_ptr<const graph::LogicalDims>& dims,
                                        KnownSharding wanted, RuleBook& rules) {
  constexpr std::size_t kKept = 4;  // on unlike devices a plan is lowered with equal shares and with others, and bounds lower one more
  for (const auto& known : rules.shardings)
    if (known.fused == wanted.fused && known.axes == wanted.axes) return known.sharding;
  auto fresh = shard(training, dims, wanted.axes);
  refuse_barriers(training.graph, fresh);
  refuse_exchanged_samples(training.graph, fresh);
  if (wanted.fused) fuse_attention(training, fresh);
  wanted.sharding = std::make_shared<const Sharding>(std::move(fresh));
  if (rules.shardings.size() == kKept) rules.shardings.erase(rules.shardings.begin());
  return rules.shardings.emplace_back(std::move(wanted)).sharding;
}

}  // namespace rehearsal::plan
