// Optimizers by PyTorch's equations and defaults where it has them; LARS and LAMB treat every tensor as a layer and leave none out.
// Lion: Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms". Adafactor: Shazeer and Stern 2018, as PyTorch has it.
// Schedule-free: Defazio et al. 2024, "The Road Less Scheduled". Muon: Jordan et al. 2024, with the scale of Liu et al. 2025.

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "graph/master_weights.hpp"
#include "graph/optimizer.hpp"
#include "graph/optimizer_builds.hpp"

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

constexpr Hyperparameter kLion[] = {{"lr", 1e-4}, {"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0}};
/// `eps` is the resolution of f32, PyTorch's default there.
constexpr Hyperparameter kAdafactor[] = {{"lr", 1e-2},   {"decay_rate", 0.8}, {"eps", 0x1p-23},
                                         {"eps2", 1e-3}, {"clip", 1},         {"weight_decay", 0}};
constexpr Hyperparameter kScheduleFreeSgd[] = {{"lr", 1}, {"momentum", 0.9}, {"weight_decay", 0}, {"weight_power", 2}};
constexpr Hyperparameter kScheduleFreeAdamw[] = {{"lr", 2.5e-3}, {"beta1", 0.9},      {"beta2", 0.999},
                                                 {"eps", 1e-8},  {"weight_decay", 0}, {"weight_power", 2}};
/// `rms` and the rate of the AdamW beside it are such that one --lr serves both.
constexpr Hyperparameter kMuon[] = {{"lr", 1e-3},   {"momentum", 0.95}, {"nesterov", 1}, {"weight_decay", 0.1}, {"rms", 0.2},
                                    {"beta1", 0.9}, {"beta2", 0.999},   {"eps", 1e-8},   {"adam_rate", 1}};

constexpr OptimizerSlot kMomentum[] = {{"momentum_buffer", "momentum"}};
constexpr OptimizerSlot kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};
constexpr OptimizerSlot kRmspropSlots[] = {{"square_avg"}, {"momentum_buffer", "momentum"}};
constexpr OptimizerSlot kAdagradSlots[] = {{"sum"}};
constexpr OptimizerSlot kLionSlots[] = {{"exp_avg"}};
constexpr OptimizerSlot kFactoredVariance[] = {{"row_var", {}, SlotShape::Rows}, {"col_var", {}, SlotShape::Columns}};
constexpr OptimizerSlot kVariance[] = {{"variance"}};
constexpr OptimizerSlot kAveraged[] = {
    {kAveragedSlot, {}, SlotShape::Parameter, true}, {"weight_sum", {}, SlotShape::Number}, {"lr_max", {}, SlotShape::Number}};
constexpr OptimizerSlot kAveragedMoments[] = {{kAveragedSlot, {}, SlotShape::Parameter, true},
                                              {"exp_avg_sq"},
                                              {"weight_sum", {}, SlotShape::Number},
                                              {"lr_max", {}, SlotShape::Number}};
constexpr OptimizerSlot kMuonSlots[] = {{"momentum_buffer"}};

bool has_two_sides(const ParameterUse& use) { return use.shape.size() > 1; }
bool is_hidden_matrix(const ParameterUse& use) { return use.hidden_matrix; }

/// Beside parameters that the optimizer of the same name takes.
OptimizerRow beside(std::string_view op, std::span<const OptimizerSlot> slots, Attributes fixed, UpdateNodes* build, double extra_passes) {
  OptimizerRow row;
  row.op = op;
  row.slots = slots;
  row.counts_steps = true;
  row.fixed = std::move(fixed);
  row.build = build;
  row.extra_passes = extra_passes;
  return row;
}

const OptimizerRow kAdafactorOfVectors = beside("AdafactorUpdate", kVariance, {}, build_adafactor_of_vector, 6);
const OptimizerRow kAdamwBesideMuon = beside("AdamUpdate", kMoments, {{"decoupled", std::int64_t{1}}}, build_adamw_beside_muon, 0);

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
    {"lion", "the sign of a momentum between gradient and average", "LionUpdate", kLion, kLionSlots},
    {"adafactor",
     "gradient over the root of a second moment that is kept as sums of rows and columns",
     "AdafactorUpdate",
     kAdafactor,
     kFactoredVariance,
     true,
     {},
     build_adafactor,
     6,  // the gradient for both sums, the direction written and read twice, the norm of the parameter
     has_two_sides,
     &kAdafactorOfVectors},
    {"schedule-free-sgd",
     "SGD whose average is evaluated, in place of a schedule of the rate",
     "ScheduleFreeSgdUpdate",
     kScheduleFreeSgd,
     kAveraged,
     false,
     {},
     build_schedule_free_sgd,
     0,
     nullptr,
     nullptr,
     nullptr,
     "momentum"},
    {"schedule-free-adamw",
     "AdamW whose average is evaluated, in place of a schedule of the rate",
     "ScheduleFreeAdamwUpdate",
     kScheduleFreeAdamw,
     kAveragedMoments,
     true,
     {},
     build_schedule_free_adamw,
     0,
     nullptr,
     nullptr,
     nullptr,
     "beta1"},
    {"muon",
     "orthogonalized momentum for hidden matrices, AdamW for all other parameters",
     "MuonUpdate",
     kMuon,
     kMuonSlots,
     false,
     {},
     build_muon,
     12,  // direction and norm; five iterations in 16 bits that read the matrix twice and write it once
     is_hidden_matrix,
     &kAdamwBesideMuon,
     muon_flops},
};

template <class Rows>
std::string optimizers_names_of(const Rows& rows) {
  return joined(rows, ", ", [](const auto& row) { return row.name; });
}

/// Values for which the equations make sense: finite and not negative; momentum and the betas below 1, and above 0 where it is the share
/// of an average.
void check_value(const OptimizerRow& row, std::string_view name, double value) {
  const bool below_one = name == "momentum" || name == "beta1" || name == "beta2" || name == "alpha", share = name == row.average_share;
  if (std::isfinite(value) && value >= 0 && !(below_one && value >= 1) && !(share && value == 0)) return;
  throw BadInput("optimizer " + std::string(row.name), std::string(name) + " is " + std::to_string(value) + ", it must be " +
                                                           (share       ? "between 0 and 1"
                                                            : below_one ? "in [0, 1)"
                                                                        : "a finite number, 0 or more"));
}

double kept_numbers(const OptimizerSlot& slot, const Shape& parameter) {
  return static_cast<double>(element_count(slot_shape(slot.shape, parameter)));
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
    check_value(row, name, value);
    known->second = value;
  }
  return all;
}

double average_share(const OptimizerSettings& completed) {
  const auto name = optimizer_row(completed.name).average_share;
  return name.empty() ? 0 : completed.values.at(std::string(name));
}

Shape slot_shape(SlotShape shape, const Shape& parameter) {
  if (shape == SlotShape::Number) return {};
  Shape own = parameter;
  if (shape == SlotShape::Rows) own.back() = 1;
  if (shape == SlotShape::Columns) own[own.size() - 2] = 1;
  return own;
}

const OptimizerRow& row_for(const OptimizerRow& row, const ParameterUse& use) {
  return row.takes == nullptr || row.takes(use) ? row : *row.others;
}

bool has_moments(const OptimizerRow& row) {
  const auto is_moment = [](const OptimizerSlot& slot) { return slot.name == "exp_avg"; };
  return row.counts_steps || std::ranges::any_of(row.slots, is_moment) || (row.others != nullptr && has_moments(*row.others));
}

UpdateSize update_size(const OptimizerRow& optimizer, const ParameterUse& use) {
  const OptimizerRow& row = row_for(optimizer, use);
  UpdateSize size;
  size.elements = static_cast<double>(element_count(use.shape));
  for (const OptimizerSlot& slot : row.slots) size.state += kept_numbers(slot, use.shape);
  // Reads parameter, gradient and state; writes parameter and state.
  size.moved = (3 + row.extra_passes) * size.elements + 2 * size.state;
  if (row.product_flops != nullptr) size.product_flops = row.product_flops(use);
  return size;
}

}  // namespace rehearsal::graph
