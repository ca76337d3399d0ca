#pragma once
// A table whose rows are made by functions of several files.

#include <cstddef>
#include <vector>

namespace rehearsal {

/// What the functions return, in their order.
template <class Row, std::size_t kCount>
[[nodiscard]] std::vector<Row> rows_of(Row (*const (&functions)[kCount])()) {
  std::vector<Row> rows;
  rows.reserve(kCount);
  for (const auto function : functions) rows.push_back(function());
  return rows;
}

}  // namespace rehearsal
