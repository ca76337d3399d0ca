// Rows whose result depends on which values there are: computed here when the values are known, refused else.

#include <algorithm>
#include <limits>
#include <map>

#include "formats/onnx/ops/import_families.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;
using graph::Value;
using Places = std::vector<std::int64_t>;

/// Elements of a value by place.
Value taken(const Value& from, const Places& places, Shape shape) {
  Value result{{from.type.dtype, std::move(shape)}, {}, {}};
  for (const std::int64_t i : places) {
    if (from.integral())
      result.integers.push_back(from.integers[static_cast<std::size_t>(i)]);
    else
      result.reals.push_back(from.reals[static_cast<std::size_t>(i)]);
  }
  return result;
}

void set_integers(NodeImport& n, std::size_t i, Places values, Shape shape) {
  if (n.wants(i)) n.set(i, n.constant(Value::of_integers(std::move(values), std::move(shape))));
}

/// Coordinates of everything that is not 0, a column each.
void non_zero(NodeImport& n) {
  const Value& x = n.known(0, "which elements are not 0");
  const auto strides = graph::row_major_strides(x.type.shape);
  const auto rank = static_cast<std::int64_t>(x.type.shape.size());
  Places found;
  for (std::int64_t i = 0; i < x.count(); ++i)
    if (x.real(i) != 0) found.push_back(i);
  Places coordinates;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    for (const std::int64_t i : found) coordinates.push_back(i / strides[d] % x.type.shape[d]);
  }
  const auto count = static_cast<std::int64_t>(found.size());
  set_integers(n, 0, std::move(coordinates), {std::max<std::int64_t>(rank, 1), rank == 0 ? 0 : count});
}

/// The slices along the axis (default: the elements) for which the condition holds.
void compress(NodeImport& n) {
  const Value& condition = n.known(1, "which slices are kept");
  const Shape shape = n.shape(0);
  const bool flat = !n.has_attribute("axis");
  const TensorId x = flat ? n.reshape(n.input(0), {graph::element_count(shape)}) : n.input(0);
  Places kept;
  for (std::int64_t i = 0; i < condition.count(); ++i)
    if (condition.real(i) != 0) kept.push_back(i);
  n.set(0, n.emit("Gather", {x, n.constant(Value::vector(std::move(kept)))}, {{"axis", flat ? 0 : n.integer("axis", 0)}}));
}

/// Slices of a value, compared element by element.
class Slices {
 public:
  Slices(const Value& x, graph::AxisSplit split) : x_(x), split_(split) {}
  [[nodiscard]] bool before(std::int64_t a, std::int64_t b) const {
    for (std::int64_t o = 0; o < split_.outer; ++o) {
      for (std::int64_t i = 0; i < split_.inner; ++i) {
        const std::int64_t p = place(o, a, i), q = place(o, b, i);
        if (x_.integral() ? x_.integer(p) != x_.integer(q) : x_.real(p) != x_.real(q))
          return x_.integral() ? x_.integer(p) < x_.integer(q) : x_.real(p) < x_.real(q);
      }
    }
    return false;
  }
  [[nodiscard]] Places places(const Places& slices) const {
    Places all;
    for (std::int64_t o = 0; o < split_.outer; ++o) {
      for (const std::int64_t s : slices) {
        for (std::int64_t i = 0; i < split_.inner; ++i) all.push_back(place(o, s, i));
      }
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t place(std::int64_t o, std::int64_t s, std::int64_t i) const {
    return (o * split_.size + s) * split_.inner + i;
  }
  const Value& x_;
  graph::AxisSplit split_;
};

void unique(NodeImport& n) {
  const Value x = n.known(0, "the elements");
  const bool flat = !n.has_attribute("axis");
  const std::size_t axis = flat ? 0 : static_cast<std::size_t>(graph::normalize_axis(n.integer("axis", 0), x.type.shape.size()));
  const graph::AxisSplit split = flat ? graph::AxisSplit{1, x.count(), 1} : graph::split_at(x.type.shape, axis);
  const Slices slices(x, split);
  const auto less = [&](std::int64_t a, std::int64_t b) { return slices.before(a, b); };
  std::map<std::int64_t, Places, decltype(less)> groups(less);  // by slice: where it occurs
  for (std::int64_t s = 0; s < split.size; ++s) groups[s].push_back(s);
  std::vector<const Places*> order;
  for (const auto& [slice, occurrences] : groups) order.push_back(&occurrences);
  if (n.integer("sorted", 1) == 0)
    std::sort(order.begin(), order.end(), [](const Places* a, const Places* b) { return a->front() < b->front(); });
  Places first, inverse(static_cast<std::size_t>(split.size)), counts;
  for (const Places* occurrences : order) {
    for (const std::int64_t s : *occurrences) inverse[static_cast<std::size_t>(s)] = static_cast<std::int64_t>(first.size());
    first.push_back(occurrences->front());
    counts.push_back(static_cast<std::int64_t>(occurrences->size()));
  }
  const auto count = static_cast<std::int64_t>(first.size());
  Shape shape = flat ? Shape{count} : x.type.shape;
  if (!flat) shape[axis] = count;
  n.set(0, n.constant(taken(x, slices.places(first), shape)));
  set_integers(n, 1, first, {count});
  set_integers(n, 2, std::move(inverse), {split.size});
  set_integers(n, 3, std::move(counts), {count});
}

/// Corners of a box, and its overlap with another as a share of their union.
struct Box {
  double top, left, bottom, right;

  [[nodiscard]] double area() const { return (bottom - top) * (right - left); }
  [[nodiscard]] double overlap(const Box& other) const {
    const double height = std::min(bottom, other.bottom) - std::max(top, other.top);
    const double width = std::min(right, other.right) - std::max(left, other.left);
    const double common = std::max(0.0, height) * std::max(0.0, width);
    return common > 0 ? common / (area() + other.area() - common) : 0;
  }
};

Box box_at(const Value& boxes, std::int64_t i, bool centers) {
  const double a = boxes.real(4 * i), b = boxes.real(4 * i + 1), c = boxes.real(4 * i + 2), d = boxes.real(4 * i + 3);
  if (centers) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

/// How boxes are chosen.
struct Suppression {
  std::int64_t most = 0;
  double overlap = 0, score = -std::numeric_limits<double>::infinity();
  bool centers = false;
};

/// The boxes of one image with their scores for one class.
struct Scored {
  const Value &boxes, &scores;
  std::int64_t first_box, first_score, count;

  [[nodiscard]] double score(std::int64_t i) const { return scores.real(first_score + i); }
  [[nodiscard]] Box box(std::int64_t i, bool centers) const { return box_at(boxes, first_box + i, centers); }
};

/// The best boxes, none of which overlaps a better one by more than allowed.
Places best_boxes(const Scored& all, const Suppression& rule) {
  Places order;
  for (std::int64_t i = 0; i < all.count; ++i)
    if (all.score(i) > rule.score) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return all.score(a) > all.score(b); });
  Places chosen;
  for (const std::int64_t i : order) {
    if (static_cast<std::int64_t>(chosen.size()) >= rule.most) break;
    const Box box = all.box(i, rule.centers);
    const auto covers = [&](std::int64_t other) { return box.overlap(all.box(other, rule.centers)) > rule.overlap; };
    if (std::none_of(chosen.begin(), chosen.end(), covers)) chosen.push_back(i);
  }
  return chosen;
}

void non_max_suppression(NodeImport& n) {
  const Value &boxes = n.known(0, "the boxes"), &scores = n.known(1, "the scores");
  const Shape b = boxes.type.shape, s = scores.type.shape;
  if (b.size() != 3 || b[2] != 4 || s.size() != 3 || s[0] != b[0] || s[2] != b[1])
    n.fail("needs boxes [batch, boxes, 4] and scores [batch, classes, boxes]");
  Suppression rule;
  rule.centers = n.integer("center_point_box", 0) != 0;
  if (n.has(2)) rule.most = n.known_integer(2, "how many boxes of a class");
  if (n.has(3)) rule.overlap = n.known_number(3, "the allowed overlap");
  if (n.has(4)) rule.score = n.known_number(4, "the least score");
  Places chosen;
  for (std::int64_t image = 0; image < s[0]; ++image) {
    for (std::int64_t c = 0; c < s[1]; ++c) {
      for (const std::int64_t box : best_boxes({boxes, scores, image * b[1], (image * s[1] + c) * s[2], s[2]}, rule))
        chosen.insert(chosen.end(), {image, c, box});
    }
  }
  const auto count = static_cast<std::int64_t>(chosen.size()) / 3;
  set_integers(n, 0, std::move(chosen), {count, 3});
}

/// The n-grams of the attributes: of `size` numbers each, with the result's column.
struct Grams {
  std::int64_t size;
  std::vector<std::pair<Places, std::size_t>> all;  ///< numbers, and which of the pool's n-grams it is
};

std::vector<Grams> grams_of(NodeImport& n, const Places& pool, const Places& starts) {
  std::vector<Grams> grams;
  std::size_t number = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto size = static_cast<std::int64_t>(i) + 1,
               end = i + 1 < starts.size() ? starts[i + 1] : static_cast<std::int64_t>(pool.size());
    if (starts[i] < 0 || end < starts[i] || end > static_cast<std::int64_t>(pool.size()) || (end - starts[i]) % size != 0)
      n.fail("ngram_counts does not divide its pool of " + std::to_string(pool.size()) + " numbers");
    Grams of_size{size, {}};
    for (std::int64_t at = starts[i]; at < end; at += size)
      of_size.all.push_back({Places(pool.begin() + at, pool.begin() + at + size), number++});
    grams.push_back(std::move(of_size));
  }
  return grams;
}

/// How often an n-gram stands in [first, first + count) of x with `gap` places from number to number.
double occurrences(const Value& x, std::int64_t first, std::int64_t count, const Places& gram, std::int64_t gap) {
  const auto size = static_cast<std::int64_t>(gram.size());
  double found = 0;
  for (std::int64_t start = 0; start + (size - 1) * gap < count; ++start) {
    bool equal = true;
    for (std::int64_t i = 0; i < size; ++i) equal = equal && x.integer(first + start + i * gap) == gram[static_cast<std::size_t>(i)];
    found += equal ? 1 : 0;
  }
  return found;
}

void term_frequencies(NodeImport& n) {
  const Value& x = n.known(0, "the terms");
  const Shape shape = x.type.shape;
  if (n.has_attribute("pool_strings") || !x.integral()) n.unsupported("terms of text are not supported");
  if (shape.empty() || shape.size() > 2) n.fail("needs terms [c] or [n, c]");
  const Places columns = n.integers("ngram_indexes");
  const auto grams = grams_of(n, n.integers("pool_int64s"), n.integers("ngram_counts"));
  const auto weights = n.numbers("weights");
  const std::string mode = n.text("mode", "");
  const std::int64_t rows = shape.size() == 2 ? shape[0] : 1, length = shape.back();
  const std::int64_t width = columns.empty() ? 0 : *std::max_element(columns.begin(), columns.end()) + 1;
  if (width < 0 || width > graph::kLargestFolded / std::max<std::int64_t>(1, rows)) n.fail("its columns are not possible");
  std::vector<double> result(static_cast<std::size_t>(rows * width));
  for (const Grams& of_size : grams) {
    if (of_size.size < n.integer("min_gram_length", 1) || of_size.size > n.integer("max_gram_length", 1)) continue;
    const std::int64_t gaps = of_size.size == 1 ? 1 : n.integer("max_skip_count", 0) + 1;
    for (const auto& [gram, number] : of_size.all) {
      if (number >= columns.size() || columns[number] < 0) n.fail("ngram_indexes has too few columns");
      const double weight = number < weights.size() ? weights[number] : 1;
      for (std::int64_t row = 0; row < rows; ++row) {
        double found = 0;
        for (std::int64_t gap = 1; gap <= std::min(gaps, length); ++gap) found += occurrences(x, row * length, length, gram, gap);
        const double value = mode == "TF" ? found : mode == "IDF" ? (found > 0 ? weight : 0) : found * weight;
        result[static_cast<std::size_t>(row * width + columns[number])] = value;
      }
    }
  }
  n.set(0, n.constant(Value::of_reals(std::move(result), shape.size() == 2 ? Shape{rows, width} : Shape{width})));
}

/// Of every sample the first steps in reverse order, as many as its length.
void reverse_sequence(NodeImport& n) {
  const std::int64_t time = n.integer("time_axis", 0), batch = n.integer("batch_axis", 1);
  const Shape shape = n.shape(0);
  if (shape.size() < 2 || time + batch != 1 || time * batch != 0) n.fail("time_axis and batch_axis must be 0 and 1");
  const auto lengths = n.known_integers(1, "the lengths of the sequences");
  const std::int64_t steps = shape[static_cast<std::size_t>(time)], samples = shape[static_cast<std::size_t>(batch)];
  if (static_cast<std::int64_t>(lengths.size()) != samples) n.fail("needs a length for each of " + std::to_string(samples) + " samples");
  Places places;
  for (std::int64_t a = 0; a < shape[0]; ++a) {
    for (std::int64_t b = 0; b < shape[1]; ++b) {
      const std::int64_t t = time == 0 ? a : b, s = time == 0 ? b : a,
                         length = std::clamp<std::int64_t>(lengths[static_cast<std::size_t>(s)], 0, steps);
      const std::int64_t from = t < length ? length - 1 - t : t;
      places.insert(places.end(), {time == 0 ? from : s, time == 0 ? s : from});
    }
  }
  n.set(0, n.emit("GatherND", {n.input(0), n.constant(Value::of_integers(std::move(places), {shape[0], shape[1], 2}))}));
}

/// 1 at the (first) largest element along the axis, else 0. Before version 13 over all dimensions from "axis" on, flattened.
void hardmax(NodeImport& n) {
  const Shape shape = n.shape(0);
  const std::int64_t axis = graph::normalize_axis(n.integer("axis", n.version() >= 13 ? -1 : 1), shape.size());
  const graph::AxisSplit split = graph::split_at(shape, static_cast<std::size_t>(axis));
  const bool flat = n.version() < 13;
  const std::int64_t size = flat ? split.size * split.inner : split.size;
  const TensorId x = n.reshape(n.input(0), {split.outer, size, flat ? 1 : split.inner});
  const TensorId best = n.emit("ArgMax", {x}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}});
  const TensorId range =
      n.emit("Range", {}, {{"start", std::int64_t{0}}, {"limit", size}, {"delta", std::int64_t{1}}, {"dtype", std::string("i64")}});
  const TensorId equal = n.emit("Equal", {best, n.reshape(range, {1, size, 1})});
  n.set(0, n.reshape(n.emit("Cast", {equal}, {{"to", std::string(name(n.type(0).dtype))}}), shape));
}

constexpr ImportRow kSelectionRows[] = {
    {kDefaultDomain, "NonZero", 9, kNewest, non_zero},
    {kDefaultDomain, "Compress", 9, kNewest, compress},
    {kDefaultDomain, "Unique", 11, kNewest, unique},
    {kDefaultDomain, "NonMaxSuppression", 10, kNewest, non_max_suppression},
    {kDefaultDomain, "TfIdfVectorizer", 9, kNewest, term_frequencies},
    {kDefaultDomain, "ReverseSequence", 10, kNewest, reverse_sequence},
    {kDefaultDomain, "Hardmax", 1, kNewest, hardmax},
};

}  // namespace

std::span<const ImportRow> selection_rows() { return kSelectionRows; }

}  // namespace rehearsal::formats
