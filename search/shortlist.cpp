#include "search/shortlist.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::search {
namespace {

using predict::Assessment;

constexpr double kAlike = 1e-3;

bool close(double a, double b) { return std::abs(a - b) <= kAlike * std::max(std::abs(a), std::abs(b)); }

bool same_degrees(const plan::Plan& a, const plan::Plan& b) {
  return a.dp == b.dp && a.tp == b.tp && a.pp == b.pp && a.cp == b.cp && a.ep == b.ep && a.spatial == b.spatial;
}

bool alike(const Assessment& a, const Assessment& b) {
  return a.platform == b.platform && same_degrees(a.plan, b.plan) &&
         std::ranges::all_of(objective_table(), [&](const ObjectiveRow& row) { return close(row.value(a), row.value(b)); });
}

/// At least as good in everything, and better in something.
bool dominates(const Assessment& a, const Assessment& b) {
  bool better = false;
  for (const auto& row : objective_table()) {
    if (row.value(a) > row.value(b)) return false;
    better = better || row.value(a) < row.value(b);
  }
  return better;
}

bool dominates(const Assessment& a, const predict::Outlook& b) {
  return std::ranges::all_of(objective_table(), [&](const ObjectiveRow& row) { return row.value(a) < row.least(b); });
}

}  // namespace

bool Shortlist::may_enter(const predict::Outlook& o) const {
  const double over = least_excess(options_.limits, o, options_.steps);
  if (plans_.empty()) return true;
  const auto& last = plans_.back();
  if (options_.by == nullptr) {
    if (!within_limits()) return over < last.excess;
    return over <= 0 && std::ranges::none_of(plans_, [&](const Listed& l) { return dominates(l.answer, o); });
  }
  if (within_limits() && over > 0) return false;
  if (plans_.size() < options_.most) return true;
  return over < last.excess || (over <= last.excess && options_.by->least(o) < options_.by->value(last.answer));
}

bool Shortlist::fold(Listed& entry) {
  if (!options_.folds) return false;
  const auto same = std::ranges::find_if(plans_, [&](const Listed& l) { return alike(l.answer, entry.answer); });
  if (same == plans_.end()) return false;
  const auto rank = [&](const Assessment& a) { return std::pair(value_of(options_.by, a), a.memory_bytes); };
  if (rank(entry.answer) < rank(same->answer)) {  // takes its place, which may be another one in the order
    entry.alike = std::move(same->alike);
    entry.alike.push_back(same->answer.plan);
    plans_.erase(same);
    return false;
  }
  same->alike.push_back(entry.answer.plan);
  return true;
}

void Shortlist::enter(Assessment a) {
  Listed entry{std::move(a), 0, {}};
  entry.excess = excess(options_.limits, entry.answer, options_.steps);
  if (within_limits() && entry.excess > 0) return;
  if (entry.excess <= 0 && !within_limits()) plans_.clear();
  if (options_.by == nullptr && entry.excess <= 0) return enter_front(std::move(entry));
  if (fold(entry)) return;
  const auto key = [&](const Listed& l) { return std::pair(l.excess, value_of(options_.by, l.answer)); };
  const auto place =
      std::upper_bound(plans_.begin(), plans_.end(), entry, [&](const Listed& x, const Listed& y) { return key(x) < key(y); });
  plans_.insert(place, std::move(entry));
  if (plans_.size() > options_.most) plans_.pop_back();
}

void Shortlist::enter_front(Listed entry) {
  if (std::ranges::any_of(plans_, [&](const Listed& l) { return dominates(l.answer, entry.answer); })) return;
  if (fold(entry)) return;
  std::erase_if(plans_, [&](const Listed& l) { return dominates(entry.answer, l.answer); });
  const auto place = std::upper_bound(plans_.begin(), plans_.end(), entry, [](const Listed& x, const Listed& y) {
    return value_of(nullptr, x.answer) < value_of(nullptr, y.answer);
  });
  plans_.insert(place, std::move(entry));
}

}  // namespace rehearsal::search
