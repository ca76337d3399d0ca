#include "validation/comparison.hpp"

#include <cmath>

#include "base/error.hpp"

namespace rehearsal::validation {
namespace {

/// What both predicted, as `mine` did.
Verdict shared_part(const Verdict& mine, const Verdict& other) {
  auto part = mine;
  std::erase_if(part.predicted,
                [&](const auto& entry) { return !other.errors.contains(entry.first) || !mine.errors.contains(entry.first); });
  std::erase_if(part.errors, [&](const auto& entry) { return !part.predicted.contains(entry.first); });
  return part;
}

double factor_off(double predicted, double measured) { return std::fabs(std::log(predicted / measured)); }

void enter(const Duel& duel, Nearer& nearer) {
  constexpr double kAlike = 1e-9;
  const double first = factor_off(duel.first.value, duel.measured), second = factor_off(duel.second.value, duel.measured);
  if (std::fabs(first - second) <= kAlike)
    ++nearer.alike;
  else
    ++(first < second ? nearer.first : nearer.second);
}

}  // namespace

AnswerComparison compare(std::span<const Verdict> first, std::span<const Verdict> second, std::span<const Record> records) {
  ensure(first.size() == records.size() && second.size() == records.size(), "one verdict a record");
  AnswerComparison c;
  c.first = summarise(first, records);
  c.second = summarise(second, records);
  std::vector<Verdict> first_part, second_part;
  std::vector<Record> both;
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto mine = shared_part(first[i], second[i]), other = shared_part(second[i], first[i]);
    const auto key = scored_key(mine);
    if (key.empty()) continue;
    c.duels.push_back(
        {records[i].id, records[i].family, key, *records[i].measured.number(key), mine.predicted.at(key), other.predicted.at(key)});
    enter(c.duels.back(), c.nearer);
    enter(c.duels.back(), c.nearer_by_family[records[i].family]);
    first_part.push_back(std::move(mine));
    second_part.push_back(std::move(other));
    both.push_back(records[i]);
  }
  c.first_of_both = summarise(first_part, both);
  c.second_of_both = summarise(second_part, both);
  return c;
}

}  // namespace rehearsal::validation
