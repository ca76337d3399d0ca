#include "exchange/profile/profile.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"

namespace rehearsal::exchange {
namespace {

using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Of events that meet a condition, without overlaps, in order.
template <class Condition>
Spans merged(const GpuProfile& trace, Condition condition) {
  Spans spans;
  for (const auto& event : trace.events)
    if (condition(event)) spans.emplace_back(event.begin, event.end);
  std::ranges::sort(spans);
  Spans result;
  for (const auto& span : spans) {
    if (!result.empty() && span.first <= result.back().second)
      result.back().second = std::max(result.back().second, span.second);
    else
      result.push_back(span);
  }
  return result;
}

std::int64_t length(const Spans& spans) {
  std::int64_t sum = 0;
  for (const auto& [begin, end] : spans) sum += end - begin;
  return sum;
}

std::int64_t common(const Spans& a, const Spans& b) {
  std::int64_t sum = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    sum += std::max<std::int64_t>(0, std::min(i->second, j->second) - std::max(i->first, j->first));
    if (i->second < j->second)
      ++i;
    else
      ++j;
  }
  return sum;
}

}  // namespace

WorkSums work_sums(const GpuProfile& trace) {
  WorkSums sums;
  for (const auto& event : trace.events) {
    const auto took = event.end - event.begin;
    if (event.work == GpuWork::Compute) sums.compute += took;
    if (event.work == GpuWork::Communication) sums.communication += took;
    if (event.work == GpuWork::Memory) sums.memory += took;
  }
  return sums;
}

TimeBreakdown breakdown(const GpuProfile& trace) {
  if (!trace.has_begins)
    throw Refusal("the trace says how long its work took and not when it began: nothing is known of what ran beside what");
  const auto all = merged(trace, [](const GpuEvent&) { return true; });
  const auto computing = merged(trace, [](const GpuEvent& e) { return e.work == GpuWork::Compute; });
  const auto communicating = merged(trace, [](const GpuEvent& e) { return e.work == GpuWork::Communication; });
  TimeBreakdown result;
  if (all.empty()) return result;
  result.idle = all.back().second - all.front().first - length(all);
  result.compute = length(computing);
  result.non_compute = length(all) - result.compute;
  result.communication = length(communicating);
  result.overlap = common(computing, communicating);
  return result;
}

std::vector<CollectiveSum> collectives(const GpuProfile& trace) {
  std::vector<CollectiveSum> sums;
  for (const auto& event : trace.events) {
    if (event.work != GpuWork::Communication) continue;
    if (!event.unreadable.empty()) throw Refusal(event.unreadable);
    if (event.collective.empty())
      throw Refusal(
          "the trace says of '" + event.name.substr(0, 60) +
          "' neither its collective nor its bytes (\"Collective name\", \"In msg nelems\" in args); collectives need a profile by a "
          "newer PyTorch");
    auto found = std::ranges::find_if(
        sums, [&](const CollectiveSum& s) { return s.name == event.collective && s.group == event.group && s.bytes == event.bytes; });
    if (found == sums.end()) found = sums.insert(sums.end(), {event.collective, event.group, event.bytes, 0, 0});
    found->count += 1;
    found->microseconds += event.end - event.begin;
  }
  std::ranges::stable_sort(sums, std::greater<>(), &CollectiveSum::microseconds);
  return sums;
}

}  // namespace rehearsal::exchange
