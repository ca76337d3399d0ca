#pragma once
// Where samples come from.

#include <cstdint>
#include <memory>
#include <string>

#include "graph/training.hpp"

namespace rehearsal::exec {

/// Samples [first, first + count) of one input, counted from the first one that training sees, over all steps and epochs.
struct SampleRequest {
  const std::string& input;       ///< the graph's input, or the target
  const graph::TensorType& type;  ///< local type: dimension 0 is `count` samples
  std::int64_t first = 0, count = 0;
};

class DataSource {
 public:
  virtual ~DataSource() = default;
  /// Fills `out` with the samples, converted to the type's element type.
  virtual void read(const SampleRequest& request, void* out) = 0;
  /// What a sample of the training is called in a message: "row 17 of train.npz".
  [[nodiscard]] virtual std::string origin_of(std::int64_t sample) { return "sample " + std::to_string(sample) + " of the data"; }
  /// Samples of one epoch; 0: endless.
  [[nodiscard]] virtual std::int64_t samples() const = 0;
};

/// Random samples: floats standard normal, integers uniform below `classes` of that input (labels, token ids); the same for every plan.
[[nodiscard]] std::unique_ptr<DataSource> synthetic_data(const graph::TrainingGraph& training, std::uint64_t seed);

struct NpzOptions {
  bool shuffle = true;  ///< a new order every epoch, from the seed
  std::uint64_t seed = 0;
};
/// Arrays of a NumPy .npz file, named as the graph's inputs (and the target's name). Checked against the graph: throws BadInput naming the
/// file, the array and the input that do not fit together.
[[nodiscard]] std::unique_ptr<DataSource> npz_data(const std::string& path, const graph::TrainingGraph& training,
                                                   const NpzOptions& options);

}  // namespace rehearsal::exec
