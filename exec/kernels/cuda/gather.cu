// Rows picked by index, and the sums of what flows back to each. Rows of a block that an index does not fall into are left 0: the sum over
// the blocks is then the whole.

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/indexing.hpp"

namespace rehearsal::exec::cuda {
namespace {

using graph::AxisSplit;

std::size_t axis_in(const graph::Attributes& attributes, const graph::Shape& data) {
  return static_cast<std::size_t>(graph::normalize_axis(attributes.integer("axis", 0), data.size()));
}

/// E: an element, or a pack of them.
template <class E>
struct PickRows {
  const E* x;
  E* y;
  Indices indices;
  RowBlock rows;
  Divider inner, positions;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    std::int64_t outer = i;
    const std::int64_t column = inner.split(outer), position = positions.split(outer), row = rows.find(indices.at(position));
    y[i] = row < 0 ? E{} : x[(outer * rows.count + row) * inner.size + column];
  }
};

template <class E>
void pick_rows(const Call& call, const AxisSplit& split, const RowBlock& rows) {
  const std::int64_t positions = graph::element_count(call.in_shape(1));
  for_each(call.context.stream, split.outer * positions * split.inner,
           PickRows<E>{call.in<E>(0), call.out<E>(), Indices(call), rows, Divider(split.inner), Divider(positions)});
}

struct Gather {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = axis_in(call.attributes(), call.in_shape(0));
    AxisSplit split = graph::split_at(call.in_shape(0), axis);
    const RowBlock rows{call.in_origin(0, axis), split.size, call.in_global(0)[axis], call.context.fault};
    if (split.inner % Pack<T>::kSize != 0 || !are_aligned({call.in<T>(0), call.out<T>()})) return pick_rows<T>(call, split, rows);
    split.inner /= Pack<T>::kSize;
    pick_rows<Pack<T>>(call, split, rows);
  }
};

struct MakeKeys {
  Indices indices;
  RowBlock rows;
  Key* keys;
  REHEARSAL_BODY void operator()(std::int64_t i) const { keys[i] = key_of(rows.find(indices.at(i)), i); }
};

/// Sorted positions in pieces, each of which one thread adds up for one column. A run of positions of one row that lies within a piece is
/// written at once; of others, each piece keeps its part.
struct Pieces {
  static constexpr std::int64_t kPiece = 32;
  const Key* keys;
  std::int64_t positions, outer;
  Divider inner, pieces;

  struct Piece {
    std::int64_t outer, piece, column, first, end;
  };
  REHEARSAL_BODY Piece place(std::int64_t i) const {
    const std::int64_t column = inner.split(i), piece = pieces.split(i), first = piece * kPiece;
    return {i, piece, column, first, first + kPiece < positions ? first + kPiece : positions};
  }
  REHEARSAL_BODY std::uint32_t row(std::int64_t k) const { return place_of(keys[k]); }
  /// Of the part of a run that began before this piece, or (1) that goes on behind it.
  REHEARSAL_BODY std::int64_t part(const Piece& p, std::int64_t piece, int behind) const {
    return ((piece * 2 + behind) * outer + p.outer) * inner.size + p.column;
  }
  [[nodiscard]] std::int64_t threads() const { return outer * pieces.size * inner.size; }
};

template <class T>
struct AddPieces {
  Pieces pieces;
  const T* dy;
  T* dx;
  Real<T>* parts;
  std::int64_t rows;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto p = pieces.place(i);
    std::uint32_t row = pieces.row(p.first);
    bool began_before = p.first > 0 && pieces.row(p.first - 1) == row;
    Real<T> sum = 0;
    for (std::int64_t k = p.first; k < p.end && row != kNowhere; ++k) {
      sum += real(dy[(p.outer * pieces.positions + position_of(pieces.keys[k])) * pieces.inner.size + p.column]);
      const std::uint32_t next = k + 1 < pieces.positions ? pieces.row(k + 1) : kNowhere;
      if (next != row) {
        if (began_before)
          parts[pieces.part(p, p.piece, 0)] = sum;
        else
          dx[(p.outer * rows + row) * pieces.inner.size + p.column] = static_cast<T>(sum);
        began_before = false;
        sum = 0;
      } else if (k + 1 == p.end) {
        parts[pieces.part(p, p.piece, began_before ? 0 : 1)] = sum;
      }
      row = next;
    }
  }
};

/// Adds the parts of runs that began in a piece and went on behind it.
template <class T>
struct AddParts {
  Pieces pieces;
  T* dx;
  const Real<T>* parts;
  std::int64_t rows;
  REHEARSAL_BODY void operator()(std::int64_t i) const {
    const auto p = pieces.place(i);
    const std::uint32_t row = pieces.row(p.end - 1);
    if (row == kNowhere || p.end == pieces.positions || pieces.row(p.end) != row) return;
    if (p.first > 0 && pieces.row(p.first - 1) == row) return;
    Real<T> sum = parts[pieces.part(p, p.piece, 1)];
    for (std::int64_t q = p.piece + 1; q < pieces.pieces.size && pieces.row(q * Pieces::kPiece) == row; ++q)
      sum += parts[pieces.part(p, q, 0)];
    dx[(p.outer * rows + row) * pieces.inner.size + p.column] = static_cast<T>(sum);
  }
};

std::int64_t pieces_of(std::int64_t positions) { return (positions + Pieces::kPiece - 1) / Pieces::kPiece; }

struct GatherGrad {
  static std::int64_t workspace_bytes(const graph::NodeView& node) {
    const auto& type = node.output();
    const AxisSplit split = graph::split_at(type.shape, axis_in(node.attributes, type.shape));
    const std::int64_t positions = graph::element_count(node.input(1).shape);
    require_keys(split.size, positions);
    const std::int64_t real = type.dtype == DType::F64 ? sizeof(double) : sizeof(float);
    return bytes_of_sorting(positions) + 2 * pieces_of(positions) * split.outer * split.inner * real;
  }
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = axis_in(call.attributes(), call.out_shape());
    const AxisSplit split = graph::split_at(call.out_shape(), axis);
    const std::int64_t positions = graph::element_count(call.in_shape(1));
    const DeviceStream stream = call.context.stream;
    clear(stream, call.out<T>(), graph::element_count(call.out_shape()) * static_cast<std::int64_t>(sizeof(T)));
    if (positions == 0 || split.inner * split.outer == 0) return;
    auto* keys = static_cast<Key*>(call.context.workspace);
    const RowBlock rows{call.out_origin(0, axis), split.size, call.out_global()[axis], call.context.fault};
    for_each(stream, positions, MakeKeys{Indices(call), rows, keys});
    const Key* sorted = sort_keys(stream, keys, keys + positions, positions);
    const Pieces pieces{sorted, positions, split.outer, Divider(split.inner), Divider(pieces_of(positions))};
    auto* parts = reinterpret_cast<Real<T>*>(keys + 2 * positions);
    for_each(stream, pieces.threads(), AddPieces<T>{pieces, call.in<T>(0), call.out<T>(), parts, split.size});
    for_each(stream, pieces.threads(), AddParts<T>{pieces, call.out<T>(), parts, split.size});
  }
};

constexpr std::string_view kName = "cuda:gather";
constexpr KernelRow kRows[] = {
    {"Gather", kName, make_by_size<Gather>},
    {"GatherGrad", kName, make_by_output_with_workspace<GatherGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> gather_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
