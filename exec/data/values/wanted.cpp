#include "exec/data/values/wanted.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/names.hpp"

namespace rehearsal::exec {

using graph::TensorId;

bool is_probability(const graph::TrainingGraph& training, TensorId input) {
  return std::ranges::any_of(training.graph.nodes(), [&](const graph::Node& node) {
    return graph::schema(node).name == "BceWithLogitsSum" && node.inputs.size() > 1 && node.inputs[1] == input;
  });
}

std::int64_t classes_of(const graph::TrainingGraph& training, TensorId input) {
  const auto& g = training.graph;
  std::int64_t classes = 0;
  const auto limit = [&](std::int64_t n) { classes = classes == 0 ? n : std::min(classes, n); };
  for (const auto& node : g.nodes()) {
    const auto name = graph::schema(node).name;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != input) continue;
      const auto& first = g[node.inputs.front()].type.shape;
      if (name == "Gather" && i == 1)
        limit(first[static_cast<std::size_t>(graph::normalize_axis(node.attributes.integer("axis", 0), first.size()))]);
      if (name == "CrossEntropySum" && i == 1)
        limit(first[static_cast<std::size_t>(graph::normalize_axis(node.attributes.integer("axis", 1), first.size()))]);
    }
  }
  return classes;
}

namespace {

/// What the loss leaves out of its labels, which may be an input of the model: PyTorch's ignore_index.
std::int64_t ignored_label(const graph::TrainingGraph& training, TensorId input) {
  constexpr std::int64_t kUsual = -100;
  for (const auto& node : training.graph.nodes())
    if (graph::schema(node).name == "CrossEntropySum" && node.inputs[1] == input) return node.attributes.integer("ignore_index", kUsual);
  return input == training.target ? kUsual : kNoneIgnored;
}

}  // namespace

std::vector<WantedTensor> wanted_of(const graph::TrainingGraph& training, const std::map<std::string, std::string>& arrays) {
  const auto& g = training.graph;
  std::vector<WantedTensor> wanted;
  const auto add = [&](TensorId t) {
    const auto& tensor = g[t];
    if (std::any_of(wanted.begin(), wanted.end(), [&](const WantedTensor& w) { return w.input == tensor.name; })) return;
    const auto& shape = tensor.type.shape;
    const auto named = arrays.find(tensor.name);
    wanted.push_back({tensor.name, tensor.type, !shape.empty() && shape.front() == training.batch, t == training.target,
                      classes_of(training, t), ignored_label(training, t), named == arrays.end() ? std::string() : named->second});
  };
  for (auto t : g.inputs())
    if (t != training.target) add(t);
  if (training.target != TensorId::None) add(training.target);
  for (const auto& [input, array] : arrays) {
    const auto names = names_of_rows(wanted, &WantedTensor::input);
    (void)known_name("--input " + input + "=" + array + ": input of the model", input, names);
    if (array.empty()) throw BadInput("--input " + input + "=", "names no array of the data");
  }
  return wanted;
}

std::vector<std::size_t> chosen_arrays(const std::string& where, const std::vector<WantedTensor>& wanted, const ArrayNames& names) {
  std::string choices;
  for (const auto name : names.known) choices += (choices.empty() ? "" : ", ") + std::string(name);
  const auto others = std::count_if(wanted.begin(), wanted.end(), [](const WantedTensor& w) { return !w.target && w.array.empty(); });
  std::vector<std::size_t> chosen;
  for (const auto& w : wanted) {
    if (w.array.empty() && !w.target && others > 1)
      throw BadInput(where, "does not say which of its arrays (" + choices + ") is input \"" + w.input + "\" of the model; give --input " +
                                w.input + "=ARRAY");
    const std::string_view array = !w.array.empty() ? std::string_view(w.array) : w.target ? names.for_target : names.usual;
    const auto at = std::find(names.known.begin(), names.known.end(), array);
    if (at == names.known.end())
      throw BadInput(where, "has no array \"" + w.array + "\" for input \"" + w.input + "\" of the model; it has " + choices);
    if (!w.per_sample)
      throw BadInput(where, "has samples only, and input \"" + w.input + "\" of the model, " + graph::to_text(w.type.shape) +
                                ", is one value for the whole batch");
    chosen.push_back(static_cast<std::size_t>(at - names.known.begin()));
  }
  return chosen;
}

}  // namespace rehearsal::exec
