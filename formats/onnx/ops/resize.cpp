// Interpolation and padding: both become statements about trailing axes.

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;
using ResizeSizes = std::vector<std::int64_t>;

struct Target {
  ResizeSizes sizes;
  std::vector<double> scales;  ///< as the file gives them; empty when it gives sizes
};

/// Sizes for the named axes under "keep_aspect_ratio_policy".
void keep_aspect(const NodeImport& n, ResizeSizes& wanted, const ResizeSizes& axes) {
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return;
  double scale = policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const double own = static_cast<double>(wanted[i]) / static_cast<double>(n.shape(0)[static_cast<std::size_t>(axes[i])]);
    scale = policy == "not_larger" ? std::min(scale, own) : std::max(scale, own);
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!(scale < 0x1p31)) n.fail("its sizes cannot keep the aspect ratio of " + graph::to_text(n.shape(0)));
    wanted[i] = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(n.shape(0)[static_cast<std::size_t>(axes[i])]) + 0.5));
  }
}

std::vector<double> known_scales(NodeImport& n, std::size_t i) {
  const graph::Value& value = n.known(i, "the scales");
  std::vector<double> scales;
  for (std::int64_t k = 0; k < value.count(); ++k) scales.push_back(value.real(k));
  return scales;
}

Target target_of(NodeImport& n, std::vector<double> scales, ResizeSizes wanted) {
  const std::size_t rank = n.rank(0);
  ResizeSizes axes = n.integers("axes");
  if (axes.empty()) {
    for (std::size_t d = 0; d < rank; ++d) axes.push_back(static_cast<std::int64_t>(d));
  }
  for (std::int64_t& axis : axes) axis = graph::normalize_axis(axis, rank);
  if ((wanted.empty() ? scales.size() : wanted.size()) != axes.size())
    n.fail("gives sizes or scales of " + std::to_string(wanted.empty() ? scales.size() : wanted.size()) + " axes, it needs " +
           std::to_string(axes.size()));
  if (!wanted.empty()) keep_aspect(n, wanted, axes);
  Target target{n.shape(0), wanted.empty() ? std::vector<double>(rank, 1.0) : std::vector<double>{}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    if (!wanted.empty()) {
      target.sizes[d] = wanted[i];
      continue;
    }
    const double size = std::floor(static_cast<double>(n.shape(0)[d]) * scales[i]);
    if (!(size >= 0 && size < 0x1p53)) n.fail("the scale " + std::to_string(scales[i]) + " is not possible");
    target.sizes[d] = static_cast<std::int64_t>(size);
    target.scales[d] = scales[i];
  }
  return target;
}

void emit_resize(NodeImport& n, const Target& target, Attributes attributes) {
  std::size_t first = 0;
  while (first < target.sizes.size() && target.sizes[first] == n.shape(0)[first]) ++first;
  if (first == target.sizes.size()) return n.set(0, n.input(0));
  const auto skip = static_cast<std::ptrdiff_t>(first);
  attributes.set("sizes", ResizeSizes(target.sizes.begin() + skip, target.sizes.end()));
  if (!target.scales.empty()) attributes.set("scales", std::vector<double>(target.scales.begin() + skip, target.scales.end()));
  n.set(0, n.emit("Resize", {n.input(0)}, std::move(attributes)));
}

/// Versions 7 to 9, and Resize 10: corners of pixels, and the pixel before.
void upsample(NodeImport& n) {
  std::vector<double> scales = n.has_attribute("scales") ? n.numbers("scales") : known_scales(n, 1);
  emit_resize(n, target_of(n, std::move(scales), {}),
              {{"mode", n.text("mode", "nearest")},
               {"coordinate_transformation_mode", std::string("asymmetric")},
               {"nearest_mode", std::string("floor")}});
}

void resize(NodeImport& n) {
  const std::string coordinates = n.text("coordinate_transformation_mode", "half_pixel");
  if (coordinates == "tf_crop_and_resize") n.unsupported("cropping while resizing is not supported");
  ResizeSizes wanted = n.has(3) ? n.known_integers(3, "the sizes") : ResizeSizes{};
  std::vector<double> scales = wanted.empty() && n.has(2) ? known_scales(n, 2) : std::vector<double>{};
  Attributes attributes{{"mode", n.text("mode", "nearest")},
                        {"coordinate_transformation_mode", coordinates},
                        {"nearest_mode", n.text("nearest_mode", "round_prefer_floor")}};
  if (n.has_attribute("cubic_coeff_a")) attributes.set("cubic_coeff_a", n.number("cubic_coeff_a", -0.75));
  for (const char* flag : {"exclude_outside", "antialias"}) {
    if (n.integer(flag, 0) != 0) attributes.set(flag, std::int64_t{1});
  }
  emit_resize(n, target_of(n, std::move(scales), std::move(wanted)), std::move(attributes));
}

/// Padding of all axes, low sides then high sides.
ResizeSizes pads_of_all_axes(const NodeImport& n, ResizeSizes pads) {
  const std::size_t rank = n.rank(0);
  if (n.version() >= 18 && n.has(3)) {
    const ResizeSizes axes = n.known_integers(3, "the axes");
    if (pads.size() != 2 * axes.size())
      n.fail("pads has " + std::to_string(pads.size()) + " entries, " + std::to_string(axes.size()) + " axes need two each");
    ResizeSizes all(2 * rank, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto d = static_cast<std::size_t>(graph::normalize_axis(axes[i], rank));
      all[d] = pads[i];
      all[d + rank] = pads[i + axes.size()];
    }
    return all;
  }
  if (pads.size() != 2 * rank)
    n.fail("pads has " + std::to_string(pads.size()) + " entries, a tensor of " + std::to_string(rank) + " dimensions needs " +
           std::to_string(2 * rank));
  return pads;
}

/// Where each place along a padded axis comes from; -1: from nowhere.
std::int64_t padded_from(const NodeImport& n, const std::string& mode, std::int64_t place, std::int64_t size) {
  if (place >= 0 && place < size) return place;
  if (mode == "constant") return -1;
  if (size < 1) n.fail("an empty axis cannot be continued");
  if (mode == "edge") return std::clamp<std::int64_t>(place, 0, size - 1);
  if (mode == "wrap") return ((place % size) + size) % size;
  const std::int64_t period = std::max<std::int64_t>(1, 2 * (size - 1)), turned = ((place % period) + period) % period;
  return std::min(turned, period - turned);
}

/// Integers and truth values are padded by picking: along each axis the places where elements come from.
TensorId picked(NodeImport& n, const ResizeSizes& pads, double value) {
  const std::string mode = n.text("mode", "constant");
  const std::size_t rank = n.rank(0);
  const DType type = n.type(0).dtype;
  TensorId x = n.input(0);
  for (std::size_t d = 0; d < rank; ++d) {
    if (pads[d] == 0 && pads[d + rank] == 0) continue;
    const std::int64_t size = n.builder().type(x).shape[d], total = size + pads[d] + pads[d + rank];
    if (total < 0 || total > graph::kLargestFolded) n.fail("padding an axis to " + std::to_string(total) + " is not possible");
    ResizeSizes from, outside;
    for (std::int64_t i = 0; i < total; ++i) {
      const std::int64_t place = padded_from(n, mode, i - pads[d], size);
      from.push_back(std::max<std::int64_t>(place, 0));
      outside.push_back(place < 0);
    }
    const bool any = std::find(outside.begin(), outside.end(), 1) != outside.end();
    if (size < 1) n.unsupported("padding an empty axis is not supported");
    x = n.emit("Gather", {x, n.constant(graph::Value::vector(std::move(from)))}, {{"axis", static_cast<std::int64_t>(d)}});
    Shape along(rank, 1);
    along[d] = total;
    if (any) x = n.emit("Where", {n.constant(graph::Value::of_integers(std::move(outside), along, DType::Bool)), n.scalar(value, type), x});
  }
  return x;
}

void emit_pad(NodeImport& n, const ResizeSizes& pads, double value) {
  const std::size_t rank = n.rank(0);
  std::size_t first = 0;
  while (first < rank && pads[first] == 0 && pads[first + rank] == 0) ++first;
  if (first == rank) return n.set(0, n.input(0));
  ResizeSizes trailing(pads.begin() + static_cast<std::ptrdiff_t>(first), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  trailing.insert(trailing.end(), pads.begin() + static_cast<std::ptrdiff_t>(rank + first), pads.end());
  if (!is_float(n.type(0).dtype)) return n.set(0, picked(n, pads, value));
  n.set(0, n.emit("Pad", {n.input(0)}, {{"pads", trailing}, {"mode", n.text("mode", "constant")}, {"value", value}}));
}

void pad(NodeImport& n) {
  if (n.version() < 11)
    return emit_pad(n, pads_of_all_axes(n, n.has_attribute("pads") ? n.integers("pads") : n.integers("paddings")), n.number("value", 0));
  emit_pad(n, pads_of_all_axes(n, n.known_integers(1, "the padding")), n.has(2) ? n.known_number(2, "the padding's value") : 0);
}

constexpr ImportRow kResizeRows[] = {
    {kDefaultDomain, "Upsample", 7, 9, upsample},
    {kDefaultDomain, "Resize", 10, 10, upsample},
    {kDefaultDomain, "Resize", 11, kNewest, resize},
    {kDefaultDomain, "Pad", 1, kNewest, pad},
};

}  // namespace

std::span<const ImportRow> resize_rows() { return kResizeRows; }

}  // namespace rehearsal::formats
