// The space of plans: one row per key that a search may vary, applied one after the other.

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.hpp"
#include "base/join.hpp"
#include "plan/schedules/schedule.hpp"
#include "search/search.hpp"

namespace rehearsal::search {
namespace {

/// What rows ask about.
struct Space {
  predict::Predictor& predictor;
  const SearchOptions& options;
  int ranks = 1;

  [[nodiscard]] bool searches(std::string_view key) const {
    return std::find(options.free.begin(), options.free.end(), key) != options.free.end();
  }
  /// Ranks that no axis has yet.
  [[nodiscard]] int rest(const plan::Plan& plan) const { return plan.ranks() > 0 && ranks % plan.ranks() == 0 ? ranks / plan.ranks() : 0; }
  /// Axes that split samples are worth their messages where the batch is too small for the ranks, or where memory counts.
  [[nodiscard]] bool splits_samples(const plan::Plan& plan) const { return options.splits_samples || rest(plan) > predictor.batch(); }
};

using Plans = std::vector<plan::Plan>;

std::vector<int> divisors(int n, int most) {
  std::vector<int> all;
  for (int d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

template <int plan::Plan::*member>
Plans with_degrees(const plan::Plan& plan, const std::vector<int>& degrees) {
  Plans plans;
  for (const int d : degrees) {
    plans.push_back(plan);
    plans.back().*member = d;
  }
  return plans;
}

Plans pipelines(const Space& space, const plan::Plan& plan) {
  const int rest = space.rest(plan);
  return with_degrees<&plan::Plan::pp>(plan, divisors(rest, rest));
}

/// Within a node, whose links its all-reduces in every layer need.
Plans tensor_degrees(const Space& space, const plan::Plan& plan) {
  const int rest = space.rest(plan);
  int in_node = 1;
  while (in_node < rest && platforms::place(space.predictor.platform(), in_node).node == 0) ++in_node;
  return with_degrees<&plan::Plan::tp>(plan, divisors(rest, in_node));
}

Plans expert_degrees(const Space& space, const plan::Plan& plan) {
  const int most = static_cast<int>(space.predictor.limits().experts);
  return with_degrees<&plan::Plan::ep>(plan, divisors(plan.dp, most));
}

/// Powers of two: blocks of a sequence that are even, and few.
Plans sequence_degrees(const Space& space, const plan::Plan& plan) {
  std::vector<int> degrees{1};
  const auto length = space.predictor.limits().sequence;
  if (length > 1 && space.splits_samples(plan)) {
    for (int n = 2; space.rest(plan) % n == 0 && n <= length; n *= 2) degrees.push_back(n);
  }
  return with_degrees<&plan::Plan::cp>(plan, degrees);
}

/// Slabs of the outermost image axis, and blocks as square as the number of ranks allows.
Plans spatial_degrees(const Space& space, const plan::Plan& plan) {
  Plans plans{plan};
  const std::size_t axes = space.predictor.limits().image_axes;
  if (axes == 0 || !space.splits_samples(plan)) return plans;
  for (int n = 2; space.rest(plan) % n == 0; n *= 2) {
    std::array<int, 3> slabs{1, 1, 1}, blocks{1, 1, 1};
    slabs[3 - axes] = n;
    std::size_t at = 0;
    for (int left = n; left > 1; left /= 2, ++at) blocks[3 - axes + at % axes] *= 2;
    for (const auto& degrees : std::set{slabs, blocks}) {
      plans.push_back(plan);
      plans.back().spatial = degrees;
    }
  }
  return plans;
}

Plans sharded_updates(const Space&, const plan::Plan& plan) {
  return with_degrees<&plan::Plan::zero>(plan, plan.dp > 1 ? std::vector{0, 1, 3} : std::vector{0});
}

Plans with_sequence_parallelism(const Space& space, const plan::Plan& plan) {
  Plans plans{plan};
  if (plan.tp > 1 && space.predictor.limits().sequence > 1) plans.emplace_back(plan).sequence_parallel = true;
  return plans;
}

Plans forms_of_attention(const Space& space, const plan::Plan& plan) {
  Plans plans{plan};
  if (plan.cp > 1 && space.predictor.limits().attention_heads) plans.emplace_back(plan).attention = "all-to-all";
  if (plan.cp > 1) plans.emplace_back(plan).attention = "ring";
  return plans;
}

Plans micro_batches(const Space& space, const plan::Plan& plan) {
  const bool pipeline = plan.pp > 1;
  const std::int64_t per_replica = std::max<std::int64_t>(1, space.predictor.batch() / plan.dp);
  Plans plans;
  if (!pipeline) plans.push_back(plan);
  for (std::int64_t b = pipeline ? per_replica : per_replica / 2; b >= 1; b /= 2) plans.emplace_back(plan).micro_batch = b;
  return plans;
}

/// Those of several chunks cut the model otherwise; they are played when a plan names them.
Plans schedules(const Space&, const plan::Plan& plan) {
  if (plan.pp == 1) return {plan};
  Plans plans;
  for (const auto& row : plan::schedule_table()) {
    if (!row.asynchronous && row.chunks == 1) plans.emplace_back(plan).schedule = std::string(row.name);
  }
  return plans;
}

/// What is recomputed is found where a plan does not fit, and for the objectives that ask for bytes.
Plans left_to_memory(const Space&, const plan::Plan& plan) { return {plan}; }

/// Replicas take the ranks that are left.
Plans replicas(const Space& space, const plan::Plan& plan) { return with_degrees<&plan::Plan::dp>(plan, {space.rest(plan)}); }

/// In this order: what replicas leave out of a node, they leave to the others.
struct FreedomRow {
  std::string_view key;
  Plans (*values)(const Space&, const plan::Plan&);
};
constexpr FreedomRow kRows[] = {
    {"pp", pipelines},
    {"tp", tensor_degrees},
    {"cp", sequence_degrees},
    {"spatial", spatial_degrees},
    {"dp", replicas},
    {"ep", expert_degrees},
    {"zero", sharded_updates},
    {"sequence_parallel", with_sequence_parallelism},
    {"attention", forms_of_attention},
    {"micro_batch", micro_batches},
    {"schedule", schedules},
    {"recompute", left_to_memory},
};

/// Numbers of ranks worth trying, the largest first: powers of two, divisors of all devices, and all devices.
std::vector<int> rank_counts(int devices) {
  std::set<int> counts{devices};
  for (int n = 1; n <= devices; n *= 2) counts.insert(n);
  for (int n = 1; n <= devices; ++n)
    if (devices % n == 0) counts.insert(n);
  return {counts.rbegin(), counts.rend()};
}

/// The user's plan with what is searched at its neutral value.
plan::Plan beginning(const SearchOptions& options) {
  plan::Plan plan = options.fixed;
  plan.searched.clear();
  return plan;
}

}  // namespace

std::vector<std::string> searchable_keys() {
  std::vector<std::string> keys;
  for (const auto& row : kRows) keys.emplace_back(row.key);
  return keys;
}

std::vector<plan::Plan> enumerate_plans(predict::Predictor& predictor, const SearchOptions& options) {
  const auto known = searchable_keys();
  for (const auto& key : options.free)
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw BadInput("plan: " + key + "=auto", "this key is not searched; give it a value, searched are " + joined(known));
  Plans all;
  for (const int ranks : rank_counts(platforms::device_count(predictor.platform()))) {
    const Space space{predictor, options, ranks};
    Plans plans{beginning(options)};
    if (space.rest(plans.front()) == 0) continue;
    for (const auto& row : kRows) {
      if (!space.searches(row.key)) continue;
      Plans longer;
      for (const plan::Plan& plan : plans) {
        auto values = row.values(space, plan);
        std::move(values.begin(), values.end(), std::back_inserter(longer));
      }
      plans = std::move(longer);
    }
    std::copy_if(plans.begin(), plans.end(), std::back_inserter(all), [&](const plan::Plan& plan) { return plan.ranks() == ranks; });
  }
  return all;
}

}  // namespace rehearsal::search
