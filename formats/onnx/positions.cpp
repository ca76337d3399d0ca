#include "formats/onnx/positions.hpp"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::formats {
namespace {

constexpr double kTolerance = 1e-4;  ///< f32, and sines of products that were rounded
constexpr std::int64_t kComparedRows = 8;

/// Values that the file holds, and few enough to look at.
bool can_be_read(const graph::TensorType& type, const graph::Contents& contents) {
  return contents.known() && is_float(type.dtype) && graph::element_count(type.shape) <= graph::kLargestFolded &&
         !std::holds_alternative<graph::Fill>(contents.source) && !std::holds_alternative<graph::RandomNormal>(contents.source);
}

bool near(double a, double b) { return std::abs(a - b) <= kTolerance; }

/// A column that begins with 0 is a sine, one that begins with 1 a cosine; its second row tells the frequency.
bool is_wave(const std::vector<double>& values, std::int64_t rows, std::int64_t columns, std::int64_t column) {
  const auto at = [&](std::int64_t row) { return values[static_cast<std::size_t>(row * columns + column)]; };
  const bool sine = at(0) == 0;
  if ((!sine && at(0) != 1) || std::abs(at(1)) > 1) return false;
  const double frequency = sine ? std::asin(at(1)) : std::acos(at(1));
  for (std::int64_t row = 2; row < std::min(rows, kComparedRows); ++row) {
    const double angle = frequency * static_cast<double>(row);
    if (!near(at(row), sine ? std::sin(angle) : std::cos(angle))) return false;
  }
  return true;
}

}  // namespace

bool is_rotary_frequencies(const graph::TensorType& type, const graph::Contents& contents) {
  if (type.shape.empty() || graph::element_count(type.shape) != *std::max_element(type.shape.begin(), type.shape.end())) return false;
  if (graph::element_count(type.shape) < 4 || !can_be_read(type, contents)) return false;
  const auto values = graph::read_reals(contents, type.shape, 0, 0);
  if (values[0] != 1 || !(values[1] > 0 && values[1] < 1)) return false;
  for (std::size_t i = 2; i < values.size(); ++i)
    if (!(std::abs(values[i] / values[i - 1] / values[1] - 1) <= kTolerance)) return false;
  return true;
}

bool is_sinusoidal_table(const graph::TensorType& type, const graph::Contents& contents) {
  if (type.shape.size() < 2) return false;
  const std::int64_t columns = type.shape.back(), rows = type.shape[type.shape.size() - 2];
  if (rows < 3 || columns < 4 || graph::element_count(type.shape) != rows * columns || !can_be_read(type, contents)) return false;
  const auto values = graph::read_reals(contents, type.shape, 0, 0);
  const auto moves = [&](std::int64_t column) {
    return values[static_cast<std::size_t>(columns + column)] != values[static_cast<std::size_t>(column)];
  };
  std::int64_t moving = 0;
  for (std::int64_t column = 0; column < columns; ++column) {
    if (!is_wave(values, rows, columns, column)) return false;
    moving += moves(column);
  }
  return 2 * moving >= columns;  // not a table of zeros and ones
}

}  // namespace rehearsal::formats
