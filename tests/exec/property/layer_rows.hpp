#pragma once
// The layers that random models are made of, by what they read: one table for each file.

#include <span>
#include <string>
#include <string_view>

#include "graph/zoo/layers.hpp"
#include "tests/exec/property/models.hpp"

namespace rehearsal::property {

using graph::Shape;
using graph::TensorId;
using graph::zoo::Layers;

/// Where a layer is put: behind x, its parameters and nodes named after `name`.
struct Site {
  Layers& layers;
  std::string name;
  TensorId x;
  Numbers numbers;
  TensorId table = TensorId::None;  ///< of the embedding that the model begins with
  [[nodiscard]] std::string at(std::string_view part) const { return name + "." + std::string(part); }
  [[nodiscard]] Shape shape() const { return layers.shape(x); }
  [[nodiscard]] std::int64_t number(std::size_t i) const { return i < numbers.size() ? numbers[i] : 0; }
};

struct LayerRow {
  std::string_view name;
  bool (*fits)(const Shape&, const Numbers&);
  Numbers (*draw)(Draws&, const Shape&);
  TensorId (*add)(const Site&);
};

[[nodiscard]] std::span<const LayerRow> feature_layers();   ///< [batch, features] and [batch, sequence, features]
[[nodiscard]] std::span<const LayerRow> sequence_layers();  ///< [batch, sequence, features]
[[nodiscard]] std::span<const LayerRow> image_layers();     ///< [batch, channels, height, width]

/// Elements [first, last) of one axis.
[[nodiscard]] inline TensorId sliced(Layers& layers, const std::string& name, TensorId x, std::int64_t axis,
                                     std::pair<std::int64_t, std::int64_t> range) {
  return layers.node(name, "Slice", {x}, {{"starts", Shape{range.first}}, {"ends", Shape{range.second}}, {"axes", Shape{axis}}});
}
/// A layer over the last axis, whatever the rank.
[[nodiscard]] inline TensorId dense_or_linear(Layers& layers, const std::string& name, TensorId x, std::int64_t features) {
  return layers.shape(x).size() == 2 ? layers.linear(name, x, features) : layers.dense(name, x, features);
}

}  // namespace rehearsal::property
