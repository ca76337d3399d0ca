#include "formats/hugging_face/reading.hpp"

#include <algorithm>
#include <cmath>

#include "base/join.hpp"
#include "base/short_number.hpp"

namespace rehearsal::formats {

void must_be(const Configuration& c, const std::string& key, const std::string& value, std::string_view otherwise) {
  if (const auto given = c.text(key, otherwise); given != value) c.refuse(key, "is '" + given + "'; only '" + value + "' is built");
}

void must_be_set(const Configuration& c, const std::string& key, bool value, bool otherwise) {
  if (c.flag(key, otherwise) != value) c.refuse(key, std::string("only ") + (value ? "true" : "false") + " is built");
}

double theta(const Configuration& c, double usual) {
  if (c.is_object("rope_parameters")) return c.part("rope_parameters").number("rope_theta", c.number("rope_theta", usual));
  return c.number("rope_theta", usual);
}

double partial_rotary(const Configuration& c, double usual) {
  const double own = c.number("partial_rotary_factor", usual);
  return c.is_object("rope_parameters") ? c.part("rope_parameters").number("partial_rotary_factor", own) : own;
}

void read_sizes(const Configuration& c, ZooValues& v, const std::string& ffn) {
  v["layers"] = c.size("num_hidden_layers");
  v["hidden"] = c.size("hidden_size");
  v["vocab"] = c.size("vocab_size");
  v["ffn"] = c.size(ffn);
}

void read_heads(const Configuration& c, ZooValues& v, const UsualHeads& usual) {
  const auto heads = c.size("num_attention_heads"), hidden = v.at("hidden");
  const bool as_usual = usual.groups > 0 && c.absent("num_key_value_heads");
  const auto groups = as_usual ? usual.groups : c.size("num_key_value_heads", heads);
  if (heads % groups != 0)
    c.refuse("num_key_value_heads",
             "is " + std::to_string(groups) + ", which does not divide num_attention_heads=" + std::to_string(heads));
  if (!c.has("head_dim") && usual.width == 0 && hidden % heads != 0)
    c.refuse("num_attention_heads", "is " + std::to_string(heads) + ", which does not divide hidden_size=" + std::to_string(hidden));
  v["heads"] = heads;
  v["kv_heads"] = groups;
  v["head_dim"] = c.size("head_dim", usual.width > 0 ? usual.width : hidden / heads);
}

void read_rotary(const Configuration& c, ZooValues& v, double usual_theta, double share) {
  v["theta"] = std::llround(theta(c, usual_theta));
  v["rotary"] = std::llround(100 * share);
  const auto turning = v.at("head_dim") * v.at("rotary") / 100;
  if (std::fabs(static_cast<double>(v.at("head_dim")) * share - static_cast<double>(turning)) > 1e-6 || turning % 2 != 0)
    c.refuse("head_dim",
             "is " + std::to_string(v.at("head_dim")) + ", of which " + short_number(100 * share, 4) + " % are no pairs of features");
}

std::int64_t turning(const Configuration& c, std::int64_t features, double share) {
  const auto turns = static_cast<std::int64_t>(static_cast<double>(features) * share);
  if (turns < 2 || turns % 2 != 0 || turns > features)
    c.refuse("partial_rotary_factor",
             "of " + std::to_string(features) + " features " + std::to_string(turns) + " turn, which are no pairs");
  return turns;
}

void read_gated_decoder(const Configuration& c, ZooValues& v, const UsualHeads& usual, const std::string& ffn) {
  must_be(c, "hidden_act", "silu", "silu");
  must_be_set(c, "mlp_bias", false, false);
  read_sizes(c, v, ffn);
  read_heads(c, v, usual);
  v["tied"] = c.flag("tie_word_embeddings", false) ? 1 : 0;
}

void read_bias(const Configuration& c, ZooValues& v) { v["qkv_bias"] = v["o_bias"] = c.flag("attention_bias", false) ? 1 : 0; }

namespace {

/// (layer + 1 + offset) is a multiple of every: where the first two stand says both.
Regular regular_from(const std::vector<std::int64_t>& places, std::int64_t layers) {
  const std::int64_t at = places.front() + 1;
  std::int64_t every = layers + 1;
  if (places.size() > 1)
    every = places[1] - places[0];
  else if (2 * at > layers)
    every = at;
  return {every, (every - at % every) % every, 0};
}

bool stands_at(const Regular& r, std::int64_t layer) { return layer < r.first || (r.every > 0 && (layer + 1 + r.offset) % r.every == 0); }

}  // namespace

Regular regular(const Configuration& c, const std::string& key, const std::vector<std::string>& types, std::string_view type) {
  const auto layers = static_cast<std::int64_t>(types.size());
  for (const std::int64_t first : {0, 1}) {
    std::vector<std::int64_t> places;
    for (std::int64_t layer = first; layer < layers; ++layer)
      if (types[static_cast<std::size_t>(layer)] == type) places.push_back(layer);
    Regular found = places.empty() ? Regular{} : regular_from(places, layers);
    found.first = first;
    bool fits = true;
    for (std::int64_t layer = 0; layer < layers; ++layer)
      fits = fits && stands_at(found, layer) == (types[static_cast<std::size_t>(layer)] == type);
    if (fits) return found;
  }
  c.refuse(key, "is not regular: " + std::string(type) + " must stand at every so many places, and perhaps at the first one");
}

std::vector<std::string> layer_types(const Configuration& c, const std::string& key, std::int64_t layers,
                                     std::initializer_list<const char*> built) {
  auto types = c.texts(key);
  if (types.empty()) return types;
  if (static_cast<std::int64_t>(types.size()) != layers)
    c.refuse(key, "has " + std::to_string(types.size()) + " entries for num_hidden_layers=" + std::to_string(layers));
  for (const auto& type : types)
    if (std::ranges::find(built, type) == built.end())
      c.refuse(key,
               "has '" + type + "'; only " + joined(built, " and ", [](const char* name) { return std::string(name); }) + " are built");
  return types;
}

void set_window(const Configuration& c, ZooValues& v, const std::string& key, const std::vector<std::string>& types) {
  const auto whole = regular(c, key, types, kWhole);
  v["window_every"] = whole.every;
  v["window_offset"] = whole.offset;
  v["window_first"] = whole.first;
}

void read_window(const Configuration& c, ZooValues& v, std::int64_t window) {
  const auto types = layer_types(c, "layer_types", v.at("layers"), {kWhole, kSliding});
  if (types.empty()) return void(v["window"] = window);
  if (std::ranges::count(types, kSliding) == 0) return;
  v["window"] = window > 0 ? window : c.size("sliding_window");
  set_window(c, v, "layer_types", types);
}

std::int64_t leading(const Configuration& c, const std::string& key, std::int64_t layers, std::string_view first, std::string_view then) {
  const auto types = c.texts(key);
  const auto count = std::ranges::find(types, then) - types.begin();
  if (std::ssize(types) != layers || std::count(types.begin(), types.begin() + count, first) != count ||
      std::count(types.begin() + count, types.end(), then) != std::ssize(types) - count)
    c.refuse(key, "must have an entry for every layer: '" + std::string(first) + "' for the first ones, then '" + std::string(then) + "'");
  return count;
}

std::int64_t cap_of(const Configuration& c, const std::string& key, double usual) {
  const double cap = c.absent(key) ? usual : c.number(key, 0);
  if (cap != std::floor(cap)) c.refuse(key, "must be a whole number");
  return std::llround(cap);
}

void read_experts(const Configuration& c, ZooValues& v, const std::string& number, const std::string& chosen) {
  v["experts"] = c.size(number);
  v["top_k"] = c.size(chosen);
  if (v.at("experts") < 2) c.refuse(number, "is 1; a mixture needs at least 2");
  if (v.at("top_k") > v.at("experts"))
    c.refuse(chosen, "is " + std::to_string(v.at("top_k")) + ", more than " + number + "=" + std::to_string(v.at("experts")));
}

void read_routed(const Configuration& c, ZooValues& v, const UsualRouting& usual) {
  read_experts(c, v, "n_routed_experts", "num_experts_per_tok");
  v["moe_ffn"] = c.size("moe_intermediate_size");
  v["shared_experts"] = c.absent("n_shared_experts") ? usual.shared : c.count("n_shared_experts", 0);
  v["dense_layers"] = c.count("first_k_dense_replace", usual.dense);
  if (c.has("first_k_dense_replace") && v.at("dense_layers") > v.at("layers"))
    c.refuse("first_k_dense_replace",
             "is " + std::to_string(v.at("dense_layers")) + ", more than num_hidden_layers=" + std::to_string(v.at("layers")));
  v["gate_scale"] = std::llround(1000 * c.number("routed_scaling_factor", usual.scale));
}

void read_shared_width(const Configuration& c, ZooValues& v, const std::string& key, std::int64_t otherwise) {
  const auto width = c.count(key, otherwise), expert = v.at("moe_ffn");
  if (width % expert != 0)
    c.refuse(key, "is " + std::to_string(width) + ", which is no multiple of an expert's width " + std::to_string(expert));
  v["shared_experts"] = width / expert;
}

}  // namespace rehearsal::formats
