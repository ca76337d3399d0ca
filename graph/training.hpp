#pragma once
// From a model to one training step: loss, gradients, optimizer, running statistics.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/gradient.hpp"
#include "graph/graph.hpp"
#include "graph/noise_scale.hpp"
#include "graph/optimizer.hpp"

namespace rehearsal::graph {

/// A loss row builds nodes from the model's output and the target; its result is (weighted sum, weight), both f64 scalars of the whole
/// batch, and loss = sum / weight: so that every split of the batch over ranks or micro-batches gives the same loss.
struct LossRow {
  std::string_view name;  ///< as in --loss
  std::string_view description;
  TensorType (*target_type)(const TensorType& prediction);                 ///< what `--data` must hold under the target's name
  TensorId (*build)(GraphBuilder&, TensorId prediction, TensorId target);  ///< scalar loss
};
[[nodiscard]] std::span<const LossRow> loss_table();

struct TrainingOptions {
  std::string loss;  ///< a row of loss_table(), "none", an output's name, or "" (what the graph ends in, else cross-entropy on output 0)
  std::string target_name = "target";
  OptimizerSettings optimizer;
  std::vector<std::string> freeze;  ///< globs of tensor names that are not trained
  std::vector<std::string> train;   ///< globs that are, whatever the rule says
  bool dropout = true;              ///< off: every Dropout keeps everything
  double clip_norm = 0;             ///< largest norm of all gradients together; 0: not clipped
  double clip_value = 0;            ///< largest magnitude of a gradient's element, taken before the norm; 0: not clipped
  bool noise_scale = false;         ///< the squares are computed from which the gradient noise scale follows (noise_scale.hpp)
};

struct TrainedParameter {
  TensorId value;
  TensorId gradient;  ///< of the mean loss over the global batch, before clipping
  NodeId update;
  std::vector<TensorId> slots;
};

/// One step of training. `graph` holds forward, backward and update nodes.
struct TrainingGraph {
  Graph graph;
  TensorId loss = TensorId::None;    ///< scalar f64, mean over the global batch, before the update
  TensorId target = TensorId::None;  ///< None when the loss is an output of the model
  TensorId step = TensorId::None;    ///< Slot, int64 scalar: 1 in the first step (Adam's bias correction); None if unused
  std::vector<TrainedParameter> parameters;
  std::vector<Untrainable> untrainable;
  std::vector<std::string> warnings;
  std::int64_t batch = 0;       ///< size of the batch dimension of the inputs
  OptimizerSettings optimizer;  ///< with all defaults filled in
  NoiseTensors noise;           ///< None unless they were asked for
  std::string unmeasured_hash;  ///< of the graph without them; empty where it has none

  /// Identity of what is trained, whatever is measured meanwhile.
  [[nodiscard]] std::string hash() const { return unmeasured_hash.empty() ? graph.hash() : unmeasured_hash; }
};

/// Throws Refusal when nothing can be trained, listing the nodes in the way.
[[nodiscard]] TrainingGraph build_training_graph(const Graph& model, const TrainingOptions& options);

/// The model with the roles that its stored tensors have in training: what `freeze` and `train` say. Warns of globs that match nothing.
[[nodiscard]] Graph with_roles(const Graph& model, const TrainingOptions& options, std::vector<std::string>& warnings);

/// Replaces every f32 activation, parameter, slot and constant type by `dtype` (f64 for exact comparisons). Integers stay.
[[nodiscard]] Graph with_float_type(const Graph& graph, DType dtype);

/// Initial values of parameters that the model does not bring, by the rules at the head of graph/initialization.cpp. They replace unknown
/// contents and depend on the seed and the tensor's name alone.
[[nodiscard]] Graph with_initial_values(const Graph& graph);

/// The stream of random numbers from which a tensor's initial values are drawn: the same wherever the tensor lives and in every plan.
[[nodiscard]] std::uint64_t initial_stream(std::string_view tensor_name);

}  // namespace rehearsal::graph
