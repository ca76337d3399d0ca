// What a coordinate owns: index sets and shapes of local tensors.

#include <algorithm>

#include "base/error.hpp"
#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

using graph::AtomId;
using graph::Atoms;
using graph::Factors;

namespace {

/// One split of one dimension: `leaf` of its factors is cut by `atom`; the owned block of that atom is `mine`.
struct Cut {
  int leaf;
  AtomId atom;
  Range mine;
};

/// The splits of dimension `dim`, with axes that share a place nested in mesh order.
std::vector<Cut> cuts_of(const Sharding& s, const Layout& layout, const Coordinates& at, int dim) {
  std::vector<Cut> cuts;
  for (std::size_t a = 0; a < layout.size(); ++a) {
    const AxisLayout& l = layout[a];
    if (!l.split() || l.dim != dim) continue;
    auto same = std::find_if(cuts.begin(), cuts.end(), [&](const Cut& c) { return c.leaf == l.factor; });
    if (same == cuts.end()) {
      cuts.push_back({l.factor, l.atom, {0, s.dims->atoms().size(l.atom)}});
      same = cuts.end() - 1;
    }
    ensure(s.dims->atoms().find(same->atom) == s.dims->atoms().find(l.atom), "axes that split one place split the same dimension there");
    same->mine = s.part(a, l.atom, same->mine, at);
  }
  return cuts;
}

void append(IndexSet& set, Range r) {
  if (r.begin >= r.end) return;
  if (!set.empty() && set.back().end == r.begin) {
    set.back().end = r.end;
  } else {
    set.push_back(r);
  }
}

/// Index set of a list of factors, where atom `atom` owns `mine` and leaf number `leaf` (-1: any) is the one that is cut.
class IndexSets {
 public:
  explicit IndexSets(const Atoms& atoms) : atoms_(atoms) {}

  [[nodiscard]] IndexSet of(const Factors& leaves, const std::vector<Cut>& cuts) const {
    IndexSet set = {{0, 1}};
    std::int64_t size = 1;
    for (std::size_t k = leaves.size(); k-- > 0;) {
      const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const Cut& c) { return c.leaf == static_cast<int>(k); });
      const std::int64_t n = atoms_.size(leaves[k]);
      const IndexSet outer = cut == cuts.end() ? IndexSet{{0, n}} : of_leaf(leaves[k], *cut);
      set = product(outer, set, size);
      size *= n;
    }
    return set;
  }

 private:
  [[nodiscard]] IndexSet of_leaf(AtomId leaf, const Cut& cut) const {
    if (atoms_.find(leaf) == atoms_.find(cut.atom)) return cut.mine.begin < cut.mine.end ? IndexSet{cut.mine} : IndexSet{};
    if (!atoms_.is_sum(leaf)) return {{0, atoms_.size(leaf)}};
    IndexSet set;
    std::int64_t begin = 0;
    for (const Factors& segment : atoms_.segments(leaf)) {
      const Factors leaves = atoms_.leaves(segment);
      std::vector<Cut> everywhere;  // the atom stands once in each segment: at whichever leaf that is
      for (std::size_t k = 0; k < leaves.size(); ++k) everywhere.push_back({static_cast<int>(k), cut.atom, cut.mine});
      for (const Range& r : of(leaves, everywhere)) append(set, {begin + r.begin, begin + r.end});
      begin += atoms_.size(segment);
    }
    return set;
  }

  /// {o * size + i : o in outer, i in inner}, inner within [0, size).
  static IndexSet product(const IndexSet& outer, const IndexSet& inner, std::int64_t size) {
    if (inner.size() == 1 && inner[0].begin == 0 && inner[0].end == size) {
      IndexSet scaled;
      for (const Range& r : outer) append(scaled, {r.begin * size, r.end * size});
      return scaled;
    }
    IndexSet all;
    for (const Range& r : outer) {
      for (std::int64_t o = r.begin; o < r.end; ++o) {
        for (const Range& i : inner) append(all, {o * size + i.begin, o * size + i.end});
      }
    }
    return all;
  }

  const Atoms& atoms_;
};

/// Length of a leaf in which `atom` keeps `length` elements.
std::int64_t length_of(const Atoms& atoms, AtomId leaf, AtomId atom, std::int64_t length) {
  if (atoms.find(leaf) == atoms.find(atom)) return length;
  if (!atoms.is_sum(leaf)) return atoms.size(leaf);
  std::int64_t sum = 0;
  for (const Factors& segment : atoms.segments(leaf)) {
    std::int64_t product = 1;
    for (const AtomId inner : atoms.leaves(segment)) product *= length_of(atoms, inner, atom, length);
    sum += product;
  }
  return sum;
}

}  // namespace

bool Sharding::deals_unevenly(std::size_t axis, AtomId atom) const {
  if (axes[axis].samples.empty()) return false;
  const auto& atoms = dims->atoms();
  return std::ranges::any_of(dims->batch(), [&](AtomId b) { return atoms.find(b) == atoms.find(atom); });
}

Range Sharding::part(std::size_t axis, AtomId atom, Range whole, const Coordinates& at) const {
  const MeshAxis& own = axes[axis];
  std::int64_t size = own.size;
  if (deals_unevenly(axis, atom)) {
    std::int64_t begin = whole.begin;
    for (std::int64_t before = 0; before < at[axis]; ++before) begin += own.samples[static_cast<std::size_t>(before)];
    return {begin, begin + own.samples[static_cast<std::size_t>(at[axis])]};
  }
  for (std::size_t a = 0; !own.counts.empty() && a < axes.size(); ++a)
    if (!axes[a].samples.empty()) size = own.counts[static_cast<std::size_t>(at[a])];
  const Range inner = block(whole.count(), size, at[axis]);
  return {whole.begin + inner.begin, whole.begin + inner.end};
}

Region Sharding::region(const graph::TensorDims& tensor, const Layout& layout, const Coordinates& at) const {
  Region sets;
  const IndexSets indices(dims->atoms());
  for (std::size_t d = 0; d < tensor.size(); ++d) sets.push_back(indices.of(tensor[d], cuts_of(*this, layout, at, static_cast<int>(d))));
  return sets;
}

graph::Shape Sharding::shape(const graph::TensorDims& tensor, const Layout& layout, const Coordinates& at) const {
  graph::Shape sizes;
  const Atoms& atoms = dims->atoms();
  for (std::size_t d = 0; d < tensor.size(); ++d) {
    const std::vector<Cut> cuts = cuts_of(*this, layout, at, static_cast<int>(d));
    std::int64_t product = 1;
    for (std::size_t k = 0; k < tensor[d].size(); ++k) {
      const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const Cut& c) { return c.leaf == static_cast<int>(k); });
      product *= cut == cuts.end() ? atoms.size(tensor[d][k]) : length_of(atoms, tensor[d][k], cut->atom, cut->mine.end - cut->mine.begin);
    }
    sizes.push_back(product);
  }
  return sizes;
}

Range Sharding::keys_in(const Turn& turn, std::int64_t keys, const Coordinates& at) const {
  const auto axis = static_cast<std::size_t>(turn.axis);
  const std::int64_t ranks = axes[axis].size;
  return block(keys, ranks, ((at[axis] - turn.number) % ranks + ranks) % ranks);
}

bool Sharding::is_inside_ring(graph::TensorId t) const {
  const graph::NodeId producer = dims->graph()[t].producer;
  const AttentionRing* ring = producer == graph::NodeId::None ? nullptr : ring_of(producer);
  if (!ring) return false;
  for (const auto* nodes : {&ring->forward, &ring->backward})
    for (const RingNode& n : *nodes) {
      if (n.node != producer) continue;
      const auto& outputs = dims->graph()[producer].outputs;
      const auto at = static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), t) - outputs.begin());
      return n.results[at].role == KeyRole::Inside;
    }
  return false;
}

bool Sharding::is_inside_kernel(graph::TensorId t) const {
  const graph::NodeId producer = dims->graph()[t].producer;
  const FusedAttention* kernel = producer == graph::NodeId::None ? nullptr : fused_at(producer);
  if (!kernel || producer == kernel->forward.back()) return false;
  return std::find(kernel->gradients.begin(), kernel->gradients.end(), t) == kernel->gradients.end();
}

const graph::IterDim* Sharding::choice(graph::NodeId node, std::size_t axis) const {
  const int i = choices[graph::index(node) * axes.size() + axis];
  return i < 0 ? nullptr : &dims->iteration(node)[static_cast<std::size_t>(i)];
}

}  // namespace rehearsal::plan
