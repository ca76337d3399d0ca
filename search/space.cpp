#include "search/space.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "base/join.hpp"
#include "predict/free_keys.hpp"

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
  [[nodiscard]] bool has(std::string_view key) const { return predictor.framework().has_key(key); }
};

Plans pipelines(const Space& space, const plan::Plan& plan) {
  const auto most = space.has("pp") ? std::min<std::int64_t>(space.rest(plan), std::max<std::int64_t>(1, space.limits().stages)) : 1;
  return predict::with_each<&plan::Plan::pp>(plan, predict::divisors(space.rest(plan), most));
}

/// Within a node, whose links its all-reduces in every layer need.
Plans tensor_degrees(const Space& space, const plan::Plan& plan) {
  const int rest = space.rest(plan);
  const bool splits = space.limits().weights && space.has("tp");
  const int in_node = std::ranges::max(space.predictor.platform().nodes, {}, &platforms::NodeGroup::devices).devices;
  return predict::with_each<&plan::Plan::tp>(plan, predict::divisors(rest, splits ? in_node : 1));
}

/// Powers of two: blocks of a sequence that are even, and few.
Plans sequence_degrees(const Space& space, const plan::Plan& plan) {
  std::vector<int> degrees{1};
  const auto length = space.has("cp") ? space.limits().sequence : 1;
  for (int n = 2; n <= length && space.rest(plan) % n == 0; n *= 2) degrees.push_back(n);
  return predict::with_each<&plan::Plan::cp>(plan, degrees);
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
  return predict::with_each<&plan::Plan::dp>(plan, std::array{dp});
}

/// Experts are spread over the replicas of everything else, and beyond them over the ranks of tensor parallelism, which then splits none.
Plans expert_degrees(const Space& space, const plan::Plan& plan) {
  if (!space.has("ep")) return {plan};
  const std::int64_t copies = std::int64_t{plan.dp} * plan.cp, experts = space.limits().experts;
  const auto among = std::gcd(experts, space.limits().whole_experts ? copies * plan.tp : copies);
  auto plans = predict::with_each<&plan::Plan::ep>(plan, predict::divisors(among, among));
  std::erase_if(plans, [&](const plan::Plan& one) { return copies % one.ep != 0 && !one.has_whole_experts(); });
  return plans;
}

/// In this order: what replicas leave out of a node, they leave to the others.
struct DegreeRow {
  std::string_view key;
  Plans (*values)(const Space&, const plan::Plan&);  ///< of a plan with the neutral value
};
constexpr std::array kShape{DegreeRow{"pp", pipelines},        DegreeRow{"tp", tensor_degrees},
                            DegreeRow{"cp", sequence_degrees}, DegreeRow{"spatial", spatial_degrees},
                            DegreeRow{"dp", replicas},         DegreeRow{"ep", expert_degrees}};

/// Numbers of ranks worth trying, the largest first: powers of two, divisors of all devices, and all devices.
std::vector<int> rank_counts(int devices) {
  std::set<int> counts{devices};
  for (int n = 1; n <= devices; n *= 2) counts.insert(n);
  for (int n = 1; n <= devices; ++n)
    if (devices % n == 0) counts.insert(n);
  return {counts.rbegin(), counts.rend()};
}

/// `values`: of a row and a plan.
template <class Row, class Values>
Plans expanded(const plan::Plan& from, const std::vector<const Row*>& rows, const Values& values) {
  Plans plans{from};
  for (const auto* row : rows) {
    Plans longer;
    for (const auto& plan : plans) std::ranges::move(values(*row, plan), std::back_inserter(longer));
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
  if (key == "zero_group") return plan.zero == 0;
  return key == "order" && (plan.pp == 1 || plan.dp == 1);
}

/// Keys that vary and mean nothing are neutral again.
template <class Varies>
void drop_meaningless(plan::Plan& plan, const Varies& varies) {
  for (const auto& row : predict::free_keys())
    if (varies(row.key) && means_nothing(plan, row.key)) row.reset(plan);
}

constexpr std::string_view kMicroBatch = "micro_batch", kRecompute = "recompute";

using Degree = int plan::Plan::*;
constexpr std::array<std::pair<std::string_view, Degree>, 4> kDegrees{
    {{"dp", &plan::Plan::dp}, {"tp", &plan::Plan::tp}, {"pp", &plan::Plan::pp}, {"cp", &plan::Plan::cp}}};

}  // namespace

std::vector<std::string> searchable_keys() {
  std::vector<std::string> keys;
  for (const auto& row : kShape) keys.emplace_back(row.key);
  for (const auto& row : predict::free_keys())
    if (row.searched) keys.emplace_back(row.key);
  return keys;
}

std::vector<std::string> allowed_words() {
  std::vector<std::string> words;
  for (const auto& row : predict::free_keys())
    if (!row.allowed_by.empty()) words.emplace_back(row.allowed_by);
  return words;
}

PlanSpace::PlanSpace(predict::Predictor& predictor, plan::Plan fixed, FreeKeys free)
    : predictor_(predictor), fixed_(std::move(fixed)), free_(std::move(free.keys)), allowed_(std::move(free.allowed)), ranks_(free.ranks) {
  fixed_.searched.clear();
  const auto known = searchable_keys();
  std::erase(free_, "interleave");  // goes with the schedule
  for (const auto& key : free_)
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw BadInput("plan: " + key + "=auto", "this key is not searched; give it a value, searched are " + joined(known));
}

bool PlanSpace::allows(std::string_view word) const { return std::find(allowed_.begin(), allowed_.end(), word) != allowed_.end(); }

bool PlanSpace::varies(std::string_view key) const { return std::find(free_.begin(), free_.end(), key) != free_.end(); }

Plans PlanSpace::shapes() const {
  Plans all;
  const int devices = platforms::most_devices(predictor_.platform());
  for (const int ranks : ranks_ ? std::vector{*ranks_} : rank_counts(devices)) {
    if (ranks > devices) continue;
    const Space space{predictor_, ranks};
    if (space.rest(fixed_) == 0) continue;
    std::vector<const DegreeRow*> rows;
    for (const auto& row : kShape)
      if (varies(row.key)) rows.push_back(&row);
    auto plans = expanded(fixed_, rows, [&](const DegreeRow& row, const plan::Plan& plan) { return row.values(space, plan); });
    std::copy_if(plans.begin(), plans.end(), std::back_inserter(all), [&](const plan::Plan& plan) { return plan.ranks() == ranks; });
  }
  return all;
}

template <class Wanted>
Plans PlanSpace::with_free_keys(const plan::Plan& from, const Wanted& wanted) const {
  std::vector<const predict::FreeKey*> rows;
  for (const auto& row : predict::free_keys())
    if (wanted(row.key) && (row.allowed_by.empty() ? varies(row.key) : allows(row.allowed_by))) rows.push_back(&row);
  return expanded(from, rows, [&](const predict::FreeKey& row, const plan::Plan& plan) { return row.values(predictor_, plan); });
}

Plans PlanSpace::micro_batches(const plan::Plan& shape) const {
  return with_free_keys(shape, [](std::string_view key) { return key == kMicroBatch; });
}

Plans PlanSpace::variants(const plan::Plan& with_micro_batch) const {
  return with_free_keys(with_micro_batch, [](std::string_view key) { return key != kMicroBatch && key != kRecompute; });
}

Plans PlanSpace::recomputing(const plan::Plan& variant) const {
  return with_free_keys(variant, [](std::string_view key) { return key == kRecompute; });
}

Plans PlanSpace::neighbours(const plan::Plan& plan) const {
  Plans all;
  for (auto& changed : predict::changed_plans(predictor_, plan))
    if (varies(changed.key)) all.push_back(std::move(changed.plan));
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
