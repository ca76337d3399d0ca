// Losses and their gradients. What is added up is in f64; exponentials of narrower elements are f32.

#include <cmath>
#include <vector>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/lines.hpp"
#include "exec/kernels/cuda/neighbours.hpp"
#include "exec/kernels/cuda/reduce.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// Class labels of either width.
struct ClassLabels {
  const void* data;
  bool wide;
  ClassLabels(const Call& call, std::size_t operand)
      : data(call.inputs[operand].data), wide(size_of(call.problem.inputs[operand]->dtype) == 8) {}
  REHEARSAL_BODY std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

/// visit(count, i) for the elements of a line that are this thread's: one, or several where they are neighbours.
template <class AnyTeam, class Visit, class T, class... More>
REHEARSAL_BODY void visit_line(const AnyTeam& team, const Line& line, const Visit& visit, const T* array, const More*... more) {
  if (line.step == 1) return visit_share(Share{line.first, line.first + line.size, team.rank(), team.size()}, visit, array, more...);
  const std::integral_constant<int, 1> one{};
  for (std::int64_t c = team.rank(); c < line.size; c += team.size()) visit(one, line.first + c * line.step);
}

/// log sum exp of a line.
template <class T, class AnyTeam>
REHEARSAL_BODY double log_total(const AnyTeam& team, const T* scores, const Line& line) {
  if (line.size == 0) return 0;
  Real<T> max = real(scores[line.first]);
  const auto compare = [&](auto few, std::int64_t i) {
    const auto values = load_few<few()>(scores + i);
    for (int k = 0; k < few(); ++k) max = LargerOf{}(max, real(values.at[k]));
  };
  visit_line(team, line, compare, scores);
  max = team.max(max);
  double total = 0;
  const auto add = [&](auto few, std::int64_t i) {
    const auto values = load_few<few()>(scores + i);
    for (int k = 0; k < few(); ++k) total += static_cast<double>(std::exp(real(values.at[k]) - max));
  };
  visit_line(team, line, add, scores);
  return static_cast<double>(max) + std::log(team.sum(total));
}

template <class T>
struct LogSumExpLine {
  const T* x;
  double* y;
  template <class AnyTeam>
  REHEARSAL_BODY void operator()(const AnyTeam& team, const Line& line) const {
    const double total = log_total(team, x, line);
    if (team.rank() == 0) y[line.number] = total;
  }
};

/// Scores are lines of classes; one label belongs to each.
Lines items_of(const graph::NodeView& node) {
  const graph::Shape& shape = node.input(0).shape;
  return {shape, static_cast<std::size_t>(graph::normalize_axis(node.attributes.integer("axis", 1), shape.size()))};
}

struct LogSumExp {
  template <class T>
  static void run(const Call& call) {
    for_each_line(call.context.stream, items_of(call.problem.view()), LogSumExpLine<T>{call.in<T>(0), call.out<double>()});
  }
};

/// What the loss of an item is made of: all its classes are here, or a block of them, which begins at `first`.
template <class T>
struct Scores {
  const T *scores, *weights;
  const double* totals;
  ClassLabels labels;
  Fault* fault;
  std::int64_t first, all_classes, ignored;
  double smoothing;
  bool normalized;

  Scores(const Call& call, std::size_t weights_operand)
      : scores(call.in<T>(0)),
        weights(optional_in<T>(call, weights_operand)),
        totals(optional_in<double>(call, weights_operand + 1)),
        labels(call, 1),
        fault(call.context.fault),
        ignored(call.attributes().integer("ignore_index", -100)),
        smoothing(call.attributes().number("label_smoothing", 0.0)),
        normalized(call.attributes().integer("log_probabilities", 0) != 0) {
    const auto axis = static_cast<std::size_t>(graph::normalize_axis(call.attributes().integer("axis", 1), call.in_shape(0).size()));
    first = call.in_origin(0, axis);
    all_classes = call.in_global(0)[axis];
  }
  /// True when the label of the line counts; notes one that is no class.
  template <class AnyTeam>
  REHEARSAL_BODY bool counts(const AnyTeam& team, std::int64_t label) const {
    if (label == ignored) return false;
    if (label >= 0 && label < all_classes) return true;
    if (team.rank() == 0) raise(fault, label, all_classes);
    return false;
  }
  REHEARSAL_BODY double weight(std::int64_t c) const { return weights != nullptr ? static_cast<double>(real(weights[c])) : 1.0; }
  /// What -log p[c] counts in the item's loss, the label's own part aside; `c` counts from class 0.
  REHEARSAL_BODY double smooth_share(std::int64_t c) const { return smoothing / static_cast<double>(all_classes) * weight(c); }
  REHEARSAL_BODY double label_share(std::int64_t label) const { return (1 - smoothing) * weight(label); }
  /// What the item's total counts: once over all blocks.
  template <class AnyTeam>
  REHEARSAL_BODY double sum_of_shares(const AnyTeam& team, std::int64_t label) const {
    double all = 0;
    if (smoothing != 0 && weights != nullptr) {
      for (std::int64_t c = team.rank(); c < all_classes; c += team.size()) all += smooth_share(c);
      all = team.sum(all);
    } else {
      all = smoothing;
    }
    return label_share(label) + all;
  }
  template <class AnyTeam>
  REHEARSAL_BODY double total(const AnyTeam& team, const Line& line) const {
    return normalized ? 0.0 : totals != nullptr ? totals[line.number] : log_total(team, scores, line);
  }
  REHEARSAL_BODY double score(const Line& line, std::int64_t c) const {
    return static_cast<double>(real(scores[line.first + c * line.step]));
  }
};

template <class T>
struct LossLine {
  Scores<T> s;
  double* losses;
  template <class AnyTeam>
  REHEARSAL_BODY void operator()(const AnyTeam& team, const Line& line) const {
    const std::int64_t label = s.labels[line.number];
    const double loss = s.counts(team, label) ? loss_of(team, line, label) : 0.0;
    if (team.rank() == 0) losses[line.number] = loss;
  }
  template <class AnyTeam>
  REHEARSAL_BODY double loss_of(const AnyTeam& team, const Line& line, std::int64_t label) const {
    const double total = s.first == 0 ? s.total(team, line) : 0.0;  // the first block of classes counts it
    const std::int64_t own = label - s.first;
    const double label_score = own >= 0 && own < line.size ? s.score(line, own) : 0.0;
    if (s.smoothing == 0) return s.weight(label) * (total - label_score);
    double smooth = 0;
    for (std::int64_t c = team.rank(); c < line.size; c += team.size()) smooth += s.smooth_share(s.first + c) * s.score(line, c);
    return s.sum_of_shares(team, label) * total - team.sum(smooth) - s.label_share(label) * label_score;
  }
};

/// Elements that are added up as they are.
struct PlainTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 1;
  static REHEARSAL_BODY Value start() { return 0; }
  const double* x;
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    for (std::int64_t i = share.first + share.lane; i < share.last; i += share.lanes) totals[0] += x[i];
  }
};
struct ScalarStore {
  double* to;
  REHEARSAL_BODY void operator()(std::int64_t, const double* totals) const { *to = totals[0]; }
};

/// The losses of all items lie in the workspace before they are added up.
struct CrossEntropySum {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const std::int64_t items = items_of(node).count();
    return items * static_cast<std::int64_t>(sizeof(double)) + workspace_of<PlainTerm>(all_of(items));
  }
  template <class T>
  static void run(const Call& call) {
    const Lines items = items_of(call.problem.view());
    auto* losses = static_cast<double*>(call.context.workspace);
    const LossLine<T> body{Scores<T>(call, 2), losses};
    const bool short_work = body.s.smoothing == 0 && (body.s.totals != nullptr || body.s.normalized || body.s.first != 0);
    if (short_work)
      for_each(call.context.stream, items.count(), LineAlone<LossLine<T>>{items, body});
    else
      for_each_line(call.context.stream, items, body);
    reduce(call.context.stream, all_of(items.count()), PlainTerm{losses}, ScalarStore{call.out<double>()}, losses + items.count());
  }
};

/// d/dx of -sum_c share[c] log softmax(x)[c] is (sum of shares) softmax(x) - share.
template <class T>
struct GradLine {
  Scores<T> s;
  const double* scale;
  T* out;
  template <class AnyTeam>
  REHEARSAL_BODY void operator()(const AnyTeam& team, const Line& line) const {
    const std::int64_t label = s.labels[line.number];
    if (!s.counts(team, label)) {
      for (std::int64_t c = team.rank(); c < line.size; c += team.size()) out[line.first + c * line.step] = static_cast<T>(Real<T>(0));
      return;
    }
    const double shares = s.normalized ? 0.0 : s.sum_of_shares(team, label), total = shares == 0 ? 0.0 : s.total(team, line);
    // The total in two parts, so that a difference to it loses no digits where T is computed in f32.
    const auto high = static_cast<Real<T>>(total), low = static_cast<Real<T>>(total - static_cast<double>(high));
    const Item item{label, shares, total, high, low};
    const auto write = [&](auto few, std::int64_t i) {
      auto values = load_few<few()>(s.scores + i);
      std::int64_t c = divide(i - line.first, line.step).quotient;
      for (T& value : values.at) value = gradient(line, item, c++, value);
      store_few(out + i, values);
    };
    visit_line(team, line, write, s.scores, static_cast<const T*>(out));
  }

 private:
  struct Item {
    std::int64_t label;
    double shares, total;
    Real<T> high, low;  ///< of the total
  };
  REHEARSAL_BODY T gradient(const Line& line, const Item& item, std::int64_t c, T score) const {
    if (s.first + c == item.label) return at_label(line, c, item.label, item.shares, item.total);
    const Real<T> share = s.smoothing == 0 ? Real<T>(0) : static_cast<Real<T>>(s.smooth_share(s.first + c));
    const Real<T> likely =
        item.shares == 0 ? Real<T>(0) : static_cast<Real<T>>(item.shares) * std::exp((real(score) - item.high) - item.low);
    return static_cast<T>(static_cast<Real<T>>(*scale) * (likely - share));
  }
  /// In f64: of a label that is all but certain, the difference is small.
  REHEARSAL_BODY T at_label(const Line& line, std::int64_t c, std::int64_t label, double shares, double total) const {
    const double likely = shares == 0 ? 0.0 : shares * std::exp(s.score(line, c) - total);
    return static_cast<T>(static_cast<Real<T>>(*scale * (likely - s.smooth_share(label) - s.label_share(label))));
  }
};

struct CrossEntropyGrad {
  template <class T>
  static void run(const Call& call) {
    for_each_line(call.context.stream, items_of(call.problem.view()), GradLine<T>{Scores<T>(call, 3), call.in<double>(2), call.out<T>()});
  }
};

struct WeightTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 1;
  static REHEARSAL_BODY Value start() { return 0; }
  ClassLabels labels;
  const void* weights;  ///< nullptr: all 1
  DType type;
  std::int64_t classes, ignored;
  REHEARSAL_BODY double weight(std::int64_t c) const {
    if (type == DType::F64) return static_cast<const double*>(weights)[c];
    if (type == DType::F32) return static_cast<double>(static_cast<const float*>(weights)[c]);
    return static_cast<double>(type == DType::F16 ? real(static_cast<const Half*>(weights)[c])
                                                  : real(static_cast<const BFloat16*>(weights)[c]));
  }
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    for (std::int64_t i = share.first + share.lane; i < share.last; i += share.lanes) {
      const std::int64_t label = labels[i];
      if (label == ignored) continue;
      totals[0] += weights == nullptr || label < 0 || label >= classes ? 1.0 : weight(label);
    }
  }
};

/// Classes lie outside [0, classes) only where CrossEntropySum says so.
struct CrossEntropyWeight {
  static Segments labels_of(const graph::NodeView& node) { return all_of(graph::element_count(node.input(0).shape)); }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<WeightTerm>(labels_of(node)); }
  template <class T>
  static void run(const Call& call) {
    const bool weighted = call.has_input(1);
    const WeightTerm term{ClassLabels(call, 0), weighted ? call.inputs[1].data : nullptr,
                          weighted ? call.problem.inputs[1]->dtype : DType::F64, weighted ? call.in_shape(1)[0] : 0,
                          call.attributes().integer("ignore_index", -100)};
    reduce(call.context.stream, labels_of(call.problem.view()), term, ScalarStore{call.out<double>()}, call.context.workspace);
  }
};

struct SquaredError {
  template <class R>
  static REHEARSAL_BODY R loss(R x, R t, R) {
    return (x - t) * (x - t);
  }
  template <class R>
  static REHEARSAL_BODY R slope(R x, R t, R) {
    return 2 * (x - t);
  }
};
struct AbsoluteError {
  template <class R>
  static REHEARSAL_BODY R loss(R x, R t, R) {
    return std::fabs(x - t);
  }
  template <class R>
  static REHEARSAL_BODY R slope(R x, R t, R) {
    return static_cast<R>((x > t) - (x < t));
  }
};
struct Huber {
  template <class R>
  static REHEARSAL_BODY R loss(R x, R t, R delta) {
    const R d = std::fabs(x - t);
    return d <= delta ? d * d / 2 : delta * (d - delta / 2);
  }
  template <class R>
  static REHEARSAL_BODY R slope(R x, R t, R delta) {
    const R d = x - t, low = d < -delta ? -delta : d;
    return delta < low ? delta : low;
  }
};
struct BceWithLogits {
  template <class R>
  static REHEARSAL_BODY R loss(R x, R t, R) {
    return (x < 0 ? R(0) : x) - x * t + std::log1p(std::exp(-std::fabs(x)));
  }
  template <class R>
  static REHEARSAL_BODY R slope(R x, R t, R) {
    return 1 / (1 + std::exp(-x)) - t;
  }
};
struct KlDivergence {
  template <class R>
  static REHEARSAL_BODY R loss(R x, R t, R) {
    return t > 0 ? t * (std::log(t) - x) : R(0);
  }
  template <class R>
  static REHEARSAL_BODY R slope(R, R t, R) {
    return -t;
  }
};

template <class Loss, class T>
struct ElementTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 1;
  static REHEARSAL_BODY Value start() { return 0; }
  const T *x, *t;
  Real<T> delta;
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    for (std::int64_t i = share.first + share.lane; i < share.last; i += share.lanes)
      totals[0] += static_cast<double>(Loss::loss(real(x[i]), real(t[i]), delta));
  }
};

template <class T>
Real<T> delta_of(const Call& call) {
  return static_cast<Real<T>>(call.attributes().number("delta", 1.0));
}

template <class Loss>
struct ElementSum {
  static Segments elements_of(const graph::NodeView& node) { return all_of(graph::element_count(node.input(0).shape)); }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<PlainTerm>(elements_of(node)); }
  template <class T>
  static void run(const Call& call) {
    const ElementTerm<Loss, T> term{call.in<T>(0), call.in<T>(1), delta_of<T>(call)};
    reduce(call.context.stream, elements_of(call.problem.view()), term, ScalarStore{call.out<double>()}, call.context.workspace);
  }
};

template <class Loss, class T>
struct ElementSlope {
  const T *x, *t;
  Real<T> delta;
  const double* scale;
  T* out;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    out[i] = static_cast<T>(static_cast<Real<T>>(*scale) * Loss::slope(real(x[i]), real(t[i]), delta));
  }
};

template <class Loss>
struct ElementGrad {
  template <class T>
  static void run(const Call& call) {
    for_each(call.context.stream, graph::element_count(call.in_shape(0)),
             ElementSlope<Loss, T>{call.in<T>(0), call.in<T>(1), delta_of<T>(call), call.in<double>(2), call.out<T>()});
  }
};

constexpr std::string_view kName = "cuda:loss";

template <class Loss>
void add_loss(std::vector<KernelRow>& rows, std::string_view sum, std::string_view gradient) {
  rows.push_back({sum, kName, make_by_input_with_workspace<ElementSum<Loss>, Floats>});
  rows.push_back({gradient, kName, make_by_output<ElementGrad<Loss>, Floats>});
}

std::vector<KernelRow> make_rows() {
  std::vector<KernelRow> rows = {
      {"LogSumExp", kName, make_by_input<LogSumExp, Floats>},
      {"CrossEntropySum", kName, make_by_input_with_workspace<CrossEntropySum, Floats>},
      {"CrossEntropyGrad", kName, make_by_output<CrossEntropyGrad, Floats>},
      {"CrossEntropyWeight", kName, make_by_output_with_workspace<CrossEntropyWeight, Floats>},
  };
  add_loss<SquaredError>(rows, "SquaredErrorSum", "SquaredErrorGrad");
  add_loss<AbsoluteError>(rows, "AbsoluteErrorSum", "AbsoluteErrorGrad");
  add_loss<Huber>(rows, "HuberSum", "HuberGrad");
  add_loss<BceWithLogits>(rows, "BceWithLogitsSum", "BceWithLogitsGrad");
  add_loss<KlDivergence>(rows, "KlDivergenceSum", "KlDivergenceGrad");
  return rows;
}

}  // namespace

std::span<const KernelRow> loss_kernels() {
  static const std::vector<KernelRow> kRows = make_rows();
  return kRows;
}

}  // namespace rehearsal::exec::cuda
