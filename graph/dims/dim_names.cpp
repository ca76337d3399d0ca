// What logical dimensions are called, and what stands in the way of splitting them.

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "graph/dims/inference.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::array<std::string_view, 3> kNamesImageAxes = {"width", "height", "depth"};  // from the innermost

class Namer {
 public:
  Namer(const Atoms& atoms, std::vector<std::string>& names) : atoms_(atoms), names_(names) {}

  void dimension(const Factors& leaves, const std::string& base) {
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const std::string name = leaves.size() == 1 ? base : base + "/" + std::to_string(k);
      const bool is_new = give(leaves[k], name);
      if (!is_new || !atoms_.is_sum(leaves[k])) continue;
      const std::vector<Factors>& segments = atoms_.segments(leaves[k]);
      for (std::size_t s = 0; s < segments.size(); ++s) dimension(atoms_.leaves(segments[s]), name + "+" + std::to_string(s));
    }
  }

 private:
  bool give(AtomId a, const std::string& name) {
    std::string& mine = names_[static_cast<std::size_t>(atoms_.find(a))];
    if (!mine.empty()) return false;
    mine = name;
    return true;
  }

  const Atoms& atoms_;
  std::vector<std::string>& names_;
};

}  // namespace

std::vector<AtomId> LogicalDims::named(const std::string& name) const {
  std::vector<AtomId> found;
  for (std::size_t a = 0; a < names_.size(); ++a) {
    if (names_[a] == name) found.push_back(static_cast<AtomId>(a));
  }
  return found.empty() ? with_role(graph_, *this, name) : found;
}

void DimsInference::find_batch() {
  std::int64_t size = 0;
  for (const TensorId t : graph_.inputs()) {
    const Shape& shape = graph_[t].type.shape;
    if (shape.empty() || shape[0] == 1) continue;
    if (size == 0) size = shape[0];
    if (shape[0] != size) continue;
    for (const AtomId leaf : dims_.of(t)[0]) {
      for (const AtomId a : atoms_.splits_of(leaf)) {
        if (std::find(dims_.batch_.begin(), dims_.batch_.end(), a) == dims_.batch_.end()) dims_.batch_.push_back(a);
      }
    }
  }
}

void DimsInference::name_atoms() {
  dims_.names_.resize(atoms_.count());
  Namer namer(atoms_, dims_.names_);
  const auto whole_tensor = [&](const TensorDims& dims, const std::string& base) {
    for (std::size_t d = 0; d < dims.size(); ++d) namer.dimension(dims[d], base + "." + std::to_string(d));
  };
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const TensorDims& dims = dims_.of(graph_.inputs()[i]);
    const std::string base = "in" + std::to_string(i);
    if (!dims.empty()) namer.dimension(dims[0], base + ".batch");
    for (std::size_t d = 1; d < dims.size(); ++d) {
      const std::size_t from_end = dims.size() - 1 - d;
      const bool image = d >= 2 && from_end < kNamesImageAxes.size() && !dims[d].empty() && atoms_.is_window(dims[d].front());
      namer.dimension(dims[d], base + "." + (image ? std::string(kNamesImageAxes[from_end]) : std::to_string(d)));
    }
  }
  for (const bool stored : {true, false}) {
    for (std::size_t i = 0; i < graph_.tensors().size(); ++i) {
      const Tensor& t = graph_.tensors()[i];
      if ((t.producer == NodeId::None) == stored) whole_tensor(dims_.tensors_[i], t.name);
    }
  }
  for (std::size_t n = 0; n < dims_.constants_.size(); ++n) {
    for (std::size_t i = 0; i < dims_.constants_[n].size(); ++i) {
      whole_tensor(dims_.constants_[n][i], graph_.nodes()[n].name + ":" + std::to_string(i));
    }
  }
}

namespace {

/// Atoms by which the tensors that a node reads or makes could be split, without repetition. What lies side by side and can be split all
/// at once (heads of q|k|v) is no dimension of its own.
class AtomsOfNodes {
 public:
  explicit AtomsOfNodes(const LogicalDims& dims) : dims_(dims) {}

  std::vector<AtomId> read_by(NodeId id) {
    const Node& node = dims_.graph()[id];
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != TensorId::None) add(dims_.of_operand(id, i));
    return take();
  }
  std::vector<AtomId> made_by(NodeId id) {
    for (const TensorId t : dims_.graph()[id].outputs)
      if (t != TensorId::None) add(dims_.of(t));
    return take();
  }

 private:
  void add(const TensorDims& tensor) {
    for (const Factors& dim : tensor)
      for (const AtomId leaf : dim) {
        const std::vector<AtomId> splits = dims_.atoms().splits_of(leaf);
        all_.insert(all_.end(), splits.begin(), splits.end() - (splits.size() > 1 ? 1 : 0));  // the leaf itself comes last
      }
  }
  std::vector<AtomId> take() {
    std::sort(all_.begin(), all_.end());
    all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
    return std::exchange(all_, {});
  }

  const LogicalDims& dims_;
  std::vector<AtomId> all_;
};

/// The first misfit of each node.
std::unordered_map<std::size_t, const std::string*> reasons_of(const LogicalDims& dims) {
  std::unordered_map<std::size_t, const std::string*> reasons;
  for (const Misfit& m : dims.misfits()) reasons.emplace(index(m.node), &m.reason);
  return reasons;
}

bool can_split(const std::vector<IterDim>& ways, AtomId atom) {
  const auto is_there = [&](const std::vector<OperandDim>& places) {
    return std::any_of(places.begin(), places.end(), [&](const OperandDim& p) { return p.atom == atom; });
  };
  return std::any_of(ways.begin(), ways.end(),
                     [&](const IterDim& w) { return w.atom == atom || is_there(w.inputs) || is_there(w.outputs); });
}

/// Nodes computed from constants alone (masks, tables of angles): whoever wants a part computes it.
std::vector<bool> free_nodes(const Graph& graph) {
  std::vector<bool> is_free(graph.nodes().size(), false);
  for (std::size_t n = 0; n < is_free.size(); ++n)
    is_free[n] = std::ranges::all_of(graph.nodes()[n].inputs, [&](TensorId t) {
      if (t == TensorId::None || graph[t].role == TensorRole::Constant) return true;
      return graph[t].producer != NodeId::None && is_free[index(graph[t].producer)];
    });
  return is_free;
}

}  // namespace

std::vector<DimReport> report_dims(const Graph& graph, const LogicalDims& dims) {
  const std::size_t count = dims.atoms().count();
  std::vector<bool> usable(count), seen(count);
  std::vector<std::vector<NodeId>> blocking(count);
  std::vector<AtomId> order;
  AtomsOfNodes atoms(dims);
  const auto is_free = free_nodes(graph);
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (graph[id].phase != Phase::Forward) break;
    if (is_free[n]) continue;
    const auto note = [&](AtomId a) {
      const auto at = static_cast<std::size_t>(a);
      if (!seen[at]) order.push_back(a);
      seen[at] = true;
      if (can_split(dims.iteration(id), a)) usable[at] = true;
    };
    // A node that makes a dimension whole keeps nobody from taking a part of it; one that reads it whole makes others gather it.
    for (const AtomId a : atoms.read_by(id)) {
      note(a);
      if (!can_split(dims.iteration(id), a)) blocking[static_cast<std::size_t>(a)].push_back(id);
    }
    for (const AtomId a : atoms.made_by(id)) note(a);
  }
  const auto reasons = reasons_of(dims);
  std::vector<DimReport> report;
  for (const AtomId a : order) {
    const auto at = static_cast<std::size_t>(a);
    if (!usable[at]) continue;  // kernel sizes, normalized axes: no operator could ever split them
    DimReport one{dims.name(a), dims.atoms().size(a), dims.atoms().size(a), {}, a};
    for (const NodeId n : blocking[at]) {
      const auto known = reasons.find(index(n));
      one.blocked_by.push_back({n, known != reasons.end() ? *known->second : std::string(schema(graph[n]).name) + " needs it whole"});
    }
    report.push_back(std::move(one));
  }
  return report;
}

}  // namespace rehearsal::graph
