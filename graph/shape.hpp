#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/units.hpp"

namespace rehearsal::graph {

/// Sizes of a tensor's dimensions, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

[[nodiscard]] std::int64_t element_count(const Shape&);  ///< 1 for a scalar
[[nodiscard]] std::string to_text(const Shape&);         ///< "[2,3,224,224]"
/// NumPy's broadcasting of two shapes. Throws BadInput naming both shapes when they do not broadcast.
[[nodiscard]] Shape broadcast(const Shape& a, const Shape& b);
/// Axis counted from the front; negative axes count from the back. Throws BadInput when outside [-rank, rank).
[[nodiscard]] int normalize_axis(std::int64_t axis, std::size_t rank);

/// What a tensor is, without its values.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
[[nodiscard]] Bytes size_of(const TensorType&);

}  // namespace rehearsal::graph
