#include "traces/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/statistics.hpp"

namespace rehearsal::traces {
namespace {

struct DrawnSpan {
  double begin = 0, end = 0;
};

/// Spans in order of time, overlapping ones joined.
std::vector<DrawnSpan> joined_spans(std::vector<DrawnSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const DrawnSpan& a, const DrawnSpan& b) { return a.begin < b.begin; });
  std::vector<DrawnSpan> result;
  for (const auto& s : spans) {
    if (!result.empty() && s.begin <= result.back().end)
      result.back().end = std::max(result.back().end, s.end);
    else
      result.push_back(s);
  }
  return result;
}

/// Seconds of [begin, end) that are covered by joined spans.
double covered(const std::vector<DrawnSpan>& spans, double begin, double end) {
  double seconds = 0;
  auto at = std::lower_bound(spans.begin(), spans.end(), begin, [](const DrawnSpan& s, double t) { return s.end <= t; });
  for (; at != spans.end() && at->begin < end; ++at) seconds += std::max(0.0, std::min(at->end, end) - std::max(at->begin, begin));
  return seconds;
}

/// Events of one rank in one step, sorted out.
struct StepEvents {
  std::vector<const Event*> computing;  ///< in order of time
  std::vector<DrawnSpan> messages;      ///< joined
};

StepEvents sorted_out(const RankTrace& rank, const std::vector<const Event*>& events) {
  StepEvents result;
  for (const auto* e : events) {
    if (communicates(rank.kinds[e->kind]))
      result.messages.push_back({e->begin, e->end});
    else
      result.computing.push_back(e);
  }
  std::stable_sort(result.computing.begin(), result.computing.end(), [](const Event* a, const Event* b) { return a->begin < b->begin; });
  result.messages = joined_spans(std::move(result.messages));
  return result;
}

StepAccount account_of(const StepEvents& events, const StepRecord& step) {
  constexpr double kOfClock = 1e-14;  // of its reading: what reckoning times in another order leaves
  const double rounding = kOfClock * std::max(std::fabs(step.begin), std::fabs(step.end));
  StepAccount account;
  account.seconds = step.end - step.begin;
  double at = step.begin;
  const auto stood_still = [&](double until) {
    const double still = until - at;
    if (still <= rounding) return 0.0;
    const double waited = covered(events.messages, at, until);
    const double idle = still - waited > rounding ? still - waited : 0;
    account.exposed += still - idle;
    account.idle += idle;
    return idle;
  };
  for (const auto* e : events.computing) {
    const double dispatch = stood_still(e->begin);
    if (!account.charged.empty()) account.charged.back().seconds += dispatch;
    account.compute += std::max(0.0, e->end - std::max(at, e->begin));
    account.charged.push_back({e->kind, e->end - e->begin, e->busy});
    at = std::max(at, e->end);
  }
  stood_still(step.end);
  return account;
}

}  // namespace

bool communicates(const EventKind& kind) {
  return kind.identity.kind == plan::InstructionKind::Send || kind.identity.kind == plan::InstructionKind::Receive ||
         kind.identity.kind == plan::InstructionKind::Collective;
}

std::vector<StepRecord> counted_steps(const Trace& trace) {
  if (trace.steps.empty()) throw BadInput("trace of " + trace.model, "holds no step");
  std::vector<StepRecord> steps;
  for (const auto& s : trace.steps)
    if (!s.warm_up) steps.push_back(s);
  return steps.empty() ? trace.steps : steps;
}

double median_step_seconds(const Trace& trace) {
  std::vector<double> seconds;
  for (const auto& s : counted_steps(trace)) seconds.push_back(s.end - s.begin);
  return median_of(seconds);
}

bool only_warms_up(const Trace& trace) {
  const auto marked = std::ranges::count_if(trace.steps, &StepRecord::warm_up);
  // Older traces of so few steps mark none.
  return std::cmp_equal(marked, trace.steps.size()) || (marked == 0 && trace.kind == "measured" && trace.steps.size() <= kWarmUpSteps);
}

std::vector<StepRecord> central_steps(const Trace& trace) {
  auto steps = counted_steps(trace);
  std::stable_sort(steps.begin(), steps.end(), [](const StepRecord& a, const StepRecord& b) { return a.end - a.begin < b.end - b.begin; });
  const auto quarter = static_cast<std::ptrdiff_t>(steps.size() / 4);
  steps = {steps.begin() + quarter, steps.end() - quarter};
  std::sort(steps.begin(), steps.end(), [](const StepRecord& a, const StepRecord& b) { return a.step < b.step; });
  return steps;
}

std::vector<StepAccount> accounts(const RankTrace& rank, const std::vector<StepRecord>& steps) {
  std::map<std::int32_t, std::vector<const Event*>> by_step;
  for (const auto& e : rank.events) by_step[e.step].push_back(&e);
  std::vector<StepAccount> result;
  for (const auto& step : steps) result.push_back(account_of(sorted_out(rank, by_step[step.step]), step));
  return result;
}

double share_waiting_for_cores(const Trace& trace) {
  const auto steps = counted_steps(trace);
  const auto counted = [&](const Event& e) {
    return std::any_of(steps.begin(), steps.end(), [&](const StepRecord& s) { return e.begin >= s.begin && e.end <= s.end; });
  };
  double taken = 0, busy = 0;
  for (const auto& rank : trace.ranks)
    for (const auto& e : rank.events)
      if (!communicates(rank.kinds[e.kind]) && counted(e)) taken += e.end - e.begin, busy += e.busy;
  return taken > 0 ? std::max(0.0, 1 - busy / taken) : 0;
}

}  // namespace rehearsal::traces
