#include "exchange/frameworks/imports.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/words.hpp"

namespace rehearsal::exchange {

void sort_rest(const Flags& flags, std::span<const IdleKeys> idle, Found& found) {
  for (const auto& key : flags.rest()) {
    const auto row = std::ranges::find_if(idle, [&](const IdleKeys& known) {
      return std::ranges::any_of(rehearsal::words_of(known.beginnings), [&](auto beginning) { return key.starts_with(beginning); });
    });
    if (row != idle.end())
      found.left_out.push_back({key, std::string(row->reason)});
    else
      found.refuse(key, "is not known here", "leave it out if a step takes as long without it");
  }
}

void require_nothing_refused(const Found& found, const std::string& file) {
  if (found.refusals.empty()) return;
  throw Refusal(file + " asks for what plans and models here do not say:\n" +
                joined(found.refusals, "\n", [](const plan::Violation& v) { return v.key + ": " + v.problem + "; " + v.remedy; }));
}

}  // namespace rehearsal::exchange
