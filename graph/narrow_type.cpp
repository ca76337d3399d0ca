#include "graph/narrow_type.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "graph/graph_copy.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::array<std::string_view, 2> kNarrowTypeTypeAttributes = {"to", "dtype"};

bool is_product(const Node& node) {
  const CostFamily family = schema(node).family;
  return family == CostFamily::Convolution || family == CostFamily::MatMul;
}

/// Which nodes compute in f32.
class KeptInF32 {
 public:
  explicit KeptInF32(const Graph& model) : model_(model), kept_(model.nodes().size(), false) {
    std::vector<NodeId> normalizations;
    for (std::size_t n = 0; n < model.nodes().size(); ++n)
      if (schema(model.nodes()[n]).name == "BatchNormApply") normalizations.push_back(static_cast<NodeId>(n));
    const auto values = [&](NodeId n) { return model[n].attributes.integer("count", 0); };
    for (const NodeId n : normalizations) fewest_ = fewest_ == 0 ? values(n) : std::min(fewest_, values(n));
    if (fewest_ >= kFewestStatistics) return;
    for (const NodeId n : normalizations) {
      if (values(n) >= kEnoughStatistics) {
        well_normalized_.insert(model[model[n].inputs[0]].producer);
        continue;
      }
      if (first_.empty()) first_ = model[n].name;
      keep_with_operands(n);
    }
    keep_readers();
  }

  [[nodiscard]] bool operator[](std::size_t node) const { return kept_[node]; }
  [[nodiscard]] std::int64_t count() const { return std::count(kept_.begin(), kept_.end(), true); }
  [[nodiscard]] const std::string& first() const { return first_; }
  [[nodiscard]] std::int64_t fewest() const { return fewest_; }
  /// Of the FLOPs of convolutions and matrix products.
  [[nodiscard]] double share() const {
    double kept = 0, all = 0;
    for (std::size_t n = 0; n < kept_.size(); ++n) {
      const Node& node = model_.nodes()[n];
      if (!is_product(node)) continue;
      const double flops = flops_of(model_, node);
      all += flops;
      kept += kept_[n] ? flops : 0;
    }
    return all > 0 ? kept / all : 0;
  }

 private:
  /// Back to the products of matrices, convolutions and inputs.
  void keep_with_operands(NodeId start) {
    std::vector<NodeId> open{start};
    while (!open.empty()) {
      const NodeId n = open.back();
      open.pop_back();
      if (kept_[index(n)]) continue;
      kept_[index(n)] = true;
      if (is_product(model_[n])) continue;
      for (const TensorId t : model_[n].inputs)
        if (t != TensorId::None && model_[t].producer != NodeId::None) open.push_back(model_[t].producer);
    }
  }

  /// On to the products that are normalized over enough values.
  void keep_readers() {
    for (std::size_t n = 0; n < kept_.size(); ++n) {
      if (is_product(model_.nodes()[n]) && well_normalized_.contains(static_cast<NodeId>(n))) continue;
      const auto& inputs = model_.nodes()[n].inputs;
      kept_[n] = kept_[n] || std::any_of(inputs.begin(), inputs.end(), [&](TensorId t) {
                   return t != TensorId::None && model_[t].producer != NodeId::None && kept_[index(model_[t].producer)] &&
                          model_[t].type.dtype == DType::F32;
                 });
    }
  }

  const Graph& model_;
  std::vector<bool> kept_;
  std::set<NodeId> well_normalized_;  ///< what a normalization over enough values reads
  std::string first_;
  std::int64_t fewest_ = 0;
};

/// Copies a model node by node, with casts where f32 and 16 bits meet.
class Narrowing : GraphCopy {
 public:
  Narrowing(const Graph& model, const KeptInF32& kept, DType dtype)
      : GraphCopy(model), kept_(kept), dtype_(dtype), narrow_(narrow_sources()) {}

  Graph build() && {
    const auto type = [&](TensorId t) { return type_of(t); };
    copy_inputs(type);
    copy_stored([&](TensorId i, const Tensor& t) { return builder_.add_stored(t.name, type(i), t.role, t.contents); });
    for (std::size_t n = 0; n < original_.nodes().size(); ++n) add(original_.nodes()[n], kept_[n]);
    copy_updates();
    return finish();
  }

 private:
  /// Of what no node makes: whether it is narrow. It stays f32 when only nodes that are kept read it.
  [[nodiscard]] std::vector<bool> narrow_sources() const {
    std::vector<bool> narrow(original_.tensors().size(), false), read(original_.tensors().size(), false);
    for (std::size_t n = 0; n < original_.nodes().size(); ++n) {
      for (const TensorId t : original_.nodes()[n].inputs) {
        if (t == TensorId::None) continue;
        read[index(t)] = true;
        if (!kept_[n]) narrow[index(t)] = true;
      }
    }
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      const Tensor& tensor = original_.tensors()[i];
      if (!read[i]) narrow[i] = true;
      if (tensor.type.dtype != DType::F32 || tensor.role == TensorRole::State || tensor.producer != NodeId::None) narrow[i] = false;
    }
    return narrow;
  }

  [[nodiscard]] TensorType type_of(TensorId t) const {
    TensorType type = original_[t].type;
    if (narrow_[index(t)]) type.dtype = dtype_;
    return type;
  }

  TensorId converted(TensorId t, DType to) {
    const auto [there, added] = converted_.emplace(std::pair(t, to), TensorId::None);
    if (!added) return there->second;
    GraphBuilder::NodeOptions options;
    options.name = builder_[t].name + "." + std::string(name(to));
    const TensorId cast = builder_.add("Cast", {t}, {{"to", std::string(name(to))}}, std::move(options)).front();
    converted_[std::pair(t, to)] = cast;
    return cast;
  }

  void add(const Node& node, bool kept) {
    std::vector<TensorId> inputs;
    for (const TensorId t : node.inputs) {
      const DType wanted = kept ? DType::F32 : dtype_;
      TensorId operand = copied(t);
      if (t != TensorId::None && original_[t].type.dtype == DType::F32 && original_[t].role != TensorRole::State &&
          builder_.type(operand).dtype != wanted)
        operand = converted(operand, wanted);
      inputs.push_back(operand);
    }
    put_results(node, builder_.add(schema(node).name, std::move(inputs), kept ? node.attributes : narrowed(node), options_of(node)));
  }

  [[nodiscard]] Attributes narrowed(const Node& node) const {
    Attributes attributes = node.attributes;
    if (node.inputs.empty() && original_[node.outputs.front()].type.dtype == DType::F32) attributes.set("dtype", std::string(name(dtype_)));
    for (const std::string_view key : kNarrowTypeTypeAttributes) {
      const auto* value = attributes.find(key);
      const auto* text = value ? std::get_if<std::string>(value) : nullptr;
      if (text != nullptr && dtype_from_name(*text) == DType::F32) attributes.set(key, std::string(name(dtype_)));
    }
    return attributes;
  }

  const KeptInF32& kept_;
  DType dtype_;
  std::vector<bool> narrow_;
  std::map<std::pair<TensorId, DType>, TensorId> converted_;  ///< casts by what they read and make
};

}  // namespace

NarrowedGraph with_narrow_type(const Graph& model, DType dtype) {
  const KeptInF32 kept(model);
  if (kept.count() == 0) return {with_float_type(model, dtype), 0, {}, 0, 0};
  return {Narrowing(model, kept, dtype).build(), kept.count(), kept.first(), kept.fewest(), kept.share()};
}

}  // namespace rehearsal::graph
