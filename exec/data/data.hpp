#pragma once
// Where samples come from.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/data/pictures/treatment.hpp"
#include "graph/training.hpp"
#include "plan/layout.hpp"

namespace rehearsal::exec {

/// Samples [first, first + count) of one input, counted from the first one that training sees, over all steps and epochs.
struct SampleRequest {
  const std::string& input;       ///< the graph's input, or the target
  const graph::TensorType& type;  ///< local type: dimension 0 is `count` samples
  std::int64_t first = 0, count = 0;
  /// Of the whole tensor: what is wanted of every sample along the dimensions behind the first (that one is not looked at); nullptr: all.
  /// Only of a source that reads_parts().
  const plan::Region* part = nullptr;
};

/// Since a source was opened.
struct DataFigures {
  std::int64_t bytes = 0;  ///< read from files
  double waited = 0;       ///< seconds that read() took
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
  [[nodiscard]] virtual bool reads_parts() const { return false; }
  [[nodiscard]] virtual DataFigures figures() const { return {}; }
  /// Tells other data of as many samples (ends.hpp); empty: nothing is known.
  [[nodiscard]] virtual std::string checksum() const { return {}; }
};

/// Random samples: floats standard normal, integers uniform below `classes` of that input (labels, token ids); the same for every plan.
[[nodiscard]] std::unique_ptr<DataSource> synthetic_data(const graph::TrainingGraph& training, std::uint64_t seed);

struct DataOptions {
  /// Each is KIND:PATH?KEY=VALUE&..., KIND and keys where they do not go without saying; PATH may have {000..099}, {a,b} and *. All are of
  /// one kind, one after the other. Kinds are the rows of data_kinds().
  std::vector<std::string> sources;
  std::map<std::string, std::string> arrays;  ///< input of the model -> array of the data, where the names differ
  bool shuffle = true;                        ///< a new order every epoch, from the seed
  std::uint64_t seed = 0;
  int threads = 1;  ///< that read ahead; 0: samples are read when they are wanted
  PictureTreatment pictures;
};

/// Throws BadInput naming the file, the array and the input that do not fit together; the order is a function of the seed alone.
[[nodiscard]] std::unique_ptr<DataSource> open_data(const DataOptions&, const graph::TrainingGraph&);
/// Samples of an epoch, whatever the batch. `training` is of any batch.
[[nodiscard]] std::int64_t samples_of(const DataOptions&, const graph::TrainingGraph& training);
/// Names of the arrays where files name them; nothing for kinds of data that have the same arrays always.
[[nodiscard]] std::optional<std::vector<std::string>> array_names(const DataOptions&);
/// Throws BadInput when a file is missing or nothing that is read. Of files that name their arrays it reads the names.
void require_data(const std::vector<std::string>& sources);

}  // namespace rehearsal::exec
