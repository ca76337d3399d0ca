#include "graph/zoo/scaled.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/join.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr std::array<std::string_view, 3> kSizeKeys{"layers", "hidden", "heads"};
constexpr std::array<std::string_view, 4> kFurtherKeys{"ffn", "kv_heads", "head_dim", "moe_ffn"};

bool has_key(const ZooChoice& choice, std::string_view key) { return choice.values.contains(key); }

ZooChoice sized_model(std::string_view reference) {
  auto choice = parse(reference);
  for (const auto key : kSizeKeys)
    if (!has_key(choice, key))
      throw Refusal("zoo:" + std::string(choice.row->name) + " has no '" + std::string(key) +
                    "': models of other sizes are known of those with " + joined(kSizeKeys) + ", such as zoo:llama");
  return choice;
}

double parameters_in(const ZooChoice& choice) {
  const auto graph = choice.row->build(choice.values);
  double parameters = 0;
  for (const auto& tensor : graph.tensors())
    if (is_weight(tensor.role)) parameters += static_cast<double>(element_count(tensor.type.shape));
  return parameters;
}

/// Parameters beside the blocks, and of one: a model has the same in every block.
struct FamilyParts {
  double beside = 0, block = 0;
};
FamilyParts family_parts(ZooChoice choice) {
  constexpr std::int64_t kShort = 32;  // masks of short sequences are quickly made
  const auto length = has_key(choice, "seq") ? choice.values.at("seq") : 0;
  const auto with = [&](const char* key, std::int64_t value) {
    choice.values[key] = value;
    return parameters_in(choice);
  };
  choice.values["batch"] = 1;
  choice.values["layers"] = 1;
  const double one = length > 2 * kShort ? with("seq", kShort) : parameters_in(choice);
  const double block = with("layers", 2) - one;
  choice.values["layers"] = 1;
  // A position has as many parameters as any other: those of an embedding, or none.
  const double positions = length > 2 * kShort ? (with("seq", 2 * kShort) - one) / kShort * static_cast<double>(length - kShort) : 0;
  return {one - block + positions, block};
}

/// The width that belongs to so many heads, with everything that grows with it.
ZooChoice with_heads(const ZooChoice& model, std::int64_t heads) {
  auto choice = model;
  const auto old_heads = model.values.at("heads"), old_hidden = model.values.at("hidden");
  const auto hidden = old_hidden * heads / old_heads;
  choice.values["heads"] = heads;
  choice.values["hidden"] = hidden;
  if (has_key(model, "kv_heads") && model.values.at("kv_heads") > 0)
    choice.values["kv_heads"] = heads / std::gcd(heads, old_heads / model.values.at("kv_heads"));
  constexpr std::int64_t kEven = 64;
  if (has_key(model, "ffn") && model.values.at("ffn") > 0) {
    const auto wide = model.values.at("ffn") * heads / old_heads;
    choice.values["ffn"] = wide < kEven ? wide : (wide + kEven / 2) / kEven * kEven;
  }
  return choice;
}

/// 1, 2, 3, 4, 6, 8, 10, ... 16, 20, ... 32, 40, ...: four steps to a doubling.
std::int64_t more_heads(std::int64_t heads) {
  std::int64_t step = 1;
  while (step * 8 <= heads) step *= 2;
  return heads + (heads >= 4 ? std::max<std::int64_t>(step, 2) : 1);
}

std::int64_t even_layers(double layers) {
  const double multiple = layers >= 24 ? 4 : layers >= 8 ? 2 : 1;
  return std::max<std::int64_t>(1, std::llround(layers / multiple) * static_cast<std::int64_t>(multiple));
}

std::string_view name_in(std::string_view reference) { return reference.substr(0, reference.find('?')); }

/// The name with what differs from its own sizes.
std::string reference_of(std::string_view reference, const ZooChoice& choice) {
  const auto own = parse(name_in(reference)).values;
  std::vector<std::string> keys;
  for (const auto& [key, value] : choice.values)
    if (key != "batch" && own.at(key) != value) keys.push_back(key + "=" + std::to_string(value));
  return std::string(name_in(reference)) + (keys.empty() ? "" : "?" + joined(keys, "&"));
}

}  // namespace

bool leaves_size_open(std::string_view reference) {
  constexpr std::string_view kZoo = "zoo:";
  if (!reference.starts_with(kZoo)) return false;
  const auto choice = parse(reference);
  if (name_in(reference).substr(kZoo.size()) != choice.row->name) return false;  // a published size
  const auto own = parse(choice.row->name).values;
  const auto open = [&](std::string_view key) { return !own.contains(key) || own.find(key)->second == choice.values.find(key)->second; };
  return std::ranges::all_of(kSizeKeys, [&](auto key) { return own.contains(key); }) && std::ranges::all_of(kSizeKeys, open) &&
         std::ranges::all_of(kFurtherKeys, open);
}

std::string scaled(std::string_view reference, double parameters) {
  const auto model = sized_model(reference);
  const auto shape_of = [](const ZooChoice& c, double layers) { return static_cast<double>(c.values.at("hidden")) / layers; };
  const double shape = shape_of(model, static_cast<double>(model.values.at("layers")));
  ZooChoice best = model;
  double nearest = std::numeric_limits<double>::infinity();
  for (std::int64_t heads = 1;; heads = more_heads(heads)) {
    auto choice = with_heads(model, heads);
    const auto parts = family_parts(choice);
    const double layers = (parameters - parts.beside) / parts.block;
    if (layers < 1.0 / 2) break;
    const double off = std::abs(std::log(shape_of(choice, layers) / shape));
    if (off > nearest) break;  // width over depth grows with the heads
    nearest = off;
    choice.values["layers"] = even_layers(layers);
    best = std::move(choice);
  }
  if (!std::isfinite(nearest)) {
    char text[60];
    std::snprintf(text, sizeof text, "%.3g", parameters);
    throw Refusal(std::string(reference) + " has no model of " + text + " parameters: its embedding and one block have more");
  }
  return reference_of(reference, best);
}

}  // namespace rehearsal::graph::zoo
