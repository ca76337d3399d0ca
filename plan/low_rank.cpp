#include "plan/low_rank.hpp"

#include <algorithm>

namespace rehearsal::plan {

LowRankFactors factors_of(const graph::Shape& shape, double rank) {
  const auto elements = graph::element_count(shape), rows = shape.empty() ? 1 : shape.front();
  LowRankFactors f{rows, rows > 0 ? elements / rows : 0, 0};
  const auto fitting = std::min({static_cast<std::int64_t>(rank), f.rows, f.columns});
  if ((f.rows + f.columns) * fitting < elements) f.rank = fitting;
  return f;
}

}  // namespace rehearsal::plan
