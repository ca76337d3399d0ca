#pragma once
// What a model wants of the data.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/training.hpp"

namespace rehearsal::exec {

/// No label is left out: no data have this one.
inline constexpr std::int64_t kNoneIgnored = std::numeric_limits<std::int64_t>::min();

/// An input of the model, or the target.
struct WantedTensor {
  std::string input;
  graph::TensorType type;  ///< whole: the first dimension is the batch, where `per_sample`
  bool per_sample = true;  ///< false: one value for all samples
  bool target = false;
  std::int64_t classes = 0;             ///< integers are below this; 0: nothing is known of them
  std::int64_t ignored = kNoneIgnored;  ///< a label that the loss leaves out
  std::string array = {};               ///< of the data, as the user says; empty: the one that suits it
  [[nodiscard]] graph::Shape sample_shape() const { return {type.shape.begin() + (per_sample ? 1 : 0), type.shape.end()}; }
};

/// Inputs first, the target last. Throws BadInput when `arrays` names an input that the model does not have.
[[nodiscard]] std::vector<WantedTensor> wanted_of(const graph::TrainingGraph&, const std::map<std::string, std::string>& arrays);

/// Largest value that an integer input may take, and one: rows of the table it looks up, or classes of the loss it is compared with.
/// 0 where neither is known.
[[nodiscard]] std::int64_t classes_of(const graph::TrainingGraph&, graph::TensorId input);

/// Whether the loss takes it for probabilities (binary cross-entropy), which lie from 0 to 1.
[[nodiscard]] bool is_probability(const graph::TrainingGraph&, graph::TensorId input);

/// For kinds of data whose arrays have names of their own: an array for every input. The target is array `for_target`, one other input
/// `usual`; a model of more inputs must name theirs. Throws BadInput naming the input.
struct ArrayNames {
  std::vector<std::string_view> known;
  std::string_view usual, for_target;
};
[[nodiscard]] std::vector<std::size_t> chosen_arrays(const std::string& where, const std::vector<WantedTensor>&, const ArrayNames&);

}  // namespace rehearsal::exec
