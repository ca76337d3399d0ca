// Sums run in f64 whatever the element type; integers are added as integers.

#include <limits>
#include <vector>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/in_memory_order.hpp"
#include "exec/kernels/cuda/lines.hpp"
#include "exec/kernels/cuda/reduce.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::cuda {
namespace {

using graph::Shape;
using graph::StridedView;

/// What elements of T are added up or multiplied in.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, T, double>;

struct Sum {
  using Op = SumOf;
  template <class T>
  using Value = Wide<T>;
  template <class V>
  static REHEARSAL_BODY V start() {
    return 0;
  }
};
struct Product {
  using Op = ProductOf;
  template <class T>
  using Value = Wide<T>;
  template <class V>
  static REHEARSAL_BODY V start() {
    return 1;
  }
};
struct Maximum {
  using Op = LargerOf;
  template <class T>
  using Value = Real<T>;
  template <class V>
  static REHEARSAL_BODY V start() {
    return std::is_integral_v<V> ? std::numeric_limits<V>::min() : -std::numeric_limits<V>::infinity();
  }
};
struct Minimum {
  using Op = SmallerOf;
  template <class T>
  using Value = Real<T>;
  template <class V>
  static REHEARSAL_BODY V start() {
    return std::is_integral_v<V> ? std::numeric_limits<V>::max() : std::numeric_limits<V>::infinity();
  }
};

/// A tensor and which of its dimensions are reduced: by columns where the innermost is kept, by segments otherwise.
struct Reduction {
  bool by_columns = false;
  Segments segments;
  Columns columns;

  Reduction(const Shape& shape, const std::vector<bool>& reduced) {
    std::size_t inner = shape.size();  // dimensions from here on are all kept or all reduced
    while (inner > 0 && shape[inner - 1] == 1) --inner;
    by_columns = inner > 0 && !reduced[inner - 1];
    std::int64_t length = 1;
    for (; inner > 0 && (shape[inner - 1] == 1 || reduced[inner - 1] != by_columns); --inner) length *= shape[inner - 1];
    const StridedView kept = part_of(shape, reduced, false, inner), gone = part_of(shape, reduced, true, inner);
    if (by_columns) {
      columns.outer_walk = walk_of<1>({kept}), columns.row_walk = walk_of<1>({gone});
      columns.outer = graph::element_count(kept.shape), columns.rows = graph::element_count(gone.shape), columns.columns = length;
      columns.split();
    } else {
      segments.target_walk = walk_of<1>({kept}), segments.segment_walk = walk_of<1>({gone});
      segments.targets = graph::element_count(kept.shape), segments.count = graph::element_count(gone.shape), segments.length = length;
      segments.split();
    }
  }

  [[nodiscard]] std::int64_t targets() const { return by_columns ? columns.targets() : segments.targets; }
  template <class Term>
  [[nodiscard]] std::int64_t workspace_bytes() const {
    return by_columns ? workspace_of<Term>(columns) : workspace_of<Term>(segments);
  }
  template <class Term, class Store>
  void run(DeviceStream stream, const Term& term, const Store& store, void* workspace) const {
    if (by_columns) return reduce(stream, columns, term, store, workspace);
    reduce(stream, segments, term, store, workspace);
  }

 private:
  /// The first `last` dimensions that are reduced, or those that are not.
  static StridedView part_of(const Shape& shape, const std::vector<bool>& reduced, bool which, std::size_t last) {
    const auto strides = graph::row_major_strides(shape);
    StridedView view;
    for (std::size_t d = 0; d < last; ++d) {
      if (reduced[d] != which) continue;
      view.shape.push_back(shape[d]);
      view.strides.push_back(strides[d]);
    }
    return view;
  }
};

template <class R, class T>
struct ReduceTerm {
  using Value = typename R::template Value<T>;
  using Op = typename R::Op;
  static constexpr int kValues = 1;
  static REHEARSAL_BODY Value start() { return R::template start<Value>(); }
  const T* x;
  REHEARSAL_BODY void add(Value* totals, const Strided& run) const {
    REHEARSAL_UNROLL
    for (std::int64_t i = run.at + run.begin; i < run.at + run.end; i += run.step)
      totals[0] = Op{}(totals[0], static_cast<Value>(real(x[i])));
  }
  static constexpr int kTogether = few_of<T>;
  [[nodiscard]] bool is_aligned(int columns) const { return begins_whole(x, columns); }
  template <int kColumns>
  REHEARSAL_BODY void add_columns(Value (*totals)[kValues], const Strided& run) const {
    REHEARSAL_UNROLL
    for (std::int64_t i = run.at + run.begin; i < run.at + run.end; i += run.step) {
      const auto values = load_few<kColumns>(x + i);
      for (int c = 0; c < kColumns; ++c) totals[c][0] = Op{}(totals[c][0], static_cast<Value>(real(values.at[c])));
    }
  }
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    const auto few = [&](auto count, std::int64_t i) {
      const auto values = load_few<count()>(x + i);
      for (const auto value : values.at) totals[0] = Op{}(totals[0], static_cast<Value>(real(value)));
    };
    visit_share(share, few, x);
  }
};

/// Integers are not scaled.
template <class T, class Value>
struct ScaledStore {
  T* y;
  double scale;
  REHEARSAL_BODY void operator()(std::int64_t target, const Value* totals) const {
    if constexpr (std::is_integral_v<T>) y[target] = totals[0];
    if constexpr (!std::is_integral_v<T>) y[target] = static_cast<T>(static_cast<Real<T>>(static_cast<double>(totals[0]) * scale));
  }
};

template <class R>
struct Reduce {
  static Reduction reduction_of(const graph::NodeView& node) { return {node.input(0).shape, graph::reduced_dimensions(node)}; }
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    return reduction_of(node).template workspace_bytes<ReduceTerm<R, double>>();
  }
  template <class T>
  static void run(const Call& call) {
    using Term = ReduceTerm<R, T>;
    const ScaledStore<T, typename Term::Value> store{call.out<T>(), call.attributes().number("scale", 1.0)};
    reduction_of(call.problem.view()).run(call.context.stream, Term{call.in<T>(0)}, store, call.context.workspace);
  }
};

/// The product of the elements that are not 0, and a number that doubles with each that is: 1, 2 or more.
template <class T>
struct FactorsTerm {
  using Value = double;
  using Op = ProductOf;
  static constexpr int kValues = 2;
  static REHEARSAL_BODY Value start() { return 1; }
  const T* x;
  REHEARSAL_BODY void add(Value* totals, const Strided& run) const {
    for (std::int64_t i = run.at + run.begin; i < run.at + run.end; i += run.step) {
      const auto value = static_cast<double>(real(x[i]));
      totals[value == 0 ? 1 : 0] *= value == 0 ? 2.0 : value;
    }
  }
  REHEARSAL_BODY void add(Value* totals, const Share& share) const { add(totals, run_of(share)); }
};
struct FactorsStore {
  double* factors;
  REHEARSAL_BODY void operator()(std::int64_t target, const double* totals) const {
    factors[2 * target] = totals[0];
    factors[2 * target + 1] = totals[1];
  }
};

template <class T>
struct ProductSlope {
  const T *dy, *x;
  const double* factors;
  T* dx;
  Walk<2> walk;  ///< x and its targets
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto place = walk.place(i);
    const std::int64_t target = place.at[1];
    const auto value = static_cast<double>(real(x[i]));
    const double product = factors[2 * target], others = factors[2 * target + 1] / (value == 0 ? 2 : 1);
    const double slope = others > 1 ? 0.0 : value == 0 ? product : product / value;
    dx[i] = static_cast<T>(static_cast<Real<T>>(static_cast<double>(real(dy[target])) * slope));
  }
};

/// dx_i = dy * product of the other elements: exact also where elements are 0.
struct ReduceProdGrad {
  static std::vector<bool> reduced_of(const graph::NodeView& node) {
    return graph::reduced_dimensions({node.outputs, {}, node.attributes});
  }
  static Reduction reduction_of(const graph::NodeView& node) { return {node.output().shape, reduced_of(node)}; }
  static std::int64_t bytes_of_factors(const Reduction& reduction) {
    return 2 * reduction.targets() * static_cast<std::int64_t>(sizeof(double));
  }
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const Reduction reduction = reduction_of(node);
    return bytes_of_factors(reduction) + reduction.workspace_bytes<FactorsTerm<double>>();
  }
  template <class T>
  static void run(const Call& call) {
    const graph::NodeView node = call.problem.view();
    const Reduction reduction = reduction_of(node);
    auto* factors = static_cast<double*>(call.context.workspace);
    reduction.run(call.context.stream, FactorsTerm<T>{call.in<T>(1)}, FactorsStore{factors}, factors + 2 * reduction.targets());
    const Shape& shape = call.out_shape();
    const auto walk = walk_of<2>({graph::whole_view(shape), graph::broadcast_view(graph::kept_shape(shape, reduced_of(node)), shape)});
    for_each(call.context.stream, graph::element_count(shape), ProductSlope<T>{call.in<T>(0), call.in<T>(1), factors, call.out<T>(), walk});
  }
};

template <bool kMax, class T>
struct PositionLine {
  const T* x;
  std::int64_t* y;
  bool last;  ///< of equals
  using Better = std::conditional_t<kMax, LargerOf, SmallerOf>;

  template <class AnyTeam>
  REHEARSAL_BODY void operator()(const AnyTeam& team, const Line& line) const {
    // A comparison with NaN is false: the first element stays when it is one, others never win.
    const Real<T> head = real(x[line.first]);
    Real<T> best = head;
    std::int64_t at = 0;
    for (std::int64_t s = team.rank(); s < line.size && head == head; s += team.size()) {
      const Real<T> value = real(x[line.first + s * line.step]);
      if ((kMax ? value > best : value < best) || (last && value == best)) best = value, at = s;
    }
    const Real<T> overall = team.reduce(best, Better{});
    const bool winner = best == overall || head != head;
    at = last ? team.reduce(winner ? at : std::int64_t{-1}, LargerOf{}) : team.reduce(winner ? at : line.size, SmallerOf{});
    if (team.rank() == 0) y[line.number] = at;
  }
};

template <bool kMax>
struct Position {
  template <class T>
  static void run(const Call& call) {
    const Lines lines(call.in_shape(0), graph::axis_of(call.problem.view(), 0));
    const bool last = call.attributes().integer("select_last_index", 0) != 0;
    for_each_line(call.context.stream, lines, PositionLine<kMax, T>{call.in<T>(0), call.out<std::int64_t>(), last});
  }
};

/// Lines in chunks, where lines are few and long: sums of chunks, then their running sums, then each chunk from where it starts.
struct Chunks {
  static constexpr std::int64_t kLeast = 256, kThreadsWanted = 1 << 16;
  Lines lines;
  std::int64_t count, size;
  bool exclusive, reverse;

  explicit Chunks(const graph::NodeView& node)
      : lines(node.input(0).shape, graph::axis_of(node, 0)),
        count(parts_of(lines.count(), lines.size, kThreadsWanted, kLeast)),
        size((lines.size + count - 1) / count),
        exclusive(node.attributes.integer("exclusive", 0) != 0),
        reverse(node.attributes.integer("reverse", 0) != 0) {}
  [[nodiscard]] std::int64_t all() const { return lines.count() * count; }

  /// Element s of a line in the order of summation.
  REHEARSAL_BODY std::int64_t place(const Line& line, std::int64_t s) const {
    return line.first + (reverse ? line.size - 1 - s : s) * line.step;
  }
  REHEARSAL_BODY std::int64_t end_of(std::int64_t chunk) const { return (chunk + 1) * size < lines.size ? (chunk + 1) * size : lines.size; }
};

template <class T>
struct ChunkSum {
  Chunks chunks;
  const T* x;
  Wide<T>* sums;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const Division at = divide(i, chunks.lines.count());  // neighbouring threads, neighbouring lines
    const Line line = chunks.lines.line(at.remainder);
    Wide<T> sum = 0;
    for (std::int64_t s = at.quotient * chunks.size; s < chunks.end_of(at.quotient); ++s)
      sum += static_cast<Wide<T>>(real(x[chunks.place(line, s)]));
    sums[i] = sum;
  }
};

template <class T>
struct ChunkStart {
  Chunks chunks;
  Wide<T>* sums;
  REHEARSAL_BODY void operator()(std::int64_t line) const {
    Wide<T> sum = 0;
    for (std::int64_t c = 0; c < chunks.count; ++c) {
      Wide<T>& here = sums[c * chunks.lines.count() + line];
      const Wide<T> next = sum + here;
      here = sum;
      sum = next;
    }
  }
};

template <class T>
struct ChunkScan {
  Chunks chunks;
  const T* x;
  const Wide<T>* starts;  ///< nullptr: lines are one chunk
  T* y;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const Division at = divide(i, chunks.lines.count());
    const Line line = chunks.lines.line(at.remainder);
    Wide<T> sum = starts != nullptr ? starts[i] : 0;
    for (std::int64_t s = at.quotient * chunks.size; s < chunks.end_of(at.quotient); ++s) {
      const std::int64_t place = chunks.place(line, s);
      const Wide<T> next = sum + static_cast<Wide<T>>(real(x[place]));
      y[place] = static_cast<T>(static_cast<Real<T>>(chunks.exclusive ? sum : next));
      sum = next;
    }
  }
};

struct CumSum {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const Chunks chunks(node);
    return chunks.count == 1 ? 0 : chunks.all() * static_cast<std::int64_t>(sizeof(double));
  }
  template <class T>
  static void run(const Call& call) {
    const Chunks chunks(call.problem.view());
    const DeviceStream stream = call.context.stream;
    auto* sums = chunks.count == 1 ? nullptr : static_cast<Wide<T>*>(call.context.workspace);
    if (sums != nullptr) {
      for_each(stream, chunks.all(), ChunkSum<T>{chunks, call.in<T>(0), sums});
      for_each(stream, chunks.lines.count(), ChunkStart<T>{chunks, sums});
    }
    for_each(stream, chunks.all(), ChunkScan<T>{chunks, call.in<T>(0), sums, call.out<T>()});
  }
};

template <class T>
struct SquareTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = 1;
  static REHEARSAL_BODY Value start() { return 0; }
  const T* x;
  REHEARSAL_BODY void add(Value* totals, const Share& share) const {
    const auto few = [&](auto count, std::int64_t i) {
      const auto values = load_few<count()>(x + i);
      for (const auto each : values.at) {
        const auto value = static_cast<double>(real(each));
        totals[0] += value * value;
      }
    };
    visit_share(share, few, x);
  }
};

struct SquaredNorm {
  static Segments elements_of(const graph::NodeView& node) { return all_of(graph::element_count(node.input(0).shape)); }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<SquareTerm<float>>(elements_of(node)); }
  template <class T>
  static void run(const Call& call) {
    reduce(call.context.stream, elements_of(call.problem.view()), SquareTerm<T>{call.in<T>(0)},
           ScaledStore<double, double>{call.out<double>(), 1.0}, call.context.workspace);
  }
};

constexpr std::string_view kName = "cuda:reduction";
constexpr KernelRow kRows[] = {
    {"ReduceSum", kName, in_order_of_memory<make_by_output_with_workspace<Reduce<Sum>, Numbers>>, channels_last_without_pixels},
    {"ReduceMax", kName, make_by_output_with_workspace<Reduce<Maximum>, Numbers>},
    {"ReduceMin", kName, make_by_output_with_workspace<Reduce<Minimum>, Numbers>},
    {"ReduceProd", kName, make_by_output_with_workspace<Reduce<Product>, Numbers>},
    {"ReduceProdGrad", kName, make_by_output_with_workspace<ReduceProdGrad, Floats>},
    {"ArgMax", kName, make_by_input<Position<true>, Numbers>},
    {"ArgMin", kName, make_by_input<Position<false>, Numbers>},
    {"CumSum", kName, make_by_output_with_workspace<CumSum, Numbers>},
    {"SquaredNorm", kName, make_by_input_with_workspace<SquaredNorm, Floats>},
};

}  // namespace

std::span<const KernelRow> reduction_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
