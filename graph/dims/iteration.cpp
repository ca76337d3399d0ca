// Second pass: the ways to split each node. All atoms are final here.

#include <algorithm>

#include "graph/dims/inference.hpp"

namespace rehearsal::graph {

void DimsInference::resolve_leaves() {
  const auto resolve = [&](TensorDims& dims) {
    for (Factors& f : dims) f = atoms_.leaves(f);
  };
  for (TensorDims& dims : dims_.tensors_) resolve(dims);
  for (std::vector<TensorDims>& uses : dims_.constants_) std::for_each(uses.begin(), uses.end(), resolve);
}

void DimsInference::iterate(NodeId id) {
  switch (schema(graph_[id]).dims) {
    case DimsRule::View:
      return iterate_view(id);
    case DimsRule::Transpose:
      return iterate_transpose(id);
    case DimsRule::Pieces:
      return iterate_pieces(id, false);
    case DimsRule::Concat:
      return iterate_pieces(id, true);
    case DimsRule::Labels:
      return iterate_labels(id);
    case DimsRule::Opaque:
      return;
  }
}

void DimsInference::add_candidates(int operand, int dim, const Factors& leaves, int first, Candidates& out) const {
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    for (const AtomId a : atoms_.splits_of(leaves[k]))
      out.push_back({OperandDim{operand, dim, first + static_cast<int>(k), a}, static_cast<int>(k)});
  }
}

/// Factors keep their order through a view, so the places of operand and result pair up one by one; where a sum was regrouped, by atom.
void DimsInference::iterate_view(NodeId id) {
  const Node& node = graph_[id];
  Candidates in, out;
  const TensorDims &from = dims_.of_operand(id, 0), &to = dims_.of(node.outputs[0]);
  for (int d = 0; d < static_cast<int>(from.size()); ++d) {
    if (!blocked(id, d)) add_candidates(0, d, from[static_cast<std::size_t>(d)], 0, in);
  }
  for (int d = 0; d < static_cast<int>(to.size()); ++d) {
    if (!blocked(id, ~d)) add_candidates(0, d, to[static_cast<std::size_t>(d)], 0, out);
  }
  std::vector<bool> taken(out.size());
  for (const Candidate& c : in) {
    std::size_t j = 0;
    while (j < out.size() && (taken[j] || out[j].place.atom != c.place.atom)) ++j;
    if (j == out.size()) continue;
    taken[j] = true;
    dims_.iteration_[index(id)].push_back({LabelKind::Parallel, c.place.atom, {c.place}, {out[j].place}});
  }
}

void DimsInference::iterate_transpose(NodeId id) {
  const TensorDims& in = dims_.of_operand(id, 0);
  const std::vector<std::size_t> source = permutation(graph_[id], in.size());
  for (std::size_t d = 0; d < in.size(); ++d) {
    Candidates found;
    add_candidates(0, static_cast<int>(source[d]), in[source[d]], 0, found);
    for (const Candidate& c : found) {
      OperandDim there = c.place;
      there.dim = static_cast<int>(d);
      dims_.iteration_[index(id)].push_back({LabelKind::Parallel, c.place.atom, {c.place}, {there}});
    }
  }
}

/// Slice, Split and Concat: an atom of the whole splits the node when every piece has it exactly once.
void DimsInference::iterate_pieces(NodeId id, bool concat) {
  const Node& node = graph_[id];
  const std::vector<TensorId>& pieces = concat ? node.inputs : node.outputs;
  const auto piece_dims = [&](std::size_t i) -> const TensorDims& { return concat ? dims_.of_operand(id, i) : dims_.of(pieces[i]); };
  const TensorDims& whole = concat ? dims_.of(node.outputs[0]) : dims_.of_operand(id, 0);
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (blocked(id, static_cast<int>(d))) continue;
    Candidates found;
    add_candidates(0, static_cast<int>(d), whole[d], 0, found);
    for (const Candidate& c : found) {
      const auto same = [&](const Candidate& other) { return other.place.atom == c.place.atom; };
      if (std::count_if(found.begin(), found.end(), same) != 1) continue;
      std::vector<OperandDim> places;
      bool everywhere = true;
      for (std::size_t i = 0; i < pieces.size() && everywhere; ++i) {
        if (pieces[i] == TensorId::None) continue;
        Candidates there;
        add_candidates(static_cast<int>(i), static_cast<int>(d), piece_dims(i)[d], 0, there);
        everywhere = std::count_if(there.begin(), there.end(), same) == 1;
        if (everywhere) places.push_back(std::find_if(there.begin(), there.end(), same)->place);
      }
      if (!everywhere) continue;
      std::vector<OperandDim> one = {c.place};
      dims_.iteration_[index(id)].push_back({LabelKind::Parallel, c.place.atom, concat ? places : one, concat ? one : places});
    }
  }
}

void DimsInference::iterate_labels(NodeId id) {
  const Node& node = graph_[id];
  const OpSchema& row = schema(node);
  if (row.labels == nullptr) return;
  const NodeTypes types(graph_, node);
  const SplitRule rule = row.labels(types.view());
  std::vector<Candidates> in(rule.kinds.size()), out(rule.kinds.size());
  for (std::size_t i = 0; i < node.inputs.size() && i < rule.inputs.size(); ++i) {
    if (node.inputs[i] != TensorId::None) candidates_of_labels(rule.inputs[i], dims_.of_operand(id, i), static_cast<int>(i), in);
  }
  for (std::size_t o = 0; o < node.outputs.size() && o < rule.outputs.size(); ++o) {
    if (node.outputs[o] != TensorId::None) candidates_of_labels(rule.outputs[o], dims_.of(node.outputs[o]), static_cast<int>(o), out);
  }
  std::vector<IterDim>& found = dims_.iteration_[index(id)];
  for (std::size_t l = 0; l < rule.kinds.size(); ++l) {
    if (rule.kinds[l] == LabelKind::Opaque || blocked(id, static_cast<int>(l))) continue;
    if (rule.kinds[l] == LabelKind::Window) {
      window_pair(in[l], out[l], found);
    } else {
      const std::size_t first = found.size();
      pair_up(rule.kinds[l], in[l], out[l], found);
      const bool ranged = std::find(rule.ranged.begin(), rule.ranged.end(), static_cast<int>(l)) != rule.ranged.end();
      for (std::size_t w = first; w < found.size(); ++w) found[w].ranged = ranged;
    }
  }
}

void DimsInference::candidates_of_labels(const TensorLabels& labels, const TensorDims& dims, int operand,
                                         std::vector<Candidates>& by_label) const {
  for (std::size_t d = 0; d < labels.size() && d < dims.size(); ++d) {
    std::size_t begin = 0;
    for (const LabelFactor& f : labels[d]) {
      const bool whole = labels[d].size() == 1;
      std::size_t end = whole ? dims[d].size() : begin;
      for (std::int64_t size = 1; !whole && size < f.size && end < dims[d].size(); ++end) size *= atoms_.size(dims[d][end]);
      const Factors part(dims[d].begin() + static_cast<std::ptrdiff_t>(begin), dims[d].begin() + static_cast<std::ptrdiff_t>(end));
      if (f.label >= 0 && (whole || atoms_.size(part) == f.size)) {
        add_candidates(operand, static_cast<int>(d), part, static_cast<int>(begin), by_label[static_cast<std::size_t>(f.label)]);
      }
      begin = end;
    }
  }
}

/// One way to split per leaf and atom of a label; an operand that has the label twice is split at its first place.
void DimsInference::pair_up(LabelKind kind, const Candidates& inputs, const Candidates& outputs, std::vector<IterDim>& found) const {
  const std::size_t first = found.size();
  std::vector<int> leaf_of;
  const auto put = [&](const Candidate& c, std::vector<OperandDim> IterDim::*side) {
    std::size_t i = first;
    while (i < found.size() && (found[i].atom != c.place.atom || leaf_of[i - first] != c.leaf)) ++i;
    if (i == found.size()) {
      found.push_back({kind, c.place.atom, {}, {}});
      leaf_of.push_back(c.leaf);
    }
    std::vector<OperandDim>& places = found[i].*side;
    if (places.empty() || places.back().operand != c.place.operand) places.push_back(c.place);
  };
  for (const Candidate& c : inputs) put(c, &IterDim::inputs);
  for (const Candidate& c : outputs) put(c, &IterDim::outputs);
}

/// Under a window the outermost factor carries the split; operand and result may have it at different resolutions.
void DimsInference::window_pair(const Candidates& inputs, const Candidates& outputs, std::vector<IterDim>& found) const {
  IterDim way{LabelKind::Window, AtomId::None, {}, {}};
  const auto keep = [&](const Candidates& from, std::vector<OperandDim>& to) {
    for (const Candidate& c : from) {
      if (c.leaf == 0 && !atoms_.is_sum(c.place.atom) && (to.empty() || to.back().operand != c.place.operand)) to.push_back(c.place);
    }
  };
  keep(inputs, way.inputs);
  keep(outputs, way.outputs);
  if (way.inputs.empty() || (outputs.empty() != way.outputs.empty())) return;
  way.atom = way.inputs.front().atom;
  found.push_back(std::move(way));
}

}  // namespace rehearsal::graph
