#pragma once
// Which operand elements a result element of Resize or Pad is made of, axis by axis: both are products of one-dimensional maps.

#include <cstdint>
#include <vector>

#include "graph/attributes.hpp"

namespace rehearsal::graph {

/// Result element = sum of weight * operand element[index].
struct Tap {
  std::int64_t index = 0;
  double weight = 0;
};

/// One trailing axis of a Resize or Pad: `in` and `out` are sizes of the unsplit tensors.
struct ResizedAxis {
  std::int64_t in = 0, out = 0;
  double scale = 1;  ///< out / in unless the model says otherwise
};

/// Taps of position `o` of the result. Attributes: "mode" nearest, linear or cubic, "coordinate_transformation_mode", "nearest_mode",
/// "cubic_coeff_a", "exclude_outside", "antialias", all with ONNX's meaning and defaults (ONNX operator Resize, version 19).
/// Throws BadInput naming a mode that is not among the known ones.
[[nodiscard]] std::vector<Tap> resize_taps(const Attributes&, const ResizedAxis& axis, std::int64_t o);

/// Taps of position `o` when `before` elements are put before an axis of `in`: one, or none where the padding value stands.
/// Attribute "mode": constant, reflect, edge or wrap, as ONNX. Negative padding cuts off.
[[nodiscard]] std::vector<Tap> pad_taps(const Attributes&, std::int64_t in, std::int64_t before, std::int64_t o);

}  // namespace rehearsal::graph
