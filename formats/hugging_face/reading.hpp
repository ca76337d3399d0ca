#pragma once
// What the readers of several architectures share. All throw BadInput naming file and key.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hugging_face/configuration.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::formats {

using graph::zoo::ZooValues;

inline constexpr const char* kWhole = "full_attention";
inline constexpr const char* kSliding = "sliding_attention";

/// What is otherwise is refused.
void must_be(const Configuration&, const std::string& key, const std::string& value, std::string_view otherwise);
void must_be_set(const Configuration&, const std::string& key, bool value, bool otherwise);

/// rope_theta, under its own key or among rope_parameters, as newer files have it.
[[nodiscard]] double theta(const Configuration&, double usual);
[[nodiscard]] double partial_rotary(const Configuration&, double usual = 1);

/// Layers, widths, vocabulary; the feed-forward layer's width under the key `ffn`.
void read_sizes(const Configuration&, ZooValues&, const std::string& ffn = "intermediate_size");
/// What an architecture's class has where a file says nothing; 0: as many groups as heads, which share out the hidden size.
struct UsualHeads {
  std::int64_t groups = 0, width = 0;
};
void read_heads(const Configuration&, ZooValues&, const UsualHeads& = {});
/// Positions that turn pairs of features; the share of a head that turns, in whole percent.
void read_rotary(const Configuration&, ZooValues&, double usual_theta, double share);
/// Features of a head of so many that turn, of which the share is rounded down.
[[nodiscard]] std::int64_t turning(const Configuration&, std::int64_t features, double share);
/// Decoders with RMS norms, gated feed-forward layers and rotary positions, without biases unless attention_bias says so.
void read_gated_decoder(const Configuration&, ZooValues&, const UsualHeads& = {}, const std::string& ffn = "intermediate_size");
void read_bias(const Configuration&, ZooValues&);

/// Where a kind of layer stands: at the first ones, and where layer + 1 + offset is a multiple of every; 0: at no others.
struct Regular {
  std::int64_t every = 0, offset = 0, first = 0;
};
/// Refuses a list of types that is not so. `key` is where the list comes from.
[[nodiscard]] Regular regular(const Configuration&, const std::string& key, const std::vector<std::string>& types, std::string_view type);
/// A text for every layer, each among those that are built; none where there is no such key.
[[nodiscard]] std::vector<std::string> layer_types(const Configuration&, const std::string& key, std::int64_t layers,
                                                   std::initializer_list<const char*> built);
/// Which layers have no window, of kWhole and kSliding.
void set_window(const Configuration&, ZooValues&, const std::string& key, const std::vector<std::string>& types);
/// Every layer, or every so many but one, looks back over a window: what layer_types says.
void read_window(const Configuration&, ZooValues&, std::int64_t window);
/// How many layers are `first` before the others, which are all `then`.
[[nodiscard]] std::int64_t leading(const Configuration&, const std::string& key, std::int64_t layers, std::string_view first,
                                   std::string_view then);

/// A cap is a whole number in the published files; null is none.
[[nodiscard]] std::int64_t cap_of(const Configuration&, const std::string& key, double usual);
/// Experts under these keys; how many each token has must be no more than there are.
void read_experts(const Configuration&, ZooValues&, const std::string& number, const std::string& chosen);
/// What an architecture's class has where a file says nothing.
struct UsualRouting {
  std::int64_t shared = 0, dense = 0;
  double scale = 1;
};
/// Experts of a width of their own, shared ones beside them, first blocks without, as DeepSeek's.
void read_routed(const Configuration&, ZooValues&, const UsualRouting&);
/// As many shared experts as make up the width under the key; 0 where there is none.
void read_shared_width(const Configuration&, ZooValues&, const std::string& key, std::int64_t otherwise);

}  // namespace rehearsal::formats
