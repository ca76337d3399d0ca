#pragma once
// What the names of models say: published shapes of transformers, networks of the zoo, data sets that are usual with a model.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "validation/model.hpp"

namespace rehearsal::validation {

/// The shape of a transformer that is known by name; 0: nothing is usual.
struct KnownShape {
  std::string_view name;  ///< lower case, words joined by dashes
  int layers, hidden, heads, kv_heads, ffn, vocab, seq;
  std::map<std::string, std::int64_t> more = {};  ///< further parameters of the zoo's model: experts, widths of heads, norms
};
/// The row whose name is the longest that stands in `name` (dashed()), with or without the dashes beside letters; nothing where none does.
[[nodiscard]] std::optional<KnownShape> known_shape(const std::string& name);
/// A decoder with as many parameters as its name says ("GPT 22B"), or else `parameters`, in usual proportions; feed-forward width,
/// vocabulary and sequence are 0. Nothing where neither says it.
[[nodiscard]] std::optional<KnownShape> shape_of_size(const std::string& name, double parameters);
/// Whether a name (dashed()) is of a family of decoders.
[[nodiscard]] bool names_decoder(const std::string& name);

/// The zoo's row and parameters of a vision model, by its name (dashed()); nothing where no pattern or no generator fits.
[[nodiscard]] std::optional<RecordModel> known_vision_model(const std::string& name);

/// Samples of one epoch of the data set that a model is usually trained on; 0: unknown. `seq` is of a transformer.
[[nodiscard]] double usual_epoch(std::string_view name, double seq);

/// Lower case text with dashes for blanks and underscores.
[[nodiscard]] std::string dashed(std::string text);

}  // namespace rehearsal::validation
