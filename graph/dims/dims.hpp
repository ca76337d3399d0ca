#pragma once
// Logical dimensions of a whole training graph: which dimensions of which tensors are the same, through reshapes, transposes, slices and
// concatenations, and along which of them each node can be split. One topological pass over forward, backward and update nodes.

#include <string>
#include <string_view>
#include <vector>

#include "graph/dims/atoms.hpp"
#include "graph/graph.hpp"
#include "graph/split_rule.hpp"

namespace rehearsal::graph {

using TensorDims = std::vector<Factors>;  ///< one per dimension; leaves and sums only

/// Where an iteration dimension appears in one operand or result.
struct OperandDim {
  int operand = 0;  ///< index among the node's inputs (or outputs)
  int dim = 0;
  int factor = 0;              ///< index among the leaves of that dimension
  AtomId atom = AtomId::None;  ///< what is split there: the leaf itself, or an atom of every segment when the leaf is a sum
};

/// One way to split a node.
struct IterDim {
  LabelKind kind = LabelKind::Parallel;
  AtomId atom = AtomId::None;
  std::vector<OperandDim> inputs, outputs;  ///< at most one place per operand and per result
  bool ranged = false;                      ///< blocks must be one range of indices (SplitRule::ranged)

  [[nodiscard]] const OperandDim* input(std::size_t operand) const { return in(inputs, operand); }
  [[nodiscard]] const OperandDim* output(std::size_t result) const { return in(outputs, result); }
  [[nodiscard]] bool reduces() const {
    return kind == LabelKind::Sum || kind == LabelKind::Max || kind == LabelKind::Min || kind == LabelKind::LogSumExp;
  }

 private:
  static const OperandDim* in(const std::vector<OperandDim>& places, std::size_t operand) {
    for (const OperandDim& p : places)
      if (static_cast<std::size_t>(p.operand) == operand) return &p;
    return nullptr;
  }
};

/// A node that cannot be split along some of its dimensions although their sizes would allow it.
struct Misfit {
  NodeId node;
  std::string reason;
};

class LogicalDims {
 public:
  /// Never throws on a graph that GraphBuilder made. Linear in nodes; union-find makes it near-linear in atoms.
  explicit LogicalDims(const Graph& graph);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Atoms& atoms() const { return atoms_; }
  [[nodiscard]] const TensorDims& of(TensorId t) const {
    return tensors_[distinct_.empty() ? index(t) : static_cast<std::size_t>(distinct_[index(t)])];
  }
  /// Of one operand: those of the tensor, except that every use of a constant has dimensions of its own (a mask shared by two places would
  /// otherwise tie their dimensions together).
  [[nodiscard]] const TensorDims& of_operand(NodeId node, std::size_t operand) const;
  [[nodiscard]] const std::vector<IterDim>& iteration(NodeId n) const { return iteration_[index(n)]; }
  [[nodiscard]] const std::vector<Misfit>& misfits() const { return misfits_; }
  /// The batch: dimension 0 of every input that shares the first input's batch size, outer factor first.
  [[nodiscard]] const std::vector<AtomId>& batch() const { return batch_; }
  /// Stable across imports: from the first input, parameter or result where the atom appears ("in0.batch", "fc1.weight.0",
  /// "qkv.weight.0+1/0").
  [[nodiscard]] const std::string& name(AtomId a) const { return names_[static_cast<std::size_t>(atoms_.find(a))]; }
  /// Atoms of that name, or of that group (DimGroup); empty when there is none.
  [[nodiscard]] std::vector<AtomId> named(const std::string& name) const;
  /// The same in less memory, for whoever asks for dimensions of tensors alone: without names and misfits, and with ways to split for those
  /// nodes only that `keep` says.
  [[nodiscard]] LogicalDims of_tensors(const std::vector<bool>& keep) const;

 private:
  friend class DimsInference;
  LogicalDims(const Graph& graph, Atoms atoms) : graph_(graph), atoms_(std::move(atoms)) {}
  const Graph& graph_;
  Atoms atoms_;
  std::vector<TensorDims> tensors_;                 ///< [tensor], or as distinct_ says
  std::vector<std::int32_t> distinct_;              ///< [tensor]: into tensors_, where equal ones are stored once; empty otherwise
  std::vector<std::vector<TensorDims>> constants_;  ///< [node][operand], empty for nodes without constants
  std::vector<std::vector<IterDim>> iteration_;
  std::vector<Misfit> misfits_;
  std::vector<AtomId> batch_;
  std::vector<std::string> names_;
};

/// One logical dimension as `inspect --dims` shows it.
struct DimReport {
  std::string name;
  std::int64_t size = 0;
  std::int64_t splittable = 1;     ///< the most ways it can be split in some operator; 1: nowhere
  std::vector<Misfit> blocked_by;  ///< forward nodes that read this dimension and need it whole
  AtomId atom = AtomId::None;
};
[[nodiscard]] std::vector<DimReport> report_dims(const Graph&, const LogicalDims&);

/// What the atoms are (by number, of representatives): "batch", "sequence", "heads", "head-features", "hidden", "feed-forward",
/// "vocabulary", "experts", "channels", "width", "height", "depth", "classes", "features", or empty. Found by use: tokens look up the
/// vocabulary, attention's scores have heads and sequences, normalization spans the hidden width, windows slide over an image.
[[nodiscard]] std::vector<std::string_view> roles_of(const Graph&, const LogicalDims&);

/// Logical dimensions with one role and size (of all layers), or one without a role.
struct DimGroup {
  std::string name;  ///< "heads", "channels:256" where channels differ in size, or the dimension's own name
  std::int64_t size = 0, splittable = 1;
  std::vector<Misfit> blocked_by;
  std::vector<std::string> members;  ///< names of the dimensions
};
[[nodiscard]] std::vector<DimGroup> group_dims(const Graph&, const LogicalDims&);
/// Atoms that a group's name means; without ":size" those of all sizes. Empty when there are none.
[[nodiscard]] std::vector<AtomId> with_role(const Graph&, const LogicalDims&, std::string_view name);

}  // namespace rehearsal::graph
