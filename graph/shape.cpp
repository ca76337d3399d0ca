#include "graph/shape.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::graph {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(count, d, &count))
      throw BadInput("shape " + to_text(shape) + " has no element count: sizes must be known and fit 63 bits");
  }
  return count;
}

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) text += ',';
    text += std::to_string(shape[d]);
  }
  return text + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::int64_t x = back <= a.size() ? a[a.size() - back] : 1;
    const std::int64_t y = back <= b.size() ? b[b.size() - back] : 1;
    if (x != y && x != 1 && y != 1) throw BadInput("shapes " + to_text(a) + " and " + to_text(b) + " do not broadcast");
    result[result.size() - back] = x == 1 ? y : x;
  }
  return result;
}

int normalize_axis(std::int64_t axis, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) {
    throw BadInput("axis " + std::to_string(axis) + " lies outside [" + std::to_string(-size) + "," + std::to_string(size) +
                   ") of a tensor of rank " + std::to_string(size));
  }
  return static_cast<int>(axis < 0 ? axis + size : axis);
}

Bytes size_of(const TensorType& type) {
  return Bytes(static_cast<double>(element_count(type.shape)) * static_cast<double>(size_of(type.dtype)));
}

}  // namespace rehearsal::graph
