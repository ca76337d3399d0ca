#pragma once
// The architecture that a Hugging Face configuration file (config.json, beside a model's weights) describes, in the words of the zoo.

#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::formats {

struct HuggingFaceModel {
  std::string zoo;                     ///< "zoo:NAME?key=value&..."
  std::vector<std::string> without;    ///< what the file describes beside the language model, a sentence each
  std::vector<std::string> otherwise;  ///< constants that are built with other values than the file's: nothing to sizes and costs, but
                                       ///< another function to train; a sentence each
};

/// "hf:PATH/config.json", or the folder that has one, with parameters of the zoo's model behind a '?' that stand over the file's
/// (hf:llama/config.json?seq=8192&batch=4). Files do not say how long samples are: as many tokens as positions, at most 4,096, unless seq
/// is given. Only architectures that the zoo builds with the same parameters are read. Throws BadInput naming the file and the key: a file
/// that cannot be read or is no JSON object, a key that is missing or has a value of the wrong type or size, and, with the nearest one that
/// is read, an architecture that is not.
[[nodiscard]] HuggingFaceModel read_hugging_face(std::string_view reference);

}  // namespace rehearsal::formats
