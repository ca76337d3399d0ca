// Windows, filter banks and Fourier transforms. A transform is a product with a constant matrix: exact, and differentiable as such.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;
using graph::Value;

DType result_type(NodeImport& n) {
  const auto type = dtype_from_onnx(static_cast<int>(n.integer("output_datatype", 1)));
  if (!type || !is_float(*type))
    n.unsupported("results of element type " + std::to_string(n.integer("output_datatype", 1)) + " are not supported");
  return *type;
}

/// a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N) for i in [0, size); N is size when periodic, else size - 1.
void window(NodeImport& n, double a0, double a1, double a2) {
  const std::int64_t size = n.known_integer(0, "the size of the window");
  if (size < 0 || size > graph::kLargestFolded) n.fail("a window of " + std::to_string(size) + " elements is not possible");
  const auto period = static_cast<double>(n.integer("periodic", 1) != 0 ? size : size - 1);
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  n.set(0, n.constant(Value::of_reals(std::move(values), {size}, result_type(n))));
}
void hann(NodeImport& n) { window(n, 0.5, 0.5, 0); }
void hamming(NodeImport& n) { window(n, 25.0 / 46, 21.0 / 46, 0); }
void blackman(NodeImport& n) { window(n, 0.42, 0.5, 0.08); }

/// Bins of the spectrum at the corners of the triangles: equally far apart on the mel scale, 2595 log10(1 + f / 700).
std::vector<std::int64_t> mel_corners(NodeImport& n, std::int64_t bands, std::int64_t length) {
  const double rate = n.known_number(2, "the sample rate");
  const auto mel = [](double f) { return 2595 * std::log10(1 + f / 700); };
  const double low = mel(n.known_number(3, "the lowest frequency")), high = mel(n.known_number(4, "the highest frequency"));
  std::vector<std::int64_t> corners;
  for (std::int64_t i = 0; i < bands + 2; ++i) {
    const double at = low + static_cast<double>(i) * (high - low) / static_cast<double>(bands + 2);
    const double frequency = 700 * (std::pow(10, at / 2595) - 1);
    corners.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(length + 1) * frequency / rate)));
  }
  return corners;
}

void mel_weights(NodeImport& n) {
  const std::int64_t bands = n.known_integer(0, "the number of bands"), length = n.known_integer(1, "the length of the transform");
  const std::int64_t bins = length / 2 + 1;
  if (bands < 1 || bins < 1 || bands > graph::kLargestFolded / bins) n.fail("this filter bank is not possible");
  const auto corners = mel_corners(n, bands, length);
  if (corners.front() < 0 || corners.back() > bins) n.fail("its frequencies lie outside the spectrum");
  std::vector<double> values(static_cast<std::size_t>(bins * bands));
  const auto at = [&](std::int64_t bin, std::int64_t band) -> double& { return values[static_cast<std::size_t>(bin * bands + band)]; };
  for (std::int64_t band = 0; band < bands; ++band) {
    const std::int64_t *c = &corners[static_cast<std::size_t>(band)], low = c[0], middle = c[1], high = c[2];
    if (middle >= bins) n.fail("its frequencies lie outside the spectrum");
    at(middle, band) = 1;
    for (std::int64_t j = low; j < middle; ++j) at(j, band) = static_cast<double>(j - low) / static_cast<double>(middle - low);
    for (std::int64_t j = middle; j < high; ++j) at(j, band) = static_cast<double>(high - j) / static_cast<double>(high - middle);
  }
  n.set(0, n.constant(Value::of_reals(std::move(values), {bins, bands}, result_type(n))));
}

/// Of `length` points, of which a signal has `given`.
struct Transform {
  std::int64_t given = 0, length = 0, results = 0;
  bool inverse = false;
};

TensorId fourier_matrix(NodeImport& n, const Transform& t, DType type, double (*function)(double)) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < t.given; ++i) {
    for (std::int64_t k = 0; k < t.results; ++k) {
      // the angle of a whole turn is exact when the product is taken modulo the length
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * k % t.length) / static_cast<double>(t.length);
      values.push_back(function(angle) / static_cast<double>(t.inverse ? t.length : 1));
    }
  }
  return n.constant(Value::of_reals(std::move(values), {t.given, t.results}, type));
}
double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

TensorId sliced(NodeImport& n, TensorId t, std::int64_t axis, std::int64_t start, std::int64_t end) {
  return n.emit("Slice", {t}, {{"starts", Shape{start}}, {"ends", Shape{end}}, {"axes", Shape{axis}}});
}

/// Real and imaginary part of [..., points], the imaginary one None where it is zero.
struct Complex {
  TensorId real = TensorId::None, imaginary = TensorId::None;
};

/// (a + ib)(cos -+ i sin) summed over the points.
Complex transformed(NodeImport& n, const Complex& x, const Transform& t) {
  const DType type = n.builder().type(x.real).dtype;
  const TensorId c = fourier_matrix(n, t, type, cosine), s = fourier_matrix(n, t, type, sine);
  const auto product = [&](TensorId a, TensorId b) { return n.emit("MatMul", {a, b}); };
  const TensorId rs = product(x.real, s);
  Complex y{product(x.real, c), t.inverse ? rs : n.emit("Neg", {rs})};
  if (x.imaginary == TensorId::None) return y;
  const TensorId is = product(x.imaginary, s);
  y.real = n.emit(t.inverse ? "Sub" : "Add", {y.real, is});
  y.imaginary = n.emit("Add", {y.imaginary, product(x.imaginary, c)});
  return y;
}

/// [..., points, 1 or 2] -> [..., results, 2], `axis` being that of the points.
TensorId dft_along(NodeImport& n, TensorId x, std::int64_t axis, Transform t) {
  const Shape shape = n.builder().type(x).shape;
  const std::size_t rank = shape.size(), d = static_cast<std::size_t>(axis);
  if (t.length < 1 || t.length > 1 << 13) n.unsupported("a transform of " + std::to_string(t.length) + " points is not supported");
  t.given = std::min(shape[d], t.length);
  if (t.given < shape[d]) x = sliced(n, x, axis, 0, t.given);
  // the points last, the parts first
  Shape perm(rank - 1);
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + axis);
  perm.push_back(axis);
  const auto part = [&](std::int64_t which) {
    Shape flat = n.builder().type(x).shape;
    flat.pop_back();
    return n.emit("Transpose", {n.reshape(sliced(n, x, static_cast<std::int64_t>(rank) - 1, which, which + 1), flat)}, {{"perm", perm}});
  };
  const Complex y = transformed(n, {part(0), shape.back() == 2 ? part(1) : TensorId::None}, t);
  Shape back(rank - 1);
  for (std::size_t i = 0; i < back.size(); ++i) back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  const auto column = [&](TensorId p) {
    const TensorId placed = n.emit("Transpose", {p}, {{"perm", back}});
    Shape wide = n.builder().type(placed).shape;
    wide.push_back(1);
    return n.reshape(placed, wide);
  };
  return n.emit("Concat", {column(y.real), column(y.imaginary)}, {{"axis", static_cast<std::int64_t>(rank) - 1}});
}

/// Half of a spectrum [..., bins, 2], the other half being its mirror image, as the real signal [..., length, 1].
TensorId real_signal(NodeImport& n, TensorId x, std::int64_t axis, std::int64_t length) {
  const Shape shape = n.builder().type(x).shape;
  const std::int64_t bins = std::min(shape[static_cast<std::size_t>(axis)], length / 2 + 1),
                     last = static_cast<std::int64_t>(shape.size()) - 1;
  if (length < 1 || length > 1 << 13) n.unsupported("a transform of " + std::to_string(length) + " points is not supported");
  const DType type = n.builder().type(x).dtype;
  std::vector<double> real, imaginary;
  for (std::int64_t k = 0; k < bins; ++k) {
    const double weight =
        (k == 0 || 2 * k == length ? 1.0 : 2.0) / static_cast<double>(length);  // each bin stands for its mirror image, too
    for (std::int64_t i = 0; i < length; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * k % length) / static_cast<double>(length);
      real.push_back(weight * std::cos(angle));
      imaginary.push_back(-weight * std::sin(angle));
    }
  }
  Shape perm(shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<std::size_t>(axis)], perm.back());
  const auto product = [&](std::int64_t which, std::vector<double> matrix) {
    const TensorId part = sliced(n, sliced(n, x, last, which, which + 1), axis, 0, bins);
    return n.emit("MatMul",
                  {n.emit("Transpose", {part}, {{"perm", perm}}), n.constant(Value::of_reals(std::move(matrix), {bins, length}, type))});
  };
  TensorId sum = product(0, std::move(real));
  if (shape.back() == 2) sum = n.emit("Add", {sum, product(1, std::move(imaginary))});
  return n.emit("Transpose", {sum}, {{"perm", perm}});
}

/// Small transforms are taken in f64: their sums cancel, and users compare them with exact zeros.
constexpr std::int64_t kLargestInDouble = 256;

void require_parts(NodeImport& n, const Shape& shape) {
  if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2))
    n.fail("operand 0 has shape " + graph::to_text(shape) + ", its last dimension must be 1 (real) or 2 (complex)");
}

void dft(NodeImport& n) {
  const Shape shape = n.shape(0);
  require_parts(n, shape);
  const std::int64_t wanted = n.version() < 20 ? n.integer("axis", 1) : n.has(2) ? n.known_integer(2, "the axis") : -2;
  const std::int64_t axis = graph::normalize_axis(wanted, shape.size());
  if (axis + 1 == static_cast<std::int64_t>(shape.size())) n.fail("the axis must not be the last one");
  const bool one_sided = n.integer("onesided", 0) != 0;
  const std::int64_t given = shape[static_cast<std::size_t>(axis)];
  Transform t;
  t.inverse = n.integer("inverse", 0) != 0;
  t.length = n.has(1) ? n.known_integer(1, "the length of the transform") : one_sided && t.inverse ? 2 * (given - 1) : given;
  t.results = one_sided ? t.length / 2 + 1 : t.length;
  const DType type = n.type(0).dtype;
  const bool wide = type == DType::F32 && t.length <= kLargestInDouble;
  const TensorId x = wide ? n.emit("Cast", {n.input(0)}, {{"to", std::string("f64")}}) : n.input(0);
  const TensorId y = one_sided && t.inverse ? real_signal(n, x, axis, t.length) : dft_along(n, x, axis, t);
  n.set(0, wide ? n.emit("Cast", {y}, {{"to", std::string("f32")}}) : y);
}

/// Frames of the signal [batch, length, 1 or 2], each weighted with the window and transformed.
void stft(NodeImport& n) {
  const Shape shape = n.shape(0);
  require_parts(n, shape);
  const std::int64_t step = n.known_integer(1, "the distance of frames");
  const std::int64_t length = n.has(3) ? n.known_integer(3, "the length of a frame") : n.has(2) ? n.shape(2).at(0) : shape.at(1);
  if (shape.size() != 3 || step < 1 || length < 1 || length > shape[1]) n.fail("frames of " + std::to_string(length) + " do not fit");
  const std::int64_t frames = (shape[1] - length) / step + 1;
  std::vector<std::int64_t> at;
  for (std::int64_t f = 0; f < frames; ++f) {
    for (std::int64_t i = 0; i < length; ++i) at.push_back(f * step + i);
  }
  TensorId x = n.emit("Gather", {n.input(0), n.constant(Value::of_integers(std::move(at), {frames, length}))}, {{"axis", std::int64_t{1}}});
  if (n.has(2)) x = n.emit("Mul", {x, n.reshape(n.input(2), {length, 1})});
  Transform t;
  t.length = length;
  t.results = n.integer("onesided", 1) != 0 ? length / 2 + 1 : length;
  n.set(0, dft_along(n, x, 2, t));
}

constexpr ImportRow kSignalRows[] = {
    {kDefaultDomain, "HannWindow", 17, kNewest, hann},
    {kDefaultDomain, "HammingWindow", 17, kNewest, hamming},
    {kDefaultDomain, "BlackmanWindow", 17, kNewest, blackman},
    {kDefaultDomain, "MelWeightMatrix", 17, kNewest, mel_weights},
    {kDefaultDomain, "DFT", 17, kNewest, dft},
    {kDefaultDomain, "STFT", 17, kNewest, stft},
};

}  // namespace

std::span<const ImportRow> signal_rows() { return kSignalRows; }

}  // namespace rehearsal::formats
