// Recurrent layers, unrolled over time: every step is matrix products and elementwise operators, whose gradients and splits are known.

#include <algorithm>
#include <span>

#include "formats/onnx/ops/import_families.hpp"
#include "formats/onnx/ops/recurrent_activation.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

constexpr std::int64_t kRecurrentLongestUnrolled = 2048;

struct RecurrentSizes {
  std::int64_t time = 0, batch = 0, hidden = 0;
};

/// Operand i without its leading dimension of directions, for direction d.
TensorId of_direction(NodeImport& n, std::size_t i, std::int64_t d) {
  Shape shape = n.shape(i);
  if (shape.empty()) n.fail("operand " + std::to_string(i) + " must have a dimension of directions");
  TensorId t = n.input(i);
  if (shape[0] != 1) t = n.emit("Slice", {t}, {{"starts", Shape{d}}, {"ends", Shape{d + 1}}, {"axes", Shape{0}}});
  shape.erase(shape.begin());
  return n.reshape(t, shape);
}

TensorId part(NodeImport& n, TensorId t, std::int64_t axis, std::int64_t start, std::int64_t size) {
  return n.emit("Slice", {t}, {{"starts", Shape{start}}, {"ends", Shape{start + size}}, {"axes", Shape{axis}}});
}

TensorId times_transposed(NodeImport& n, TensorId x, TensorId weight) {
  return n.emit("MatMul", {x, weight}, {{"trans_b", std::int64_t{1}}});
}

/// What one direction of a layer works with. Matrices [gates * hidden, ...] have the gates in ONNX's order.
struct Direction {
  std::vector<TensorId> inputs;          ///< [batch, gates * hidden] by time: products of the data with W, biases added where they can be
  TensorId recurrence = TensorId::None;  ///< R
  TensorId recurrent_bias = TensorId::None;         ///< of GRU's last gate with linear_before_reset: [hidden]
  TensorId h = TensorId::None, c = TensorId::None;  ///< None: zero
  TensorId peepholes = TensorId::None;              ///< of LSTM: [3 * hidden], gates i, o, f
  std::span<const RecurrentActivation> functions;   ///< f, g, h
};

/// Function `which` of f, g, h; what it is applied to stays within "clip" of 0.
TensorId activated(NodeImport& n, const Direction& d, std::size_t which, TensorId x) {
  if (n.has_attribute("clip")) {
    const double bound = n.number("clip", 0);
    x = n.emit("Clip", {x}, {{"min", -bound}, {"max", bound}});
  }
  const RecurrentActivation& function = d.functions[which];
  return function.apply(n, x, function.alpha, function.beta);
}

TensorId one_minus(NodeImport& n, TensorId x) { return n.emit("Sub", {n.scalar(1, n.type(0).dtype), x}); }

std::vector<TensorId> gates_of(NodeImport& n, TensorId joined, const RecurrentSizes& s, std::int64_t count) {
  return n.emit_all("Split", {joined}, {{"axis", std::int64_t{1}}, {"split", Shape(static_cast<std::size_t>(count), s.hidden)}});
}

TensorId with_recurrence(NodeImport& n, const Direction& d, TensorId input) {
  return d.h == TensorId::None ? input : n.emit("Add", {input, times_transposed(n, d.h, d.recurrence)});
}

/// A gate that sees the cell's state through weights of its own (Gers, Schmidhuber 2000): `which` of i, o, f.
TensorId with_peephole(NodeImport& n, const Direction& d, TensorId gate, std::int64_t which, const RecurrentSizes& s) {
  if (d.peepholes == TensorId::None || d.c == TensorId::None) return gate;
  return n.emit("Add", {gate, n.emit("Mul", {d.c, part(n, d.peepholes, 0, which * s.hidden, s.hidden)})});
}

/// Gates i, o, f, c (Hochreiter, Schmidhuber 1997; ONNX operator LSTM).
void lstm_step(NodeImport& n, Direction& d, TensorId input, const RecurrentSizes& s) {
  const auto gates = gates_of(n, with_recurrence(n, d, input), s, 4);
  const TensorId i = activated(n, d, 0, with_peephole(n, d, gates[0], 0, s));
  const TensorId in = n.emit("Mul", {i, activated(n, d, 1, gates[3])});
  if (d.c == TensorId::None) {
    d.c = in;
  } else {
    const bool coupled = n.integer("input_forget", 0) != 0;
    const TensorId f = coupled ? one_minus(n, i) : activated(n, d, 0, with_peephole(n, d, gates[2], 2, s));
    d.c = n.emit("Add", {n.emit("Mul", {f, d.c}), in});
  }
  const RecurrentActivation& h = d.functions[2];
  d.h = n.emit("Mul", {activated(n, d, 0, with_peephole(n, d, gates[1], 1, s)), h.apply(n, d.c, h.alpha, h.beta)});
}

TensorId zero_state(NodeImport& n, const RecurrentSizes& s) {
  return n.emit("ConstantOfShape", {}, {{"shape", Shape{s.batch, s.hidden}}, {"dtype", std::string(name(n.type(0).dtype))}});
}

/// Gates z, r, h (Cho et al. 2014; ONNX operator GRU).
void gru_step(NodeImport& n, Direction& d, TensorId input, const RecurrentSizes& s) {
  if (d.h == TensorId::None) d.h = zero_state(n, s);
  const auto x = gates_of(n, input, s, 3);
  const TensorId zr_weight = part(n, d.recurrence, 0, 0, 2 * s.hidden), h_weight = part(n, d.recurrence, 0, 2 * s.hidden, s.hidden);
  const auto zr = gates_of(n, times_transposed(n, d.h, zr_weight), s, 2);
  const TensorId z = activated(n, d, 0, n.emit("Add", {x[0], zr[0]})), r = activated(n, d, 0, n.emit("Add", {x[1], zr[1]}));
  TensorId recurrent;
  if (n.integer("linear_before_reset", 0) != 0) {
    recurrent = times_transposed(n, d.h, h_weight);
    if (d.recurrent_bias != TensorId::None) recurrent = n.emit("Add", {recurrent, d.recurrent_bias});
    recurrent = n.emit("Mul", {r, recurrent});
  } else {
    recurrent = times_transposed(n, n.emit("Mul", {r, d.h}), h_weight);
  }
  const TensorId candidate = activated(n, d, 1, n.emit("Add", {x[2], recurrent}));
  d.h = n.emit("Add", {n.emit("Mul", {one_minus(n, z), candidate}), n.emit("Mul", {z, d.h})});
}

void rnn_step(NodeImport& n, Direction& d, TensorId input, const RecurrentSizes&) {
  d.h = activated(n, d, 0, with_recurrence(n, d, input));
}

struct Cell {
  std::int64_t gates;
  std::vector<std::string> functions;  ///< unless the node names others
  void (*step)(NodeImport&, Direction&, TensorId, const RecurrentSizes&);
};

/// Sequences of one length need no masks: then there are no lengths.
TensorId lengths_of(NodeImport& n, const RecurrentSizes& s) {
  if (!n.has(4)) return TensorId::None;
  const graph::Value* known = n.value(4);
  if (known && std::all_of(known->integers.begin(), known->integers.end(), [&](std::int64_t l) { return l == s.time; }))
    return TensorId::None;
  return n.input(4);
}

/// `fresh` where the sequence still runs at time t, else `old` (None: zeros).
TensorId while_running(NodeImport& n, TensorId lengths, std::int64_t t, TensorId fresh, TensorId old) {
  if (lengths == TensorId::None) return fresh;
  const graph::TensorType type = n.builder().type(fresh);
  const TensorId runs = n.emit("Greater", {lengths, n.scalar(static_cast<double>(t), n.builder().type(lengths).dtype)});
  const TensorId other = old == TensorId::None ? n.scalar(0, type.dtype) : old;
  return n.emit("Where", {n.reshape(runs, {type.shape[0], 1}), fresh, other});
}

/// The biases of W and R that can be added at once: [gates * hidden].
TensorId joined_bias(NodeImport& n, Direction& d, std::int64_t direction, const RecurrentSizes& s, std::int64_t gates) {
  const TensorId both = of_direction(n, 3, direction);
  const std::int64_t half = gates * s.hidden;
  const TensorId of_w = part(n, both, 0, 0, half), of_r = part(n, both, 0, half, half);
  if (n.op() != "GRU" || n.integer("linear_before_reset", 0) == 0) return n.emit("Add", {of_w, of_r});
  d.recurrent_bias = part(n, of_r, 0, 2 * s.hidden, s.hidden);
  const TensorId added = n.emit("Add", {part(n, of_w, 0, 0, 2 * s.hidden), part(n, of_r, 0, 0, 2 * s.hidden)});
  return n.emit("Concat", {added, part(n, of_w, 0, 2 * s.hidden, s.hidden)}, {{"axis", std::int64_t{0}}});
}

void check_state(const NodeImport& n, std::size_t i, std::int64_t directions, const RecurrentSizes& s) {
  const bool batch_first = n.integer("layout", 0) != 0;
  const Shape expected = batch_first ? Shape{s.batch, directions, s.hidden} : Shape{directions, s.batch, s.hidden};
  if (!n.has(i) || n.shape(i) == expected) return;
  n.fail("the initial state has shape " + graph::to_text(n.shape(i)) + ", but R stands for " + graph::to_text(expected) +
         "; layers with a projection (proj_size) cannot be written as this operator");
}

/// An initial state [directions, batch, hidden], or [batch, directions, hidden] with the batch first, of one direction.
TensorId state_of(NodeImport& n, std::size_t i, std::int64_t direction, const RecurrentSizes& s) {
  if (n.integer("layout", 0) == 0) return of_direction(n, i, direction);
  const TensorId one = part(n, n.input(i), 1, direction, 1);
  return n.reshape(one, {s.batch, s.hidden});
}

Direction direction_of(NodeImport& n, TensorId x, std::int64_t direction, const RecurrentSizes& s, std::int64_t gates) {
  Direction d;
  if (n.op() == "LSTM" && n.has(7)) d.peepholes = of_direction(n, 7, direction);
  TensorId products = times_transposed(n, x, of_direction(n, 1, direction));
  if (n.has(3)) products = n.emit("Add", {products, joined_bias(n, d, direction, s, gates)});
  const auto steps = n.emit_all("Split", {products}, {{"axis", std::int64_t{0}}, {"split", Shape(static_cast<std::size_t>(s.time), 1)}});
  for (const TensorId step : steps) d.inputs.push_back(n.reshape(step, {s.batch, gates * s.hidden}));
  d.recurrence = of_direction(n, 2, direction);
  if (n.has(5)) d.h = state_of(n, 5, direction, s);
  if (n.has(6)) d.c = state_of(n, 6, direction, s);
  return d;
}

TensorId joined_states(NodeImport& n, std::vector<TensorId> parts, std::int64_t axis) {
  return parts.size() == 1 ? parts[0] : n.emit("Concat", std::move(parts), {{"axis", axis}});
}

bool weights_differ(const NodeImport& n) { return n.shape(2)[0] != n.shape(1)[0] || n.shape(2)[1] != n.shape(1)[1]; }

void recurrent(NodeImport& n, const Cell& cell) {
  if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3) n.fail("operands X, W and R must have three dimensions");
  if (n.shape(1)[0] < 1 || n.shape(1)[0] > 2 || weights_differ(n)) n.fail("W and R must have one or two directions, and as many gates");
  const bool batch_first = n.integer("layout", 0) != 0;
  const RecurrentSizes s{n.shape(0)[batch_first ? 1 : 0], n.shape(0)[batch_first ? 0 : 1], n.shape(2)[2]};
  const TensorId x = batch_first ? n.emit("Transpose", {n.input(0)}, {{"perm", Shape{1, 0, 2}}}) : n.input(0);
  if (s.time < 1) n.fail("needs a sequence of at least one step");
  if (s.time > kRecurrentLongestUnrolled)
    n.unsupported("sequences longer than " + std::to_string(kRecurrentLongestUnrolled) + " are not supported");
  for (const std::size_t i : {5, 6}) check_state(n, i, n.shape(1)[0], s);
  const TensorId lengths = lengths_of(n, s);
  const auto functions = recurrent_activations(n, n.shape(1)[0], cell.functions);
  const std::string mode = n.text("direction", "forward");
  std::vector<TensorId> all, last_h, last_c;
  for (std::int64_t direction = 0; direction < n.shape(1)[0]; ++direction) {
    const bool reverse = mode == "reverse" || direction == 1;
    Direction d = direction_of(n, x, direction, s, cell.gates);
    d.functions = std::span(functions).subspan(static_cast<std::size_t>(direction) * cell.functions.size(), cell.functions.size());
    std::vector<TensorId> states(d.inputs.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::size_t t = reverse ? states.size() - 1 - i : i;
      const TensorId h = d.h, c = d.c;
      cell.step(n, d, d.inputs[t], s);
      const auto time = static_cast<std::int64_t>(t);
      states[t] = n.reshape(while_running(n, lengths, time, d.h, TensorId::None), {1, 1, s.batch, s.hidden});
      d.h = while_running(n, lengths, time, d.h, h);
      if (d.c != TensorId::None) d.c = while_running(n, lengths, time, d.c, c);
    }
    all.push_back(joined_states(n, std::move(states), 0));
    last_h.push_back(n.reshape(d.h, {1, s.batch, s.hidden}));
    if (d.c != TensorId::None) last_c.push_back(n.reshape(d.c, {1, s.batch, s.hidden}));
  }
  // [time, directions, batch, hidden] and [directions, batch, hidden], or with the batch in front
  const auto set = [&](std::size_t i, std::vector<TensorId> parts, std::int64_t axis) {
    if (!n.wants(i)) return;
    const TensorId all_parts = joined_states(n, std::move(parts), axis);
    const Shape perm = axis == 1 ? Shape{2, 0, 1, 3} : Shape{1, 0, 2};
    n.set(i, batch_first ? n.emit("Transpose", {all_parts}, {{"perm", perm}}) : all_parts);
  };
  set(0, all, 1);
  set(1, last_h, 0);
  set(2, last_c, 0);
}

void lstm(NodeImport& n) { recurrent(n, {4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step}); }
void gru(NodeImport& n) { recurrent(n, {3, {"Sigmoid", "Tanh"}, gru_step}); }
void rnn(NodeImport& n) { recurrent(n, {1, {"Tanh"}, rnn_step}); }

constexpr ImportRow kRecurrentRows[] = {
    {kDefaultDomain, "LSTM", 7, kNewest, lstm},
    {kDefaultDomain, "GRU", 7, kNewest, gru},
    {kDefaultDomain, "RNN", 7, kNewest, rnn},
};

}  // namespace

std::span<const ImportRow> recurrent_rows() { return kRecurrentRows; }

}  // namespace rehearsal::formats
