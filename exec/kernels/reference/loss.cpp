// Sums are taken in double over parts of fixed size, so that they do not depend on the number of threads.

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::int64_t kItemsOfPart = 256;

/// The sum of item(i) for i in [0, count).
template <class F>
double ordered_sum(int threads, std::int64_t count, F&& item) {
  const std::int64_t parts = (count + kItemsOfPart - 1) / kItemsOfPart;
  std::vector<double> sums(static_cast<std::size_t>(parts), 0.0);
  parallel_items(threads, parts, 1, [&](std::int64_t p) {
    double sum = 0;
    for (std::int64_t i = p * kItemsOfPart; i < std::min(count, (p + 1) * kItemsOfPart); ++i) sum += item(i);
    sums[static_cast<std::size_t>(p)] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// Class labels of either width.
class ClassLabels {
 public:
  ClassLabels(const Call& call, std::size_t operand)
      : data_(call.inputs[operand].data), wide_(size_of(call.problem.inputs[operand]->dtype) == 8) {}
  std::int64_t operator[](std::int64_t i) const {
    return wide_ ? static_cast<const std::int64_t*>(data_)[i] : static_cast<const std::int32_t*>(data_)[i];
  }

 private:
  const void* data_;
  bool wide_;
};

/// The scores of one item: `classes` elements `stride` apart.
template <class T>
struct Item {
  const T* first;
  std::int64_t offset, stride, classes;
  [[nodiscard]] double operator[](std::int64_t c) const { return static_cast<double>(first[offset + c * stride]); }
  /// log sum exp.
  [[nodiscard]] double log_total() const {
    double largest = (*this)[0], total = 0;
    for (std::int64_t c = 1; c < classes; ++c) largest = std::max(largest, (*this)[c]);
    for (std::int64_t c = 0; c < classes; ++c) total += std::exp((*this)[c] - largest);
    return largest + std::log(total);
  }
};

/// Scores [outer, classes, inner] with one label for each (outer, inner): all classes, or a block of them, which begins at `first`.
template <class T>
struct LossScores {
  LossScores(const Call& call, std::size_t weights_operand)
      : scores(call.in<T>(0)),
        weights(call.has_input(weights_operand) ? call.in<T>(weights_operand) : nullptr),
        totals(call.has_input(weights_operand + 1) ? call.in<double>(weights_operand + 1) : nullptr),
        labels(call, 1) {
    const graph::Shape& shape = call.in_shape(0);
    const auto axis = static_cast<std::size_t>(graph::normalize_axis(call.attributes().integer("axis", 1), shape.size()));
    for (std::size_t d = 0; d < axis; ++d) outer *= shape[d];
    classes = shape[axis];
    first = call.in_origin(0, axis);
    all_classes = call.in_global(0)[axis];
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
    ignored = call.attributes().integer("ignore_index", -100);
    smoothing = call.attributes().number("label_smoothing", 0.0);
    normalized = call.attributes().integer("log_probabilities", 0) != 0;
    check_labels();
  }
  [[nodiscard]] std::int64_t count() const { return outer * inner; }
  [[nodiscard]] Item<T> item(std::int64_t i) const { return {scores, i / inner * classes * inner + i % inner, inner, classes}; }
  [[nodiscard]] double weight(std::int64_t c) const { return weights ? static_cast<double>(weights[c]) : 1.0; }
  /// What -log p[c] counts in the item's loss: PyTorch spreads `smoothing` over all classes by their weights. `c` counts from class 0.
  [[nodiscard]] double share(std::int64_t c, std::int64_t label) const {
    return (c == label ? (1 - smoothing) * weight(c) : 0.0) + smoothing / static_cast<double>(all_classes) * weight(c);
  }
  /// What the item's total counts: once over all blocks.
  [[nodiscard]] double sum_of_shares(std::int64_t label) const {
    double all = (1 - smoothing) * weight(label);
    for (std::int64_t c = 0; smoothing != 0 && c < all_classes; ++c) all += smoothing / static_cast<double>(all_classes) * weight(c);
    return all;
  }
  [[nodiscard]] double total(std::int64_t i) const { return normalized ? 0.0 : totals ? totals[i] : item(i).log_total(); }
  [[nodiscard]] bool holds(std::int64_t label) const { return label >= first && label < first + classes; }

  const T* scores;
  const T* weights;
  const double* totals;
  ClassLabels labels;
  std::int64_t outer = 1, classes = 1, inner = 1, first = 0, all_classes = 1, ignored = -100;
  double smoothing = 0;
  bool normalized = false;

 private:
  /// Before the parallel part, which may not throw.
  void check_labels() const {
    for (std::int64_t i = 0; i < count(); ++i) {
      if (labels[i] != ignored && (labels[i] < 0 || labels[i] >= all_classes)) {
        throw BadInput("label " + std::to_string(labels[i]) + " of the target is not one of " + std::to_string(all_classes) +
                       " classes, nor " + std::to_string(ignored) + ", which is ignored");
      }
    }
  }
};

struct LossLogSumExp {
  template <class T>
  static void run(const Call& call) {
    const auto axis = graph::normalize_axis(call.attributes().integer("axis", 1), call.in_shape(0).size());
    const auto [outer, classes, inner] = graph::split_at(call.in_shape(0), axis);
    const T* x = call.in<T>(0);
    parallel_items(call.threads(), outer * inner, 4, [&, classes = classes, inner = inner](std::int64_t i) {
      call.out<double>()[i] = Item<T>{x, i / inner * classes * inner + i % inner, inner, classes}.log_total();
    });
  }
};

struct CrossEntropySum {
  template <class T>
  static void run(const Call& call) {
    const LossScores<T> s(call, 2);
    *call.out<double>() = ordered_sum(call.threads(), s.count(), [&](std::int64_t i) {
      const std::int64_t t = s.labels[i];
      if (t == s.ignored) return 0.0;
      const Item<T> item = s.item(i);
      const double total = s.first == 0 ? s.total(i) : 0.0;  // the first block of classes counts it
      if (s.smoothing == 0) return s.weight(t) * (total - (s.holds(t) ? item[t - s.first] : 0.0));
      double loss = s.sum_of_shares(t) * total;
      for (std::int64_t c = 0; c < s.classes; ++c) loss -= s.share(s.first + c, t) * item[c];
      return loss;
    });
  }
};

struct CrossEntropyGrad {
  template <class T>
  static void run(const Call& call) {
    const LossScores<T> s(call, 3);
    const double scale = *call.in<double>(2);
    T* out = call.out<T>();
    parallel_items(call.threads(), s.count(), 4, [&](std::int64_t i) { one_item(s, i, scale, out); });
  }

  /// d/dx of -sum_c share[c] log softmax(x)[c] is (sum of shares) softmax(x) - share.
  template <class T>
  static void one_item(const LossScores<T>& s, std::int64_t i, double scale, T* out) {
    const std::int64_t t = s.labels[i];
    const Item<T> item = s.item(i);
    const bool counted = t != s.ignored;
    const double shares = counted && !s.normalized ? s.sum_of_shares(t) : 0.0;
    const double total = shares == 0 ? 0 : s.total(i);
    for (std::int64_t c = 0; c < s.classes; ++c) {
      const double gradient = counted ? (shares == 0 ? 0.0 : shares * std::exp(item[c] - total)) - s.share(s.first + c, t) : 0.0;
      out[item.offset + c * item.stride] = static_cast<T>(scale * gradient);
    }
  }
};

/// Classes lie outside [0, classes) only where CrossEntropySum says so.
struct CrossEntropyWeight {
  template <class T>
  static void run(const Call& call) {
    const ClassLabels labels(call, 0);
    const bool weighted = call.has_input(1);
    const DType type = weighted ? call.problem.inputs[1]->dtype : DType::F64;
    const std::int64_t classes = weighted ? call.in_shape(1)[0] : 0, ignored = call.attributes().integer("ignore_index", -100);
    *call.out<double>() = ordered_sum(call.threads(), graph::element_count(call.in_shape(0)), [&](std::int64_t i) {
      const std::int64_t t = labels[i];
      if (t == ignored) return 0.0;
      if (!weighted || t < 0 || t >= classes) return 1.0;
      return type == DType::F64 ? call.in<double>(1)[t] : static_cast<double>(call.in<float>(1)[t]);
    });
  }
};

struct SquaredError {
  static double loss(double x, double t, double) { return (x - t) * (x - t); }
  static double slope(double x, double t, double) { return 2 * (x - t); }
};
struct AbsoluteError {
  static double loss(double x, double t, double) { return std::fabs(x - t); }
  static double slope(double x, double t, double) { return static_cast<double>((x > t) - (x < t)); }
};
struct Huber {
  static double loss(double x, double t, double delta) {
    const double d = std::fabs(x - t);
    return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
  }
  static double slope(double x, double t, double delta) { return std::min(std::max(x - t, -delta), delta); }
};
struct BceWithLogits {
  static double loss(double x, double t, double) { return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::fabs(x))); }
  static double slope(double x, double t, double) { return 1 / (1 + std::exp(-x)) - t; }
};
struct KlDivergence {
  static double loss(double x, double t, double) { return t > 0 ? t * (std::log(t) - x) : 0.0; }
  static double slope(double, double t, double) { return -t; }
};

template <class Loss>
struct ElementSum {
  template <class T>
  static void run(const Call& call) {
    const T *x = call.in<T>(0), *t = call.in<T>(1);
    const double delta = call.attributes().number("delta", 1.0);
    *call.out<double>() = ordered_sum(call.threads(), graph::element_count(call.in_shape(0)), [&](std::int64_t i) {
      return Loss::loss(static_cast<double>(x[i]), static_cast<double>(t[i]), delta);
    });
  }
};

template <class Loss>
struct ElementGrad {
  template <class T>
  static void run(const Call& call) {
    const T *x = call.in<T>(0), *t = call.in<T>(1);
    T* out = call.out<T>();
    const double delta = call.attributes().number("delta", 1.0), scale = *call.in<double>(2);
    parallel_items(call.threads(), graph::element_count(call.in_shape(0)), 4096, [&](std::int64_t i) {
      out[i] = static_cast<T>(scale * Loss::slope(static_cast<double>(x[i]), static_cast<double>(t[i]), delta));
    });
  }
};

template <class Loss>
constexpr KernelRow sum_row(std::string_view op) {
  return {op, "reference:any", make_by_input<ElementSum<Loss>, Floats>};
}
template <class Loss>
constexpr KernelRow gradient_row(std::string_view op) {
  return {op, "reference:any", make_by_output<ElementGrad<Loss>, Floats>};
}

constexpr KernelRow kLossRows[] = {
    {"LogSumExp", "reference:any", make_by_input<LossLogSumExp, Floats>},
    {"CrossEntropySum", "reference:any", make_by_input<CrossEntropySum, Floats>},
    {"CrossEntropyGrad", "reference:any", make_by_output<CrossEntropyGrad, Floats>},
    {"CrossEntropyWeight", "reference:any", make_by_output<CrossEntropyWeight, Floats>},
    sum_row<SquaredError>("SquaredErrorSum"),
    gradient_row<SquaredError>("SquaredErrorGrad"),
    sum_row<AbsoluteError>("AbsoluteErrorSum"),
    gradient_row<AbsoluteError>("AbsoluteErrorGrad"),
    sum_row<Huber>("HuberSum"),
    gradient_row<Huber>("HuberGrad"),
    sum_row<BceWithLogits>("BceWithLogitsSum"),
    gradient_row<BceWithLogits>("BceWithLogitsGrad"),
    sum_row<KlDivergence>("KlDivergenceSum"),
    gradient_row<KlDivergence>("KlDivergenceGrad"),
};

}  // namespace

std::span<const KernelRow> loss_kernels() { return kLossRows; }

}  // namespace rehearsal::exec::reference
