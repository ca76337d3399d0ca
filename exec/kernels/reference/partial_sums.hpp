#pragma once
#include <cstdint>

namespace rehearsal::exec::reference {

/// Sum of term(i) for i in [0, count), in double. Four partial sums keep the adder busy.
template <class Term>
[[nodiscard]] double sum_of(std::int64_t count, Term&& term) {
  double lanes[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::int64_t l = 0; l < 4; ++l) lanes[l] += term(i + l);
  }
  for (; i < count; ++i) lanes[0] += term(i);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace rehearsal::exec::reference
