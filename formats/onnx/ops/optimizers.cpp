// Optimizer steps as operators of the domain ai.onnx.preview.training, as the arithmetic that they are. Operands: learning rate R, number
// of the update T, then groups X, gradients and states of as many tensors each.

#include <cmath>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

constexpr std::string_view kDomain = "ai.onnx.preview.training";

/// Arithmetic on the operands of one tensor.
struct Arithmetic {
  NodeImport& n;
  DType type;

  TensorId add(TensorId a, TensorId b) { return n.emit("Add", {a, b}); }
  TensorId sub(TensorId a, TensorId b) { return n.emit("Sub", {a, b}); }
  TensorId mul(TensorId a, TensorId b) { return n.emit("Mul", {a, b}); }
  TensorId div(TensorId a, TensorId b) { return n.emit("Div", {a, b}); }
  TensorId scaled(TensorId a, double factor) { return factor == 1 ? a : n.emit("Scale", {a}, {{"factor", factor}}); }
  TensorId number(double value) { return n.scalar(value, type); }
  /// The gradient with that of an L2 penalty.
  TensorId regularized(TensorId x, TensorId g) {
    const double norm = n.number("norm_coefficient", 0);
    return norm == 0 ? g : add(g, scaled(x, norm));
  }
  TensorId root_plus(TensorId squares, double epsilon) { return add(n.emit("Sqrt", {squares}), number(epsilon)); }
};

std::size_t tensors_of(const NodeImport& n, std::size_t groups) {
  if (n.input_count() < 2 + groups || (n.input_count() - 2) % groups != 0)
    n.fail("has " + std::to_string(n.input_count()) + " operands, it needs R, T and " + std::to_string(groups) + " for each tensor");
  return (n.input_count() - 2) / groups;
}

void momentum(NodeImport& n) {
  const std::size_t count = tensors_of(n, 3);
  const double alpha = n.number("alpha", 0), beta = n.known_integer(1, "the number of the update") > 0 ? n.number("beta", 0) : 1;
  const bool nesterov = n.text("mode", "standard") == "nesterov";
  for (std::size_t i = 0; i < count; ++i) {
    Arithmetic a{n, n.type(2 + i).dtype};
    const TensorId x = n.input(2 + i), g = a.regularized(x, n.input(2 + count + i));
    const TensorId v = a.add(a.scaled(n.input(2 + 2 * count + i), alpha), a.scaled(g, beta));
    n.set(i, a.sub(x, a.mul(n.input(0), nesterov ? a.add(g, a.scaled(v, alpha)) : v)));
    n.set(count + i, v);
  }
}

void adagrad(NodeImport& n) {
  const std::size_t count = tensors_of(n, 3);
  const double decay = 1 + static_cast<double>(n.known_integer(1, "the number of the update")) * n.number("decay_factor", 0);
  for (std::size_t i = 0; i < count; ++i) {
    Arithmetic a{n, n.type(2 + i).dtype};
    const TensorId x = n.input(2 + i), g = a.regularized(x, n.input(2 + count + i));
    const TensorId h = a.add(n.input(2 + 2 * count + i), a.mul(g, g));
    n.set(i, a.sub(x, a.div(a.mul(a.scaled(n.input(0), 1 / decay), g), a.root_plus(h, n.number("epsilon", 1e-6)))));
    n.set(count + i, h);
  }
}

void adam(NodeImport& n) {
  const std::size_t count = tensors_of(n, 4);
  const double alpha = n.number("alpha", 0.9), beta = n.number("beta", 0.999);
  const auto t = static_cast<double>(n.known_integer(1, "the number of the update"));
  const double correction = t > 0 ? std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t)) : 1;
  for (std::size_t i = 0; i < count; ++i) {
    Arithmetic a{n, n.type(2 + i).dtype};
    const TensorId x = n.input(2 + i), g = a.regularized(x, n.input(2 + count + i));
    const TensorId v = a.add(a.scaled(n.input(2 + 2 * count + i), alpha), a.scaled(g, 1 - alpha));
    const TensorId h = a.add(a.scaled(n.input(2 + 3 * count + i), beta), a.scaled(a.mul(g, g), 1 - beta));
    const TensorId step = a.div(a.mul(a.scaled(n.input(0), correction), v), a.root_plus(h, n.number("epsilon", 1e-6)));
    n.set(i, a.scaled(a.sub(x, step), 1 - n.number("norm_coefficient_post", 0)));
    n.set(count + i, v);
    n.set(2 * count + i, h);
  }
}

constexpr ImportRow kOptimizersRows[] = {
    {kDomain, "Momentum", 1, kNewest, momentum},
    {kDomain, "Adagrad", 1, kNewest, adagrad},
    {kDomain, "Adam", 1, kNewest, adam},
};

}  // namespace

std::span<const ImportRow> optimizer_rows() { return kOptimizersRows; }

}  // namespace rehearsal::formats
