#include "search/space.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <set>
#include <span>

#include "base/error.hpp"
#include "base/join.hpp"
#include "plan/schedules/chunks.hpp"

namespace rehearsal::search {
namespace {

using Plans = std::vector<plan::Plan>;

/// What rows ask about.
struct Space {
  predict::Predictor& predictor;
  int ranks = 1;

  /// Ranks that no axis has yet.
  [[nodiscard]] int rest(const plan::Plan& plan) const { return plan.ranks() > 0 && ranks % plan.ranks() == 0 ? ranks / plan.ranks() : 0; }
  [[nodiscard]] const predict::SplitLimits& limits() const { return predictor.limits(); }
  /// Samples of a replica in a step.
  [[nodiscard]] std::int64_t samples(const plan::Plan& plan) const { return std::max<std::int64_t>(1, predictor.batch() / plan.dp); }
  [[nodiscard]] bool has(const char* key) const {
    const auto& known = predictor.framework().parallelism;
    return known.empty() || std::find(known.begin(), known.end(), key) != known.end();
  }
  /// Of a key's values those that the framework has.
  [[nodiscard]] bool has(const char* key, std::string_view value) const { return predictor.framework().has(key, value); }
};

std::vector<int> divisors(std::int64_t n, std::int64_t most) {
  std::vector<int> all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(static_cast<int>(d));
  return all;
}

template <int plan::Plan::*member>
Plans with(const plan::Plan& plan, const std::vector<int>& values) {
  Plans plans;
  for (const int value : values) {
    plans.push_back(plan);
    plans.back().*member = value;
  }
  return plans;
}

template <std::string plan::Plan::*member>
Plans with(const plan::Plan& plan, const std::vector<std::string>& values) {
  Plans plans;
  for (const auto& value : values) {
    plans.push_back(plan);
    plans.back().*member = value;
  }
  return plans;
}

Plans pipelines(const Space& space, const plan::Plan& plan) {
  const auto most = space.has("pp") ? std::min<std::int64_t>(space.rest(plan), std::max<std::int64_t>(1, space.limits().stages)) : 1;
  return with<&plan::Plan::pp>(plan, divisors(space.rest(plan), most));
}

/// Within a node, whose links its all-reduces in every layer need.
Plans tensor_degrees(const Space& space, const plan::Plan& plan) {
  const int rest = space.rest(plan);
  int in_node = 1;
  const bool splits = space.limits().weights && space.has("tp");
  while (splits && in_node < rest && platforms::place(space.predictor.platform(), in_node).node == 0) ++in_node;
  return with<&plan::Plan::tp>(plan, divisors(rest, in_node));
}

/// Powers of two: blocks of a sequence that are even, and few.
Plans sequence_degrees(const Space& space, const plan::Plan& plan) {
  std::vector<int> degrees{1};
  const auto length = space.has("cp") ? space.limits().sequence : 1;
  for (int n = 2; n <= length && space.rest(plan) % n == 0; n *= 2) degrees.push_back(n);
  return with<&plan::Plan::cp>(plan, degrees);
}

/// Slabs of the outermost image axis, and blocks as square as the number of ranks allows.
Plans spatial_degrees(const Space& space, const plan::Plan& plan) {
  Plans plans{plan};
  const std::size_t axes = space.limits().image_axes;
  if (axes == 0) return plans;
  for (int n = 2; space.rest(plan) > 0 && space.rest(plan) % n == 0; n *= 2) {
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

/// Replicas take the ranks that are left.
Plans replicas(const Space& space, const plan::Plan& plan) {
  const int dp = space.rest(plan);
  if (dp == 0 || dp > space.predictor.batch() || (space.limits().even_replicas && space.predictor.batch() % dp != 0)) return {};
  return with<&plan::Plan::dp>(plan, {dp});
}

/// Experts are spread over the replicas of everything else.
Plans expert_degrees(const Space& space, const plan::Plan& plan) {
  const auto among = space.has("ep") ? std::gcd<std::int64_t>(space.limits().experts, std::int64_t{plan.dp} * plan.cp) : 1;
  return with<&plan::Plan::ep>(plan, divisors(among, among));
}

Plans micro_batches(const Space& space, const plan::Plan& plan) {
  const auto samples = space.samples(plan);
  Plans plans;
  for (const int b : divisors(samples, samples)) {
    plans.push_back(plan);
    if (b < samples || plan.pp > 1) plans.back().micro_batch = b;  // the whole batch of a replica is written in one way
  }
  return plans;
}

Plans with_sequence_parallelism(const Space& space, const plan::Plan& plan) {
  Plans plans{plan};
  if (plan.tp > 1 && space.limits().sequence > 1 && space.has("sequence_parallel")) plans.emplace_back(plan).sequence_parallel = true;
  return plans;
}

Plans sharded_updates(const Space& space, const plan::Plan& plan) {
  const bool shards = plan.dp * plan.cp > 1 && space.has("zero");
  return with<&plan::Plan::zero>(plan, shards ? std::vector{0, 1, 2, 3} : std::vector{0});
}

Plans forms_of_attention(const Space& space, const plan::Plan& plan) {
  if (plan.cp == 1) return {plan};
  return with<&plan::Plan::attention>(plan, space.limits().attention_forms);
}

/// Where stages are next to each other, and where replicas are.
Plans orders(const Space& space, const plan::Plan& plan) {
  Plans plans{plan};
  const auto& nodes = space.predictor.platform().nodes;
  const bool several = nodes.size() > 1 || plan.ranks() > nodes.front().devices;
  if (plan.pp > 1 && plan.dp > 1 && several) plans.emplace_back(plan).order = "tp.cp.ep.pp.dp";
  return plans;
}

/// Of each stage under interleaved schedules: numbers that deal out the blocks evenly.
std::vector<int> chunk_counts(const Space& space, const plan::Plan& plan) {
  if (!space.has("interleave")) return {};
  if (plan.interleave > 1) return {plan.interleave};
  const auto blocks = space.limits().blocks;
  if (blocks <= 1) return {2, 4};
  auto counts = blocks % plan.pp == 0 ? divisors(blocks / plan.pp, blocks / plan.pp) : std::vector<int>{};
  std::erase(counts, 1);  // that is 1f1b
  return counts;
}

/// Schedules with a flush.
Plans schedules(const Space& space, const plan::Plan& plan) {
  if (plan.pp == 1) return {plan};
  Plans plans;
  const auto count = static_cast<int>(plan.micro_batch ? space.samples(plan) / *plan.micro_batch : 1);
  for (const auto& row : plan::schedule_table()) {
    if (row.asynchronous || !space.has("schedule", row.name)) continue;
    if (row.placement == plan::Placement::Both && !space.limits().two_copies) continue;
    for (const int v : row.chunks == 0 ? chunk_counts(space, plan) : std::vector{plan.interleave}) {
      auto one = plan;
      one.schedule = std::string(row.name);
      one.interleave = v;
      if (plan::schedule_violations(one, count).empty()) plans.push_back(std::move(one));
    }
  }
  return plans;
}

Plans recomputations(const Space& space, const plan::Plan& plan) {
  std::vector<std::string> values;
  for (const auto& value : space.limits().recompute)
    if (space.has("recompute", value)) values.push_back(value);
  return with<&plan::Plan::recompute>(plan, values);
}

template <auto plan::Plan::*member>
void reset(plan::Plan& plan) {
  plan.*member = plan::Plan().*member;
}
void reset_schedule(plan::Plan& plan) { reset<&plan::Plan::schedule>(plan), reset<&plan::Plan::interleave>(plan); }

/// In this order: what replicas leave out of a node, they leave to the others.
struct FreedomRow {
  std::string_view key;
  Plans (*values)(const Space&, const plan::Plan&);  ///< of a plan with the neutral value
  void (*reset)(plan::Plan&);                        ///< to the neutral value
};
constexpr std::array kShape{
    FreedomRow{"pp", pipelines, reset<&plan::Plan::pp>},        FreedomRow{"tp", tensor_degrees, reset<&plan::Plan::tp>},
    FreedomRow{"cp", sequence_degrees, reset<&plan::Plan::cp>}, FreedomRow{"spatial", spatial_degrees, reset<&plan::Plan::spatial>},
    FreedomRow{"dp", replicas, reset<&plan::Plan::dp>},         FreedomRow{"ep", expert_degrees, reset<&plan::Plan::ep>}};
constexpr std::array kMicroBatch{FreedomRow{"micro_batch", micro_batches, reset<&plan::Plan::micro_batch>}};
constexpr std::array kVariants{FreedomRow{"sequence_parallel", with_sequence_parallelism, reset<&plan::Plan::sequence_parallel>},
                               FreedomRow{"zero", sharded_updates, reset<&plan::Plan::zero>},
                               FreedomRow{"attention", forms_of_attention, reset<&plan::Plan::attention>},
                               FreedomRow{"order", orders, reset<&plan::Plan::order>}, FreedomRow{"schedule", schedules, reset_schedule}};
constexpr std::array kRecompute{FreedomRow{"recompute", recomputations, reset<&plan::Plan::recompute>}};
constexpr std::array<std::span<const FreedomRow>, 4> kRows{kShape, kMicroBatch, kVariants, kRecompute};

/// Numbers of ranks worth trying, the largest first: powers of two, divisors of all devices, and all devices.
std::vector<int> rank_counts(int devices) {
  std::set<int> counts{devices};
  for (int n = 1; n <= devices; n *= 2) counts.insert(n);
  for (int n = 1; n <= devices; ++n)
    if (devices % n == 0) counts.insert(n);
  return {counts.rbegin(), counts.rend()};
}

template <class Varies>
Plans expanded(const Space& space, const plan::Plan& from, std::span<const FreedomRow> rows, const Varies& varies) {
  Plans plans{from};
  for (const auto& row : rows) {
    if (!varies(row.key)) continue;
    Plans longer;
    for (const auto& plan : plans) std::ranges::move(row.values(space, plan), std::back_inserter(longer));
    plans = std::move(longer);
  }
  return plans;
}

/// Whether a plan of these degrees has nothing that the key could be about.
bool means_nothing(const plan::Plan& plan, std::string_view key) {
  if (key == "sequence_parallel") return plan.tp == 1;
  if (key == "schedule") return plan.pp == 1;
  if (key == "attention") return plan.cp == 1;
  if (key == "zero") return plan.dp * plan.cp == 1;
  return key == "order" && (plan.pp == 1 || plan.dp == 1);
}

/// Keys that vary and mean nothing are neutral again.
template <class Varies>
void drop_meaningless(plan::Plan& plan, const Varies& varies) {
  for (const auto rows : kRows)
    for (const auto& row : rows)
      if (varies(row.key) && means_nothing(plan, row.key)) row.reset(plan);
}

using Degree = int plan::Plan::*;
constexpr std::array<std::pair<std::string_view, Degree>, 4> kDegrees{
    {{"dp", &plan::Plan::dp}, {"tp", &plan::Plan::tp}, {"pp", &plan::Plan::pp}, {"cp", &plan::Plan::cp}}};

}  // namespace

std::vector<std::string> searchable_keys() {
  std::vector<std::string> keys;
  for (const auto rows : kRows)
    for (const auto& row : rows) keys.emplace_back(row.key);
  return keys;
}

PlanSpace::PlanSpace(predict::Predictor& predictor, plan::Plan fixed, std::vector<std::string> free)
    : predictor_(predictor), fixed_(std::move(fixed)), free_(std::move(free)) {
  fixed_.searched.clear();
  const auto known = searchable_keys();
  std::erase(free_, "interleave");  // goes with the schedule
  for (const auto& key : free_)
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw BadInput("plan: " + key + "=auto", "this key is not searched; give it a value, searched are " + joined(known));
}

bool PlanSpace::varies(std::string_view key) const { return std::find(free_.begin(), free_.end(), key) != free_.end(); }

Plans PlanSpace::shapes() const {
  Plans all;
  for (const int ranks : rank_counts(platforms::device_count(predictor_.platform()))) {
    const Space space{predictor_, ranks};
    if (space.rest(fixed_) == 0) continue;
    auto plans = expanded(space, fixed_, kShape, [&](std::string_view key) { return varies(key); });
    std::copy_if(plans.begin(), plans.end(), std::back_inserter(all), [&](const plan::Plan& plan) { return plan.ranks() == ranks; });
  }
  return all;
}

Plans PlanSpace::micro_batches(const plan::Plan& shape) const {
  return expanded({predictor_, shape.ranks()}, shape, kMicroBatch, [&](std::string_view key) { return varies(key); });
}

Plans PlanSpace::variants(const plan::Plan& with_micro_batch) const {
  return expanded({predictor_, with_micro_batch.ranks()}, with_micro_batch, kVariants, [&](std::string_view key) { return varies(key); });
}

Plans PlanSpace::recomputing(const plan::Plan& variant) const {
  return expanded({predictor_, variant.ranks()}, variant, kRecompute, [&](std::string_view key) { return varies(key); });
}

Plans PlanSpace::neighbours(const plan::Plan& plan) const {
  const Space space{predictor_, plan.ranks()};
  Plans all;
  for (const auto rows :
       {std::span<const FreedomRow>(kMicroBatch), std::span<const FreedomRow>(kVariants), std::span<const FreedomRow>(kRecompute)})
    for (const auto& row : rows) {
      if (!varies(row.key)) continue;
      auto neutral = plan;
      row.reset(neutral);
      const auto others = row.values(space, neutral);
      std::ranges::copy_if(others, std::back_inserter(all), [&](const plan::Plan& p) { return p != plan; });
    }
  for (const auto& [from_key, from] : kDegrees)
    for (const auto& [to_key, to] : kDegrees) {
      if (from == to || !varies(from_key) || !varies(to_key) || plan.*from % 2 != 0) continue;
      auto other = plan;
      other.*from /= 2;
      other.*to *= 2;
      drop_meaningless(other, [&](std::string_view key) { return varies(key); });
      if (other.ranks() == plan.ranks()) all.push_back(std::move(other));
    }
  return all;
}

}  // namespace rehearsal::search
