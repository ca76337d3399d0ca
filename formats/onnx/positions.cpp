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

/// The values of one row of a matrix that a file or memory holds; none for what is made up.
std::vector<double> row_of(const graph::TensorType& type, const graph::Contents& contents, std::int64_t row) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(type.shape[1]) * size_of(contents.stored);
  const std::uint64_t offset = static_cast<std::uint64_t>(row) * bytes, all = static_cast<std::uint64_t>(type.shape[0]) * bytes;
  graph::Contents part = contents;
  if (auto* region = std::get_if<graph::FileRegion>(&part.source); region && region->bytes == all) {
    region->offset += offset;
    region->bytes = bytes;
  } else if (const auto* held = std::get_if<graph::InlineBytes>(&contents.source); held && held->data->size() == all) {
    const auto from = held->data->begin() + static_cast<std::ptrdiff_t>(offset);
    part.source = graph::InlineBytes{std::make_shared<std::vector<std::byte>>(from, from + static_cast<std::ptrdiff_t>(bytes))};
  } else {
    return {};
  }
  return graph::read_reals(part, {type.shape[1]}, 0, 0);
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

bool has_padding_row(const graph::TensorType& type, const graph::Contents& contents) {
  static constexpr std::int64_t kFirstRows = 4;  // padding_idx is 0 or 1 nearly always, or the last
  if (type.shape.size() != 2 || type.shape[0] < 3 || type.shape[1] < 2 || !contents.known() || !is_float(type.dtype)) return false;
  std::int64_t zeros = 0;
  const auto look_at = [&](std::int64_t row) {
    const auto values = row_of(type, contents, row);
    zeros += !values.empty() && std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
  };
  for (std::int64_t row = 0; row < std::min(kFirstRows, type.shape[0] - 1); ++row) look_at(row);
  look_at(type.shape[0] - 1);
  return zeros == 1;
}

}  // namespace rehearsal::formats
