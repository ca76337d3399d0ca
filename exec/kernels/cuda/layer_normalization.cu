// Layer and root-mean-square normalization. The second is the first with a mean of zero. Sums are taken in f64.

#include <cmath>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/reduce.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// Operand X as rows of the normalized axes.
struct Layout {
  std::int64_t rows = 1, length = 1;

  explicit Layout(const graph::NodeView& node) {
    const graph::Shape& x = node.input(0).shape;
    const auto axis = static_cast<std::size_t>(graph::normalize_axis(node.attributes.integer("axis", -1), x.size()));
    for (std::size_t d = 0; d < x.size(); ++d) (d < axis ? rows : length) *= x[d];
  }
};

/// Threads of a row, as for_each_row() counts them: one for each 16 bytes, so that short rows take one warp, which waits for nobody.
template <class T>
std::int64_t packs_of(const Layout& layout) {
  return layout.length * static_cast<std::int64_t>(sizeof(T)) / kPackBytes;
}

/// Element i of an optional operand.
template <class T>
REHEARSAL_BODY Real<T> at_or(const T* values, std::int64_t i, Real<T> otherwise) {
  return values != nullptr ? real(values[i]) : otherwise;
}

template <bool Centered, class T>
struct NormalizeRow {
  std::int64_t length;
  double epsilon;
  const T *x, *scale, *bias;
  T *y, *means, *inverses;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const T* from = x + row * length;
    T* to = y + row * length;
    // Of differences to an element, so that a large mean does not swallow the variance.
    const double shift = Centered && length > 0 ? static_cast<double>(real(from[0])) : 0.0, count = static_cast<double>(length);
    const Share share{0, length, team.rank(), team.size()};
    double sum = 0, squares = 0;
    const auto add = [&](auto few, std::int64_t i) {
      const auto values = load_few<few()>(from + i);
      for (const auto value : values.at) {
        const double difference = static_cast<double>(real(value)) - shift;
        sum += difference;
        squares += difference * difference;
      }
    };
    visit_share(share, add, from);
    const double above = Centered ? team.sum(sum) / count : 0.0, variance = team.sum(squares) / count - above * above;
    const auto inverse = static_cast<Real<T>>(1.0 / std::sqrt((variance < 0 ? 0.0 : variance) + epsilon));
    const auto mean = static_cast<Real<T>>(shift + above);
    const auto write = [&](auto few, std::int64_t i) {
      auto values = load_few<few()>(from + i);
      for (int k = 0; k < few(); ++k)
        values.at[k] = static_cast<T>((real(values.at[k]) - mean) * inverse * at_or(scale, i + k, 1) + at_or(bias, i + k, 0));
      store_few(to + i, values);
    };
    visit_share(share, write, from, to);
    if (team.rank() != 0) return;
    if (means != nullptr) means[row] = static_cast<T>(mean);
    if (inverses != nullptr) inverses[row] = static_cast<T>(inverse);
  }
};

/// X, scale?, bias? -> Y, [mean if Centered], inverse deviation.
template <bool Centered>
struct Normalize {
  template <class T>
  static void run(const Call& call) {
    const Layout layout(call.problem.view());
    const double epsilon = call.attributes().number("epsilon", 1e-5);
    const T* bias = Centered ? optional_in<T>(call, 2) : nullptr;
    T* means = Centered ? optional_out<T>(call, 1) : nullptr;
    const NormalizeRow<Centered, T> body{layout.length, epsilon,       call.in<T>(0), optional_in<T>(call, 1),
                                         bias,          call.out<T>(), means,         optional_out<T>(call, Centered ? 2 : 1)};
    for_each_row(call.context.stream, layout.rows, packs_of<T>(layout), body);
  }
};

/// Where the operands of the gradient rows are: X, [mean if Centered], inverse deviation, dY, scale?
template <bool Centered>
struct Operands {
  static constexpr std::size_t inverse = Centered ? 2 : 1, gradient = inverse + 1, scale = inverse + 2;
};

/// X and dY of a row, normalized by the statistics of its forward pass.
template <bool Centered, class T>
struct Rows {
  std::int64_t length;
  const T *x, *dy, *means, *inverses;

  explicit Rows(const Call& call)
      : length(Layout(call.problem.view()).length),
        x(call.in<T>(0)),
        dy(call.in<T>(Operands<Centered>::gradient)),
        means(Centered ? call.in<T>(1) : nullptr),
        inverses(call.in<T>(Operands<Centered>::inverse)) {}
  REHEARSAL_BODY Real<T> mean(std::int64_t row) const { return Centered ? real(means[row]) : Real<T>(0); }
};

template <bool Centered, class T>
struct GradInputRow {
  Rows<Centered, T> rows;
  const T* scale;
  T* dx;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t length = rows.length;
    const T *x = rows.x + row * length, *dy = rows.dy + row * length;
    T* to = dx + row * length;
    const Real<T> mean = rows.mean(row), inverse = real(rows.inverses[row]);
    const Share share{0, length, team.rank(), team.size()};
    double all = 0, along = 0;
    const auto add = [&](auto few, std::int64_t i) {
      const auto values = load_few<few()>(x + i), gradients = load_few<few()>(dy + i);
      for (int k = 0; k < few(); ++k) {
        const auto g = static_cast<double>(real(gradients.at[k]) * at_or(scale, i + k, 1));
        all += g;
        along += g * static_cast<double>((real(values.at[k]) - mean) * inverse);
      }
    };
    visit_share(share, add, x, dy);
    const auto constant = static_cast<Real<T>>(Centered ? team.sum(all) / static_cast<double>(length) : 0.0);
    const auto linear = static_cast<Real<T>>(team.sum(along) / static_cast<double>(length));
    const auto write = [&](auto few, std::int64_t i) {
      const auto values = load_few<few()>(x + i), gradients = load_few<few()>(dy + i);
      Few<T, few()> results;
      for (int k = 0; k < few(); ++k) {
        const Real<T> g = real(gradients.at[k]) * at_or(scale, i + k, 1), normalized = (real(values.at[k]) - mean) * inverse;
        results.at[k] = static_cast<T>(inverse * (g - constant - normalized * linear));
      }
      store_few(to + i, results);
    };
    visit_share(share, write, x, dy, to);
  }
};

/// dX = (g - [mean of g] - normalized x * mean of (g * normalized x)) / deviation with g = dY * scale.
template <bool Centered>
struct GradInput {
  template <class T>
  static void run(const Call& call) {
    const Layout layout(call.problem.view());
    const GradInputRow<Centered, T> body{Rows<Centered, T>(call), optional_in<T>(call, Operands<Centered>::scale), call.out<T>()};
    for_each_row(call.context.stream, layout.rows, packs_of<T>(layout), body);
  }
};

/// Sums down a column of dY * normalized X and, where it is Centered, of dY.
template <bool Centered, class T>
struct ColumnTerm {
  using Value = double;
  using Op = SumOf;
  static constexpr int kValues = Centered ? 2 : 1;
  static REHEARSAL_BODY Value start() { return 0; }

  Rows<Centered, T> rows;
  REHEARSAL_BODY void add(Value* totals, const Strided& run) const {
    const std::int64_t row_step = run.step / rows.length;
    REHEARSAL_UNROLL
    for (std::int64_t i = run.begin, row = run.begin / rows.length; i < run.end; i += run.step, row += row_step) {
      const Real<T> dy = real(rows.dy[run.at + i]), x = real(rows.x[run.at + i]);
      totals[0] += static_cast<double>(dy) * static_cast<double>((x - rows.mean(row)) * real(rows.inverses[row]));
      if constexpr (Centered) totals[1] += static_cast<double>(dy);
    }
  }
  static constexpr int kTogether = few_of<T>;
  [[nodiscard]] bool is_aligned(int columns) const { return begins_whole(rows.x, columns) && begins_whole(rows.dy, columns); }
  template <int kColumns>
  REHEARSAL_BODY void add_columns(Value (*totals)[kValues], const Strided& run) const {
    const std::int64_t row_step = run.step / rows.length;
    REHEARSAL_UNROLL
    for (std::int64_t i = run.begin, row = run.begin / rows.length; i < run.end; i += run.step, row += row_step) {
      const auto dy = load_few<kColumns>(rows.dy + run.at + i), x = load_few<kColumns>(rows.x + run.at + i);
      const Real<T> mean = rows.mean(row), inverse = real(rows.inverses[row]);
      for (int c = 0; c < kColumns; ++c) {
        totals[c][0] += static_cast<double>(real(dy.at[c])) * static_cast<double>((real(x.at[c]) - mean) * inverse);
        if constexpr (Centered) totals[c][1] += static_cast<double>(real(dy.at[c]));
      }
    }
  }
};

template <class T>
struct ParameterStore {
  T *dscale, *dbias;
  REHEARSAL_BODY void operator()(std::int64_t column, const double* totals) const {
    if (dscale != nullptr) dscale[column] = static_cast<T>(static_cast<Real<T>>(totals[0]));
    if (dbias != nullptr) dbias[column] = static_cast<T>(static_cast<Real<T>>(totals[1]));
  }
};

/// dscale = sum over rows of dY * normalized X; dbias = sum over rows of dY.
template <bool Centered>
struct GradParameters {
  static Columns columns_of(const graph::NodeView& node) {
    const Layout layout(node);
    return Columns::of_rows(layout.rows, layout.length);
  }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return workspace_of<ColumnTerm<Centered, float>>(columns_of(node)); }

  template <class T>
  static void run(const Call& call) {
    const ParameterStore<T> store{optional_out<T>(call, 0), Centered ? optional_out<T>(call, 1) : nullptr};
    reduce(call.context.stream, columns_of(call.problem.view()), ColumnTerm<Centered, T>{Rows<Centered, T>(call)}, store,
           call.context.workspace);
  }
};

constexpr std::string_view kName = "cuda:layer_normalization";
const KernelRow kRows[] = {
    {"LayerNormalization", kName, make_by_output<Normalize<true>, Floats>},
    {"LayerNormalizationGradInput", kName, make_by_output<GradInput<true>, Floats>},
    {"LayerNormalizationGradParameters", kName, make_by_input_with_workspace<GradParameters<true>, Floats>},
    {"RMSNormalization", kName, make_by_output<Normalize<false>, Floats>},
    {"RMSNormalizationGradInput", kName, make_by_output<GradInput<false>, Floats>},
    {"RMSNormalizationGradParameters", kName, make_by_input_with_workspace<GradParameters<false>, Floats>},
};

}  // namespace

std::span<const KernelRow> layer_normalization_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
