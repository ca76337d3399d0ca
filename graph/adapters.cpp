#include "graph/adapters.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "graph/graph_copy.hpp"
#include "graph/op_schema.hpp"
#include "graph/parameter_use.hpp"

namespace rehearsal::graph {
namespace {

bool matches(const std::string& glob, const std::string& name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; }

/// Copies a model node by node and puts adapters behind its products.
class Adapting : GraphCopy {
 public:
  Adapting(const Graph& model, const AdapterOptions& options)
      : GraphCopy(model), options_(options), matched_(options.targets.size(), false) {}

  AdaptedModel build() && {
    copy_inputs();
    copy_stored([&](TensorId, const Tensor& t) {
      return builder_.add_stored(t.name, t.type, t.role == TensorRole::Parameter ? TensorRole::Frozen : t.role, t.contents);
    });
    for (const Node& node : original_.nodes()) add(node);
    copy_updates();
    require_matches();
    return {finish(), static_cast<std::int64_t>(adapters_.size())};
  }

 private:
  struct Adapter {
    TensorId a, b;
  };

  bool is_target(const Node& node, TensorId weight) {
    if (options_.targets.empty()) {
      const auto& outputs = original_.outputs();
      return original_[weight].type.shape.size() == 2 && std::ranges::find(outputs, node.outputs[0]) == outputs.end();
    }
    bool any = false;
    for (std::size_t i = 0; i < options_.targets.size(); ++i) {
      const auto& glob = options_.targets[i];
      const bool named = matches(glob, original_[weight].name) || matches(glob, node.name);
      matched_[i] = matched_[i] || named;
      any = any || named;
    }
    return any;
  }

  void add(const Node& node) {
    const TensorId weight = weight_of_product(original_, node);
    const bool adapted = weight != TensorId::None && is_target(node, weight);
    const auto inputs = copied(node.inputs);
    auto options = options_of(node);
    if (adapted) options.output_names[0] += ".frozen";
    const auto results = builder_.add(schema(node).name, inputs, node.attributes, options);
    put_results(node, results);
    if (adapted) put(node.outputs[0], sum(node, weight, inputs[0], results[0]));
  }

  /// y + scale (x A) B under the name that y had.
  TensorId sum(const Node& node, TensorId weight, TensorId x, TensorId y) {
    const Adapter adapter = adapter_of(node, weight);
    const auto named = [&](const char* what) {
      GraphBuilder::NodeOptions options;
      options.name = node.name + what;
      return options;
    };
    TensorId inner = builder_.add("MatMul", {x, adapter.a}, {}, named(".lora_A")).front();
    const double scale = options_.factor();
    if (scale != 1) inner = builder_.add("Mul", {inner, factor(scale)}, {}, named(".lora_scale")).front();
    const TensorId outer = builder_.add("MatMul", {inner, adapter.b}, {}, named(".lora_B")).front();
    auto options = named(".lora_sum");
    options.output_names = {original_[node.outputs[0]].name};
    return builder_.add("Add", {y, outer}, {}, options).front();
  }

  Adapter adapter_of(const Node& node, TensorId weight) {
    const Tensor& tensor = original_[weight];
    Shape a = original_[node.inputs[1]].type.shape;
    if (node.attributes.integer("trans_b", 0) != 0) std::swap(a[a.size() - 2], a.back());
    // A matrix that products read both ways, as an autoencoder's, has one for either.
    const auto [known, added] = adapters_.try_emplace({weight, a});
    if (!added) return known->second;
    const std::int64_t in = a[a.size() - 2], out = a.back();
    if (options_.rank < 1 || options_.rank > std::min(in, out))
      throw BadInput("rank " + std::to_string(options_.rank),
                     "must be from 1 to " + std::to_string(std::min(in, out)) + ", the smaller side of weight '" + tensor.name + "'");
    Shape b = a;
    a.back() = b[b.size() - 2] = options_.rank;
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    const auto add = [&](std::string_view suffix, Shape shape, Contents::Source source) {
      return builder_.add_stored(builder_.fresh_name(tensor.name + std::string(suffix)), {tensor.type.dtype, std::move(shape)},
                                 TensorRole::Parameter, {tensor.type.dtype, std::move(source)});
    };
    return known->second = {add(kAdapterA, std::move(a), RandomUniform{-bound, bound}), add(kAdapterB, std::move(b), Fill{0})};
  }

  TensorId factor(double scale) {
    if (factor_ == TensorId::None) factor_ = builder_.add_constant(builder_.fresh_name("lora_scale"), Value::scalar(scale, DType::F32));
    return factor_;
  }

  void require_matches() const {
    for (std::size_t i = 0; i < matched_.size(); ++i)
      if (!matched_[i])
        throw BadInput(
            "target '" + options_.targets[i] + "'",
            "matches no weight that activations are multiplied with, and no node that does so; `rehearse inspect --tensors` lists names");
    if (adapters_.empty()) throw Refusal("the model has no matrix that activations are multiplied with, so adapters have no place");
  }

  const AdapterOptions& options_;
  std::vector<bool> matched_;
  std::map<std::pair<TensorId, Shape>, Adapter> adapters_;  ///< by the weight and how it is read: [in, out]
  TensorId factor_ = TensorId::None;
};

}  // namespace

AdaptedModel with_adapters(const Graph& model, const AdapterOptions& options) { return Adapting(model, options).build(); }

}  // namespace rehearsal::graph
