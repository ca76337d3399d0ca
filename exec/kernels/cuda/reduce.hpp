#pragma once
// Sums (or maxima, or products) over parts of a tensor in an order that does not change from run to run: what reductions, statistics of
// normalizations and gradients of their parameters share. Where there are few results, the elements of each are split into parts: a first
// pass leaves the parts' results in the workspace, a second adds them up.
//
// A term says what is added:
//   using Value                          of what sums are kept in: double, float or an integer
//   using Op                             SumOf, LargerOf..., and start(), the value of nothing
//   static constexpr int kValues         how many sums there are
//   add(Value* totals, Strided)              adds a run of elements
//   add(Value* totals, Share)            the same of neighbouring elements that threads share; of terms that segments are added up by
//   add_columns<n>(totals[n], Strided)       of n neighbouring columns at once; optional, of terms that columns are added up by, with
//   static constexpr int kTogether           the largest n
//   is_aligned(n)                            whether so many elements can be read at once where columns begin
// and a store where it goes: store(target, totals), called once for each.

#include <algorithm>
#include <cstdint>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/neighbours.hpp"

namespace rehearsal::exec::cuda {

/// Elements at + begin, at + begin + step, ... below at + end.
struct Strided {
  std::int64_t at, begin, end, step;
};

/// The elements of a share one at a time.
REHEARSAL_BODY Strided run_of(const Share& share) { return {share.first, share.lane, share.last - share.first, share.lanes}; }

/// How elements are split into parts: enough of them to occupy a GPU, none too small.
[[nodiscard]] inline std::int64_t parts_of(std::int64_t targets, std::int64_t elements, std::int64_t wanted, std::int64_t least) {
  if (targets <= 0) return 1;
  return std::max<std::int64_t>(1, std::min((wanted + targets - 1) / targets, elements / least));
}

/// Each target is the sum over `count` segments of `length` neighbouring elements.
struct Segments {
  static constexpr std::int64_t kTeamsWanted = 2048, kLeastOfPart = 4096, kAlone = 32, kLane = 32, kMostOfTeam = 256;

  Walk<1> target_walk, segment_walk;
  std::int64_t targets = 1, count = 1, length = 1;
  std::int64_t parts = 1, pieces = 1;  ///< parts of a target; pieces of a segment: a part is a piece of some segments

  void split() {
    parts = parts_of(targets, count * length, kTeamsWanted, kLeastOfPart);
    pieces = parts > count ? std::max<std::int64_t>(1, std::min(parts / std::max<std::int64_t>(1, count), length / kLane)) : 1;
    parts = count == 0 ? 1 : pieces == 1 ? std::min(parts, count) : count * pieces;
  }
  /// Targets so small that one thread does one.
  [[nodiscard]] bool alone() const { return count * length <= kAlone; }
  [[nodiscard]] std::int64_t elements_of_part() const { return count * length / parts; }
  REHEARSAL_BODY std::int64_t first_of(std::int64_t target, std::int64_t segment) const {
    return target_walk.place(target).at[0] + segment_walk.place(segment).at[0];
  }
};

/// One target: all of `elements` neighbouring elements.
[[nodiscard]] inline Segments all_of(std::int64_t elements) {
  Segments layout;
  layout.length = elements;
  layout.split();
  return layout;
}

/// Each target is a sum down a column: targets are [outer, columns], columns side by side, their elements in `rows` rows.
struct Columns {
  static constexpr std::int64_t kTeamsWanted = 1024, kColumnsOfTeam = 32, kLeastOfPart = 128;

  Walk<1> outer_walk, row_walk;
  std::int64_t outer = 1, columns = 1, rows = 1, parts = 1;

  /// Those of rows one behind another.
  [[nodiscard]] static Columns of_rows(std::int64_t rows, std::int64_t columns) {
    Columns all;
    all.columns = columns, all.rows = rows;
    all.row_walk.rank = 1;
    all.row_walk.sizes[0] = Divider(rows);
    all.row_walk.strides[0][0] = columns;
    all.split();
    return all;
  }
  /// A part is neighbouring rows.
  void split() { parts = parts_of(outer * ((columns + kColumnsOfTeam - 1) / kColumnsOfTeam), rows, kTeamsWanted, kLeastOfPart); }
  [[nodiscard]] std::int64_t targets() const { return outer * columns; }
  /// Every row of so many neighbouring columns begins at a multiple of them.
  [[nodiscard]] bool are_groups(std::int64_t group) const {
    bool whole = columns % group == 0;
    for (const auto* walk : {&outer_walk, &row_walk}) {
      whole = whole && walk->offsets[0] % group == 0;
      for (int d = 0; d < walk->rank; ++d) whole = whole && walk->strides[0][d] % group == 0;
    }
    return whole;
  }
};

/// Results of parts: value v of part p of target t lies at (v * outer + o) * parts * columns + p * columns + c, t being o * columns + c.
struct PartPlaces {
  std::int64_t outer, parts, columns;
  REHEARSAL_BODY std::int64_t place(std::int64_t value, std::int64_t o, std::int64_t p, std::int64_t c) const {
    return ((value * outer + o) * parts + p) * columns + c;
  }
};

template <class Value, int kValues>
struct PartStore {
  std::int64_t all;  ///< parts of all targets
  Value* to;
  REHEARSAL_BODY void operator()(std::int64_t part, const Value* totals) const {
    for (int v = 0; v < kValues; ++v) to[v * all + part] = totals[v];
  }
};

/// A team for each part of each target.
template <class Term, class Store>
struct SumSegments {
  Segments layout;
  Term term;
  Store store;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const Division part = divide(row, layout.parts), piece = divide(part.remainder, layout.pieces);
    const std::int64_t groups = layout.parts / layout.pieces, length = layout.length;
    const std::int64_t last = (piece.quotient + 1) * layout.count / groups;
    const std::int64_t begin = piece.remainder * length / layout.pieces, end = (piece.remainder + 1) * length / layout.pieces;
    const std::int64_t segments = layout.count * layout.pieces / layout.parts;  // of a part
    // No fewer threads for each segment than leave none without one.
    const std::int64_t few = lanes_for(end - begin, team.size()), spread = team.size() / (segments > 0 ? segments : 1);
    const std::int64_t lanes = few > spread ? few : lanes_of_spread(spread);
    const std::int64_t lane = team.rank() % lanes, step = team.size() / lanes;
    typename Term::Value totals[Term::kValues];
    for (auto& total : totals) total = Term::start();
    for (std::int64_t k = piece.quotient * layout.count / groups + team.rank() / lanes; k < last; k += step) {
      const std::int64_t at = layout.first_of(part.quotient, k);
      term.add(totals, Share{at + begin, at + end, lane, lanes});
    }
    for (auto& total : totals) total = team.reduce(total, typename Term::Op{});
    if (team.rank() == 0) store(row, totals);
  }
  /// The largest power of two that is no larger.
  static REHEARSAL_BODY std::int64_t lanes_of_spread(std::int64_t spread) {
    std::int64_t lanes = 1;
    while (lanes * 2 <= spread) lanes *= 2;
    return lanes;
  }
};

/// A thread for each target.
template <class Term, class Store>
struct SumAlone {
  Segments layout;
  Term term;
  Store store;
  REHEARSAL_BODY void operator()(std::int64_t target) const {
    typename Term::Value totals[Term::kValues];
    for (auto& total : totals) total = Term::start();
    for (std::int64_t k = 0; k < layout.count; ++k) {
      const std::int64_t at = layout.first_of(target, k);
      term.add(totals, Share{at, at + layout.length, 0, 1});
    }
    store(target, totals);
  }
};

/// A team for each part of some neighbouring columns: kLanes threads side by side have kTogether columns each, and every kLanes of the
/// team's threads a row of their own.
template <class Term, class Store, int kTogether>
struct SumColumns {
  using Value = typename Term::Value;
  static constexpr int kValues = Term::kValues, kLanes = 8;

  Columns layout;
  Term term;
  Store store;

  [[nodiscard]] REHEARSAL_BODY std::int64_t groups() const { return (layout.columns + kLanes * kTogether - 1) / (kLanes * kTogether); }

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t number) const {
    REHEARSAL_SHARED Value held[kTogether * kValues][kTileLanes];
    const Division group = divide(number, groups());
    const std::int64_t first = group.remainder * kLanes * kTogether, lines = team.size() / kLanes;
    // On the host the only thread is all lanes in turn, and has all rows.
    for (std::int64_t lane = team.rank() % kLanes; lane < kLanes; lane += team.size()) {
      Value totals[kTogether][kValues];
      for (auto& of_column : totals)
        for (auto& total : of_column) total = Term::start();
      const std::int64_t column = first + lane * kTogether;
      if (column < layout.columns) add_rows(totals, group.quotient, column, {team.rank() / kLanes, lines > 0 ? lines : 1});
      for (int c = 0; c < kTogether; ++c) {
        if (lines <= 1 && column < layout.columns) store(group.quotient * layout.columns + column + c, totals[c]);
        for (int v = 0; v < kValues && lines > 1; ++v) held[c * kValues + v][team.rank()] = totals[c][v];
      }
    }
    if (lines <= 1) return;
    team.wait();
    for (std::int64_t c = team.rank(); c < kLanes * kTogether && first + c < layout.columns; c += team.size()) {
      Value totals[kValues];
      for (int v = 0; v < kValues; ++v) {
        const Value* of_lines = held[c % kTogether * kValues + v] + c / kTogether;
        totals[v] = of_lines[0];
        for (std::int64_t line = 1; line < lines; ++line) totals[v] = typename Term::Op{}(totals[v], of_lines[line * kLanes]);
      }
      store(group.quotient * layout.columns + first + c, totals);
    }
    team.wait();  // before the next of this team's parts
  }

 private:
  /// Every how many-th of a part's rows, and which of them.
  struct Turn {
    std::int64_t number, of;
  };
  template <class Totals>
  REHEARSAL_BODY void add_rows(Totals& totals, std::int64_t place, std::int64_t column, const Turn& turn) const {
    const Division part = divide(place, layout.parts);
    const std::int64_t at = layout.outer_walk.place(part.quotient).at[0] + column;
    const std::int64_t begin = part.remainder * layout.rows / layout.parts + turn.number,
                       end = (part.remainder + 1) * layout.rows / layout.parts;
    if (layout.row_walk.rank <= 1) {
      const std::int64_t stride = layout.row_walk.rank == 0 ? 1 : layout.row_walk.strides[0][0];
      return add(totals, Strided{at, begin * stride, end * stride, turn.of * stride});
    }
    for (std::int64_t k = begin; k < end; k += turn.of) add(totals, Strided{at + layout.row_walk.place(k).at[0], 0, 1, 1});
  }
  template <class Totals>
  REHEARSAL_BODY void add(Totals& totals, const Strided& run) const {
    if constexpr (kTogether == 1)
      term.add(totals[0], run);
    else
      term.template add_columns<kTogether>(totals, run);
  }
};

/// A team for each target adds up what its parts left.
template <class Term, class Store>
struct SumParts {
  PartPlaces places;
  const typename Term::Value* parts;
  Store store;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t target) const {
    const Division at = divide(target, places.columns);
    typename Term::Value totals[Term::kValues];
    for (int v = 0; v < Term::kValues; ++v) {
      totals[v] = Term::start();
      for (std::int64_t p = team.rank(); p < places.parts; p += team.size())
        totals[v] = typename Term::Op{}(totals[v], parts[places.place(v, at.quotient, p, at.remainder)]);
      totals[v] = team.reduce(totals[v], typename Term::Op{});
    }
    if (team.rank() == 0) store(target, totals);
  }
};

/// The same by one thread for each target, where they left few.
template <class Term, class Store>
struct SumFewParts {
  static constexpr std::int64_t kMost = 64;
  PartPlaces places;
  const typename Term::Value* parts;
  Store store;
  REHEARSAL_BODY void operator()(std::int64_t target) const {
    const Division at = divide(target, places.columns);
    typename Term::Value totals[Term::kValues];
    for (int v = 0; v < Term::kValues; ++v) {
      totals[v] = Term::start();
      REHEARSAL_UNROLL
      for (std::int64_t p = 0; p < places.parts; ++p)
        totals[v] = typename Term::Op{}(totals[v], parts[places.place(v, at.quotient, p, at.remainder)]);
    }
    store(target, totals);
  }
};

template <class Term>
[[nodiscard]] std::int64_t workspace_of(const Segments& layout) {
  const auto value = static_cast<std::int64_t>(sizeof(typename Term::Value));
  return layout.parts == 1 ? 0 : layout.targets * layout.parts * Term::kValues * value;
}
template <class Term>
[[nodiscard]] std::int64_t workspace_of(const Columns& layout) {
  const auto value = static_cast<std::int64_t>(sizeof(typename Term::Value));
  return layout.parts == 1 ? 0 : layout.targets() * layout.parts * Term::kValues * value;
}

/// `workspace`: workspace_of<Term>(layout) bytes.
template <class Term, class Store>
void reduce(DeviceStream stream, const Segments& layout, const Term& term, const Store& store, void* workspace) {
  using Value = typename Term::Value;
  if (layout.alone()) return for_each(stream, layout.targets, SumAlone<Term, Store>{layout, term, store});
  if (layout.parts == 1)
    return for_each_row(stream, layout.targets, layout.elements_of_part(), SumSegments<Term, Store>{layout, term, store},
                        layout.kMostOfTeam);
  auto* values = static_cast<Value*>(workspace);
  const std::int64_t all = layout.targets * layout.parts;
  using Kept = PartStore<Value, Term::kValues>;
  for_each_row(stream, all, layout.elements_of_part(), SumSegments<Term, Kept>{layout, term, Kept{all, values}}, layout.kMostOfTeam);
  for_each_row(stream, layout.targets, layout.parts, SumParts<Term, Store>{{layout.targets, layout.parts, 1}, values, store});
}

template <int kTogether, class Term, class Store>
void sum_columns_by(DeviceStream stream, const Columns& layout, const Term& term, const Store& store) {
  using Body = SumColumns<Term, Store, kTogether>;
  const Body body{layout, term, store};
  for_each_tile(stream, layout.outer * layout.parts * body.groups(), body);
}

template <class Term, class Store>
void sum_columns(DeviceStream stream, const Columns& layout, const Term& term, const Store& store) {
  const auto suits = [&](int together) {
    if constexpr (requires { Term::kTogether; }) return layout.are_groups(together) && term.is_aligned(together);
    return false;
  };
  if constexpr (requires { Term::kTogether; }) {
    constexpr int kAll = Term::kTogether, kFew = kAll > 2 ? 2 : 1;
    if (suits(kAll)) return sum_columns_by<kAll>(stream, layout, term, store);
    if (suits(kFew)) return sum_columns_by<kFew>(stream, layout, term, store);
  }
  sum_columns_by<1>(stream, layout, term, store);
}

template <class Term, class Store>
void reduce(DeviceStream stream, const Columns& layout, const Term& term, const Store& store, void* workspace) {
  using Value = typename Term::Value;
  if (layout.parts == 1) return sum_columns(stream, layout, term, store);
  auto* values = static_cast<Value*>(workspace);
  const std::int64_t all = layout.targets() * layout.parts;
  using Kept = PartStore<Value, Term::kValues>;
  sum_columns(stream, layout, term, Kept{all, values});
  const PartPlaces places{layout.outer, layout.parts, layout.columns};
  if (layout.parts <= SumFewParts<Term, Store>::kMost)
    return for_each(stream, layout.targets(), SumFewParts<Term, Store>{places, values, store});
  for_each_row(stream, layout.targets(), layout.parts, SumParts<Term, Store>{places, values, store});
}

}  // namespace rehearsal::exec::cuda
