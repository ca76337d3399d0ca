#pragma once
// Operators that exporters wrote as several nodes, recognized again: LayerNormalization from its mean, difference and root, and so on.
// Fused rows are cheaper, and the cost model, split rules and kernels know them. To recognize another: one file, one row.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::graph {

/// A node of an existing row that computes what the nodes of a pattern do.
struct Recognized {
  std::string_view op;  ///< empty: the nodes stay as they are, and are only counted
  std::vector<TensorId> inputs;
  Attributes attributes;
  std::vector<NodeId> covered = {};  ///< nodes whose results nobody else reads
  std::vector<Shape> shapes = {};    ///< of the inputs, where they must be reshaped; empty: as they are
};

class PatternMatcher;

struct PatternRow {
  std::string_view name;  ///< as inspect shows it
  /// The pattern whose last node this is; nullopt when it is none.
  std::optional<Recognized> (*match)(const PatternMatcher&, const Node&);
};

/// All rows; of two that match, the one that comes first counts.
[[nodiscard]] const std::vector<PatternRow>& pattern_table();

struct RecognizedPattern {
  std::string_view pattern;  ///< its row's name
  std::string node;          ///< its last node's
  bool stays = false;        ///< its nodes are left as they are
};
struct RecognizedGraph {
  Graph graph;
  std::vector<RecognizedPattern> found = {};  ///< from the first node to the last
};
/// The same computation with fewer nodes. Names of inputs, outputs, stored tensors and of the last result of every pattern stay.
[[nodiscard]] RecognizedGraph with_recognized_operators(Graph graph);

}  // namespace rehearsal::graph
