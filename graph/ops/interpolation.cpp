#include "graph/ops/interpolation.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/join.hpp"

namespace rehearsal::graph {
namespace {

template <class Function>
struct Named {
  std::string_view name;
  Function function;
};

template <class Function, std::size_t N>
Function named(const Named<Function> (&rows)[N], std::string_view key, const std::string& name) {
  for (const auto& row : rows)
    if (row.name == name) return row.function;
  throw BadInput("attribute '" + std::string(key) + "' is '" + name + "', it must be one of " + joined(rows, ", ", &Named<Function>::name));
}

/// Where the centre of result element o lies in the operand, in its index units.
using Coordinate = double (*)(const ResizedAxis&, double o);

double half_pixel(const ResizedAxis& a, double o) { return (o + 0.5) / a.scale - 0.5; }

double half_pixel_symmetric(const ResizedAxis& a, double o) {
  const double exact = a.scale * static_cast<double>(a.in), adjustment = static_cast<double>(a.out) / exact;
  return static_cast<double>(a.in) / 2 * (1 - adjustment) + half_pixel(a, o);
}

/// A stated scale gives a length that need not be whole, as in ONNX's reference.
double align_corners(const ResizedAxis& a, double o) {
  return a.out > 1 ? o * static_cast<double>(a.in - 1) / (a.scale * static_cast<double>(a.in) - 1) : 0.0;
}

constexpr Named<Coordinate> kCoordinates[] = {
    {"half_pixel", half_pixel},
    {"half_pixel_symmetric", half_pixel_symmetric},
    {"pytorch_half_pixel", [](const ResizedAxis& a, double o) { return a.out > 1 ? half_pixel(a, o) : 0.0; }},
    {"align_corners", align_corners},
    {"tf_half_pixel_for_nn", [](const ResizedAxis& a, double o) { return (o + 0.5) / a.scale; }},
    {"asymmetric", [](const ResizedAxis& a, double o) { return o / a.scale; }},
};

using Rounding = double (*)(double);
constexpr Named<Rounding> kRoundings[] = {
    {"round_prefer_floor", [](double x) { return std::ceil(x - 0.5); }},
    {"round_prefer_ceil", [](double x) { return std::floor(x + 0.5); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
};

using Taps = std::vector<Tap>;
using Mode = Taps (*)(const Attributes&, double x);

Taps nearest(const Attributes& attributes, double x) {
  const Rounding round = named(kRoundings, "nearest_mode", attributes.text("nearest_mode", "round_prefer_floor"));
  return {{static_cast<std::int64_t>(round(x)), 1.0}};
}

Taps linear(const Attributes&, double x) {
  const double low = std::floor(x), part = x - low;
  const auto i = static_cast<std::int64_t>(low);
  return {{i, 1 - part}, {i + 1, part}};
}

/// Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981, equation 4 with parameter a.
double keys(double a, double distance) {
  const double t = std::abs(distance);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0.0;
}

Taps cubic(const Attributes& attributes, double x) {
  const double a = attributes.number("cubic_coeff_a", -0.75), low = std::floor(x);
  Taps taps;
  for (int k = -1; k <= 2; ++k) taps.push_back({static_cast<std::int64_t>(low) + k, keys(a, x - low - k)});
  return taps;
}

/// Shrinking with "antialias": the filter of upsampling, as wide as it reaches in the operand's own grid, its taps adding up to 1
/// (ONNX's reference; the images of PIL and PyTorch's antialias=True, which leave out what lies outside).
Taps stretched(double x, double scale, double reach, double (*filter)(double a, double distance), double a) {
  const auto start = static_cast<std::int64_t>(std::floor(-reach / scale)) + 1;
  const double low = std::floor(x);
  const auto count = 2 * static_cast<std::int64_t>(reach) - 2 * start;
  Taps taps;
  double total = 0;
  for (std::int64_t k = start; k < start + count; ++k) {
    taps.push_back({static_cast<std::int64_t>(low) + k, filter(a, (low + static_cast<double>(k) - x) * scale)});
    total += taps.back().weight;
  }
  for (Tap& tap : taps) tap.weight /= total;
  return taps;
}

double triangle(double, double distance) { return std::max(0.0, 1 - std::abs(distance)); }

Taps antialiased(const Attributes& attributes, const std::string& mode, double x, double scale) {
  if (mode == "linear") return stretched(x, scale, 1, triangle, 0);
  return stretched(x, scale, 2, keys, attributes.number("cubic_coeff_a", -0.75));
}

constexpr Named<Mode> kModes[] = {{"nearest", nearest}, {"linear", linear}, {"cubic", cubic}};

/// Taps outside the operand count for its border; with "exclude_outside" not at all.
void keep_inside(Taps& taps, std::int64_t in, bool exclude) {
  double total = 0;
  for (Tap& tap : taps) {
    if (exclude && (tap.index < 0 || tap.index >= in)) tap.weight = 0;
    tap.index = std::clamp<std::int64_t>(tap.index, 0, in - 1);
    total += tap.weight;
  }
  for (Tap& tap : taps) tap.weight /= exclude && total != 0 ? total : 1;
  std::erase_if(taps, [](const Tap& tap) { return tap.weight == 0; });
}

using SourcePlace = std::int64_t (*)(std::int64_t i, std::int64_t in);

std::int64_t wrapped(std::int64_t i, std::int64_t period) { return (i % period + period) % period; }

std::int64_t reflected(std::int64_t i, std::int64_t in) {
  if (in == 1) return 0;
  const std::int64_t at = wrapped(i, 2 * (in - 1));
  return at < in ? at : 2 * (in - 1) - at;
}

constexpr std::int64_t kNowhere = -1;
constexpr Named<SourcePlace> kPlaces[] = {
    {"constant", [](std::int64_t i, std::int64_t in) { return i >= 0 && i < in ? i : kNowhere; }},
    {"reflect", reflected},
    {"edge", [](std::int64_t i, std::int64_t in) { return std::clamp<std::int64_t>(i, 0, in - 1); }},
    {"wrap", wrapped},
};

}  // namespace

std::vector<Tap> resize_taps(const Attributes& attributes, const ResizedAxis& axis, std::int64_t o) {
  if (axis.in == axis.out && axis.scale == 1) return {{o, 1.0}};
  const std::string mode_name = attributes.text("mode", "nearest");
  const Mode mode = named(kModes, "mode", mode_name);
  const Coordinate coordinate =
      named(kCoordinates, "coordinate_transformation_mode", attributes.text("coordinate_transformation_mode", "half_pixel"));
  const double x = coordinate(axis, static_cast<double>(o));
  const bool smoothed = attributes.integer("antialias", 0) != 0 && axis.scale < 1 && mode_name != "nearest";
  Taps taps = smoothed ? antialiased(attributes, mode_name, x, axis.scale) : mode(attributes, x);
  keep_inside(taps, axis.in, attributes.integer("exclude_outside", 0) != 0);
  return taps;
}

std::vector<Tap> pad_taps(const Attributes& attributes, std::int64_t in, std::int64_t before, std::int64_t o) {
  const SourcePlace place = named(kPlaces, "mode", attributes.text("mode", "constant"));
  const std::int64_t at = place(o - before, in);
  return at == kNowhere ? std::vector<Tap>{} : std::vector<Tap>{{at, 1.0}};
}

}  // namespace rehearsal::graph
