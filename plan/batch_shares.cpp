#include "plan/batch_shares.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"
#include "plan/block.hpp"
#include "plan/plan_keys.hpp"

namespace rehearsal::plan {
namespace {

constexpr std::int64_t kMostSamples = 1'000'000'000;

std::int64_t number_in(const std::string& text, std::int64_t most) {
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value >= 1 && *value <= most) return *value;
  throw BadInput(
      "must be equal, speed, or whole numbers from 1 up, one for each replica: 3:1, or 24x8:8x8 for 8 replicas with 24 each and 8 with 8 "
      "each");
}

/// Whole numbers in proportion to `weights` that add up to `total`: those that lose most by rounding down are rounded up.
std::vector<std::int64_t> apportioned(std::int64_t total, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> parts;
  std::vector<std::pair<double, std::size_t>> lost;
  for (std::size_t n = 0; n < weights.size(); ++n) {
    const double exact = static_cast<double>(total) * weights[n] / sum;
    parts.push_back(static_cast<std::int64_t>(exact + 1e-9));
    lost.emplace_back(static_cast<double>(parts.back()) - exact, n);
  }
  std::ranges::stable_sort(lost);
  auto rest = total - std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  for (std::size_t n = 0; rest > 0; n = (n + 1) % lost.size(), --rest) ++parts[lost[n].second];
  return parts;
}

}  // namespace

std::vector<std::int64_t> shares_in(const std::string& text) {
  std::vector<std::int64_t> shares;
  for (const auto& one : split(text, ':')) {
    const auto by = one.find('x');
    const auto share = number_in(one.substr(0, by), kMostSamples);
    const auto replicas = by == std::string::npos ? 1 : number_in(one.substr(by + 1), kMostRanks);
    if (static_cast<std::int64_t>(shares.size()) + replicas > kMostRanks)
      throw BadInput("names more than " + std::to_string(kMostRanks) + " replicas");
    shares.insert(shares.end(), static_cast<std::size_t>(replicas), share);
  }
  return shares;
}

std::string text_of_shares(const std::vector<std::int64_t>& shares) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < shares.size(); first = last) {
    while (last < shares.size() && shares[last] == shares[first]) ++last;
    text += (text.empty() ? "" : ":") + std::to_string(shares[first]);
    if (last - first > 1) text += "x" + std::to_string(last - first);
  }
  return text;
}

bool names_shares(const Plan& plan) { return plan.shares != "equal" && plan.shares != "speed"; }

std::vector<std::int64_t> samples_of_replicas(std::int64_t batch, const Plan& plan) {
  std::vector<std::int64_t> samples;
  if (!names_shares(plan)) {
    for (int r = 0; r < plan.dp; ++r) samples.push_back(block(batch, plan.dp, r).count());
    return samples;
  }
  const auto shares = shares_in(plan.shares);
  return apportioned(batch, {shares.begin(), shares.end()});
}

bool has_uneven_shares(std::int64_t batch, const Plan& plan) {
  if (!names_shares(plan)) return false;
  auto even = plan;
  even.shares = "equal";
  return samples_of_replicas(batch, plan) != samples_of_replicas(batch, even);
}

std::vector<int> micro_batches_of_replicas(std::int64_t batch, const Plan& plan) {
  std::vector<int> counts;
  const auto samples = samples_of_replicas(batch, plan);
  for (const auto own : samples)
    counts.push_back(plan.micro_batch ? static_cast<int>((own + *plan.micro_batch - 1) / *plan.micro_batch) : 1);
  if (!has_uneven_shares(batch, plan)) std::ranges::fill(counts, *std::ranges::max_element(counts));
  return counts;
}

std::vector<std::int64_t> samples_by_pace(std::int64_t batch, std::int64_t unit, const std::vector<ReplicaPace>& paces) {
  // All end at t: samples r = (t - fixed r) / per_sample r, and they add up to the batch. One without time for a sample still gets a unit.
  double slope = 0, before = 0;
  for (const auto& p : paces) slope += 1 / p.per_sample, before += p.fixed / p.per_sample;
  const double end = (static_cast<double>(batch) + before) / slope;
  const auto units = batch / unit;
  std::vector<double> weights;
  for (const auto& p : paces) weights.push_back(std::max((end - p.fixed) / p.per_sample, 0.0));
  const auto replicas = static_cast<std::int64_t>(paces.size());
  ensure(units >= replicas, "there is a unit for every replica");
  auto samples = apportioned(units, weights);
  for (auto& own : samples)
    if (own == 0) ++own, --*std::ranges::max_element(samples);
  for (auto& own : samples) own *= unit;
  const auto quickest = std::ranges::min_element(paces, {}, &ReplicaPace::per_sample) - paces.begin();
  samples[static_cast<std::size_t>(quickest)] += batch % unit;
  return samples;
}

}  // namespace rehearsal::plan
