// Optimizers by PyTorch's equations and defaults; LARS and LAMB treat every tensor as a layer and leave none out.

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph {
namespace {

using Hyperparameter = OptimizerParameter;

constexpr Hyperparameter kSgd[] = {{"lr", 1e-3}, {"momentum", 0}, {"weight_decay", 0}, {"nesterov", 0}};
constexpr Hyperparameter kAdam[] = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0}};
constexpr Hyperparameter kAdamw[] = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 1e-2}};
constexpr Hyperparameter kNadam[] = {{"lr", 2e-3},  {"beta1", 0.9},      {"beta2", 0.999},
                                     {"eps", 1e-8}, {"weight_decay", 0}, {"momentum_decay", 4e-3}};
constexpr Hyperparameter kRmsprop[] = {{"lr", 1e-2}, {"alpha", 0.99}, {"eps", 1e-8}, {"momentum", 0}, {"weight_decay", 0}};
constexpr Hyperparameter kAdagrad[] = {{"lr", 1e-2}, {"eps", 1e-10}, {"weight_decay", 0}};
constexpr Hyperparameter kLars[] = {{"lr", 1e-3}, {"momentum", 0}, {"weight_decay", 0}, {"trust", 1e-3}};
constexpr Hyperparameter kLamb[] = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-6}, {"weight_decay", 0}};

constexpr Hyperparameter kNovograd[] = {{"lr", 1e-3}, {"beta1", 0.95}, {"beta2", 0.98}, {"eps", 1e-8}, {"weight_decay", 0}};

constexpr OptimizerSlot kMomentum[] = {{"momentum_buffer", "momentum"}};
constexpr OptimizerSlot kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};
constexpr OptimizerSlot kRmspropSlots[] = {{"square_avg"}, {"momentum_buffer", "momentum"}};
constexpr OptimizerSlot kAdagradSlots[] = {{"sum"}};

GraphBuilder::NodeOptions update_named(const std::string& name) { return {name, Phase::Update, NodeId::None, {}}; }

TensorId squared_norm(GraphBuilder& builder, TensorId x, const std::string& name) {
  return builder.add("SquaredNorm", {x}, {}, update_named(name)).front();
}

std::vector<TensorId> build_lars(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  std::vector<TensorId> operands = {o.parameter, o.gradient, squared_norm(builder, o.parameter, name + ".norm"),
                                    squared_norm(builder, o.gradient, name + ".gradient_norm")};
  operands.insert(operands.end(), o.slots.begin(), o.slots.end());
  return builder.add("LarsUpdate", std::move(operands), attributes, update_named(name));
}

std::vector<TensorId> build_lamb(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes, const std::string& name) {
  std::vector<TensorId> operands = {o.parameter, o.gradient, o.step};
  operands.insert(operands.end(), o.slots.begin(), o.slots.end());
  std::vector<TensorId> results = builder.add("LambDirection", std::move(operands), attributes, update_named(name + ".direction"));
  const TensorId direction = results[0];
  results[0] = builder
                   .add("LambUpdate",
                        {o.parameter, direction, squared_norm(builder, o.parameter, name + ".norm"),
                         squared_norm(builder, direction, name + ".direction_norm")},
                        attributes, update_named(name))
                   .front();
  return results;
}

std::vector<TensorId> build_novograd(GraphBuilder& builder, const UpdateOperands& o, const Attributes& attributes,
                                     const std::string& name) {
  std::vector<TensorId> operands = {o.parameter, o.gradient, o.step, squared_norm(builder, o.gradient, name + ".gradient_norm")};
  operands.insert(operands.end(), o.slots.begin(), o.slots.end());
  return builder.add("NovogradUpdate", std::move(operands), attributes, update_named(name));
}

const OptimizerRow kOptimizersRows[] = {
    {"sgd", "stochastic gradient descent with momentum", "SgdUpdate", kSgd, kMomentum},
    {"adam", "Adam; weight decay is added to the gradient", "AdamUpdate", kAdam, kMoments, true, {{"decoupled", std::int64_t{0}}}},
    {"adamw", "Adam with decoupled weight decay", "AdamUpdate", kAdamw, kMoments, true, {{"decoupled", std::int64_t{1}}}},
    {"nadam", "Adam with Nesterov momentum", "NadamUpdate", kNadam, kMoments, true},
    {"rmsprop", "gradient over the root of its smoothed square", "RmspropUpdate", kRmsprop, kRmspropSlots},
    {"adagrad", "gradient over the root of the sum of its squares", "AdagradUpdate", kAdagrad, kAdagradSlots},
    {"lars", "SGD whose rate follows |parameter| / |gradient| of each tensor", "LarsUpdate", kLars, kMomentum, false, {}, build_lars, 2},
    {"lamb", "Adam whose rate follows |parameter| / |direction| of each tensor", "LambUpdate", kLamb, kMoments, true, {}, build_lamb, 3},
    {"novograd",
     "gradient over the smoothed norm of each tensor, with momentum",
     "NovogradUpdate",
     kNovograd,
     kMoments,
     true,
     {},
     build_novograd,
     1},
};

template <class Rows>
std::string optimizers_names_of(const Rows& rows) {
  return joined(rows, ", ", [](const auto& row) { return row.name; });
}

/// Values for which the equations make sense: finite and not negative; momentum and the betas below 1.
void check_value(std::string_view optimizer, std::string_view name, double value) {
  const bool below_one = name == "momentum" || name == "beta1" || name == "beta2" || name == "alpha";
  if (std::isfinite(value) && value >= 0 && !(below_one && value >= 1)) return;
  throw BadInput("optimizer " + std::string(optimizer), std::string(name) + " is " + std::to_string(value) + ", it must be " +
                                                            (below_one ? "in [0, 1)" : "a finite number, 0 or more"));
}

}  // namespace

std::span<const OptimizerRow> optimizer_table() { return kOptimizersRows; }

const OptimizerRow& optimizer_row(std::string_view name) {
  return *std::ranges::find(kOptimizersRows, known_name("optimizer", name, names_of_rows(kOptimizersRows, &OptimizerRow::name)),
                            &OptimizerRow::name);
}

OptimizerSettings completed(const OptimizerSettings& settings) {
  const OptimizerRow& row = optimizer_row(settings.name);
  OptimizerSettings all{settings.name, {}};
  for (const auto& parameter : row.parameters) all.values.emplace(parameter.name, parameter.otherwise);
  for (const auto& [name, value] : settings.values) {
    const auto known = all.values.find(name);
    if (known == all.values.end())
      throw BadInput("optimizer " + settings.name, "takes no '" + name + "'; it takes " + optimizers_names_of(row.parameters));
    check_value(settings.name, name, value);
    known->second = value;
  }
  return all;
}

}  // namespace rehearsal::graph
