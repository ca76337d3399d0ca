#include "exec/comm/stall.hpp"

#include <algorithm>
#include <cstddef>

#include "base/statistics.hpp"

namespace rehearsal::exec {
namespace {

constexpr std::size_t kKnown = 3, kLatest = 15;
constexpr double kToStart = 60, kPredictedSteps = 100;
constexpr double kLeast = 20, kSteps = 20;
constexpr double kLong = 600, kLongSteps = 3;
constexpr double kLongestPause = 0.5;  // seconds between two looks; a rank that waits looks far more often

}  // namespace

void StallTime::add(double step_seconds) {
  if (latest_.size() == kLatest) latest_.erase(latest_.begin());
  latest_.push_back(step_seconds);
}

double StallTime::seconds() const {
  if (latest_.size() < kKnown) return kToStart + kPredictedSteps * predicted_step_;
  const double step = median_of(latest_);
  return std::min(kLeast + kSteps * step, kLong + kLongSteps * step);
}

void WaitingTime::look(double now) {
  if (last_look_ && now - *last_look_ <= kLongestPause) seconds_ += now - *last_look_;
  last_look_ = now;
}

}  // namespace rehearsal::exec
