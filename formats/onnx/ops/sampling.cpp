// Pixels at places that are computed: GridSample and RoiAlign, made of gathers and weights, so that gradients reach images and places.

#include <algorithm>
#include <cmath>

#include "formats/onnx/ops/rows.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

enum class Border : std::uint8_t { Zeros, Edge, Reflection };

/// Images [n, c, h, w] as rows of channels, one for each pixel.
class Pixels {
 public:
  Pixels(NodeImport& n, Border border, bool corners)
      : n_(n), border_(border), corners_(corners), shape_(n.shape(0)), type_(n.type(0).dtype) {
    const TensorId last = n.emit("Transpose", {n.input(0)}, {{"perm", Shape{0, 2, 3, 1}}});
    rows_ = n.reshape(last, {shape_[0] * shape_[2] * shape_[3], shape_[1]});
  }
  [[nodiscard]] std::int64_t size(std::size_t axis) const { return shape_[axis + 2]; }

  /// Channels [samples..., c] of the pixels at whole places (i64) of `images`, which counts pixels of the images before.
  TensorId at(TensorId images, TensorId y, TensorId x) {
    const TensorId row = n_.emit("Mul", {placed(y, size(0)), n_.scalar(static_cast<double>(size(1)), DType::I64)});
    const TensorId place = n_.emit("Add", {images, n_.emit("Add", {row, placed(x, size(1))})});
    return n_.emit("Gather", {rows_, place}, {{"axis", std::int64_t{0}}});
  }
  /// 1 where a place lies in the image, else 0; None when every place does.
  TensorId inside(TensorId place, std::int64_t size) {
    if (border_ != Border::Zeros) return TensorId::None;
    const auto whole = [&](double v) { return n_.scalar(v, DType::I64); };
    const TensorId both =
        n_.emit("And", {n_.emit("GreaterOrEqual", {place, whole(0)}), n_.emit("Less", {place, whole(static_cast<double>(size))})});
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
  Shape shape_;
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

/// The weighted sum of the pixels around each coordinate: [samples..., c].
TensorId interpolated(NodeImport& n, Pixels& pixels, TensorId images, const Taps& y, const Taps& x) {
  TensorId sum = TensorId::None;
  for (std::size_t j = 0; j < y.places.size(); ++j) {
    const TensorId row = times(n, y.weights[j], pixels.inside(y.places[j], pixels.size(0)));
    for (std::size_t i = 0; i < x.places.size(); ++i) {
      const TensorId weight = times(n, row, times(n, x.weights[i], pixels.inside(x.places[i], pixels.size(1))));
      TensorId part = pixels.at(images, y.places[j], x.places[i]);
      if (weight != TensorId::None) {
        Shape column = n.builder().type(weight).shape;
        column.push_back(1);
        part = n.emit("Mul", {part, n.reshape(weight, column)});
      }
      sum = sum == TensorId::None ? part : n.emit("Add", {sum, part});
    }
  }
  return sum;
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
  if (x.size() != 4 || grid.size() != 4 || grid[3] != 2 || grid[0] != x[0])
    n.unsupported("only images [n, c, h, w] with grids [n, h, w, 2] are supported, not " + graph::to_text(x) + " and " +
                  graph::to_text(grid));
  if (std::any_of(x.begin(), x.end(), [](std::int64_t d) { return d == 0; })) n.fail("an empty image has no pixels");
  const bool corners = n.integer("align_corners", 0) != 0;
  std::string mode = n.text("mode", "bilinear");
  Pixels pixels(n, border_of(n), corners);
  const TensorId range =
      n.emit("Range", {}, {{"start", std::int64_t{0}}, {"limit", x[0]}, {"delta", std::int64_t{1}}, {"dtype", std::string("i64")}});
  const TensorId images = n.emit("Mul", {n.reshape(range, {x[0], 1, 1}), n.scalar(static_cast<double>(x[2] * x[3]), DType::I64)});
  const Taps across = taps_of(n, in_pixels(n, component(n, n.input(1), 0), x[3], corners), mode);
  const Taps down = taps_of(n, in_pixels(n, component(n, n.input(1), 1), x[2], corners), mode);
  n.set(0, n.emit("Transpose", {interpolated(n, pixels, images, down, across)}, {{"perm", Shape{0, 3, 1, 2}}}));
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
  Pixels pixels(n, Border::Edge, true);
  const TensorId index = n.emit("Cast", {n.reshape(n.input(2), {regions, 1, 1})}, {{"to", std::string("i64")}});
  const TensorId images = n.emit("Mul", {index, n.scalar(static_cast<double>(x[2] * x[3]), DType::I64)});
  TensorId sampled = interpolated(n, pixels, images, taps[0], taps[1]);
  const TensorId inside = n.emit("Mul", {weights[0], weights[1]});
  sampled = n.emit("Mul", {sampled, n.reshape(inside, {regions, bins[0] * samples, bins[1] * samples, 1})});
  const TensorId apart = n.reshape(sampled, {regions, bins[0], samples, bins[1], samples, x[1]});
  const TensorId mean =
      n.emit("ReduceSum", {apart},
             {{"axes", Shape{2, 4}}, {"keepdims", std::int64_t{0}}, {"scale", 1.0 / static_cast<double>(samples * samples)}});
  n.set(0, n.emit("Transpose", {mean}, {{"perm", Shape{0, 3, 1, 2}}}));
}

constexpr ImportRow kRows[] = {
    {kDefaultDomain, "GridSample", 16, kNewest, grid_sample},
    {kDefaultDomain, "RoiAlign", 10, kNewest, roi_align},
};

}  // namespace

std::span<const ImportRow> sampling_rows() { return kRows; }

}  // namespace rehearsal::formats
