#include "traces/memory_levels.hpp"

#include <algorithm>

namespace rehearsal::traces {
namespace {

void append(std::vector<MemoryLevel>& levels, MemoryLevel level) {
  if (levels.empty() || levels.back().bytes != level.bytes) levels.push_back(level);
}

}  // namespace

std::vector<MemoryLevel> memory_levels(const RankTrace& rank, const StepRecord& step, std::size_t most) {
  std::vector<MemoryLevel> all, levels;
  for (const auto& e : rank.events)
    if (e.step == step.step && e.in_use > 0) all.push_back({e.begin, e.in_use});
  std::ranges::stable_sort(all, {}, &MemoryLevel::begin);
  for (const auto& level : all) append(levels, level);
  if (levels.size() <= most || step.end <= step.begin) return levels;
  const double part = (step.end - step.begin) / static_cast<double>(most);
  std::vector<MemoryLevel> coarse;
  std::int64_t last = 0;  // that the part began with
  for (std::size_t at = 0, n = 0; n < most; ++n) {
    const double begin = step.begin + static_cast<double>(n) * part;
    std::int64_t largest = last;
    for (; at < levels.size() && levels[at].begin < begin + part; ++at) largest = std::max(largest, last = levels[at].bytes);
    append(coarse, {begin, largest});
  }
  return coarse;
}

}  // namespace rehearsal::traces
