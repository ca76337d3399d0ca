// Rows generated from the functions of scalar_functions.hpp, and the two that are none: Where and Cast.

#include <string>
#include <type_traits>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/bit_functions.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/scalar_functions.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::graph {
namespace {

using scalar::Saved;
using ElementwiseOperands = std::span<const Value* const>;

template <class F>
std::vector<TensorType> infer(const NodeView& node) {
  require_inputs(node, F::arity, F::arity);
  auto types = infer_broadcast(node);
  if (F::predicate) types[0].dtype = DType::Bool;
  return types;
}

template <class F>
std::vector<TensorType> infer_float(const NodeView& node) {
  auto types = infer<F>(node);
  require_float(node, 0);
  return types;
}

template <class F>
std::vector<TensorType> infer_connective(const NodeView& node) {
  require_inputs(node, F::arity, F::arity);
  auto types = infer_broadcast(node);
  if (node.input(0).dtype != DType::Bool) throw BadInput("operands are " + std::string(name(node.input(0).dtype)) + ", they must be bool");
  return types;
}

/// Of one type, integers.
std::vector<TensorType> infer_bits(const NodeView& node) {
  require_inputs(node, 2, 2);
  auto types = infer_broadcast(node);
  if (!is_integer(node.input(0).dtype) || node.input(0).dtype == DType::Bool)
    throw BadInput("operands are " + std::string(name(node.input(0).dtype)) + ", they must be integers");
  return types;
}

/// Number of element i of a tensor of shape `full` in an operand of shape `shape` that broadcasts to it.
std::vector<std::int64_t> broadcast_elements(const Shape& shape, const Shape& full) {
  std::vector<std::int64_t> own(static_cast<std::size_t>(element_count(shape))), all(static_cast<std::size_t>(element_count(full)));
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int64_t>(i);
  copy_strided(own.data(), broadcast_view(shape, full), all.data());
  return all;
}

/// Calls set(i, number of element i in each operand) for every element of a result of type `type`.
template <class Set>
Value filled(const TensorType& type, ElementwiseOperands inputs, const Set& set) {
  Value result;
  result.type = type;
  const auto count = static_cast<std::size_t>(element_count(type.shape));
  (is_integer(type.dtype) ? result.integers.resize(count) : result.reals.resize(count));
  std::vector<std::vector<std::int64_t>> elements;
  for (const Value* input : inputs) elements.push_back(broadcast_elements(input->type.shape, type.shape));
  std::vector<std::int64_t> at(inputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < at.size(); ++k) at[k] = elements[k][i];
    set(result, i, at);
  }
  return result;
}

std::int64_t wrapped_to(std::int64_t x, DType type) {
  switch (type) {
    case DType::Bool:
      return x != 0;
    case DType::I8:
      return static_cast<std::int8_t>(x);
    case DType::U8:
      return static_cast<std::uint8_t>(x);
    case DType::I16:
      return static_cast<std::int16_t>(x);
    case DType::U16:
      return static_cast<std::uint16_t>(x);
    case DType::I32:
      return static_cast<std::int32_t>(x);
    case DType::U32:
      return static_cast<std::uint32_t>(x);
    default:
      return x;
  }
}

template <class T>
std::vector<T> elements_of(const Value& value) {
  std::vector<T> elements(static_cast<std::size_t>(value.count()));
  for (std::int64_t i = 0; i < value.count(); ++i)
    elements[static_cast<std::size_t>(i)] = std::is_integral_v<T> ? static_cast<T>(value.integer(i)) : static_cast<T>(value.real(i));
  return elements;
}

/// Calls put(i, result) for every element, computed in T.
template <class T, class F, class Put>
void each_result(const F& function, ElementwiseOperands inputs, const Shape& shape, const Put& put) {
  const auto x = elements_of<T>(*inputs[0]);
  if constexpr (F::arity == 1) {
    for (std::size_t i = 0; i < x.size(); ++i) put(i, function.value(x[i]));
  } else {
    const auto y = elements_of<T>(*inputs[1]);
    const RowWalk<2> walk({broadcast_view(inputs[0]->type.shape, shape), broadcast_view(inputs[1]->type.shape, shape)});
    const auto steps = walk.steps();
    walk.each([&](std::int64_t row, const std::array<std::int64_t, 2>& first) {
      for (std::int64_t i = 0; i < walk.length(); ++i)
        put(static_cast<std::size_t>(row * walk.length() + i),
            function.value(x[static_cast<std::size_t>(first[0] + i * steps[0])], y[static_cast<std::size_t>(first[1] + i * steps[1])]));
    });
  }
}

template <class F>
std::vector<Value> evaluate(const NodeView& node, ElementwiseOperands inputs) {
  const F function{node.attributes};
  Value result;
  result.type = node.output();
  const auto& [dtype, shape] = result.type;
  const auto count = static_cast<std::size_t>(element_count(shape));
  if constexpr (F::integers) {
    if (inputs[0]->integral()) {
      result.integers.resize(count);
      each_result<std::int64_t>(function, inputs, shape, [&, type = dtype](std::size_t i, auto y) {
        result.integers[i] = wrapped_to(static_cast<std::int64_t>(y), type);
      });
      return {std::move(result)};
    }
  }
  if (result.integral()) {
    result.integers.resize(count);
    each_result<double>(function, inputs, shape, [&](std::size_t i, auto y) { result.integers[i] = static_cast<std::int64_t>(y); });
  } else {
    result.reals.resize(count);
    each_result<double>(function, inputs, shape,
                        [&, type = dtype](std::size_t i, auto y) { result.reals[i] = scalar::rounded(static_cast<double>(y), type); });
  }
  return {std::move(result)};
}

template <class F>
void unary_gradient(GradientContext& g) {
  if constexpr (F::saved == Saved::Nothing) {
    g.set(0, g.emit1(F::name, {g.gradient_of_output()}, g.attributes()));
  } else {
    g.set(0, g.emit1(scalar::gradient_name<F>(), {g.gradient_of_output(), F::saved == Saved::Result ? g.output() : g.input(0)},
                     g.attributes()));
  }
}

/// Of functions that are constant between jumps; as in PyTorch the operand has a gradient, which is 0.
void zero_gradient(GradientContext& g) {
  const TensorType type = g.type(g.input(0));
  g.set(0, g.emit1("ConstantOfShape", {}, {{"shape", type.shape}, {"dtype", std::string(name(type.dtype))}}));
}

LinearIn linear_in(std::string_view function) {
  if (function == "Identity" || function == "Neg" || function == "Scale") return LinearIn::First;
  return function == "Add" || function == "Sub" ? LinearIn::All : LinearIn::None;
}

template <class F>
OpSchema row_of() {
  OpSchema row{.name = F::name, .description = F::description, .traits = Trait::Elementwise | Trait::InPlace};
  row.infer = F::integers || F::predicate ? infer<F> : infer_float<F>;
  row.labels = elementwise_labels;
  row.work = work_per_result<F::flops>;
  row.evaluate = evaluate<F>;
  if (F::predicate) row.no_gradient = "truth values have no gradient";
  row.linear = linear_in(F::name);
  if (F::name == "Identity") row.traits = row.traits | Trait::SameValues;
  return row;
}

template <class F>
OpSchema unary_row() {
  OpSchema row = row_of<F>();
  if constexpr (F::saved == Saved::Never) {
    if (!F::predicate) row.gradient = zero_gradient;
  } else if constexpr (F::saved == Saved::Detached) {
    row.no_gradient = "the model stops the gradient here";
  } else {
    row.gradient = unary_gradient<F>;
  }
  return row;
}

template <class F>
OpSchema gradient_row(std::string_view name, std::string_view description) {
  OpSchema row{.name = name, .description = description, .traits = Trait::Elementwise | Trait::InPlace};
  row.infer = infer_float<F>;
  row.labels = elementwise_labels;
  row.work = work_per_result<F::flops>;
  row.no_gradient = kSecondDerivative;
  return row;
}

// Gradients of functions of two operands: each wanted operand gets its part, summed over the dimensions it was broadcast along.

void add_gradient(GradientContext& g) {
  if (g.wants(0)) g.set_broadcast(0, g.gradient_of_output());
  if (g.wants(1)) g.set_broadcast(1, g.gradient_of_output());
}

void sub_gradient(GradientContext& g) {
  if (g.wants(0)) g.set_broadcast(0, g.gradient_of_output());
  if (g.wants(1)) g.set_broadcast(1, g.emit1("Neg", {g.gradient_of_output()}));
}

void mul_gradient(GradientContext& g) {
  if (g.wants(0)) g.set_broadcast(0, g.emit1("Mul", {g.gradient_of_output(), g.input(1)}));
  if (g.wants(1)) g.set_broadcast(1, g.emit1("Mul", {g.gradient_of_output(), g.input(0)}));
}

void div_gradient(GradientContext& g) {
  const TensorId over = g.emit1("Div", {g.gradient_of_output(), g.input(1)});
  if (g.wants(0)) g.set_broadcast(0, over);
  if (g.wants(1)) g.set_broadcast(1, g.emit1("Neg", {g.emit1("Mul", {over, g.output()})}));
}

/// d(a^b) = b a^(b-1) da + a^b log(a) db
void pow_gradient(GradientContext& g) {
  if (g.wants(0)) {
    const TensorId less_one = g.emit1("Sub", {g.input(1), g.constant(1.0, g.type(g.input(1)).dtype)});
    const TensorId slope = g.emit1("Mul", {g.emit1("Pow", {g.input(0), less_one}), g.input(1)});
    g.set_broadcast(0, g.emit1("Mul", {g.gradient_of_output(), slope}));
  }
  if (g.wants(1)) {
    // powers of 0 stay 0 or 1: as in PyTorch, nothing flows to their exponents
    const DType type = g.type(g.input(0)).dtype;
    const TensorId zero = g.constant(0.0, type), product = g.emit1("Mul", {g.output(), g.emit1("Log", {g.input(0)})});
    const TensorId slope = g.emit1("Where", {g.emit1("Equal", {g.input(0), zero}), zero, product});
    g.set_broadcast(1, g.emit1("Mul", {g.gradient_of_output(), slope}));
  }
}

/// a - b q, q being the rounded quotient, which stays where it is.
void mod_gradient(GradientContext& g) {
  const TensorId dy = g.gradient_of_output();
  if (g.wants(0)) g.set_broadcast(0, dy);
  if (!g.wants(1)) return;
  const TensorId quotient = g.emit1("Div", {g.emit1("Sub", {g.input(0), g.output()}), g.input(1)});
  g.set_broadcast(1, g.emit1("Neg", {g.emit1("Mul", {dy, g.emit1("Round", {quotient})})}));
}

template <class Part>
void extremum_gradient_of_elementwise(GradientContext& g) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (g.wants(i)) g.set_broadcast(i, g.emit1(Part::name, {g.gradient_of_output(), g.input(i), g.input(1 - i)}));
  }
}

void prelu_gradient(GradientContext& g) {
  if (g.wants(0)) g.set_broadcast(0, g.emit1(scalar::PReluGrad::name, {g.gradient_of_output(), g.input(0), g.input(1)}));
  if (g.wants(1)) g.set_broadcast(1, g.emit1(scalar::PReluSlopeGrad::name, {g.gradient_of_output(), g.input(0)}));
}

struct BinaryGradient {
  std::string_view op;
  void (*gradient)(GradientContext&);
};
constexpr BinaryGradient kBinaryGradients[] = {{"Add", add_gradient},
                                               {"Sub", sub_gradient},
                                               {"Mul", mul_gradient},
                                               {"Div", div_gradient},
                                               {"Mod", mod_gradient},
                                               {"Pow", pow_gradient},
                                               {"Max", extremum_gradient_of_elementwise<scalar::MaxGrad>},
                                               {"Min", extremum_gradient_of_elementwise<scalar::MinGrad>},
                                               {"PRelu", prelu_gradient}};

template <class F>
OpSchema binary_row() {
  OpSchema row = row_of<F>();
  for (const auto& known : kBinaryGradients) {
    if (known.op == F::name) row.gradient = known.gradient;
  }
  return row;
}

template <class F>
OpSchema bit_row() {
  OpSchema row = row_of<F>();
  row.infer = infer_bits;
  row.no_gradient = "bits have no gradient";
  return row;
}

template <class F>
OpSchema connective_row() {
  OpSchema row = row_of<F>();
  row.infer = infer_connective<F>;
  return row;
}

// Where(condition, a, b)

std::vector<TensorType> infer_where(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_same_type(node, 1, 2);
  if (node.input(0).dtype != DType::Bool)
    throw BadInput("operand 0 is " + std::string(name(node.input(0).dtype)) + ", the condition must be bool");
  const Shape either = broadcast(node.input(1).shape, node.input(2).shape);
  return {{node.input(1).dtype, broadcast(node.input(0).shape, either)}};
}

void where_gradient(GradientContext& g) {
  const TensorId zero = g.constant(0.0, g.type(g.output()).dtype);
  if (g.wants(1)) g.set_broadcast(1, g.emit1("Where", {g.input(0), g.gradient_of_output(), zero}));
  if (g.wants(2)) g.set_broadcast(2, g.emit1("Where", {g.input(0), zero, g.gradient_of_output()}));
}

std::vector<Value> evaluate_where(const NodeView& node, ElementwiseOperands inputs) {
  return {filled(node.output(), inputs, [&](Value& result, std::size_t i, const std::vector<std::int64_t>& at) {
    const std::size_t chosen = inputs[0]->integer(at[0]) != 0 ? 1 : 2;
    (result.integral() ? void(result.integers[i] = inputs[chosen]->integer(at[chosen]))
                       : void(result.reals[i] = inputs[chosen]->real(at[chosen])));
  })};
}

// Cast: attribute to, the name of an element type

std::vector<TensorType> infer_cast(const NodeView& node) {
  require_inputs(node, 1, 1);
  const std::string to = node.attributes.text("to", "");
  const auto type = dtype_from_name(to);
  if (!type || size_of(*type) == 0)
    throw BadInput("attribute to", "'" + to + "' is no numeric element type; it must be a name such as f32 or i64");
  return {{*type, node.input(0).shape}};
}

void cast_gradient(GradientContext& g) {
  const DType from = g.type(g.input(0)).dtype, to = g.type(g.output()).dtype;
  if (!is_float(from) || !is_float(to)) return;  // through integers nothing flows
  g.set(0, g.emit1("Cast", {g.gradient_of_output()}, {{"to", std::string(name(from))}}));
}

std::vector<Value> evaluate_cast(const NodeView& node, ElementwiseOperands inputs) {
  const DType to = node.output().dtype;
  return {filled(node.output(), inputs, [&](Value& result, std::size_t i, const std::vector<std::int64_t>& at) {
    const bool truth = to == DType::Bool && !inputs[0]->integral();
    if (result.integral()) {
      result.integers[i] = truth ? inputs[0]->real(at[0]) != 0 : wrapped_to(inputs[0]->integer(at[0]), to);
    } else {
      result.reals[i] = scalar::rounded(inputs[0]->real(at[0]), to);
    }
  })};
}

OpSchema where_row() {
  OpSchema row{.name = "Where", .description = "a where the condition holds, else b", .traits = Trait::Elementwise};
  row.infer = infer_where;
  row.labels = elementwise_labels;
  row.work = work_per_result<0>;
  row.gradient = where_gradient;
  row.in_attention = AttentionPart::Choice;
  row.evaluate = evaluate_where;
  return row;
}

OpSchema cast_row() {
  OpSchema row{.name = "Cast",
               .description = "x as elements of the type that the attribute to names",
               .traits = Trait::Elementwise | Trait::SameValues};
  row.infer = infer_cast;
  row.labels = elementwise_labels;
  row.work = work_per_result<0>;
  row.gradient = cast_gradient;
  row.evaluate = evaluate_cast;
  return row;
}

template <class F>
void add_unary(std::vector<OpSchema>& rows) {
  rows.push_back(unary_row<F>());
  if constexpr (F::saved == Saved::Operand || F::saved == Saved::Result) {
    rows.push_back(gradient_row<scalar::SlopeOf<F>>(scalar::gradient_name<F>(),
                                                    "gradient of the function of the same name: (gradient, operand or result)"));
  }
}

/// `add` with each function as its template argument.
template <class... F>
void for_each_function(scalar::List<F...>, const auto& add) {
  (add.template operator()<F>(), ...);
}

std::vector<OpSchema> make_rows() {
  std::vector<OpSchema> rows;
  for_each_function(scalar::Unaries{}, [&]<class F>() { add_unary<F>(rows); });
  for_each_function(scalar::Binaries{}, [&]<class F>() { rows.push_back(binary_row<F>()); });
  for_each_function(scalar::Comparisons{}, [&]<class F>() { rows.push_back(binary_row<F>()); });
  for_each_function(scalar::Connectives{}, [&]<class F>() { rows.push_back(connective_row<F>()); });
  for_each_function(scalar::BitFunctions{}, [&]<class F>() { rows.push_back(bit_row<F>()); });
  for_each_function(scalar::OperandGradients{}, [&]<class F>() { rows.push_back(gradient_row<F>(F::name, F::description)); });
  rows.push_back(where_row());
  rows.push_back(cast_row());
  return rows;
}

}  // namespace

std::span<const OpSchema> elementwise_ops() {
  static const std::vector<OpSchema> kRows = make_rows();
  return kRows;
}

}  // namespace rehearsal::graph
