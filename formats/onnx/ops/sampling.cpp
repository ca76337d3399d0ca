// Pixels at places that are computed: GridSample and RoiAlign, made of gathers and weights, so that gradients reach images and places.

#include <algorithm>
#include <numeric>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

enum class Border : std::uint8_t { Zeros, Edge, Reflection };

/// Images [n, c, ...] of any number of spatial axes as rows of channels, one for each pixel.
class Pixels {
 public:
  Pixels(NodeImport& n, TensorId images, Border border, bool corners)
      : n_(n), border_(border), corners_(corners), type_(n.builder().type(images).dtype) {
    const Shape shape = n.builder().type(images).shape;
    sizes_.assign(shape.begin() + 2, shape.end());
    Shape channels_last(shape.size(), 0);
    std::iota(channels_last.begin() + 1, channels_last.end() - 1, 2);
    channels_last.back() = 1;
    rows_ = n.reshape(n.emit("Transpose", {images}, {{"perm", channels_last}}), {shape[0] * count(), shape[1]});
  }
  [[nodiscard]] std::size_t axes() const { return sizes_.size(); }
  [[nodiscard]] std::int64_t count() const { return graph::element_count(sizes_); }  ///< of one image

  /// Channels [samples..., c] of the pixels at whole places (i64), one for each axis, of `images`, which counts pixels of the images
  /// before.
  TensorId at(TensorId images, const std::vector<TensorId>& places) {
    TensorId place = placed(places[0], sizes_[0]);
    for (std::size_t d = 1; d < places.size(); ++d) {
      const TensorId rows = n_.emit("Mul", {place, n_.scalar(static_cast<double>(sizes_[d]), DType::I64)});
      place = n_.emit("Add", {rows, placed(places[d], sizes_[d])});
    }
    return n_.emit("Gather", {rows_, n_.emit("Add", {images, place})}, {{"axis", std::int64_t{0}}});
  }
  /// 1 where a place lies in the image along an axis, else 0; None when every place does.
  TensorId inside(TensorId place, std::size_t axis) {
    if (border_ != Border::Zeros) return TensorId::None;
    const auto whole = [&](std::int64_t v) { return n_.scalar(static_cast<double>(v), DType::I64); };
    const TensorId both = n_.emit("And", {n_.emit("GreaterOrEqual", {place, whole(0)}), n_.emit("Less", {place, whole(sizes_[axis])})});
    return n_.emit("Cast", {both}, {{"to", std::string(name(type_))}});
  }

 private:
  TensorId placed(TensorId place, std::int64_t size) {
    if (border_ == Border::Reflection) place = reflected(place, size);
    return n_.emit("Clip", {place}, {{"min", 0.0}, {"max", static_cast<double>(size - 1)}});
  }
  /// Mirrored about the outer pixels, or about their outer edges.
  TensorId reflected(TensorId place, std::int64_t size) {
    const std::int64_t period = std::max<std::int64_t>(1, corners_ ? 2 * (size - 1) : 2 * size);
    const auto whole = [&](std::int64_t v) { return n_.scalar(static_cast<double>(v), DType::I64); };
    const TensorId forward = n_.emit("Mod", {place, whole(period)}, {{"fmod", std::int64_t{0}}});
    return n_.emit("Min", {forward, n_.emit("Sub", {whole(corners_ ? period : period - 1), forward})});
  }

  NodeImport& n_;
  Border border_;
  bool corners_;
  Shape sizes_;
  DType type_;
  TensorId rows_ = TensorId::None;
};

/// Whole places next to a coordinate along one axis, and their weights (None: 1).
struct Taps {
  std::vector<TensorId> places, weights;
};

TensorId whole_part(NodeImport& n, TensorId floored) { return n.emit("Cast", {floored}, {{"to", std::string("i64")}}); }

/// Weights of cubic convolution with a = -0.75 at distances 1 + t, t, 1 - t, 2 - t (Keys 1981).
std::vector<TensorId> cubic_weights(NodeImport& n, TensorId t, DType type) {
  constexpr double a = -0.75;
  const auto number = [&](double v) { return n.scalar(v, type); };
  const auto polynomial = [&](TensorId d, std::vector<double> coefficients) {
    TensorId sum = number(coefficients[0]);
    for (std::size_t i = 1; i < coefficients.size(); ++i) sum = n.emit("Add", {n.emit("Mul", {sum, d}), number(coefficients[i])});
    return sum;
  };
  const TensorId rest = n.emit("Sub", {number(1), t});
  const auto near = [&](TensorId d) { return polynomial(d, {a + 2, -(a + 3), 0, 1}); };
  const auto far = [&](TensorId d) { return polynomial(n.emit("Add", {d, number(1)}), {a, -5 * a, 8 * a, -4 * a}); };
  return {far(t), near(t), near(rest), far(rest)};
}

Taps taps_of(NodeImport& n, TensorId coordinate, const std::string& mode) {
  const DType type = n.builder().type(coordinate).dtype;
  if (mode == "nearest") return {{whole_part(n, n.emit("Round", {coordinate}))}, {TensorId::None}};
  const TensorId first = whole_part(n, n.emit("Floor", {coordinate}));
  // through the integers no gradient flows: the weights move, the places stay
  const TensorId t = n.emit("Sub", {coordinate, n.emit("Cast", {first}, {{"to", std::string(name(type))}})});
  Taps taps;
  const bool cubic = mode == "bicubic" || mode == "cubic";
  for (std::int64_t i = cubic ? -1 : 0; i <= (cubic ? 2 : 1); ++i)
    taps.places.push_back(n.emit("Add", {first, n.scalar(static_cast<double>(i), DType::I64)}));
  taps.weights = cubic ? cubic_weights(n, t, type) : std::vector<TensorId>{n.emit("Sub", {n.scalar(1, type), t}), t};
  return taps;
}

TensorId times(NodeImport& n, TensorId a, TensorId b) {
  if (a == TensorId::None || b == TensorId::None) return a == TensorId::None ? b : a;
  return n.emit("Mul", {a, b});
}

/// The weighted sum of the pixels around each coordinate: [samples..., c]. `taps`: one for each axis.
TensorId interpolated(NodeImport& n, Pixels& pixels, TensorId images, const std::vector<Taps>& taps) {
  TensorId sum = TensorId::None;
  std::vector<TensorId> places(taps.size());
  const auto along = [&](const auto& self, std::size_t axis, TensorId weight) -> void {
    for (std::size_t i = 0; axis < taps.size() && i < taps[axis].places.size(); ++i) {
      places[axis] = taps[axis].places[i];
      self(self, axis + 1, times(n, weight, times(n, taps[axis].weights[i], pixels.inside(places[axis], axis))));
    }
    if (axis < taps.size()) return;
    TensorId part = pixels.at(images, places);
    if (weight != TensorId::None) {
      Shape column = n.builder().type(weight).shape;
      column.push_back(1);
      part = n.emit("Mul", {part, n.reshape(weight, column)});
    }
    sum = sum == TensorId::None ? part : n.emit("Add", {sum, part});
  };
  along(along, 0, TensorId::None);
  return sum;
}

/// For each of `count` images the number of pixels before it, with `axes` dimensions of size 1 behind.
TensorId first_pixels(NodeImport& n, const Pixels& pixels, std::int64_t count, std::size_t axes) {
  const TensorId range =
      n.emit("Range", {}, {{"start", std::int64_t{0}}, {"limit", count}, {"delta", std::int64_t{1}}, {"dtype", std::string("i64")}});
  Shape shape(axes + 1, 1);
  shape[0] = count;
  return n.emit("Mul", {n.reshape(range, shape), n.scalar(static_cast<double>(pixels.count()), DType::I64)});
}

TensorId component(NodeImport& n, TensorId t, std::int64_t which) {
  Shape shape = n.builder().type(t).shape;
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  shape.pop_back();
  return n.reshape(n.emit("Slice", {t}, {{"starts", Shape{which}}, {"ends", Shape{which + 1}}, {"axes", Shape{last}}}), shape);
}

/// From [-1, 1] to pixels: the ends are centres of the outer pixels, or their outer edges.
TensorId in_pixels(NodeImport& n, TensorId grid, std::int64_t size, bool corners) {
  const DType type = n.builder().type(grid).dtype;
  const double half = static_cast<double>(corners ? size - 1 : size) / 2;
  const TensorId scaled = n.emit("Scale", {n.emit("Add", {grid, n.scalar(1, type)})}, {{"factor", half}});
  return corners ? scaled : n.emit("Sub", {scaled, n.scalar(0.5, type)});
}

Border border_of(NodeImport& n) {
  const std::string mode = n.text("padding_mode", "zeros");
  if (mode != "zeros" && mode != "border" && mode != "reflection")
    n.fail("padding_mode is '" + mode + "', it must be zeros, border or reflection");
  return mode == "zeros" ? Border::Zeros : mode == "border" ? Border::Edge : Border::Reflection;
}

void grid_sample(NodeImport& n) {
  const Shape x = n.shape(0), grid = n.shape(1);
  const std::size_t axes = x.size() < 3 ? 0 : x.size() - 2;
  if (axes < 1 || axes > 3 || grid.size() != x.size() || grid.back() != static_cast<std::int64_t>(axes) || grid[0] != x[0])
    n.unsupported("only images of up to three axes with a grid of their places are supported, not " + graph::to_text(x) + " and " +
                  graph::to_text(grid));
  if (std::any_of(x.begin(), x.end(), [](std::int64_t d) { return d == 0; })) n.fail("an empty image has no pixels");
  const bool corners = n.integer("align_corners", 0) != 0;
  Pixels pixels(n, n.input(0), border_of(n), corners);
  std::vector<Taps> taps;  // a grid names the last axis first
  for (std::size_t d = 0; d < axes; ++d) {
    const TensorId place = component(n, n.input(1), static_cast<std::int64_t>(axes - 1 - d));
    taps.push_back(taps_of(n, in_pixels(n, place, x[d + 2], corners), n.text("mode", "bilinear")));
  }
  Shape channels_second(x.size());
  std::iota(channels_second.begin() + 1, channels_second.end(), 0);
  channels_second[0] = 0;
  channels_second[1] = static_cast<std::int64_t>(x.size()) - 1;
  std::iota(channels_second.begin() + 2, channels_second.end(), 1);
  n.set(0, n.emit("Transpose", {interpolated(n, pixels, first_pixels(n, pixels, x[0], axes), taps)}, {{"perm", channels_second}}));
}

/// Centres of `size` pixels in [-1, 1]: the ends are centres of the outer ones, or their outer edges.
double centre(std::int64_t i, std::int64_t size, bool corners) {
  if (!corners) return static_cast<double>(2 * i + 1) / static_cast<double>(size) - 1;
  return size == 1 ? 0 : 2 * static_cast<double>(i) / static_cast<double>(size - 1) - 1;
}

/// Places of the pixels of an image of the given size, moved by the affine maps of operand 0.
void affine_grid(NodeImport& n) {
  const Shape theta = n.shape(0);
  const std::vector<std::int64_t> size = n.known_integers(1, "the size of the image");
  const std::size_t axes = size.size() < 3 ? 0 : size.size() - 2;
  if (axes < 2 || axes > 3 || theta != Shape{size[0], static_cast<std::int64_t>(axes), static_cast<std::int64_t>(axes) + 1})
    n.fail("the maps " + graph::to_text(theta) + " do not fit an image of " + graph::to_text(size));
  const Shape spatial(size.begin() + 2, size.end());
  const std::int64_t pixels = graph::element_count(spatial);
  if (pixels < 1 || pixels > graph::kLargestFolded) n.unsupported("an image of " + std::to_string(pixels) + " pixels is not supported");
  const bool corners = n.integer("align_corners", 0) != 0;
  std::vector<double> rows;  // (x, y, 1), or (x, y, z, 1)
  for (std::int64_t p = 0; p < pixels; ++p) {
    std::int64_t rest = p;
    for (std::size_t d = axes; d-- > 0; rest /= spatial[d]) rows.push_back(centre(rest % spatial[d], spatial[d], corners));
    rows.push_back(1);
  }
  const TensorId base = n.constant(graph::Value::of_reals(std::move(rows), {pixels, theta[2]}, n.type(0).dtype));
  Shape result{size[0]};
  result.insert(result.end(), spatial.begin(), spatial.end());
  result.push_back(theta[1]);
  n.set(0, n.reshape(n.emit("MatMul", {base, n.input(0)}, {{"trans_b", std::int64_t{1}}}), result));
}

/// How regions are sampled along one axis.
struct Sampling {
  std::int64_t bins = 1, samples = 1;  ///< samples of each bin
  bool at_least_one = false;           ///< pixel, however small the region
};

/// Sample coordinates [regions, bins * samples] along one axis, `low` and `high` being the region's borders in pixels.
TensorId samples_along(NodeImport& n, TensorId low, TensorId high, const Sampling& rule) {
  const DType type = n.builder().type(low).dtype;
  TensorId extent = n.emit("Sub", {high, low});
  if (rule.at_least_one) extent = n.emit("Max", {extent, n.scalar(1, type)});
  const std::int64_t count = rule.bins * rule.samples;
  std::vector<double> fractions;
  for (std::int64_t i = 0; i < count; ++i) fractions.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(count));
  const TensorId steps = n.constant(graph::Value::of_reals(std::move(fractions), {1, count}, type));
  const std::int64_t regions = n.builder().type(low).shape.at(0);
  const auto column = [&](TensorId t) { return n.reshape(t, {regions, 1}); };
  return n.emit("Add", {column(low), n.emit("Mul", {column(extent), steps})});
}

/// 1 for coordinates from -1 to the size, else 0.
TensorId near_image(NodeImport& n, TensorId coordinate, std::int64_t size) {
  const DType type = n.builder().type(coordinate).dtype;
  const TensorId both = n.emit("And", {n.emit("GreaterOrEqual", {coordinate, n.scalar(-1, type)}),
                                       n.emit("LessOrEqual", {coordinate, n.scalar(static_cast<double>(size), type)})});
  return n.emit("Cast", {both}, {{"to", std::string(name(type))}});
}

/// Means over bins of regions, each bin sampled at a fixed number of places (He et al., "Mask R-CNN", 2017).
void roi_align(NodeImport& n) {
  const Shape x = n.shape(0);
  const std::int64_t samples = n.integer("sampling_ratio", 0), bins[] = {n.integer("output_height", 1), n.integer("output_width", 1)};
  if (n.text("mode", "avg") != "avg") n.unsupported("the maximum of samples is not supported");
  if (samples < 1) n.unsupported("a sampling_ratio of 0, which depends on the regions, is not supported");
  if (x.size() != 4 || n.rank(1) != 2 || n.shape(1)[1] != 4 || bins[0] < 1 || bins[1] < 1)
    n.fail("needs images [n, c, h, w] and regions [r, 4]");
  const std::int64_t regions = n.shape(1)[0];
  const bool half = n.text("coordinate_transformation_mode", n.version() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const DType type = n.type(1).dtype;
  const auto border = [&](std::int64_t which) {
    const TensorId scaled = n.emit("Scale", {component(n, n.input(1), which)}, {{"factor", n.number("spatial_scale", 1)}});
    return half ? n.emit("Sub", {scaled, n.scalar(0.5, type)}) : scaled;
  };
  TensorId weights[2];
  Taps taps[2];
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t first = axis == 0 ? 1 : 0, size = x[axis + 2];
    const TensorId c = samples_along(n, border(first), border(first + 2), {bins[axis], samples, !half});
    const std::int64_t count = bins[axis] * samples;
    const Shape wide = axis == 0 ? Shape{regions, count, 1} : Shape{regions, 1, count};
    weights[axis] = n.reshape(near_image(n, c, size), wide);
    taps[axis] = taps_of(n, n.reshape(n.emit("Clip", {c}, {{"min", 0.0}, {"max", static_cast<double>(size - 1)}}), wide), "bilinear");
  }
  Pixels pixels(n, n.input(0), Border::Edge, true);
  const TensorId index = n.emit("Cast", {n.reshape(n.input(2), {regions, 1, 1})}, {{"to", std::string("i64")}});
  const TensorId images = n.emit("Mul", {index, n.scalar(static_cast<double>(x[2] * x[3]), DType::I64)});
  TensorId sampled = interpolated(n, pixels, images, {taps[0], taps[1]});
  const TensorId inside = n.emit("Mul", {weights[0], weights[1]});
  sampled = n.emit("Mul", {sampled, n.reshape(inside, {regions, bins[0] * samples, bins[1] * samples, 1})});
  const TensorId apart = n.reshape(sampled, {regions, bins[0], samples, bins[1], samples, x[1]});
  const TensorId mean =
      n.emit("ReduceSum", {apart},
             {{"axes", Shape{2, 4}}, {"keepdims", std::int64_t{0}}, {"scale", 1.0 / static_cast<double>(samples * samples)}});
  n.set(0, n.emit("Transpose", {mean}, {{"perm", Shape{0, 3, 1, 2}}}));
}

/// Sizes of a deformable convolution of images [n, c, h, w].
struct Deformed {
  Shape x, w, offset;
  std::int64_t groups = 1, offset_groups = 1, window = 1;  ///< window: places of the kernel
  std::vector<std::int64_t> strides, pads, dilations;
};

Deformed deformed(NodeImport& n) {
  Deformed d{n.shape(0),
             n.shape(1),
             n.shape(2),
             n.integer("group", 1),
             n.integer("offset_group", 1),
             1,
             n.integers("strides"),
             n.integers("pads"),
             n.integers("dilations")};
  if (d.strides.empty()) d.strides.assign(2, 1);
  if (d.dilations.empty()) d.dilations.assign(2, 1);
  if (d.pads.empty()) d.pads.assign(4, 0);
  if (d.x.size() != 4 || d.w.size() != 4 || d.offset.size() != 4) n.unsupported("only images [n, c, h, w] are supported");
  d.window = d.w[2] * d.w[3];
  const bool fits = d.groups >= 1 && d.offset_groups >= 1 && d.x[1] % d.offset_groups == 0 && d.w[1] * d.groups == d.x[1] &&
                    d.w[0] % d.groups == 0 && d.offset[0] == d.x[0] && d.offset[1] == 2 * d.offset_groups * d.window &&
                    d.strides.size() == 2 && d.dilations.size() == 2 && d.pads.size() == 4;
  if (!fits)
    n.fail("weights " + graph::to_text(d.w) + " and offsets " + graph::to_text(d.offset) + " do not fit images " + graph::to_text(d.x));
  return d;
}

/// Coordinates [n * offset groups, places of the kernel, oh, ow] along one image axis: those of a convolution, moved by the offsets.
TensorId deformed_places(NodeImport& n, const Deformed& d, std::size_t axis) {
  const std::int64_t oh = d.offset[2], ow = d.offset[3];
  const DType type = n.type(0).dtype;
  std::vector<double> kernel, output;
  for (std::int64_t k = 0; k < d.window; ++k)
    kernel.push_back(static_cast<double>((axis == 0 ? k / d.w[3] : k % d.w[3]) * d.dilations[axis] - d.pads[axis]));
  for (std::int64_t o = 0; o < d.offset[axis + 2]; ++o) output.push_back(static_cast<double>(o * d.strides[axis]));
  const Shape along = axis == 0 ? Shape{oh, 1} : Shape{1, ow};
  const TensorId offsets = n.reshape(n.input(2), {d.x[0] * d.offset_groups, d.window, 2, oh, ow});
  const auto which = static_cast<std::int64_t>(axis);
  const TensorId moved = n.reshape(n.emit("Slice", {offsets}, {{"starts", Shape{which}}, {"ends", Shape{which + 1}}, {"axes", Shape{2}}}),
                                   {d.x[0] * d.offset_groups, d.window, oh, ow});
  const TensorId fixed = n.emit("Add", {n.constant(graph::Value::of_reals(std::move(kernel), {d.window, 1, 1}, type)),
                                        n.constant(graph::Value::of_reals(std::move(output), along, type))});
  return n.emit("Add", {moved, fixed});
}

/// A convolution whose kernel looks at places that are moved by data (Dai et al. 2017; with a mask: Zhu et al. 2019).
void deformable_convolution(NodeImport& n) {
  const Deformed d = deformed(n);
  const std::int64_t oh = d.offset[2], ow = d.offset[3], images = d.x[0] * d.offset_groups, share = d.x[1] / d.offset_groups;
  Pixels pixels(n, n.reshape(n.input(0), {images, share, d.x[2], d.x[3]}), Border::Zeros, false);
  const std::vector<Taps> taps{taps_of(n, deformed_places(n, d, 0), "bilinear"), taps_of(n, deformed_places(n, d, 1), "bilinear")};
  TensorId seen = interpolated(n, pixels, first_pixels(n, pixels, images, 3), taps);  // [images, window, oh, ow, share]
  if (n.has(4)) seen = n.emit("Mul", {seen, n.reshape(n.input(4), {images, d.window, oh, ow, 1})});
  const TensorId columns =
      n.reshape(n.emit("Transpose", {seen}, {{"perm", Shape{0, 4, 1, 2, 3}}}), {d.x[0], d.groups, d.w[1] * d.window, oh * ow});
  const TensorId weights = n.reshape(n.input(1), {1, d.groups, d.w[0] / d.groups, d.w[1] * d.window});
  TensorId result = n.reshape(n.emit("MatMul", {weights, columns}), {d.x[0], d.w[0], oh, ow});
  if (n.has(3)) result = n.emit("Add", {result, n.reshape(n.input(3), {d.w[0], 1, 1})});
  n.set(0, result);
}

constexpr ImportRow kSamplingRows[] = {
    {kDefaultDomain, "GridSample", 16, kNewest, grid_sample},
    {kDefaultDomain, "AffineGrid", 20, kNewest, affine_grid},
    {kDefaultDomain, "DeformConv", 19, kNewest, deformable_convolution},
    {kDefaultDomain, "RoiAlign", 10, kNewest, roi_align},
};

}  // namespace

std::span<const ImportRow> sampling_rows() { return kSamplingRows; }

}  // namespace rehearsal::formats
