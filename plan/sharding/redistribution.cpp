#include "plan/sharding/redistribution.hpp"

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

/// Elements that the ranks of an axis deal out: the atom's, or what outer axes left of them here.
std::int64_t dealt_units(const Sharding& s, const Layout& layout, std::size_t axis, const Coordinates& at) {
  const AxisLayout& mine = layout[axis];
  std::int64_t n = s.dims->atoms().size(mine.atom);
  for (std::size_t a = 0; a < axis; ++a) {
    const AxisLayout& outer = layout[a];
    if (outer.split() && outer.dim == mine.dim && outer.factor == mine.factor) n = block(n, s.axes[a].size, at[a]).count();
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

/// Every coordinate's block of the whole, one after the other.
Packing dealt(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  const bool gathers = r.kind == ConversionKind::AllGather;
  const Layout& split = gathers ? r.from : r.to;
  const Region whole = region(s, r, gathers ? r.to : r.from, at);
  Packing p;
  p.units = dealt_units(s, split, r.axis, at);
  p.in_order = true;
  const std::int64_t ranks = s.axes[r.axis].size;
  for (std::int64_t q = 0; q < ranks; ++q) {
    PackedBlock b{q, region(s, r, split, moved(at, r.axis, q)), p.count, 0};
    b.count = element_count(b.region);
    std::int64_t runs = 0;
    BlockCopy(whole, b.region).for_each_run([&](std::int64_t from, std::int64_t, std::int64_t) {
      p.in_order &= ++runs == 1 && from == b.offset;
    });
    p.count += b.count;
    if (!gathers || q == at[r.axis]) p.packed.push_back(b);
    if (gathers || q == at[r.axis]) p.unpacked.push_back(std::move(b));
  }
  ensure(p.units > 0 && p.count % p.units == 0, "blocks of a split tensor are whole multiples of what the ranks deal out");
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

std::int64_t exchanged_count(const Sharding& s, const Redistribution& r, const Coordinates& at, std::int64_t to) {
  if (to == at[r.axis]) return 0;
  if (r.kind == ConversionKind::Shift) return to == (at[r.axis] + 1) % s.axes[r.axis].size ? element_count(region_before(s, r, at)) : 0;
  return element_count(intersection(region_before(s, r, at), region_after(s, r, moved(at, r.axis, to))));
}

Packing packing_of(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  if (r.kind == ConversionKind::Shift) return shifted(s, r, at);
  return is_exchange(r.kind) ? exchanged(s, r, at) : dealt(s, r, at);
}

}  // namespace rehearsal::plan
