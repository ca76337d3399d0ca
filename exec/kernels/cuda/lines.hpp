#pragma once
// Work along one axis of a tensor: a line is the elements that differ in their index along it only.

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::cuda {

/// A team of one thread, where neighbouring threads take neighbouring lines.
struct Alone {
  REHEARSAL_BODY std::int64_t rank() const { return 0; }
  REHEARSAL_BODY std::int64_t size() const { return 1; }
  template <class T, class Op>
  REHEARSAL_BODY T reduce(T value, Op) const {
    return value;
  }
  template <class T>
  REHEARSAL_BODY T sum(T value) const {
    return value;
  }
  template <class T>
  REHEARSAL_BODY T max(T value) const {
    return value;
  }
};

/// Elements first, first + step, ...; `size` of them. Lines are numbered in row-major order of the other axes.
struct Line {
  std::int64_t number, first, step, size;
};

struct Lines {
  std::int64_t outer, size, inner;

  Lines(const graph::Shape& shape, std::size_t axis) {
    const auto split = graph::split_at(shape, axis);
    outer = split.outer, size = split.size, inner = split.inner;
  }
  [[nodiscard]] REHEARSAL_BODY std::int64_t count() const { return outer * inner; }
  REHEARSAL_BODY Line line(std::int64_t number) const {
    if (inner == 1) return {number, number * size, 1, size};
    const Division at = divide(number, inner);
    return {number, at.quotient * size * inner + at.remainder, inner, size};
  }
  /// True where a line's elements are neighbours, and worth a team; and where lines are few and long.
  [[nodiscard]] bool suits_teams() const {
    constexpr std::int64_t kShort = 16, kLong = 1024, kFew = 4096;
    return inner == 1 ? size > kShort : size >= kLong && count() < kFew;
  }
};

template <class Body>
struct LineOfTeam {
  Lines lines;
  Body body;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t line) const { body(team, lines.line(line)); }
};
template <class Body>
struct LineAlone {
  Lines lines;
  Body body;
  REHEARSAL_BODY void operator()(std::int64_t line) const { body(Alone{}, lines.line(line)); }
};

/// body(team, line) for every line; the team may be an Alone.
template <class Body>
void for_each_line(DeviceStream stream, const Lines& lines, const Body& body) {
  if (lines.suits_teams()) return for_each_row(stream, lines.count(), lines.size, LineOfTeam<Body>{lines, body});
  for_each(stream, lines.count(), LineAlone<Body>{lines, body});
}

}  // namespace rehearsal::exec::cuda
