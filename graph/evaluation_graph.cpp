#include "graph/evaluation_graph.hpp"

#include "graph/builder.hpp"
#include "graph/loss_choice.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

/// Copies the forward nodes of a model, each as it works after training.
class AfterTraining {
 public:
  explicit AfterTraining(const Graph& model) : model_(model), readers_(model.consumers()), copy_(model.tensors().size(), TensorId::None) {}

  Graph build() && {
    for (const TensorId t : model_.inputs()) copy_[index(t)] = builder_.add_input(model_[t].name, model_[t].type);
    for (std::size_t i = 0; i < model_.tensors().size(); ++i) {
      const Tensor& tensor = model_.tensors()[i];
      if (tensor.producer == NodeId::None && tensor.role != TensorRole::Input && tensor.role != TensorRole::Slot)
        copy_[i] = builder_.add_stored(tensor.name, tensor.type, tensor.role, tensor.contents);
    }
    for (const Node& node : model_.nodes())
      if (node.phase == Phase::Forward) add(node);
    std::vector<TensorId> outputs;
    for (const TensorId t : model_.outputs()) outputs.push_back(copy_[index(t)]);
    builder_.set_outputs(std::move(outputs));
    return std::move(builder_).build();
  }

 private:
  [[nodiscard]] TensorId copied(TensorId t) const { return t == TensorId::None ? t : copy_[index(t)]; }

  void add(const Node& node) {
    if (has(schema(node).traits, Trait::TrainingOnly)) {
      copy_[index(node.outputs[0])] = copied(node.inputs[0]);
      return;
    }
    if (schema(node).name == "BatchNormApply") {
      if (const Node* running = running_of(node.inputs[1])) return add_inference(node, *running);
    }
    std::vector<TensorId> inputs;
    for (const TensorId t : node.inputs) inputs.push_back(copied(t));
    store(node, builder_.add(schema(node).name, std::move(inputs), node.attributes, named(node)));
  }

  /// The node that updates running statistics from these sums; nullptr when none are kept.
  [[nodiscard]] const Node* running_of(TensorId sums) const {
    for (const NodeId n : readers_[index(sums)])
      if (schema(model_[n]).name == "BatchNormRunning") return &model_[n];
    return nullptr;
  }

  void add_inference(const Node& node, const Node& running) {
    const std::vector<TensorId> inputs = {copied(node.inputs[0]), copied(node.inputs[2]), copied(node.inputs[3]), copied(running.inputs[1]),
                                          copied(running.inputs[2])};
    store(node, builder_.add("BatchNormInference", inputs, {{"epsilon", node.attributes.number("epsilon", 1e-5)}}, named(node)));
  }

  [[nodiscard]] GraphBuilder::NodeOptions named(const Node& node) const {
    GraphBuilder::NodeOptions options;
    options.name = node.name;
    for (const TensorId t : node.outputs) options.output_names.push_back(t == TensorId::None ? "" : model_[t].name);
    return options;
  }

  void store(const Node& node, const std::vector<TensorId>& results) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != TensorId::None) copy_[index(node.outputs[i])] = results[i];
  }

  const Graph& model_;
  std::vector<std::vector<NodeId>> readers_;
  GraphBuilder builder_;
  std::vector<TensorId> copy_;
};

}  // namespace

std::int64_t batch_of(const Graph& model) {
  for (const TensorId t : model.inputs())
    if (!model[t].type.shape.empty()) return model[t].type.shape[0];
  return 0;
}

EvaluationGraph build_evaluation_graph(const Graph& model, const TrainingOptions& options) {
  const Graph forward = AfterTraining(model).build();
  GraphBuilder builder(forward);
  const ChosenLoss chosen = add_loss(builder, forward, options);
  if (chosen.loss != TensorId::None) builder.keep(chosen.loss);
  EvaluationGraph result;
  Renumbering renumber;
  const std::vector<TensorId> outputs = forward.outputs();
  result.step.batch = batch_of(model);
  result.step.graph = std::move(builder).build(&renumber);
  result.step.loss = renumber(chosen.loss);
  result.step.target = renumber(chosen.target);
  for (const TensorId t : outputs) result.outputs.push_back(renumber(t));
  for (const TensorId t : model.outputs()) result.names.push_back(model[t].name);
  return result;
}

}  // namespace rehearsal::graph
