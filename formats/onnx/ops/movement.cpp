// Rows that move elements.

#include <algorithm>
#include <numeric>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;

void transpose(NodeImport& n) {
  Attributes attributes;
  if (n.has_attribute("perm")) attributes.set("perm", n.integers("perm"));
  n.set(0, n.emit("Transpose", {n.input(0)}, attributes));
}

void emit_slice(NodeImport& n, std::vector<std::int64_t> starts, std::vector<std::int64_t> ends, std::vector<std::int64_t> axes,
                std::vector<std::int64_t> steps) {
  Attributes attributes{{"starts", std::move(starts)}, {"ends", std::move(ends)}};
  if (!axes.empty()) attributes.set("axes", std::move(axes));
  if (!steps.empty()) attributes.set("steps", std::move(steps));
  n.set(0, n.emit("Slice", {n.input(0)}, std::move(attributes)));
}

void slice_attributes(NodeImport& n) { emit_slice(n, n.integers("starts"), n.integers("ends"), n.integers("axes"), {}); }

void slice_operands(NodeImport& n) {
  const auto optional = [&](std::size_t i, const char* what) { return n.has(i) ? n.known_integers(i, what) : std::vector<std::int64_t>{}; };
  emit_slice(n, n.known_integers(1, "where it starts"), n.known_integers(2, "where it ends"), optional(3, "its axes"),
             optional(4, "its steps"));
}

void concat(NodeImport& n) {
  const std::int64_t axis = n.integer("axis", 1);  // 1 was the default before version 4
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    // exporters join with an empty vector of another rank: it adds nothing
    if (n.shape(i) == Shape{0} && n.rank(i) != n.rank(0)) continue;
    parts.push_back(n.input(i));
  }
  n.set(0, parts.size() == 1 ? parts[0] : n.emit("Concat", std::move(parts), {{"axis", axis}}));
}

std::int64_t size_along(const NodeImport& n, std::int64_t axis) {
  return n.shape(0)[static_cast<std::size_t>(graph::normalize_axis(axis, n.rank(0)))];
}

void split(NodeImport& n) {
  const std::int64_t axis = n.integer("axis", 0), whole = size_along(n, axis);
  std::vector<std::int64_t> sizes = n.integers_from("split", 1);
  if (sizes.empty()) {
    const auto parts = n.integer("num_outputs", static_cast<std::int64_t>(n.output_count()));
    if (parts < 1 || parts > static_cast<std::int64_t>(n.output_count()))
      n.fail("num_outputs is " + std::to_string(parts) + ", the node has " + std::to_string(n.output_count()) + " results");
    const std::int64_t each = (whole + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) sizes.push_back(std::max<std::int64_t>(0, std::min(each, whole - i * each)));
  }
  const auto parts = n.emit_all("Split", {n.input(0)}, {{"axis", axis}, {"split", sizes}});
  if (parts.size() < n.output_count())
    n.fail("splits into " + std::to_string(parts.size()) + " parts, the node has " + std::to_string(n.output_count()) + " results");
  for (std::size_t i = 0; i < n.output_count(); ++i) n.set(i, parts[i]);
}

void tile(NodeImport& n) {
  if (n.version() < 6) n.unsupported("Tile before version 6 is not supported");
  n.set(0, n.emit("Tile", {n.input(0)}, {{"repeats", n.known_integers(1, "how often each dimension is repeated")}}));
}

void trilu(NodeImport& n) {
  const std::int64_t k = n.has(1) ? n.known_integer(1, "the diagonal") : 0;
  n.set(0, n.emit("Trilu", {n.input(0)}, {{"upper", n.integer("upper", 1)}, {"k", k}}));
}

/// [n, c, h, w] with blocks of channels and pixels exchanged: Reshape, Transpose, Reshape, so that dimensions can be followed through it.
void exchange(NodeImport& n, const Shape& apart, const std::vector<std::int64_t>& perm, const Shape& together) {
  n.set(0, n.reshape(n.emit("Transpose", {n.reshape(n.input(0), apart)}, {{"perm", perm}}), together));
}

std::int64_t block_size(const NodeImport& n) {
  const std::int64_t b = n.integer("blocksize", 0);
  if (n.rank(0) != 4 || b < 1 || b > 1 << 15)
    n.fail("needs an operand [n, c, h, w] and a positive blocksize; it has shape " + graph::to_text(n.shape(0)) + " and blocksize " +
           std::to_string(b));
  return b;
}

void depth_to_space(NodeImport& n) {
  const std::int64_t b = block_size(n);
  const Shape x = n.shape(0);
  if (x[1] % (b * b) != 0) n.fail("the " + std::to_string(x[1]) + " channels do not divide by blocksize squared, " + std::to_string(b * b));
  const std::int64_t c = x[1] / (b * b);
  const Shape result{x[0], c, x[2] * b, x[3] * b};
  if (n.text("mode", "DCR") == "CRD") return exchange(n, {x[0], c, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, result);
  exchange(n, {x[0], b, b, c, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, result);
}

void space_to_depth(NodeImport& n) {
  const std::int64_t b = block_size(n);
  const Shape x = n.shape(0);
  if (x[2] % b != 0 || x[3] % b != 0) n.fail("the image " + graph::to_text(x) + " does not divide by blocksize " + std::to_string(b));
  const bool columns_first = n.text("mode", "DCR") == "CRD";
  const std::vector<std::int64_t> perm =
      columns_first ? std::vector<std::int64_t>{0, 1, 3, 5, 2, 4} : std::vector<std::int64_t>{0, 3, 5, 1, 2, 4};
  exchange(n, {x[0], x[1], x[2] / b, b, x[3] / b, b}, perm, {x[0], x[1] * b * b, x[2] / b, x[3] / b});
}

/// Cuts what is too long and adds zeros where it is too short, half on either side; an odd one goes to the end.
void center_crop_pad(NodeImport& n) {
  const Shape shape = n.shape(0);
  std::vector<std::int64_t> axes = n.integers("axes");
  const std::vector<std::int64_t> wanted = n.known_integers(1, "the sizes");
  if (axes.empty()) {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (axes.size() != wanted.size())
    n.fail("gives " + std::to_string(wanted.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  std::vector<std::int64_t> starts, ends, pads(2 * shape.size(), 0);
  bool pads_any = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t d = graph::normalize_axis(axes[i], shape.size());
    if (wanted[i] < 0 || wanted[i] > std::int64_t{1} << 40) n.fail("a size of " + std::to_string(wanted[i]) + " is not possible");
    const std::int64_t start = shape[d] > wanted[i] ? (shape[d] - wanted[i]) / 2 : 0;
    const std::int64_t missing = std::max<std::int64_t>(0, wanted[i] - shape[d]);
    starts.push_back(start);
    ends.push_back(start + std::min(shape[d], wanted[i]));
    pads[d] = missing / 2;
    pads[d + shape.size()] = missing - missing / 2;
    pads_any = pads_any || missing > 0;
  }
  const TensorId cut = n.emit("Slice", {n.input(0)}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  n.set(0, pads_any ? n.emit("Pad", {cut}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", 0.0}}) : cut);
}

/// A sliding window over an image of `space`, as Col2Im has it.
struct Windows {
  Shape space, block, dilations, pads, strides;
};

Windows windows_of(NodeImport& n) {
  Windows w{n.known_integers(1, "the image's shape"), n.known_integers(2, "the block's shape"), n.integers("dilations"), n.integers("pads"),
            n.integers("strides")};
  const std::size_t axes = w.space.size();
  if (w.dilations.empty()) w.dilations.assign(axes, 1);
  if (w.strides.empty()) w.strides.assign(axes, 1);
  if (w.pads.empty()) w.pads.assign(2 * axes, 0);
  if (axes == 0 || w.block.size() != axes || w.dilations.size() != axes || w.strides.size() != axes || w.pads.size() != 2 * axes)
    n.fail("image, block, dilations, strides and pads must speak of the same axes");
  for (const Shape* sizes : {&w.space, &w.block, &w.dilations, &w.strides}) {
    if (std::any_of(sizes->begin(), sizes->end(), [](std::int64_t size) { return size < 1; })) n.fail("all sizes must be positive");
  }
  return w;
}

/// Adds to every place (an offset in the image, or -1 outside) one axis more: steps of the window first, or its positions.
void extend(std::vector<std::int64_t>& places, const std::vector<std::int64_t>& coordinates, std::int64_t size) {
  std::vector<std::int64_t> result;
  for (const std::int64_t place : places) {
    for (const std::int64_t c : coordinates) result.push_back(place < 0 || c < 0 || c >= size ? -1 : place * size + c);
  }
  places = std::move(result);
}

/// For element (offset in the block, position of the window), both in row-major order: where in the image it goes, or -1.
std::vector<std::int64_t> places_of(NodeImport& n, const Windows& w) {
  std::int64_t blocks = 1, positions = 1;
  Shape count;
  for (std::size_t d = 0; d < w.space.size(); ++d) {
    const std::int64_t reach = w.space[d] + w.pads[d] + w.pads[d + w.space.size()] - w.dilations[d] * (w.block[d] - 1) - 1;
    if (reach < 0) n.fail("the block is larger than the padded image");
    count.push_back(reach / w.strides[d] + 1);
    blocks *= w.block[d];
    positions *= count[d];
  }
  if (n.rank(0) != 3 || n.shape(0)[1] % blocks != 0 || n.shape(0)[2] != positions)
    n.fail("operand 0 has shape " + graph::to_text(n.shape(0)) + ", it must be [batch, channels x " + std::to_string(blocks) + ", " +
           std::to_string(positions) + "]");
  std::vector<std::int64_t> all;
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::vector<std::int64_t> places = {0};
    std::int64_t inner = blocks, rest = b;
    for (std::size_t d = 0; d < w.space.size(); ++d) {
      inner /= w.block[d];
      std::vector<std::int64_t> coordinates;
      for (std::int64_t p = 0; p < count[d]; ++p) coordinates.push_back(p * w.strides[d] + rest / inner * w.dilations[d] - w.pads[d]);
      rest %= inner;
      extend(places, coordinates, w.space[d]);
    }
    all.insert(all.end(), places.begin(), places.end());
  }
  return all;
}

/// Columns are added up where they came from (PyTorch's fold); what lies in the padding goes to a place that is cut off.
void columns_to_image(NodeImport& n) {
  const Windows w = windows_of(n);
  std::vector<std::int64_t> places = places_of(n, w);
  const std::int64_t pixels = graph::element_count(w.space), count = static_cast<std::int64_t>(places.size());
  std::replace(places.begin(), places.end(), std::int64_t{-1}, pixels);
  const std::int64_t batch = n.shape(0)[0], images = graph::element_count(n.shape(0)) / count;
  const TensorId zeros =
      n.emit("ConstantOfShape", {}, {{"shape", Shape{images, pixels + 1}}, {"dtype", std::string(name(n.type(0).dtype))}});
  const TensorId row = n.constant(graph::Value::of_integers(std::move(places), {1, count}, DType::I64));
  const TensorId indices = n.emit("Expand", {row}, {{"shape", Shape{images, count}}});
  const TensorId sums = n.emit("ScatterElements", {zeros, indices, n.reshape(n.input(0), {images, count})},
                               {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}});
  const TensorId inside = n.emit("Slice", {sums}, {{"starts", Shape{0}}, {"ends", Shape{pixels}}, {"axes", Shape{1}}});
  Shape image{batch, images / batch};
  image.insert(image.end(), w.space.begin(), w.space.end());
  n.set(0, n.reshape(inside, std::move(image)));
}

constexpr ImportRow kMovementRows[] = {
    {kDefaultDomain, "Col2Im", 18, kNewest, columns_to_image},
    {kDefaultDomain, "Transpose", 1, kNewest, transpose},
    {kDefaultDomain, "Slice", 1, 9, slice_attributes},
    {kDefaultDomain, "Slice", 10, kNewest, slice_operands},
    {kDefaultDomain, "Concat", 1, kNewest, concat},
    {kDefaultDomain, "Split", 1, kNewest, split},
    {kDefaultDomain, "Tile", 1, kNewest, tile},
    {kDefaultDomain, "Trilu", 14, kNewest, trilu},
    {kDefaultDomain, "DepthToSpace", 1, kNewest, depth_to_space},
    {kDefaultDomain, "SpaceToDepth", 1, kNewest, space_to_depth},
    {kDefaultDomain, "CenterCropPad", 18, kNewest, center_crop_pad},
};

}  // namespace

std::span<const ImportRow> movement_rows() { return kMovementRows; }

}  // namespace rehearsal::formats
