#include "exec/step_rows.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rehearsal::exec {

bool runs_on(const plan::Program& program) { return plan::crosses_steps(program) || program.plan.meets_one_by_one(); }

StepRows::Played StepRows::next(std::int64_t step, std::int64_t end) {
  if (played_.empty()) play({step, step + steps_in_row(step, end - step)}, end);
  auto first = std::move(played_.front());
  played_.pop_front();
  return first;
}

void StepRows::play(StepRow row, std::int64_t end) {
  const auto first = row.first;
  std::optional<RowEnd> early;
  if (runs_on(training_.program)) early.emplace(executor_, training_, row);
  bool stop = false;
  for (auto s = first; s < row.end; ++s) {
    stop = stop || (options_.stop_requested && options_.stop_requested());
    if (early) row.end = early->before(s, stop);
    const double rate = options_.rate.factor(s + 1, end);
    executor_.set_rate(rate);
    played_.push_back({executor_.step({row, s, options_.record, early ? std::function<bool()>() : options_.may_update}, data_), rate});
    const auto& result = played_.back().result;
    stop = stop || (options_.ends_on_nan && result.owns_loss && !std::isfinite(result.loss));
    for (const auto& [began, message] : result.late) played_[static_cast<std::size_t>(began - first)].result.played.push_back(message);
  }
  if (early) early->close();
}

std::int64_t StepRows::steps_in_row(std::int64_t done, std::int64_t left) const {
  constexpr std::int64_t kLongestRow = 50;
  if (!runs_on(training_.program)) return 1;
  auto row = std::min(left, kLongestRow);
  for (const auto every : options_.meet_every)
    if (every > 0) row = std::min(row, every - done % every);
  return row;
}

}  // namespace rehearsal::exec
