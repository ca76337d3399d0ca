#pragma once
// The two passes behind LogicalDims: dimensions of every tensor, then the iteration dimensions of every node (which need the final atoms).

#include <optional>
#include <unordered_map>

#include "graph/dims/dims.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {

class DimsInference {
 public:
  DimsInference(const Graph& graph, LogicalDims& result) : graph_(graph), dims_(result), atoms_(result.atoms_) {}
  void run();

 private:
  // First pass (inference.cpp).
  void start_tensors();
  void find_operands(NodeId);
  void opaque(const Node&);
  void view(NodeId);
  void transpose(NodeId);
  [[nodiscard]] static std::vector<std::size_t> permutation(const Node&, std::size_t rank);  ///< source dimension of every result dimension
  void split_pieces(NodeId);
  void slice(NodeId);
  void concat(NodeId);
  void labels(NodeId);
  using Meanings = std::vector<std::optional<Factors>>;  ///< what each label of a node stands for
  struct LabelledTensor {
    const TensorLabels& labels;
    const TensorDims& dims;
  };
  void give_meanings(NodeId, const LabelledTensor&, const SplitRule&, Meanings&);
  void give_meaning(NodeId, int label, const Factors& part, const SplitRule&, Meanings&);
  [[nodiscard]] TensorDims labelled_result(NodeId, const TensorLabels&, const SplitRule&, const Shape&, Meanings&);
  [[nodiscard]] Factors window_result(NodeId, int label, const Factors& operand, std::int64_t size);
  [[nodiscard]] TensorDims fresh(const Shape&);
  void set(TensorId t, TensorDims d) {
    if (t != TensorId::None) dims_.tensors_[index(t)] = std::move(d);
  }
  void block(NodeId node, int key, std::string reason);
  [[nodiscard]] bool blocked(NodeId node, int key) const;

  // Second pass (iteration.cpp).
  void resolve_leaves();
  void iterate(NodeId);
  void iterate_view(NodeId);
  void iterate_transpose(NodeId);
  void iterate_pieces(NodeId, bool concat);
  void iterate_labels(NodeId);
  struct Candidate {
    OperandDim place;
    int leaf = 0;  ///< index among the leaves of its label
  };
  using Candidates = std::vector<Candidate>;
  void add_candidates(int operand, int dim, const Factors& leaves, int first, Candidates& out) const;
  void candidates_of_labels(const TensorLabels&, const TensorDims&, int operand, std::vector<Candidates>& by_label) const;
  void pair_up(LabelKind, const Candidates& inputs, const Candidates& outputs, std::vector<IterDim>& found) const;
  void window_pair(const Candidates& inputs, const Candidates& outputs, std::vector<IterDim>& found) const;

  // Batch and names (dim_names.cpp).
  void find_batch();
  void name_atoms();

  const Graph& graph_;
  LogicalDims& dims_;
  Atoms& atoms_;
  std::unordered_map<std::size_t, std::vector<int>> blocked_;  ///< per node: labels, or dimensions of structural rows (results as ~d)
};

}  // namespace rehearsal::graph
