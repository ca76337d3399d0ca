#include "graph/dims/inference.hpp"

#include <algorithm>
#include <map>

namespace rehearsal::graph {

LogicalDims::LogicalDims(const Graph& graph) : graph_(graph) { DimsInference(graph, *this).run(); }

const TensorDims& LogicalDims::of_operand(NodeId node, std::size_t operand) const {
  const std::vector<TensorDims>& own = constants_[index(node)];
  const TensorId t = graph_[node].inputs[operand];
  return !own.empty() && graph_[t].role == TensorRole::Constant ? own[operand] : of(t);
}

LogicalDims LogicalDims::of_tensors(const std::vector<bool>& keep) const {
  LogicalDims less(graph_, atoms_);
  std::map<TensorDims, std::int32_t> numbers;
  for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
    const auto& dims = of(static_cast<TensorId>(t));
    const auto [at, fresh] = numbers.try_emplace(dims, static_cast<std::int32_t>(less.tensors_.size()));
    if (fresh) less.tensors_.push_back(dims);
    less.distinct_.push_back(at->second);
  }
  less.constants_ = constants_;
  less.iteration_.resize(iteration_.size());
  for (std::size_t n = 0; n < keep.size(); ++n)
    if (keep[n]) less.iteration_[n] = iteration_[n];
  less.batch_ = batch_;
  return less;
}

void DimsInference::run() {
  const std::size_t nodes = graph_.nodes().size();
  dims_.tensors_.resize(graph_.tensors().size());
  dims_.constants_.resize(nodes);
  dims_.iteration_.resize(nodes);
  start_tensors();
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto id = static_cast<NodeId>(i);
    find_operands(id);
    switch (schema(graph_[id]).dims) {
      case DimsRule::View:
        view(id);
        break;
      case DimsRule::Transpose:
        transpose(id);
        break;
      case DimsRule::Pieces:
        graph_[id].outputs.size() > 1 || !graph_[id].attributes.has("starts") ? split_pieces(id) : slice(id);
        break;
      case DimsRule::Concat:
        concat(id);
        break;
      case DimsRule::Labels:
        labels(id);
        break;
      case DimsRule::Opaque:
        opaque(graph_[id]);
        break;
    }
  }
  resolve_leaves();
  for (std::size_t i = 0; i < nodes; ++i) iterate(static_cast<NodeId>(i));
  find_batch();
  name_atoms();
}

TensorDims DimsInference::fresh(const Shape& shape) {
  TensorDims dims;
  dims.reserve(shape.size());
  for (const std::int64_t n : shape) dims.push_back(atoms_.fresh(n));
  return dims;
}

void DimsInference::start_tensors() {
  for (std::size_t i = 0; i < graph_.tensors().size(); ++i) {
    const Tensor& t = graph_.tensors()[i];
    if (t.producer == NodeId::None) dims_.tensors_[i] = fresh(t.type.shape);
  }
}

/// Constants get atoms of their own at every use; a backward node shares those of its forward node.
void DimsInference::find_operands(NodeId id) {
  const Node& node = graph_[id];
  std::vector<TensorDims>& own = dims_.constants_[index(id)];
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId t = node.inputs[i];
    if (t == TensorId::None || graph_[t].role != TensorRole::Constant) continue;
    if (own.empty()) own.resize(node.inputs.size());
    own[i] = TensorDims();
    if (node.forward != NodeId::None) {
      const std::vector<TensorId>& before = graph_[node.forward].inputs;
      const auto same = std::find(before.begin(), before.end(), t);
      if (same != before.end()) own[i] = dims_.of_operand(node.forward, static_cast<std::size_t>(same - before.begin()));
    }
    if (own[i].empty()) own[i] = fresh(graph_[t].type.shape);
  }
}

void DimsInference::block(NodeId node, int key, std::string reason) {
  blocked_[index(node)].push_back(key);
  dims_.misfits_.push_back({node, std::move(reason)});
}

bool DimsInference::blocked(NodeId node, int key) const {
  const auto found = blocked_.find(index(node));
  return found != blocked_.end() && std::find(found->second.begin(), found->second.end(), key) != found->second.end();
}

void DimsInference::opaque(const Node& node) {
  for (const TensorId t : node.outputs) {
    if (t != TensorId::None) set(t, fresh(graph_[t].type.shape));
  }
}

/// Cuts both shapes into the smallest groups of equal product and deals the factors of each group out to its result dimensions.
void DimsInference::view(NodeId id) {
  const Node& node = graph_[id];
  const TensorDims& in = dims_.of_operand(id, 0);
  const Shape &from = graph_[node.inputs[0]].type.shape, &to = graph_[node.outputs[0]].type.shape;
  if (std::count(from.begin(), from.end(), 0) > 0) return opaque(node);
  TensorDims out;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const std::size_t i0 = i, j0 = j;
    std::int64_t p = i < from.size() ? from[i++] : 1, q = j < to.size() ? to[j++] : 1;
    while (p != q) p < q ? p *= from[i++] : q *= to[j++];
    Factors group;
    for (std::size_t d = i0; d < i; ++d) group.insert(group.end(), in[d].begin(), in[d].end());
    const Shape sizes(to.begin() + static_cast<std::ptrdiff_t>(j0), to.begin() + static_cast<std::ptrdiff_t>(j));
    const auto parts = atoms_.cut(group, sizes);
    if (parts) {
      out.insert(out.end(), parts->begin(), parts->end());
      continue;
    }
    for (std::size_t d = i0; d < i; ++d) blocked_[index(id)].push_back(static_cast<int>(d));
    for (std::size_t d = j0; d < j; ++d) blocked_[index(id)].push_back(~static_cast<int>(d));
    dims_.misfits_.push_back({id, "the factors of " + to_text(from) + " do not align with " + to_text(to)});
    const TensorDims own = fresh(sizes);
    out.insert(out.end(), own.begin(), own.end());
  }
  set(node.outputs[0], std::move(out));
}

std::vector<std::size_t> DimsInference::permutation(const Node& node, std::size_t rank) {
  std::vector<std::size_t> source(rank);
  const std::vector<std::int64_t> perm = node.attributes.integers("perm");
  for (std::size_t d = 0; d < rank; ++d) source[d] = perm.empty() ? rank - 1 - d : static_cast<std::size_t>(normalize_axis(perm[d], rank));
  return source;
}

void DimsInference::transpose(NodeId id) {
  const Node& node = graph_[id];
  const TensorDims& in = dims_.of_operand(id, 0);
  TensorDims out;
  for (const std::size_t d : permutation(node, in.size())) out.push_back(in[d]);
  set(node.outputs[0], std::move(out));
}

void DimsInference::split_pieces(NodeId id) {
  const Node& node = graph_[id];
  const TensorDims in = dims_.of_operand(id, 0);
  const auto axis = static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", 0), in.size()));
  std::int64_t begin = 0;
  for (const TensorId t : node.outputs) {
    if (t == TensorId::None) continue;
    const std::int64_t length = graph_[t].type.shape[axis];
    const auto piece = atoms_.segment(in[axis], begin, begin + length);
    if (!piece)
      block(id, static_cast<int>(axis),
            "a piece [" + std::to_string(begin) + ", " + std::to_string(begin + length) + ") cuts through factors");
    TensorDims out = in;
    out[axis] = piece ? *piece : atoms_.fresh(length);
    set(t, std::move(out));
    begin += length;
  }
}

void DimsInference::slice(NodeId id) {
  const Node& node = graph_[id];
  TensorDims out = dims_.of_operand(id, 0);
  const Shape &from = graph_[node.inputs[0]].type.shape, &to = graph_[node.outputs[0]].type.shape;
  const std::vector<std::int64_t> starts = node.attributes.integers("starts"), axes = node.attributes.integers("axes"),
                                  steps = node.attributes.integers("steps");
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const std::size_t d = axes.empty() ? k : static_cast<std::size_t>(normalize_axis(axes[k], from.size()));
    const std::int64_t step = steps.empty() ? 1 : steps[k];
    if (to[d] == from[d] && step == 1) continue;
    const std::int64_t begin = std::clamp(starts[k] < 0 ? starts[k] + from[d] : starts[k], std::int64_t{0}, from[d]);
    const auto piece = step == 1 ? atoms_.segment(out[d], begin, begin + to[d]) : std::nullopt;
    if (!piece)
      block(id, static_cast<int>(d),
            step == 1 ? "the slice of dimension " + std::to_string(d) + " cuts through factors" : "a slice with a step");
    out[d] = piece ? *piece : atoms_.fresh(to[d]);
  }
  set(node.outputs[0], std::move(out));
}

void DimsInference::concat(NodeId id) {
  const Node& node = graph_[id];
  TensorDims out = dims_.of_operand(id, 0);
  const auto axis = static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", 0), out.size()));
  std::vector<Factors> segments;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == TensorId::None) continue;
    const TensorDims& in = dims_.of_operand(id, i);
    for (std::size_t d = 0; d < out.size(); ++d) {
      if (d != axis && !atoms_.unify(out[d], in[d]))
        block(id, static_cast<int>(d), "dimension " + std::to_string(d) + " has other factors in operand " + std::to_string(i));
    }
    segments.push_back(in[axis]);
  }
  out[axis] = atoms_.join(segments);
  set(node.outputs[0], std::move(out));
}

void DimsInference::labels(NodeId id) {
  const Node& node = graph_[id];
  const OpSchema& row = schema(node);
  if (row.labels == nullptr) return opaque(node);
  const NodeTypes types(graph_, node);
  const SplitRule rule = row.labels(types.view());
  Meanings meaning(rule.kinds.size());
  for (std::size_t i = 0; i < node.inputs.size() && i < rule.inputs.size(); ++i) {
    if (node.inputs[i] != TensorId::None) give_meanings(id, {rule.inputs[i], dims_.of_operand(id, i)}, rule, meaning);
  }
  // An updated tensor replaces a stored one: their dimensions are the same, although the node may never read the stored one (the rounding
  // of a copy in f32).
  for (std::size_t o = 0; o < node.outputs.size() && o < rule.outputs.size(); ++o) {
    const TensorId storage = node.outputs[o] == TensorId::None ? TensorId::None : graph_[node.outputs[o]].stored_in;
    if (storage != TensorId::None) give_meanings(id, {rule.outputs[o], dims_.of(storage)}, rule, meaning);
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const TensorId t = node.outputs[o];
    if (t == TensorId::None) continue;
    const TensorLabels of_result = o < rule.outputs.size() ? rule.outputs[o] : TensorLabels{};
    set(t, labelled_result(id, of_result, rule, graph_[t].type.shape, meaning));
  }
}

void DimsInference::give_meanings(NodeId id, const LabelledTensor& tensor, const SplitRule& rule, Meanings& meaning) {
  const auto& [labels, dims] = tensor;
  for (std::size_t d = 0; d < labels.size() && d < dims.size(); ++d) {
    std::vector<std::int64_t> sizes;
    for (const LabelFactor& f : labels[d]) sizes.push_back(f.size);
    const auto parts = sizes.size() > 1 ? atoms_.cut(dims[d], sizes) : std::vector<Factors>{dims[d]};
    for (std::size_t k = 0; k < labels[d].size(); ++k) {
      const int label = labels[d][k].label;
      if (label < 0) continue;
      if (!parts) {
        block(id, label, "the factors of an operand's dimension " + std::to_string(d) + " do not align with the operator's groups");
      } else {
        give_meaning(id, label, (*parts)[k], rule, meaning);
      }
    }
  }
}

void DimsInference::give_meaning(NodeId id, int label, const Factors& part, const SplitRule& rule, Meanings& meaning) {
  auto& known = meaning[static_cast<std::size_t>(label)];
  const std::int64_t size = atoms_.size(part);
  if (!known || atoms_.size(*known) == 1) {
    known = part;
  } else if (size == 1) {
    return;  // broadcast
  } else if (rule.kinds[static_cast<std::size_t>(label)] == LabelKind::Window && size != atoms_.size(*known)) {
    atoms_.relate(atoms_.leaves(*known).front(), atoms_.leaves(part).front());
  } else if (!atoms_.unify(part, *known)) {
    block(id, label, "two operands factor a shared dimension of " + std::to_string(size) + " in different ways");
  }
}

TensorDims DimsInference::labelled_result(NodeId id, const TensorLabels& labels, const SplitRule& rule, const Shape& shape,
                                          Meanings& meaning) {
  TensorDims out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d >= labels.size() || labels[d].empty()) {
      out.push_back(atoms_.fresh(shape[d]));
      continue;
    }
    Factors all;
    for (const LabelFactor& f : labels[d]) {
      Factors part;
      const auto label = static_cast<std::size_t>(f.label);
      const std::int64_t size = labels[d].size() == 1 ? shape[d] : f.size;
      if (f.label < 0) {
        part = atoms_.fresh(size);
      } else if (rule.kinds[label] == LabelKind::Window && meaning[label]) {
        part = window_result(id, f.label, *meaning[label], size);
      } else {
        if (!meaning[label] || atoms_.size(*meaning[label]) != size) meaning[label] = atoms_.fresh(size);
        part = *meaning[label];
      }
      all.insert(all.end(), part.begin(), part.end());
    }
    out.push_back(std::move(all));
  }
  return out;
}

/// Rows under a window keep their atom when their number stays (so that they unify with a skip connection) and their family in any case.
Factors DimsInference::window_result(NodeId id, int label, const Factors& operand, std::int64_t size) {
  Factors out = atoms_.size(operand) == size ? operand : atoms_.fresh(size);
  const Factors leaves = atoms_.leaves(operand), mine = atoms_.leaves(out);
  if (leaves.empty() || mine.empty()) return out;
  if (atoms_.is_sum(leaves.front())) {
    block(id, label, "a window over concatenated pieces");
    return out;
  }
  atoms_.relate(leaves.front(), mine.front());
  if (leaves.size() == 1) {
    atoms_.mark_window(leaves.front());
    if (!atoms_.is_sum(mine.front())) atoms_.mark_window(mine.front());
  }
  return out;
}

}  // namespace rehearsal::graph
