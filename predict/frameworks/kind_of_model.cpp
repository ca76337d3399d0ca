#include "predict/frameworks/kind_of_model.hpp"

#include <algorithm>
#include <vector>

#include "graph/op_schema.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr std::size_t kImageRank = 4;  // samples, channels, height, width

bool reads_images(const graph::Graph& g) {
  return std::ranges::any_of(g.nodes(), [&](const graph::Node& n) {
    return graph::schema(n).family == graph::CostFamily::Convolution && g[n.inputs.front()].type.shape.size() >= kImageRank;
  });
}

/// A state that goes from token to token: chunks that sum logarithms of decays (Mamba-2), or the delta rule. Routers of experts sum, too,
/// and have no exponentials.
bool has_state_spaces(const graph::Graph& g) {
  const auto computes = [&](std::string_view op) {
    return std::ranges::any_of(g.nodes(), [&](const graph::Node& n) { return graph::schema(n).name == op; });
  };
  return computes("DeltaScan") || (computes("CumSum") && computes("Exp"));
}

std::string trunk_of(const FoldedModel& model) {
  const auto& cores = model.flow().cores();
  if (reads_images(model.graph())) return cores.empty() ? "image network" : "image network with attention";
  if (model.flow().recurrent()) return "recurrent network";
  const bool decodes = std::ranges::any_of(cores, &AttentionCore::causal), encodes = !std::ranges::all_of(cores, &AttentionCore::causal);
  if (decodes) return encodes ? "encoder and decoder" : "decoder";
  return encodes ? "encoder" : "other network";
}

}  // namespace

std::string kind_of_model(const FoldedModel& model) {
  const auto& g = model.graph();
  std::vector<std::string> with;
  if (has_state_spaces(g)) with.emplace_back("state spaces");
  if (router_of(g) != nullptr) with.emplace_back("experts");
  if (std::ranges::any_of(g.tensors(), [](const auto& t) { return t.role == graph::TensorRole::Frozen; }))
    with.emplace_back("frozen weights");
  auto kind = trunk_of(model);
  for (std::size_t i = 0; i < with.size(); ++i) kind += (i == 0 ? " with " : i + 1 == with.size() ? " and " : ", ") + with[i];
  return kind;
}

double parameters_of_model(const FoldedModel& model) {
  double elements = 0;
  for (const auto& t : model.whole().tensors())
    if (graph::is_weight(t.role)) elements += static_cast<double>(graph::element_count(t.type.shape));
  return elements;
}

}  // namespace rehearsal::predict::frameworks
