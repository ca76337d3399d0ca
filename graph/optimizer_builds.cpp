#include "graph/optimizer_builds.hpp"

#include <algorithm>
#include <cmath>

#include "graph/update_writer.hpp"

namespace rehearsal::graph {
namespace {

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
constexpr double kFirstPower = 3.4445, kThirdPower = -4.7750, kFifthPower = 2.0315;

/// (a + b X X^T + c (X X^T)^2) X, from the shorter side.
TensorId orthogonalized(UpdateWriter& w, TensorId x, bool wide) {
  for (int i = 0; i < kIterations; ++i) {
    const TensorId gram = w.product(x, x, wide ? "trans_b" : "trans_a", ".gram");
    const TensorId square = w.product(gram, gram, "", ".gram_square");
    const TensorId polynomial = w.blended({gram, kThirdPower}, {square, kFifthPower}, ".polynomial");
    const TensorId turned = wide ? w.product(polynomial, x, "", ".turned") : w.product(x, polynomial, "", ".turned");
    x = w.blended({x, kFirstPower}, {turned, 1}, ".iteration");
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

Shape matrix_shape(const ParameterUse& use) { return use.kernels ? Shape{use.rows, use.columns} : use.shape; }

std::vector<TensorId> build_muon(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  UpdateWriter w{builder, name};
  const auto moved = builder.add("MuonMomentum", {o.gradient, o.slots[0]}, attributes, update_named(name + ".momentum"));
  const TensorId direction = w.reshaped(moved[0], matrix_shape(o.use), ".matrix");
  const TensorId normalized = w.normalized(direction);
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

}  // namespace rehearsal::graph
