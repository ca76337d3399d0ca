#include "graph/dims/atoms.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rehearsal::graph {
namespace {

/// The leaves of a list as a stack: the outermost is on top.
void push_reversed(const Factors& factors, Factors& stack) { stack.insert(stack.end(), factors.rbegin(), factors.rend()); }

Factors joined(Factors head, const Factors& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

}  // namespace

AtomId Atoms::add(std::int64_t size) {
  atoms_.emplace_back();
  atoms_.back().size = size;
  return static_cast<AtomId>(atoms_.size() - 1);
}

Factors Atoms::fresh(std::int64_t size) { return size == 1 ? Factors{} : Factors{add(size)}; }

Factors Atoms::join(const std::vector<Factors>& segments) {
  std::vector<Factors> present;
  std::int64_t total = 0;
  for (const Factors& s : segments) {
    if (size(s) == 0) continue;
    total += size(s);
    present.push_back(s);
  }
  if (present.size() == 1) return present.front();
  if (present.empty()) return fresh(0);
  const AtomId sum = add(total);
  at(sum).kind = Kind::Sum;
  at(sum).segments = std::move(present);
  return {sum};
}

AtomId Atoms::find(AtomId a) const {
  while (true) {
    const AtomId parent = atoms_[static_cast<std::size_t>(a)].parent;
    if (parent == AtomId::None) return a;
    const AtomId above = atoms_[static_cast<std::size_t>(parent)].parent;
    if (above == AtomId::None) return parent;
    atoms_[static_cast<std::size_t>(a)].parent = above;
    a = above;
  }
}

AtomId Atoms::family(AtomId a) const {
  a = find(a);
  while (at(a).family != AtomId::None) a = find(at(a).family);
  return a;
}

void Atoms::relate(AtomId a, AtomId b) {
  a = family(a);
  b = family(b);
  if (a != b) at(b).family = a;
}

std::int64_t Atoms::size(AtomId a) const { return at(a).size; }

std::int64_t Atoms::size(const Factors& factors) const {
  std::int64_t product = 1;
  for (const AtomId a : factors) product *= size(a);
  return product;
}

bool Atoms::is_sum(AtomId a) const { return at(a).kind == Kind::Sum; }
bool Atoms::is_window(AtomId a) const { return at(a).window; }
void Atoms::mark_window(AtomId a) { at(a).window = true; }
const std::vector<Factors>& Atoms::segments(AtomId a) const { return at(a).segments; }

void Atoms::append_leaves(AtomId a, Factors& out) const {
  a = find(a);
  const Atom& atom = at(a);
  if (atom.kind != Kind::Product) {
    out.push_back(a);
    return;
  }
  for (const AtomId f : atom.factors) append_leaves(f, out);
}

Factors Atoms::leaves(const Factors& factors) const {
  Factors out;
  out.reserve(factors.size());
  for (const AtomId a : factors) append_leaves(a, out);
  return out;
}

std::vector<AtomId> Atoms::inside(AtomId sum) const {
  std::vector<AtomId> everywhere;
  bool first = true;
  for (const Factors& segment : segments(sum)) {
    std::vector<AtomId> here;
    for (const AtomId leaf : leaves(segment)) {
      const std::vector<AtomId> part = is_sum(leaf) ? inside(leaf) : std::vector<AtomId>{leaf};
      here.insert(here.end(), part.begin(), part.end());
    }
    // An atom that stands twice in one segment does not say which of its places is meant.
    const auto once = [&](AtomId a) { return std::count(here.begin(), here.end(), a) == 1; };
    std::vector<AtomId> kept;
    std::copy_if(first ? here.begin() : everywhere.begin(), first ? here.end() : everywhere.end(), std::back_inserter(kept), once);
    everywhere = std::move(kept);
    first = false;
    if (everywhere.empty()) break;
  }
  return everywhere;
}

std::vector<AtomId> Atoms::splits_of(AtomId leaf) const {
  std::vector<AtomId> splits;
  if (is_sum(leaf)) splits = inside(leaf);
  splits.push_back(find(leaf));
  return splits;
}

bool Atoms::split(AtomId a, std::int64_t outer) {
  a = find(a);
  if (is_sum(a)) return split_sum(a, outer);
  const std::int64_t inner = size(a) / outer;
  const AtomId x = add(outer), y = add(inner);
  relate(a, x);  // the outer factor is the same axis at another resolution
  at(a).kind = Kind::Product;
  at(a).factors = {x, y};
  return true;
}

bool Atoms::split_sum(AtomId a, std::int64_t outer) {
  const std::int64_t inner = size(a) / outer;
  const std::vector<Factors> old = segments(a);
  if (std::any_of(old.begin(), old.end(), [&](const Factors& s) { return size(s) % inner != 0; })) return false;
  const Factors common = fresh(inner);
  std::vector<Factors> rest;
  for (const Factors& s : old) {
    const Factors f = fresh(size(s) / inner);
    if (!unify(s, joined(f, common))) return false;
    rest.push_back(f);
  }
  const AtomId x = add(outer);
  at(x).kind = Kind::Sum;
  at(x).segments = std::move(rest);
  at(a).kind = Kind::Product;
  at(a).segments.clear();
  at(a).factors = joined({x}, common);
  return true;
}

std::vector<Factors> Atoms::flat_segments(AtomId sum) const {
  std::vector<Factors> flat;
  for (const Factors& segment : segments(sum)) {
    const Factors inner = leaves(segment);
    if (inner.size() == 1 && is_sum(inner.front())) {
      const std::vector<Factors> nested = flat_segments(inner.front());
      flat.insert(flat.end(), nested.begin(), nested.end());
    } else {
      flat.push_back(segment);
    }
  }
  return flat;
}

bool Atoms::cut_sum_at(AtomId sum, std::int64_t position) {
  const std::vector<Factors> flat = flat_segments(sum);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const std::int64_t length = size(flat[i]), inside_it = position - begin;
    if (0 < inside_it && inside_it < length) {
      const auto low = segment(flat[i], 0, inside_it), high = segment(flat[i], inside_it, length);
      if (!low || !high) return false;
      std::vector<Factors> cut = flat;
      cut[i] = *high;
      cut.insert(cut.begin() + static_cast<std::ptrdiff_t>(i), *low);
      at(sum).segments = std::move(cut);
      return true;
    }
    begin += length;
  }
  at(sum).segments = flat;
  return true;
}

void Atoms::make_sum(AtomId leaf, std::int64_t low, std::int64_t high) {
  const std::int64_t total = size(leaf);
  std::vector<Factors> parts;
  for (const auto& [from, to] : {std::pair(std::int64_t{0}, low), std::pair(low, high), std::pair(high, total)}) {
    if (from < to) parts.push_back(fresh(to - from));
  }
  at(leaf).kind = Kind::Sum;
  at(leaf).segments = std::move(parts);
}

std::optional<Factors> Atoms::segment(const Factors& dimension, std::int64_t low, std::int64_t high) {
  if (low == 0 && high == size(dimension)) return dimension;
  const Factors all = leaves(dimension);
  if (all.empty() || low >= high) return std::nullopt;
  const AtomId outer = all.front();
  const Factors inner(all.begin() + 1, all.end());
  const std::int64_t unit = size(inner);
  if (unit == 0 || low % unit != 0 || high % unit != 0) return std::nullopt;
  low /= unit;
  high /= unit;
  if (!is_sum(outer)) {
    if (is_window(outer)) return std::nullopt;  // a cut there would make the image axis unsplittable everywhere
    make_sum(outer, low, high);
  } else if (!cut_sum_at(outer, low) || !cut_sum_at(outer, high)) {
    return std::nullopt;
  }
  std::vector<Factors> taken;
  std::int64_t begin = 0;
  for (const Factors& s : segments(outer)) {
    if (low <= begin && begin < high) taken.push_back(s);
    begin += size(s);
  }
  return joined(join(taken), inner);
}

void Atoms::adopt(AtomId keep, AtomId gone) {
  relate(keep, gone);
  // What pointed to the other will point to `keep`, which therefore may not reach its family through the other.
  const AtomId head = family(keep);
  at(keep).family = head == keep || head == gone ? AtomId::None : head;
  at(keep).window = at(keep).window || at(gone).window;
  atoms_[static_cast<std::size_t>(gone)].parent = keep;
}

bool Atoms::merge(AtomId a, AtomId b) {
  a = find(a);
  b = find(b);
  if (a == b) return true;
  if (is_sum(a) && is_sum(b)) return merge_sums(a, b);
  if (is_sum(b)) std::swap(a, b);
  if (is_sum(a) && is_window(b)) return false;  // likewise: image rows stay rows
  adopt(a, b);
  return true;
}

bool Atoms::merge_sums(AtomId a, AtomId b) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    std::int64_t position = 0;
    for (const Factors& s : flat_segments(from)) {
      position += size(s);
      if (!cut_sum_at(to, position)) return false;
    }
  }
  const std::vector<Factors> x = flat_segments(a), y = flat_segments(b);
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!unify(x[i], y[i])) return false;
  }
  a = find(a);
  b = find(b);
  if (a != b) adopt(a, b);
  return true;
}

bool Atoms::unify(const Factors& left, const Factors& right) {
  if (left == right) return true;
  if (size(left) != size(right)) return false;
  Factors x, y;
  push_reversed(leaves(left), x);
  push_reversed(leaves(right), y);
  while (!x.empty() && !y.empty()) {
    AtomId a = find(x.back()), b = find(y.back());
    x.pop_back();
    y.pop_back();
    if (at(a).kind == Kind::Product || at(b).kind == Kind::Product) {  // an earlier step took it apart
      push_reversed(leaves({a}), x);
      push_reversed(leaves({b}), y);
      continue;
    }
    if (size(a) == size(b)) {
      if (!merge(a, b)) return false;
      continue;
    }
    if (size(a) < size(b)) {
      std::swap(a, b);
      std::swap(x, y);
    }
    if (size(b) == 0 || size(a) % size(b) != 0 || !split(a, size(b))) return false;
    push_reversed(leaves({a}), x);
    y.push_back(b);
  }
  return x.empty() && y.empty();
}

std::optional<std::vector<Factors>> Atoms::cut(const Factors& dimension, std::span<const std::int64_t> sizes) {
  Factors rest;
  push_reversed(leaves(dimension), rest);
  std::vector<Factors> parts;
  for (std::int64_t wanted : sizes) {
    Factors part;
    if (wanted == 0) return std::nullopt;
    while (wanted > 1) {
      if (rest.empty()) return std::nullopt;
      const AtomId a = find(rest.back());
      rest.pop_back();
      const std::int64_t n = size(a);
      const bool product = at(a).kind == Kind::Product;
      if (!product && n != 0 && wanted % n == 0) {
        part.push_back(a);
        wanted /= n;
      } else if (product || (n % wanted == 0 && split(a, wanted))) {
        push_reversed(leaves({a}), rest);
      } else {
        return std::nullopt;
      }
    }
    parts.push_back(std::move(part));
  }
  if (!rest.empty()) return std::nullopt;
  return parts;
}

}  // namespace rehearsal::graph
