#pragma once
// What a plan does to a model, layer by layer, in terms that a person can check: how every tensor is split, what is sent for it, and
// what that costs.

#include <string>
#include <string_view>
#include <vector>

#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// A parameter or result of a layer's forward pass.
struct TensorPlace {
  std::string name;    ///< without its layer's name
  std::string layout;  ///< "[6/dp, 1024, 768/tp]": which axis splits what; " summed over tp" where the sum is still to be taken
  graph::Shape shape, local;
  std::int64_t bytes = 0;  ///< on one rank
  bool stored = false;     ///< a parameter
};

/// A collective or a message to another stage.
struct MessageCost {
  std::string what;  ///< "all-reduce (ring) over tp", "send to stage 1"
  std::string tensor;
  plan::BodyKind body = plan::BodyKind::Forward;
  std::int64_t bytes = 0;  ///< of the vector, each time
  int times = 1;           ///< a step
  Seconds seconds;         ///< each time, alone on its links
};

/// Nodes of one scope of the model, and layers that follow with nothing different but their names.
struct LayerPlan {
  std::string name, last;  ///< of the first and the last
  int alike = 1;
  std::vector<TensorPlace> tensors;
  std::vector<MessageCost> messages;
  std::vector<MessageCost> host_moves;  ///< "to the host", "from the host": what waits in the host's memory
  Seconds compute;                      ///< of one layer in a step: forward, backward and update
  Seconds recompute;                    ///< of that: what is recomputed for the backward pass
  [[nodiscard]] Seconds communication() const;
};

struct StagePlan {
  int stage = 0;
  int first_rank = 0;  ///< of those that do this
  int ranks = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t host_memory_bytes = 0;
  int in_flight = 1;  ///< micro-batches whose activations are held
  std::vector<LayerPlan> layers;
  [[nodiscard]] std::int64_t message_bytes() const;  ///< of all collectives' vectors and messages of a step
  [[nodiscard]] Seconds communication() const;       ///< as if none ran beside another
};

/// The scope that a node's name says: up to the first part that is a number ("h.3" of "h.3.attn.q", "/model/layers.3" of
/// "/model/layers.3/mlp/MatMul"), else the first part.
[[nodiscard]] std::string_view layer_of(std::string_view node_name);

/// One rank's view of every stage, in order of stages: of the rank with most samples. The seconds are closed forms.
[[nodiscard]] std::vector<StagePlan> explain(const Predictor&, const PlayableStep&);

}  // namespace rehearsal::predict
