// x/2 (1 + erf(x / sqrt(2))), or its form with tanh: Hendycks and Gimpel, "Gaussian error linear units", arXiv 1606.08415.

#include <numbers>
#include <vector>

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

/// The factors of a product of scalars and tensors, at most four deep; numbers are multiplied together.
struct Product {
  double number = 1;
  std::vector<TensorId> tensors;
};

void collect(const PatternMatcher& m, TensorId t, int depth, Product& product) {
  const Node* factors = m.made_by(t, "Mul");
  const auto value = m.number(t);
  if (value) {
    product.number *= *value;
  } else if (factors && depth > 0 && factors->inputs[0] != factors->inputs[1] && (depth == 3 || m.is_inner(t))) {
    collect(m, factors->inputs[0], depth - 1, product);
    collect(m, factors->inputs[1], depth - 1, product);
  } else if (const Node* quotient = m.made_by(t, "Div"); quotient && depth > 0 && m.number(quotient->inputs[1]) && m.is_inner(t)) {
    product.number /= *m.number(quotient->inputs[1]);
    collect(m, quotient->inputs[0], depth - 1, product);
  } else if (const Node* negative = m.made_by(t, "Neg"); negative && depth > 0 && m.is_inner(t)) {
    product.number *= -1;
    collect(m, negative->inputs[0], depth - 1, product);
  } else {
    product.tensors.push_back(t);
  }
}

Product product_of(const PatternMatcher& m, TensorId t) {
  Product product;
  collect(m, t, 3, product);
  return product;
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

/// erf(sign x / sqrt(2))
bool is_erf_of(const PatternMatcher& m, TensorId t, TensorId x, double sign) {
  const Node* erf = m.made_by(t, "Erf");
  if (!erf) return false;
  if (const Node* quotient = m.made_by(erf->inputs[0], "Div"); quotient && quotient->inputs[0] == x)
    return m.is_number(quotient->inputs[1], sign * std::numbers::sqrt2);
  const Product inner = product_of(m, erf->inputs[0]);
  return inner.tensors == std::vector{x} && close(inner.number, sign / std::numbers::sqrt2);
}

bool is_cube_of(const PatternMatcher& m, TensorId t, TensorId x) {
  if (const Node* power = m.made_by(t, "Pow")) return power->inputs[0] == x && m.is_number(power->inputs[1], 3);
  const Node* product = m.made_by(t, "Mul");
  return product && ((product->inputs[0] == x && m.squared(product->inputs[1]) == x) ||
                     (product->inputs[1] == x && m.squared(product->inputs[0]) == x));
}

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))
bool is_tanh_of(const PatternMatcher& m, TensorId t, TensorId x) {
  const Node* tanh = m.made_by(t, "Tanh");
  const Product inner = tanh ? product_of(m, tanh->inputs[0]) : Product{};
  if (inner.tensors.size() != 1 || !close(inner.number, std::sqrt(2 / std::numbers::pi))) return false;
  const Node* sum = m.made_by(inner.tensors[0], "Add");
  if (!sum) return false;
  const auto stands_beside_cube = [&](std::size_t i) {
    const Node* scaled = sum->inputs[i] == x ? m.made_by(sum->inputs[1 - i], "Mul") : nullptr;
    const auto cubic = scaled ? m.with_number(*scaled) : std::nullopt;
    return cubic && close(cubic->second, 0.044715) && is_cube_of(m, cubic->first, x);
  };
  return stands_beside_cube(0) || stands_beside_cube(1);
}

/// u of 1 + u or, its sign being -1, of 1 - u: the complementary error function of -x that Keras and JAX use.
struct OneAnd {
  TensorId u = TensorId::None;
  double sign = 1;
};

std::optional<OneAnd> one_and(const PatternMatcher& m, TensorId t) {
  if (const Node* sum = m.made_by(t, "Add")) {
    const auto shifted = m.with_number(*sum);
    return shifted && shifted->second == 1 ? std::optional(OneAnd{shifted->first, 1}) : std::nullopt;
  }
  const Node* difference = m.made_by(t, "Sub");
  const auto one = difference ? m.number(difference->inputs[0]) : std::nullopt;
  return one && *one == 1 ? std::optional(OneAnd{difference->inputs[1], -1}) : std::nullopt;
}

}  // namespace

std::optional<Recognized> match_gelu(const PatternMatcher& m, const Node& node) {
  if (!PatternMatcher::is(node, "Mul")) return std::nullopt;
  const Product product = product_of(m, node.outputs[0]);
  if (product.tensors.size() != 2 || !close(product.number, 0.5)) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const TensorId x = product.tensors[1 - i];
    const auto sum = m.is_inner(product.tensors[i]) ? one_and(m, product.tensors[i]) : std::nullopt;
    if (!sum || m.shape(x) != m.shape(node.outputs[0])) continue;
    const bool exact = is_erf_of(m, sum->u, x, sum->sign);
    if (exact || (sum->sign == 1 && is_tanh_of(m, sum->u, x)))
      return Recognized{"Gelu", {x}, {{"approximate", std::string(exact ? "none" : "tanh")}}, {m.producer(product.tensors[i])}};
  }
  return std::nullopt;
}

}  // namespace rehearsal::graph
