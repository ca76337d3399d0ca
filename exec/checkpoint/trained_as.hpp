#pragma once
// What a checkpoint knows of the training that wrote it, so that another one that reads it is told.

#include <map>
#include <string>
#include <vector>

#include "graph/optimizer.hpp"

namespace rehearsal::exec {

struct TrainedAs {
  using Texts = std::map<std::string, std::string>;
  std::string network;                 ///< Graph::hash() of the model, adapters included, for batches of the checkpoint's size
  std::vector<std::string> untrained;  ///< names of the weights that were not trained, which are not in the checkpoint
  std::string untrained_checksum;      ///< of those of them that the model's file holds; empty: it holds none
  double adapter_factor = 0;           ///< alpha / rank of low-rank adapters (graph/adapters.hpp); 0: there are none, or nobody said
  Texts options;                       ///< of the command, which must be the same when training goes on; the default is left out
  Texts course;                        ///< what may change from one step to the next: the optimizer's numbers, the data

  static constexpr const char* kOptimizer = "--optimizer";  ///< among the options
  /// False of a checkpoint of a version that did not say.
  [[nodiscard]] bool known() const { return !network.empty(); }
};

/// Of the values of these weights that come from a file, in the order given; empty where none does.
[[nodiscard]] std::string checksum_of_weights(const graph::Graph& model, const std::vector<std::string>& names);

/// "--clip-norm 1 (now none), --dtype f32 (now f64)": what `then` has otherwise than `now`; empty where all is the same.
[[nodiscard]] std::string differences(const TrainedAs::Texts& then, const TrainedAs::Texts& now);

/// Names of slots ("momentum_buffer") that only one of two trainings keeps, because the number that they are for is 0 in the other.
struct OtherSlots {
  std::vector<std::string> begin, end;  ///< with `now`
  /// Is the tensor one of those that begin?
  [[nodiscard]] bool begins(const graph::Tensor&) const;
};
[[nodiscard]] OtherSlots other_slots(const TrainedAs& then, const TrainedAs& now);

/// Throws BadInput naming `asking` ("--resume DIR") when untrained weights have other values than those that the checkpoint's training
/// had, or adapters count with another factor.
void require_same_weights(const TrainedAs& then, const TrainedAs& now, const std::string& asking);

}  // namespace rehearsal::exec
