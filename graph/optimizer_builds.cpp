#include "graph/optimizer_builds.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace rehearsal::graph {
namespace {

GraphBuilder::NodeOptions update_named(const std::string& name) { return {name, Phase::Update, NodeId::None, {}}; }

/// Nodes of one update, named after it.
struct UpdateWriter {
  GraphBuilder& builder;
  const std::string& name;

  TensorId add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes, const char* what) {
    return builder.add(op, std::move(inputs), std::move(attributes), update_named(name + what)).front();
  }
  TensorId squared_norm(TensorId x, const char* what) { return add("SquaredNorm", {x}, {}, what); }
  TensorId sum(TensorId x, std::vector<std::int64_t> axes, double scale, const char* what) {
    Attributes attributes{{"axes", std::move(axes)}, {"keepdims", std::int64_t{1}}};
    if (scale != 1) attributes.set("scale", scale);
    return add("ReduceSum", {x}, std::move(attributes), what);
  }
  TensorId cast(TensorId x, DType to, const char* what) {
    return builder.type(x).dtype == to ? x : add("Cast", {x}, {{"to", std::string(rehearsal::name(to))}}, what);
  }
  TensorId reshaped(TensorId x, const Shape& shape, const char* what) {
    return builder.type(x).shape == shape ? x : add("Reshape", {x}, {{"shape", shape}}, what);
  }
};

std::vector<TensorId> with_slots(std::vector<TensorId> operands, const UpdateOperands& o) {
  operands.insert(operands.end(), o.slots.begin(), o.slots.end());
  return operands;
}

}  // namespace

std::vector<TensorId> build_lars(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  auto operands =
      with_slots({o.parameter, o.gradient, w.squared_norm(o.parameter, ".norm"), w.squared_norm(o.gradient, ".gradient_norm")}, o);
  return builder.add("LarsUpdate", std::move(operands), attributes, update_named(name));
}

std::vector<TensorId> build_lamb(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  auto results =
      builder.add("LambDirection", with_slots({o.parameter, o.gradient, o.step}, o), attributes, update_named(name + ".direction"));
  const TensorId direction = results[0];
  results[0] =
      w.add("LambUpdate", {o.parameter, direction, w.squared_norm(o.parameter, ".norm"), w.squared_norm(direction, ".direction_norm")},
            attributes, "");
  return results;
}

std::vector<TensorId> build_novograd(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                     const std::string& name) {
  UpdateWriter w{builder, name};
  auto operands = with_slots({o.parameter, o.gradient, o.step, w.squared_norm(o.gradient, ".gradient_norm")}, o);
  return builder.add("NovogradUpdate", std::move(operands), attributes, update_named(name));
}

namespace {

/// The last step of Adafactor, of an unclipped direction.
TensorId adafactor_step(UpdateWriter& w, const UpdateOperands& o, TensorId direction, Attributes attributes) {
  attributes.set("elements", element_count(o.use.shape));
  return w.add("AdafactorUpdate",
               {o.parameter, direction, o.step, w.squared_norm(o.parameter, ".norm"), w.squared_norm(direction, ".direction_norm")},
               std::move(attributes), "");
}

}  // namespace

std::vector<TensorId> build_adafactor(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                      const std::string& name) {
  UpdateWriter w{builder, name};
  const Shape& shape = o.use.shape;
  const auto rows = static_cast<double>(shape[shape.size() - 2]), columns = static_cast<double>(shape.back());
  const TensorId squares = w.add("Mul", {o.gradient, o.gradient}, {}, ".squares");
  const auto averaged = [&](std::size_t slot, TensorId mean, const char* what) {
    return w.add("AdafactorAverage", {o.slots[slot], mean, o.step}, attributes, what);
  };
  const TensorId row = averaged(0, w.sum(squares, {-1}, 1 / columns, ".row_mean"), ".row");
  const TensorId column = averaged(1, w.sum(squares, {-2}, 1 / rows, ".column_mean"), ".column");
  const TensorId mean = w.sum(row, {-2}, 1 / rows, ".mean");
  const TensorId direction = w.add("AdafactorDirection", {o.gradient, row, column, mean}, attributes, ".direction");
  return {adafactor_step(w, o, direction, attributes), row, column};
}

std::vector<TensorId> build_adafactor_of_vector(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                                const std::string& name) {
  UpdateWriter w{builder, name};
  const TensorId squares = w.add("Mul", {o.gradient, o.gradient}, {}, ".squares");
  const TensorId variance = w.add("AdafactorAverage", {o.slots[0], squares, o.step}, attributes, ".variance");
  const TensorId direction = w.add("AdafactorDirection", {o.gradient, variance}, attributes, ".direction");
  return {adafactor_step(w, o, direction, attributes), variance};
}

namespace {

std::vector<TensorId> schedule_free(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name,
                                    std::string_view op) {
  const std::size_t states = o.slots.size() - 2;
  const auto share = builder.add("ScheduleFreeShare", {o.slots[states], o.slots[states + 1]}, attributes, update_named(name + ".share"));
  std::vector<TensorId> operands{o.parameter, o.gradient, o.step};
  operands.insert(operands.end(), o.slots.begin(), o.slots.begin() + static_cast<std::ptrdiff_t>(states));
  operands.push_back(share[0]);
  auto results = builder.add(op, std::move(operands), attributes, update_named(name));
  results.insert(results.end(), share.begin() + 1, share.end());
  return results;
}

}  // namespace

std::vector<TensorId> build_schedule_free_sgd(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                              const std::string& name) {
  return schedule_free(builder, o, attributes, name, "ScheduleFreeSgdUpdate");
}

std::vector<TensorId> build_schedule_free_adamw(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                                const std::string& name) {
  return schedule_free(builder, o, attributes, name, "ScheduleFreeAdamwUpdate");
}

namespace {

/// Iterations of Newton and Schulz with which Muon makes all singular values about 1, and their polynomial a x + b x^3 + c x^5 (Jordan et
/// al. 2024).
constexpr int kIterations = 5;
constexpr double kFirstPower = 3.4445, kThirdPower = -4.7750, kFifthPower = 2.0315, kLeastNorm = 1e-7;

TensorId product(UpdateWriter& w, TensorId a, TensorId b, const char* transposed, const char* what) {
  Attributes attributes;
  if (*transposed != '\0') attributes.set(transposed, std::int64_t{1});
  return w.add("MatMul", {a, b}, std::move(attributes), what);
}

struct Term {
  TensorId of;
  double factor;
};

TensorId blended(UpdateWriter& w, Term x, Term y, const char* what) {
  return w.add("LinearCombination", {x.of, y.of}, {{"alpha", x.factor}, {"beta", y.factor}}, what);
}

/// (a + b X X^T + c (X X^T)^2) X, from the shorter side.
TensorId orthogonalized(UpdateWriter& w, TensorId x, bool wide) {
  for (int i = 0; i < kIterations; ++i) {
    const TensorId gram = product(w, x, x, wide ? "trans_b" : "trans_a", ".gram");
    const TensorId square = product(w, gram, gram, "", ".gram_square");
    const TensorId polynomial = blended(w, {gram, kThirdPower}, {square, kFifthPower}, ".polynomial");
    const TensorId turned = wide ? product(w, polynomial, x, "", ".turned") : product(w, x, polynomial, "", ".turned");
    x = blended(w, {x, kFirstPower}, {turned, 1}, ".iteration");
  }
  return x;
}

/// Of the update: `rms` brings its root mean square to that of AdamW's updates (Liu et al. 2025, equation 4); 0: Jordan's own, which
/// follows the sides of the matrix.
double muon_scale(const ParameterUse& use, double rms) {
  const auto rows = static_cast<double>(use.rows), columns = static_cast<double>(use.columns);
  if (rms > 0) return rms * std::sqrt(std::max(rows, columns));
  const double out = use.outputs_are_rows ? rows : columns, in = use.outputs_are_rows ? columns : rows;
  return std::sqrt(std::max(1.0, out / in));
}

}  // namespace

Shape matrix_shape(const ParameterUse& use) {
  const bool kernels = use.shape.size() > 3 || use.rows * use.columns != use.shape[use.shape.size() - 2] * use.shape.back();
  return kernels ? Shape{use.rows, use.columns} : use.shape;
}

std::vector<TensorId> build_muon(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  const auto moved = builder.add("MuonMomentum", {o.gradient, o.slots[0]}, attributes, update_named(name + ".momentum"));
  const TensorId direction = w.reshaped(moved[0], matrix_shape(o.use), ".matrix");
  const TensorId square = w.sum(w.add("Mul", {direction, direction}, {}, ".squares"), {-2, -1}, 1, ".square");
  const TensorId normalized = w.add("DivideByNorm", {direction, square}, {{"least", kLeastNorm}}, ".normalized");
  const TensorId x = orthogonalized(w, w.cast(normalized, o.computes_in, ".narrow"), o.use.rows <= o.use.columns);
  const TensorId step = w.reshaped(w.cast(x, builder.type(o.parameter).dtype, ".wide"), o.use.shape, ".step");
  Attributes last = attributes;
  last.set("scale", muon_scale(o.use, attributes.number("rms", 0)));
  return {w.add("MuonUpdate", {o.parameter, step}, std::move(last), ""), moved[1]};
}

std::vector<TensorId> build_adamw_of_others(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                            const std::string& name) {
  Attributes adamw = attributes;
  adamw.set("lr", attributes.number("lr", 0) * attributes.number("adam_rate", 1));
  return builder.add("AdamUpdate", with_slots({o.parameter, o.gradient, o.step}, o), std::move(adamw), update_named(name));
}

double muon_flops(const ParameterUse& use) {
  const auto r = static_cast<double>(std::min(use.rows, use.columns)), c = static_cast<double>(std::max(use.rows, use.columns));
  const double matrices = static_cast<double>(element_count(use.shape)) / (r * c);
  return matrices * kIterations * (4 * r * r * c + 2 * r * r * r);
}

namespace {

/// The new average of products of a gradient with itself, and its inverse root, which is made anew every few steps.
struct Factor {
  TensorId average, root;
};

enum class Side : std::uint8_t { Rows, Columns };

struct KeptFactor {
  TensorId average, root, step;
};

/// `rule`: InverseRoot's attributes.
Factor factor_of(UpdateWriter& w, TensorId gradient, const KeptFactor& kept, const Attributes& rule, Side side) {
  const double share = rule.number("decay", 0);
  const bool rows = side == Side::Rows;
  const TensorId gram = product(w, gradient, gradient, rows ? "trans_b" : "trans_a", rows ? ".row_gram" : ".column_gram");
  const TensorId next = blended(w, {kept.average, share}, {gram, 1 - share}, rows ? ".row_factor" : ".column_factor");
  return {next, w.add("InverseRoot", {kept.root, next, kept.step}, rule, rows ? ".row_root" : ".column_root")};
}

/// Multiplied with the roots of one side, or of both.
std::vector<TensorId> shampoo(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name,
                              std::span<const Side> sides) {
  UpdateWriter w{builder, name};
  const double beta1 = attributes.number("beta1", 0), rms = attributes.number("rms", 0);
  std::vector<TensorId> results{TensorId::None};
  TensorId direction = o.gradient;
  if (beta1 > 0) results.push_back(direction = blended(w, {o.slots[0], beta1}, {o.gradient, 1 - beta1}, ".momentum"));
  const Shape matrix = matrix_shape(o.use);
  const TensorId gradient = w.reshaped(o.gradient, matrix, ".matrix");
  direction = w.reshaped(direction, matrix, ".momentum_matrix");
  const Attributes rule{{"root", static_cast<std::int64_t>(2 * sides.size())},
                        {"decay", attributes.number("beta2", 0)},
                        {"eps", attributes.number("root_eps", 0)},
                        {"interval", static_cast<std::int64_t>(attributes.number("interval", 1))}};
  for (std::size_t s = 0; s < sides.size(); ++s) {
    const TensorId* kept = &o.slots[(beta1 > 0 ? 1 : 0) + 2 * s];
    const Factor factor = factor_of(w, gradient, {kept[0], kept[1], o.step}, rule, sides[s]);
    results.insert(results.end(), {factor.average, factor.root});
    direction = sides[s] == Side::Rows ? product(w, factor.root, direction, "", ".turned_rows")
                                       : product(w, direction, factor.root, "", ".turned_columns");
  }
  Attributes last{{"lr", attributes.number("lr", 0)}, {"weight_decay", attributes.number("weight_decay", 0)}, {"scale", 1.0}};
  if (rms > 0) {
    const TensorId square = w.sum(w.add("Mul", {direction, direction}, {}, ".squares"), {-2, -1}, 1, ".square");
    direction = w.add("DivideByNorm", {direction, square}, {{"least", kLeastNorm}}, ".normalized");
    last.set("scale", rms * std::sqrt(static_cast<double>(o.use.rows) * static_cast<double>(o.use.columns)));
  }
  results[0] = w.add("MuonUpdate", {o.parameter, w.reshaped(direction, o.use.shape, ".step")}, std::move(last), "");
  return results;
}

constexpr Side kBothSides[] = {Side::Rows, Side::Columns}, kRowsAlone[] = {Side::Rows}, kColumnsAlone[] = {Side::Columns};

}  // namespace

std::vector<TensorId> build_shampoo(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  return shampoo(builder, o, attributes, name, kBothSides);
}

std::vector<TensorId> build_shampoo_of_rows(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                            const std::string& name) {
  return shampoo(builder, o, attributes, name, kRowsAlone);
}

std::vector<TensorId> build_shampoo_of_columns(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                               const std::string& name) {
  return shampoo(builder, o, attributes, name, kColumnsAlone);
}

}  // namespace rehearsal::graph
