// Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems" (DLRM), 2019, with MLPerf's layer
// widths; every table has as many rows. The loss inside is binary cross-entropy of the click.

#include <algorithm>

#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kRecommendationParameters[] = {
    {"tables", 26, 1, 10'000, "categorical features, each with a table"},
    {"rows", 1'000'000, 1, 1'000'000'000, "rows of a table"},
    {"width", 128, 1, 100'000, "features of a row"},
    {"dense", 13, 1, 100'000, "features that are numbers"},
    {"batch", 2048, 1, 1'000'000'000, "samples"},
};
constexpr std::int64_t kBottom[] = {512, 256}, kTop[] = {1024, 1024, 512, 256};

template <std::size_t kCount>
TensorId perceptron(Layers& layers, const std::string& name, TensorId x, const std::int64_t (&widths)[kCount]) {
  int number = 0;
  for (const std::int64_t width : widths) {
    const std::string layer = name + "." + std::to_string(number++);
    x = layers.relu(layer + ".relu", layers.linear(layer, x, width));
  }
  return x;
}

/// Products of every two of the features [batch, count, width]: [batch, count (count - 1) / 2].
TensorId interactions(Layers& layers, TensorId features) {
  const Shape s = layers.shape(features);
  const TensorId all = layers.matmul("interact", features, layers.transpose("interact.transposed", features, {0, 2, 1}));
  std::vector<std::int64_t> pairs;
  for (std::int64_t i = 0; i < s[1]; ++i)
    for (std::int64_t j = 0; j < i; ++j) pairs.push_back(i * s[1] + j);
  const auto count = static_cast<std::int64_t>(pairs.size());
  const TensorId index = layers.builder().add_constant("interact.pairs", Value::of_integers(std::move(pairs), {count}));
  return layers.node("interact.lower", "Gather", {layers.reshape("interact.flat", all, {s[0], s[1] * s[1]}), index},
                     {{"axis", std::int64_t{1}}});
}

Graph dlrm(const ZooValues& values) {
  Layers layers;
  const std::int64_t batch = values.at("batch"), width = values.at("width"), tables = values.at("tables");
  TensorId bottom = perceptron(layers, "bottom", layers.input("dense", {batch, values.at("dense")}), kBottom);
  bottom = layers.relu("bottom.last.relu", layers.linear("bottom.last", bottom, width));
  std::vector<TensorId> features = {layers.reshape("bottom.feature", bottom, {batch, 1, width})};
  for (std::int64_t t = 0; t < tables; ++t) {
    const std::string n = std::to_string(t);
    features.push_back(layers.embedding("tables." + n, layers.indices("category" + n, {batch, 1}), values.at("rows"), width));
  }
  const TensorId crossed = interactions(layers, layers.concat("features", std::move(features), 1));
  const TensorId top = perceptron(layers, "top", layers.concat("joined", {bottom, crossed}, 1), kTop);
  const TensorId score = layers.linear("top.last", top, 1);
  const auto rows = loss_table();
  const auto bce = std::find_if(rows.begin(), rows.end(), [](const LossRow& row) { return row.name == "bce"; });
  const TensorId loss = bce->build(layers.builder(), score, layers.input("clicked", {batch, 1}));
  return std::move(layers).finish({score, loss}, {"score", "loss"});
}

constexpr ZooRow kRecommendationRows[] = {{"dlrm", "DLRM (Naumov et al. 2019)", kRecommendationParameters, dlrm}};

}  // namespace

std::span<const ZooRow> recommenders() { return kRecommendationRows; }

}  // namespace rehearsal::graph::zoo
