#include "plan/sharding/redistribution.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::plan {
namespace {

const graph::TensorDims& dims_of(const Sharding& s, const Redistribution& r) {
  return r.user == graph::NodeId::None ? s.dims->of(r.tensor) : s.dims->of_operand(r.user, r.operand);
}

Region region(const Sharding& s, const Redistribution& r, const Layout& layout, const Coordinates& at) {
  if (r.user == graph::NodeId::None) return s.region(dims_of(s, r), layout, at);
  return s.operand_region(r.user, r.operand, layout, at);
}

Coordinates moved(const Coordinates& at, std::size_t axis, std::int64_t to) {
  Coordinates other = at;
  other[axis] = to;
  return other;
}

/// Elements that the ranks of an axis shard: the atom's, or what outer axes left of them here.
std::int64_t dealt_units(const Sharding& s, const Layout& layout, std::size_t axis, const Coordinates& at) {
  const AxisLayout& mine = layout[axis];
  std::int64_t n = s.dims->atoms().size(mine.atom);
  for (std::size_t a = 0; a < axis; ++a) {
    const AxisLayout& outer = layout[a];
    if (outer.split() && outer.dim == mine.dim && outer.factor == mine.factor) n = s.part(a, outer.atom, {0, n}, at).count();
  }
  return n;
}

bool is_exchange(ConversionKind kind) { return kind == ConversionKind::AllToAll || kind == ConversionKind::Halo; }

/// The block that the next rank wants next, then the one that comes from the rank before.
Packing shifted(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  const std::int64_t ranks = s.axes[r.axis].size, own = at[r.axis];
  PackedBlock sent{(own + 1) % ranks, region_before(s, r, at), 0, 0}, received{(own + ranks - 1) % ranks, region_after(s, r, at), 0, 0};
  sent.count = received.offset = element_count(sent.region);
  received.count = element_count(received.region);
  Packing p;
  p.count = sent.count + received.count;
  p.packed.push_back(std::move(sent));
  p.unpacked.push_back(std::move(received));
  return p;
}

bool gathers(const Redistribution& r) { return r.kind == ConversionKind::AllGather; }
const Layout& split_layout(const Redistribution& r) { return gathers(r) ? r.from : r.to; }
Region whole_region(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  return region(s, r, gathers(r) ? r.to : r.from, at);
}

/// Does the axis cut the outermost dimension that has more than one element here, and in it the outermost factor into ranges? Axes nested
/// inside it have let go of what it cuts, and those around it leave it a range.
bool blocks_follow_each_other(const Sharding& s, const Redistribution& r, const Region& whole) {
  const Layout& split = split_layout(r);
  const AxisLayout& cut = split[r.axis];
  const auto& atoms = s.dims->atoms();
  for (std::size_t d = 0; d < static_cast<std::size_t>(cut.dim); ++d)
    if (count_of(whole[d]) != 1) return false;
  const auto outermost = dims_of(s, r)[static_cast<std::size_t>(cut.dim)].front();
  const auto cuts_range = [&](const AxisLayout& l) {
    return !l.split() || l.dim != cut.dim || l.factor != 0 || atoms.find(l.atom) == atoms.find(outermost);
  };
  return cut.factor == 0 && std::all_of(split.begin(), split.end(), cuts_range);
}

/// Every coordinate's block of all that share the vector, one after the other.
Packing dealt(const Sharding& s, std::span<const Redistribution> sharing, std::size_t which, const Coordinates& at) {
  const Redistribution& r = sharing[which];
  std::vector<DealtOut> all;
  for (const auto& other : sharing) all.push_back(dealing_of(s, other, at).out);
  const std::int64_t ranks = s.axes[r.axis].size;
  Packing p;
  p.count = begin_of_part(all, ranks, ranks);
  for (std::int64_t q = 0; q < ranks; ++q) {
    const bool own = q == at[r.axis];
    PackedBlock b{q, region(s, r, split_layout(r), moved(at, r.axis, q)), begin_of_part(all, ranks, q), 0};
    for (std::size_t n = 0; n < which; ++n) b.offset += block(all[n].units, ranks, q).count() * all[n].each;
    b.count = element_count(b.region);
    ensure(b.count == block(all[which].units, ranks, q).count() * all[which].each,
           "blocks of a split tensor are whole multiples of what the ranks share");
    if (!gathers(r) || own) p.packed.push_back(b);
    if (gathers(r) || own) p.unpacked.push_back(std::move(b));
  }
  return p;
}

Packing exchanged(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  const Region mine = region_before(s, r, at), wanted = region_after(s, r, at);
  Packing p;
  const auto add = [&](std::vector<PackedBlock>& blocks, std::int64_t peer, Region what) {
    const std::int64_t count = element_count(what);
    if (peer != at[r.axis] && count > 0) blocks.push_back({peer, std::move(what), p.count, count}), p.count += count;
  };
  for (std::int64_t q = 0; q < s.axes[r.axis].size; ++q) add(p.packed, q, intersection(mine, region_after(s, r, moved(at, r.axis, q))));
  for (std::int64_t q = 0; q < s.axes[r.axis].size; ++q)
    add(p.unpacked, q, intersection(wanted, region_before(s, r, moved(at, r.axis, q))));
  return p;
}

}  // namespace

void keep_turn(const Sharding& s, const Turn& turn, const Coordinates& at, Region& held) {
  IndexSet& all = held[static_cast<std::size_t>(turn.dim)];
  ensure(all.size() == 1 && all.front().begin == 0, "what goes round is a dimension that is whole but for its turn");
  all.front() = s.keys_in(turn, all.front().end, at);
}

Region region_before(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  auto held = region(s, r, r.from, at);
  if (r.turn.any()) keep_turn(s, r.turn, at, held);
  return held;
}

Region region_after(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  auto held = region(s, r, r.to, at);
  if (r.turn.any()) keep_turn(s, {r.turn.axis, r.turn.dim, r.turn.number + 1}, at, held);
  return held;
}

Dealing dealing_of(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  const Region whole = whole_region(s, r, at);
  Dealing d;
  d.count = element_count(whole);
  d.out.units = dealt_units(s, split_layout(r), r.axis, at);
  ensure(d.out.units > 0 && d.count % d.out.units == 0, "blocks of a split tensor are whole multiples of what the ranks share");
  d.out.each = d.count / d.out.units;
  d.in_order = blocks_follow_each_other(s, r, whole);
  return d;
}

std::vector<DealtOut> in_fewer(const std::vector<DealtOut>& all) {
  std::map<std::int64_t, std::int64_t> each_of;
  for (const auto& d : all) each_of[d.units] += d.each;
  std::vector<DealtOut> fewer;
  for (const auto& [units, each] : each_of) fewer.push_back({units, each});
  return fewer;
}

Packing packing_of(const Sharding& s, std::span<const Redistribution> list, std::size_t which, const Coordinates& at) {
  const Redistribution& r = list[which];
  if (r.kind == ConversionKind::Shift) return shifted(s, r, at);
  if (is_exchange(r.kind)) return exchanged(s, r, at);
  const auto before = static_cast<std::size_t>(r.before), behind = static_cast<std::size_t>(r.behind);
  return dealt(s, list.subspan(which - before, before + 1 + behind), before, at);
}

}  // namespace rehearsal::plan
