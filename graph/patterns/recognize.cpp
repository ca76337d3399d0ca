#include <algorithm>
#include <map>
#include <set>

#include "graph/graph_copy.hpp"
#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

using Matches = std::map<NodeId, Recognized>;

/// Copies a graph, with recognized nodes in place of the last node of each pattern. What only the pattern read goes.
class Rewriting : GraphCopy {
 public:
  Rewriting(const Graph& graph, const Matches& matches) : GraphCopy(graph), matches_(matches) {}

  Graph build() && {
    copy_stored();
    copy_inputs();
    for (std::size_t n = 0; n < original_.nodes().size(); ++n) add(static_cast<NodeId>(n));
    copy_updates();
    return finish();
  }

 private:
  std::vector<TensorId> inputs_of(const Recognized& match) {
    std::vector<TensorId> inputs = copied(match.inputs);
    for (std::size_t i = 0; i < match.shapes.size(); ++i)
      if (!match.shapes[i].empty()) inputs[i] = builder_.add1("Reshape", {inputs[i]}, {{"shape", match.shapes[i]}});
    return inputs;
  }

  void add(NodeId n) {
    const Node& node = original_[n];
    auto options = options_of(node);
    const auto match = matches_.find(n);
    const bool another = match != matches_.end() && match->second.op != schema(node).name;
    if (another) {
      options.name += "/recognized";  // no result of the file has such a name
      options.output_names.clear();
      const TensorId fused = builder_.add(match->second.op, inputs_of(match->second), match->second.attributes, options).front();
      builder_.rename(fused, original_[node.outputs[0]].name);
      put(node.outputs[0], fused);
      return;
    }
    const auto results = match == matches_.end()
                             ? builder_.add(schema(node).name, copied(node.inputs), node.attributes, options)
                             : builder_.add(match->second.op, inputs_of(match->second), match->second.attributes, options);
    put_results(node, results);
  }

  const Matches& matches_;
};

}  // namespace

const std::vector<PatternRow>& pattern_table() {
  static const std::vector<PatternRow> rows = {{"LayerNormalization", match_layer_normalization},
                                               {"RMSNormalization", match_rms_normalization},
                                               {"Gelu", match_gelu},
                                               {"attention", match_attention},
                                               {"rotary embedding", match_rotary_embedding},
                                               {"roll", match_roll},
                                               {"transposed weight", match_transposed_weight}};
  return rows;
}

RecognizedGraph with_recognized_operators(Graph graph) {
  const PatternMatcher matcher(graph);
  Matches matches;
  std::set<NodeId> covered;
  RecognizedGraph result;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const auto id = static_cast<NodeId>(n);
    if (covered.contains(id)) continue;
    for (const PatternRow& row : pattern_table()) {
      auto found = row.match(matcher, graph[id]);
      if (!found) continue;
      result.found.push_back({row.name, graph[id].name, found->op.empty()});
      covered.insert(found->covered.begin(), found->covered.end());
      if (!found->op.empty()) matches.emplace(id, std::move(*found));
      break;
    }
  }
  std::ranges::reverse(result.found);
  result.graph = matches.empty() ? std::move(graph) : Rewriting(graph, matches).build();
  return result;
}

}  // namespace rehearsal::graph
