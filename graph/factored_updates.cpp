// Updates that multiply a gradient with a small matrix from each side.
//   Shampoo  the inverse roots of its second moments by rows and by columns
//   SOAP     bases of eigenvectors of these, in which Adam is run
//   K-FAC    the inverses of the second moments of what goes into a product and of the gradients of what comes out

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/op_schema.hpp"
#include "graph/optimizer_builds.hpp"
#include "graph/update_writer.hpp"

namespace rehearsal::graph {
namespace {

/// Roots of longer sides cost more than they are worth: the side that published implementations take as a whole (Shi et al. 2023).
constexpr std::int64_t kLongestSide = 1024;

enum class Side : std::uint8_t { Rows, Columns };

std::vector<Side> short_sides(const ParameterUse& use) {
  std::vector<Side> sides;
  if (has_short_rows(use)) sides.push_back(Side::Rows);
  if (has_short_columns(use)) sides.push_back(Side::Columns);
  return sides;
}

/// The new average of products of a gradient with itself, and what is decomposed of it every few steps.
struct KroneckerFactor {
  TensorId average, made;
};

/// From step to step.
struct KeptFactor {
  TensorId average, made, step;
};

/// A row of decomposition.cpp and its attributes.
struct Decomposition {
  std::string_view op;
  Attributes attributes;
};

KroneckerFactor factor_of(UpdateWriter& w, TensorId gradient, const KeptFactor& kept, const Decomposition& rule, Side side) {
  const double share = rule.attributes.number("decay", 0);
  const bool rows = side == Side::Rows;
  const TensorId gram = w.product(gradient, gradient, rows ? "trans_b" : "trans_a", rows ? ".row_gram" : ".column_gram");
  const TensorId next = w.blended({kept.average, share}, {gram, 1 - share}, rows ? ".row_factor" : ".column_factor");
  return {next, w.add(rule.op, {kept.made, next, kept.step}, rule.attributes, rows ? ".row_made" : ".column_made")};
}

/// What is multiplied with from a side.
struct Multiplier {
  Side side;
  TensorId matrix;
  bool transposed = false;
};

TensorId multiplied(UpdateWriter& w, const Multiplier& m, TensorId x, const char* what) {
  if (m.side == Side::Rows) return w.product(m.matrix, x, m.transposed ? "trans_a" : "", what);
  return w.product(x, m.matrix, m.transposed ? "trans_b" : "", what);
}

/// The gradient, its average where one is kept, and where the slots of the sides begin.
struct Averaged {
  TensorId gradient, momentum;
  std::size_t first_slot;
  std::vector<TensorId> results;
};

Averaged averaged(UpdateWriter& w, const UpdateOperands& o, double beta1) {
  Averaged a{w.reshaped(o.gradient, matrix_shape(o.use), ".matrix"), o.gradient, 0, {TensorId::None}};
  if (beta1 > 0) a.results.push_back(a.momentum = w.blended({o.slots[a.first_slot++], beta1}, {o.gradient, 1 - beta1}, ".momentum"));
  a.momentum = w.reshaped(a.momentum, matrix_shape(o.use), ".momentum_matrix");
  return a;
}

Attributes last_step(const Attributes& attributes, double scale) {
  return {{"lr", attributes.number("lr", 0)}, {"weight_decay", attributes.number("weight_decay", 0)}, {"scale", scale}};
}

}  // namespace

bool has_short_rows(const ParameterUse& use) { return use.hidden_matrix && use.rows <= kLongestSide; }
bool has_short_columns(const ParameterUse& use) { return use.hidden_matrix && use.columns <= kLongestSide; }

/// Multiplied with the roots of one side, or of both.
std::vector<TensorId> build_shampoo(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  const auto sides = short_sides(o.use);
  const double rms = attributes.number("rms", 0);
  auto [gradient, direction, slot, results] = averaged(w, o, attributes.number("beta1", 0));
  const Decomposition rule{"InverseRoot",
                           {{"root", static_cast<std::int64_t>(2 * sides.size())},
                            {"decay", attributes.number("beta2", 0)},
                            {"eps", attributes.number("root_eps", 0)},
                            {"interval", static_cast<std::int64_t>(attributes.number("interval", 1))}}};
  for (const Side side : sides) {
    const KroneckerFactor factor = factor_of(w, gradient, {o.slots[slot], o.slots[slot + 1], o.step}, rule, side);
    slot += 2;
    results.insert(results.end(), {factor.average, factor.made});
    direction = multiplied(w, {side, factor.made}, direction, ".turned");
  }
  double scale = 1;
  if (rms > 0) {
    direction = w.normalized(direction);
    scale = rms * std::sqrt(static_cast<double>(o.use.rows) * static_cast<double>(o.use.columns));
  }
  results[0] = w.add("MuonUpdate", {o.parameter, w.reshaped(direction, o.use.shape, ".step")}, last_step(attributes, scale), "");
  return results;
}

/// Gradient and momentum turned into the bases, Adam's direction of them there, turned back.
std::vector<TensorId> build_soap(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  const auto sides = short_sides(o.use);
  auto [gradient, momentum, slot, results] = averaged(w, o, attributes.number("beta1", 0));
  const TensorId variance = o.slots[slot++];
  const Decomposition rule{"EigenBasis",
                           {{"decay", attributes.number("beta2", 0)},
                            {"eps", attributes.number("basis_eps", 0)},
                            {"interval", static_cast<std::int64_t>(attributes.number("interval", 1))}}};
  std::vector<TensorId> bases, kept;
  TensorId turned = gradient;
  for (const Side side : sides) {
    const KroneckerFactor factor = factor_of(w, gradient, {o.slots[slot], o.slots[slot + 1], o.step}, rule, side);
    slot += 2;
    kept.insert(kept.end(), {factor.average, factor.made});
    bases.push_back(factor.made);
    turned = multiplied(w, {side, factor.made, side == Side::Rows}, turned, ".turned");
    momentum = multiplied(w, {side, factor.made, side == Side::Rows}, momentum, ".turned_momentum");
  }
  const auto own = [&](TensorId t, const char* what) { return w.reshaped(t, o.use.shape, what); };
  const auto adam = builder.add("SoapDirection", {own(momentum, ".own_momentum"), own(turned, ".own_gradient"), o.step, variance},
                                attributes, update_named(name + ".direction"));
  TensorId direction = w.reshaped(adam[0], matrix_shape(o.use), ".direction_matrix");
  for (std::size_t s = 0; s < sides.size(); ++s)
    direction = multiplied(w, {sides[s], bases[s], sides[s] == Side::Columns}, direction, ".turned_back");
  results.push_back(adam[1]);
  results.insert(results.end(), kept.begin(), kept.end());
  results[0] = w.add("MuonUpdate", {o.parameter, own(direction, ".step")}, last_step(attributes, 1), "");
  return results;
}

namespace {

/// What a gradient is the product of: of the side that goes into the layer, and of the gradients of what comes out.
struct LayerSides {
  TensorId in, out;
  Attributes window = {};  ///< of a convolution's input
  double in_scale = 1, out_scale = 1;
};

/// The loss is a mean over as many samples, so that gradients of samples are so many times what the backward pass has. Where weights are
/// shared by the positions of an image, those count as independent (Grosse, Martens 2016, section 3); rows of a product count as samples.
LayerSides layer_sides(const GraphBuilder& builder, const UpdateOperands& o, const std::string& name) {
  const NodeId made_by = builder[before_moves(builder, o.produced)].producer;
  const Node node = made_by == NodeId::None ? Node{} : builder[made_by];
  const OpSchema* row = made_by == NodeId::None ? nullptr : &schema(node);
  if (o.use.kernels && row != nullptr && row->window && row->window->sums_positions) {
    const Shape x = builder.type(node.inputs[0]).shape, dy = builder.type(node.inputs[1]).shape;
    const auto samples = static_cast<double>(x[0]),
               positions = static_cast<double>(element_count(dy) / std::max<std::int64_t>(1, dy[0] * dy[1]));
    return {node.inputs[0], node.inputs[1], node.attributes, 1 / samples, samples / positions};
  }
  const bool is_product = row != nullptr && row->family == CostFamily::MatMul && node.attributes.integer("trans_a", 0) != 0 &&
                          node.attributes.integer("trans_b", 0) == 0 && builder.type(node.inputs[0]).shape.size() == 2;
  if (o.use.kernels || !is_product)
    throw Refusal("optimizer kfac: " + name +
                  ": its gradient is no product of what goes into a layer and of what comes out; use --freeze " +
                  "for it, or another optimizer");
  const auto samples = static_cast<double>(builder.type(node.inputs[0]).shape[0]);
  const std::size_t in = o.use.outputs_are_rows ? 1 : 0;
  return {node.inputs[in], node.inputs[1 - in], {}, 1 / samples, samples};
}

/// A sum over samples, as its gradient is one: by rank and micro-batch, then over all of them. Beside the gradient, since what it reads is
/// let go there.
TensorId outer_products(UpdateWriter& w, TensorId x, const UpdateOperands& o, Attributes attributes, const char* what) {
  const NodeId made_by = w.builder[before_moves(w.builder, o.produced)].producer;
  const auto in_passes = [&](std::string_view op, std::vector<TensorId> inputs, Attributes of_node) {
    return w.builder.add(op, std::move(inputs), std::move(of_node), {w.name + what, Phase::Backward, NodeId::None, {}, made_by}).front();
  };
  const DType dtype = w.builder.type(o.gradient).dtype;
  if (w.builder.type(x).dtype != dtype) x = in_passes("Cast", {x}, {{"to", std::string(rehearsal::name(dtype))}});
  return in_passes("OuterProducts", {x, o.step}, std::move(attributes));
}

/// Where the slots of factors begin: behind the momentum.
std::size_t first_factor(const Attributes& attributes) { return attributes.number("momentum", 0) > 0 ? 1 : 0; }

/// Of an image's positions one by one.
Attributes alone(const Attributes& window) {
  if (!window.has("kernel_shape")) return {};
  return {{"kernel_shape", std::vector<std::int64_t>(window.integers("kernel_shape").size(), 1)}};
}

}  // namespace

BegunUpdate begin_kfac(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  const LayerSides of = layer_sides(builder, o, builder[o.parameter].name);
  const auto factor_interval = static_cast<std::int64_t>(attributes.number("factor_interval", 1));
  const std::size_t first = first_factor(attributes);
  std::array<TensorId, 2> averages{};
  for (std::size_t s = 0; s < 2; ++s) {
    const bool is_out = o.use.outputs_are_rows == (s == 0);
    Attributes rule = is_out ? alone(of.window) : of.window;
    rule.set("scale", is_out ? of.out_scale : of.in_scale);
    rule.set("interval", factor_interval);
    const TensorId products = outer_products(w, is_out ? of.out : of.in, o, rule, s == 0 ? ".row_products" : ".column_products");
    averages[s] =
        w.add("FactorAverage", {o.slots[first + 2 * s], products, o.step},
              {{"decay", attributes.number("factor_decay", 0)}, {"interval", factor_interval}}, s == 0 ? ".row_factor" : ".column_factor");
  }
  const Attributes rule{{"damping", attributes.number("damping", 0)},
                        {"interval", static_cast<std::int64_t>(attributes.number("interval", 1))}};
  const TensorId gradient = w.reshaped(o.gradient, matrix_shape(o.use), ".matrix");
  BegunUpdate begun;
  TensorId direction = gradient;
  for (std::size_t s = 0; s < 2; ++s) {
    const TensorId inverse = w.add("DampedInverse", {o.slots[first + 2 * s + 1], averages[s], o.step, averages[1 - s]}, rule,
                                   s == 0 ? ".row_inverse" : ".column_inverse");
    begun.made.insert(begun.made.end(), {averages[s], inverse});
    direction = multiplied(w, {s == 0 ? Side::Rows : Side::Columns, inverse}, direction, ".turned");
  }
  begun.made.push_back(direction);
  const TensorId divergence = w.add("ReduceSum", {w.add("Mul", {direction, gradient}, {}, ".divergences")},
                                    {{"axes", std::vector<std::int64_t>{0, 1}}, {"keepdims", std::int64_t{0}}}, ".divergence");
  begun.summed = w.cast(divergence, DType::F64, ".divergence_to_sum");
  return begun;
}

std::vector<TensorId> build_kfac(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  const TensorId clipped = w.add("DivergenceClip", {o.begun.made.back(), o.begun.summed},
                                 {{"lr", attributes.number("lr", 0)}, {"clip", attributes.number("kl_clip", 0)}}, ".clipped");
  std::vector<TensorId> operands{o.parameter, w.reshaped(clipped, o.use.shape, ".step"), TensorId::None};
  if (first_factor(attributes) > 0) operands.push_back(o.slots[0]);
  auto results = builder.add("SgdUpdate", std::move(operands), attributes, update_named(name));
  results.insert(results.end(), o.begun.made.begin(), o.begun.made.end() - 1);
  return results;
}

}  // namespace rehearsal::graph
