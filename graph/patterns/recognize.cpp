#include <algorithm>
#include <map>
#include <set>

#include "graph/builder.hpp"
#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

using Matches = std::map<NodeId, Recognized>;

/// Copies a graph, with recognized nodes in place of the last node of each pattern. What only the pattern read goes.
class Rewriting {
 public:
  Rewriting(const Graph& graph, const Matches& matches) : graph_(graph), matches_(matches), copy_(graph.tensors().size(), TensorId::None) {}

  Graph build() && {
    for (std::size_t i = 0; i < graph_.tensors().size(); ++i) {
      const Tensor& tensor = graph_.tensors()[i];
      if (tensor.producer == NodeId::None && tensor.role != TensorRole::Input)
        copy_[i] = builder_.add_stored(tensor.name, tensor.type, tensor.role, tensor.contents);
    }
    for (const TensorId t : graph_.inputs()) copy_[index(t)] = builder_.add_input(graph_[t].name, graph_[t].type);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) add(static_cast<NodeId>(n));
    for (std::size_t i = 0; i < graph_.tensors().size(); ++i) {
      const Tensor& tensor = graph_.tensors()[i];
      if (tensor.stored_in != TensorId::None) builder_.set_stored_in(copy_[i], copied(tensor.stored_in));
    }
    std::vector<TensorId> outputs;
    for (const TensorId t : graph_.outputs()) outputs.push_back(copied(t));
    builder_.set_outputs(std::move(outputs));
    return std::move(builder_).build();
  }

 private:
  [[nodiscard]] TensorId copied(TensorId t) const { return t == TensorId::None ? t : copy_[index(t)]; }

  [[nodiscard]] std::vector<TensorId> copied(const std::vector<TensorId>& all) const {
    std::vector<TensorId> result;
    for (const TensorId t : all) result.push_back(copied(t));
    return result;
  }

  std::vector<TensorId> inputs_of(const Recognized& match) {
    std::vector<TensorId> inputs = copied(match.inputs);
    for (std::size_t i = 0; i < match.shapes.size(); ++i)
      if (!match.shapes[i].empty()) inputs[i] = builder_.add1("Reshape", {inputs[i]}, {{"shape", match.shapes[i]}});
    return inputs;
  }

  void add(NodeId n) {
    const Node& node = graph_[n];
    GraphBuilder::NodeOptions options;
    options.name = node.name;
    options.phase = node.phase;
    const auto match = matches_.find(n);
    const bool another = match != matches_.end() && match->second.op != schema(node).name;
    if (another) {
      options.name += "/recognized";  // no result of the file has such a name
      const TensorId fused = builder_.add(match->second.op, inputs_of(match->second), match->second.attributes, options).front();
      builder_.rename(fused, graph_[node.outputs[0]].name);
      copy_[index(node.outputs[0])] = fused;
      return;
    }
    for (const TensorId t : node.outputs) options.output_names.push_back(t == TensorId::None ? "" : graph_[t].name);
    const auto results = match == matches_.end()
                             ? builder_.add(schema(node).name, copied(node.inputs), node.attributes, options)
                             : builder_.add(match->second.op, inputs_of(match->second), match->second.attributes, options);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != TensorId::None) copy_[index(node.outputs[i])] = results[i];
    }
  }

  const Graph& graph_;
  const Matches& matches_;
  GraphBuilder builder_;
  std::vector<TensorId> copy_;
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
