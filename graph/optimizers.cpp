// Optimizers by PyTorch's equations and defaults where it has them; LARS and LAMB treat every tensor as a layer and leave none out.
// Lion: Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms". Adafactor: Shazeer and Stern 2018, as PyTorch has it.
// Schedule-free: Defazio et al. 2024, "The Road Less Scheduled". Muon: Jordan et al. 2024, with the scale of Liu et al. 2025.
// Shampoo: Gupta, Koren and Singer 2018, with averages and roots every few steps as Shi et al. 2023 have them. SOAP: Vyas et al. 2025.
// K-FAC: Martens and Grosse 2015, Grosse and Martens 2016, with a rate that is clipped by Ba, Grosse and Martens 2017.

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
constexpr Hyperparameter kAdadelta[] = {{"lr", 1}, {"rho", 0.9}, {"eps", 1e-6}, {"weight_decay", 0}};
constexpr Hyperparameter kAdamax[] = {{"lr", 2e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0}};
constexpr Hyperparameter kRprop[] = {{"lr", 1e-2}, {"eta_minus", 0.5}, {"eta_plus", 1.2}, {"step_min", 1e-6}, {"step_max", 50}};
constexpr Hyperparameter kAsgd[] = {{"lr", 1e-2}, {"lambd", 1e-4}, {"alpha", 0.75}, {"t0", 1e6}, {"weight_decay", 0}};
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

/// As Muon's where they mean the same; `interval` and `eps` follow Vyas et al. 2024 and the resolution of f32.
constexpr Hyperparameter kShampoo[] = {{"lr", 1e-3}, {"beta1", 0.9},        {"beta2", 0.99}, {"root_eps", 1e-6}, {"interval", 10},
                                       {"rms", 0.2}, {"weight_decay", 0.1}, {"eps", 1e-8},   {"adam_rate", 1}};

/// The reference implementation's, but for the rate, which is AdamW's.
constexpr Hyperparameter kSoap[] = {{"lr", 1e-3},        {"beta1", 0.95},  {"beta2", 0.95},        {"eps", 1e-8},
                                    {"basis_eps", 1e-6}, {"interval", 10}, {"weight_decay", 1e-2}, {"adam_rate", 1}};

/// As implementations of the papers have them; factors every ten steps, inverses every hundred.
constexpr Hyperparameter kKfac[] = {{"lr", 1e-2},      {"momentum", 0.9},      {"weight_decay", 0},     {"damping", 1e-3},
                                    {"kl_clip", 1e-3}, {"factor_decay", 0.95}, {"factor_interval", 10}, {"interval", 100}};

constexpr OptimizerSlot kMomentum[] = {{"momentum_buffer", "momentum"}};
constexpr OptimizerSlot kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};
constexpr OptimizerSlot kRmspropSlots[] = {{"square_avg"}, {"momentum_buffer", "momentum"}};
constexpr OptimizerSlot kAdagradSlots[] = {{"sum"}};
constexpr OptimizerSlot kAdadeltaSlots[] = {{"square_avg"}, {"acc_delta"}};
constexpr OptimizerSlot kAdamaxSlots[] = {{"exp_avg"}, {"exp_inf"}};
constexpr OptimizerSlot kRpropSlots[] = {{"prev"}, {"step_size"}};
constexpr OptimizerSlot kAsgdSlots[] = {{"ax"}};
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
constexpr OptimizerSlot kShampooMomentum{"exp_avg", "beta1"}, kRowFactor{"row_factor", {}, SlotShape::RowsSquare},
    kRowRoot{"row_root", {}, SlotShape::RowsSquare}, kColumnFactor{"column_factor", {}, SlotShape::ColumnsSquare},
    kColumnRoot{"column_root", {}, SlotShape::ColumnsSquare};
constexpr OptimizerSlot kShampooSlots[] = {kShampooMomentum, kRowFactor, kRowRoot, kColumnFactor, kColumnRoot};
constexpr OptimizerSlot kShampooOfRowsSlots[] = {kShampooMomentum, kRowFactor, kRowRoot};
constexpr OptimizerSlot kShampooOfColumnsSlots[] = {kShampooMomentum, kColumnFactor, kColumnRoot};

constexpr OptimizerSlot kSecondMoment{"exp_avg_sq"}, kRowBasis{"row_basis", {}, SlotShape::RowsSquare},
    kColumnBasis{"column_basis", {}, SlotShape::ColumnsSquare};
constexpr OptimizerSlot kSoapSlots[] = {kShampooMomentum, kSecondMoment, kRowFactor, kRowBasis, kColumnFactor, kColumnBasis};
constexpr OptimizerSlot kSoapOfRowsSlots[] = {kShampooMomentum, kSecondMoment, kRowFactor, kRowBasis};
constexpr OptimizerSlot kSoapOfColumnsSlots[] = {kShampooMomentum, kSecondMoment, kColumnFactor, kColumnBasis};
constexpr OptimizerSlot kKfacSlots[] = {
    kMomentum[0], kRowFactor, {"row_inverse", {}, SlotShape::RowsSquare}, kColumnFactor, {"column_inverse", {}, SlotShape::ColumnsSquare}};

bool has_two_sides(const ParameterUse& use) { return use.shape.size() > 1; }
bool is_hidden_matrix(const ParameterUse& use) { return use.hidden_matrix; }
bool has_short_sides(const ParameterUse& use) { return has_short_rows(use) && has_short_columns(use); }

/// The longest side that ResNet-50's convolutions have (3 x 3 x 512): what K-FAC is published for.
constexpr std::int64_t kLongestInverse = 4608;
bool is_one_product(const ParameterUse& use) {
  return use.one_product && (use.kernels || use.shape.size() == 2) && std::max(use.rows, use.columns) <= kLongestInverse;
}

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
const OptimizerRow kAdamwOfOthers = beside("AdamUpdate", kMoments, {{"decoupled", std::int64_t{1}}}, build_adamw_of_others, 0);

OptimizerRow of_one_side(std::span<const OptimizerSlot> slots, UpdateNodes* build, bool (*takes)(const ParameterUse&),
                         const OptimizerRow& others) {
  OptimizerRow row = beside("MuonUpdate", slots, {}, build, 6);
  row.takes = takes;
  row.others = &others;
  return row;
}

const OptimizerRow kShampooOfColumns = of_one_side(kShampooOfColumnsSlots, build_shampoo, has_short_columns, kAdamwOfOthers);
const OptimizerRow kShampooOfRows = of_one_side(kShampooOfRowsSlots, build_shampoo, has_short_rows, kShampooOfColumns);

const OptimizerRow kSoapOfColumns = of_one_side(kSoapOfColumnsSlots, build_soap, has_short_columns, kAdamwOfOthers);
const OptimizerRow kSoapOfRows = of_one_side(kSoapOfRowsSlots, build_soap, has_short_rows, kSoapOfColumns);

const OptimizerRow kSgdOfOthers{.op = "SgdUpdate", .slots = kMomentum};

const OptimizerRow kOptimizersRows[] = {
    {"sgd", "stochastic gradient descent with momentum", "SgdUpdate", kSgd, kMomentum},
    {"adam", "Adam; weight decay is added to the gradient", "AdamUpdate", kAdam, kMoments, true, {{"decoupled", std::int64_t{0}}}},
    {"adamw", "Adam with decoupled weight decay", "AdamUpdate", kAdamw, kMoments, true, {{"decoupled", std::int64_t{1}}}},
    {"nadam", "Adam with Nesterov momentum", "NadamUpdate", kNadam, kMoments, true},
    {"rmsprop", "gradient over the root of its smoothed square", "RmspropUpdate", kRmsprop, kRmspropSlots},
    {"adagrad", "gradient over the root of the sum of its squares", "AdagradUpdate", kAdagrad, kAdagradSlots},
    {"adadelta", "gradient times the root of smoothed squares of steps over that of gradients", "AdadeltaUpdate", kAdadelta,
     kAdadeltaSlots},
    {"adamax", "Adam over the largest gradient, which fades", "AdamaxUpdate", kAdamax, kAdamaxSlots, true},
    {"radam", "Adam whose second moment counts when it has seen enough steps", "RadamUpdate", kAdam, kMoments, true},
    {.name = "rprop",
     .description = "steps of every element's own length, for whole batches",
     .op = "RpropUpdate",
     .parameters = kRprop,
     .slots = kRpropSlots,
     .counts_steps = true,
     .follows_rate = false},
    {"asgd", "SGD with a falling rate, whose average is kept beside", "AsgdUpdate", kAsgd, kAsgdSlots, true},
    {"lars", "SGD whose rate follows |parameter| / |gradient| of each tensor", "LarsUpdate", kLars, kMomentum, false, {}, build_lars, 2},
    {"lamb", "Adam whose rate follows |parameter| / |direction| of each tensor", "LambUpdate", kLamb, kMoments, true, {}, build_lamb, 3},
    {.name = "novograd",
     .description = "gradient over the smoothed norm of each tensor, with momentum",
     .op = "NovogradUpdate",
     .parameters = kNovograd,
     .slots = kMoments,
     .counts_steps = true,
     .build = build_novograd,
     .extra_passes = 1},
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
    {.name = "schedule-free-sgd",
     .description = "SGD whose average is evaluated, in place of a schedule of the rate",
     .op = "ScheduleFreeSgdUpdate",
     .parameters = kScheduleFreeSgd,
     .slots = kAveraged,
     .build = build_schedule_free_sgd,
     .average_share = "momentum"},
    {.name = "schedule-free-adamw",
     .description = "AdamW whose average is evaluated, in place of a schedule of the rate",
     .op = "ScheduleFreeAdamwUpdate",
     .parameters = kScheduleFreeAdamw,
     .slots = kAveragedMoments,
     .counts_steps = true,
     .build = build_schedule_free_adamw,
     .average_share = "beta1"},
    {.name = "muon",
     .description = "orthogonalized momentum for hidden matrices, AdamW for all other parameters",
     .op = "MuonUpdate",
     .parameters = kMuon,
     .slots = kMuonSlots,
     .build = build_muon,
     .extra_passes = 12,  // direction and norm; five iterations in 16 bits that read the matrix twice and write it once
     .takes = is_hidden_matrix,
     .others = &kAdamwOfOthers,
     .product_flops = muon_flops},
    {.name = "shampoo",
     .description =
         "gradients of hidden matrices times inverse roots of their second moments by rows and by columns, AdamW for all other parameters",
     .op = "MuonUpdate",
     .parameters = kShampoo,
     .slots = kShampooSlots,
     .counts_steps = true,
     .build = build_shampoo,
     .extra_passes = 8,  // both moments, the momentum, two products, the norm, the direction
     .takes = has_short_sides,
     .others = &kShampooOfRows,
     .decomposes = true},
    {.name = "soap",
     .description =
         "Adam of hidden matrices in the eigenbases of their second moments by rows and by columns, AdamW for all other parameters",
     .op = "SoapDirection",
     .parameters = kSoap,
     .slots = kSoapSlots,
     .counts_steps = true,
     .build = build_soap,
     .extra_passes = 12,  // both moments, the momentum, four products before and two behind the direction
     .takes = has_short_sides,
     .others = &kSoapOfRows,
     .decomposes = true},
    {.name = "kfac",
     .description = "gradients of products and convolutions times inverses of their factors' second moments, SGD for all other parameters",
     .op = "SgdUpdate",
     .parameters = kKfac,
     .slots = kKfacSlots,
     .counts_steps = true,
     .build = build_kfac,
     .extra_passes = 8,  // both products, the divergence and the clipped direction
     .takes = is_one_product,
     .others = &kSgdOfOthers,
     .decomposes = true,
     .sees_products = true,
     .begin = begin_kfac},
};

/// Which values an equation makes sense for.
struct ValueRule {
  std::string_view right;  ///< what a value must be
  bool (*holds)(double);
};

/// Momentum and the betas are below 1, and above 0 where they are the share of an average.
ValueRule rule_of(const OptimizerRow& row, std::string_view name) {
  if (name == row.average_share) return {"between 0 and 1", [](double x) { return x > 0 && x < 1; }};
  constexpr std::string_view kShares[] = {"momentum", "beta1", "beta2", "alpha", "rho", "eta_minus", "factor_decay"};
  constexpr std::string_view kPositive[] = {"step_min", "step_max", "damping", "kl_clip"};
  if (std::ranges::find(kShares, name) != std::end(kShares)) return {"in [0, 1)", [](double x) { return x >= 0 && x < 1; }};
  if (std::ranges::find(kPositive, name) != std::end(kPositive)) return {"above 0 and finite", [](double x) { return x > 0; }};
  if (name == "eta_plus") return {"at least 1 and finite", [](double x) { return x >= 1; }};
  if (name == "basis_eps") return {"above 0 and finite: a matrix of fewer ranks than rows has many bases", [](double x) { return x > 0; }};
  if (name == "interval" || name == "factor_interval")
    return {"a whole number of steps from 1 to a million", [](double x) { return x >= 1 && x == std::floor(x) && x <= 1e6; }};
  if (name == "root_eps")
    return {"above 0 and finite: a matrix of fewer ranks than rows has no inverse root", [](double x) { return x > 0; }};
  return {"a finite number, 0 or more", [](double x) { return x >= 0; }};
}

void check_value(const OptimizerRow& row, std::string_view name, double value) {
  const ValueRule rule = rule_of(row, name);
  if (std::isfinite(value) && rule.holds(value)) return;
  throw BadInput("optimizer " + std::string(row.name),
                 std::string(name) + " is " + std::to_string(value) + ", it must be " + std::string(rule.right));
}

double kept_numbers(const OptimizerSlot& slot, const ParameterUse& use) {
  return static_cast<double>(element_count(slot_shape(slot.shape, use)));
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
      throw BadInput("optimizer " + settings.name,
                     "takes no '" + name + "'; it takes " + joined(row.parameters, ", ", &Hyperparameter::name));
    check_value(row, name, value);
    known->second = value;
  }
  return all;
}

double average_share(const OptimizerSettings& completed) {
  const auto name = optimizer_row(completed.name).average_share;
  return name.empty() ? 0 : completed.values.at(std::string(name));
}

Shape slot_shape(SlotShape shape, const ParameterUse& use) {
  if (shape == SlotShape::Number) return {};
  if (shape == SlotShape::RowsSquare || shape == SlotShape::ColumnsSquare) {
    Shape square = matrix_shape(use);
    square.back() = square[square.size() - 2] = shape == SlotShape::RowsSquare ? use.rows : use.columns;
    return square;
  }
  Shape own = use.shape;
  if (shape == SlotShape::Rows) own.back() = 1;
  if (shape == SlotShape::Columns) own[own.size() - 2] = 1;
  return own;
}

const OptimizerRow& row_for(const OptimizerRow& row, const ParameterUse& use) {
  return row.takes == nullptr || row.takes(use) ? row : row_for(*row.others, use);
}

std::vector<OptimizerSlot> conditional_slots(const OptimizerRow& row) {
  auto found = row.others == nullptr ? std::vector<OptimizerSlot>() : conditional_slots(*row.others);
  for (const OptimizerSlot& slot : row.slots)
    if (!slot.only_with.empty() && std::ranges::find(found, slot.name, &OptimizerSlot::name) == found.end()) found.push_back(slot);
  return found;
}

bool has_moments(const OptimizerRow& row) {
  const auto is_moment = [](const OptimizerSlot& slot) { return slot.name == "exp_avg"; };
  return row.counts_steps || std::ranges::any_of(row.slots, is_moment) || (row.others != nullptr && has_moments(*row.others));
}

UpdateSize update_size(const OptimizerRow& optimizer, const ParameterUse& use, std::string_view without) {
  const OptimizerRow& row = row_for(optimizer, use);
  UpdateSize size;
  size.elements = static_cast<double>(element_count(use.shape));
  for (const OptimizerSlot& slot : row.slots)
    if (slot.only_with.empty() || slot.only_with != without) size.state += kept_numbers(slot, use);
  // Reads parameter, gradient and state; writes parameter and state.
  size.moved = (3 + row.extra_passes) * size.elements + 2 * size.state;
  if (row.product_flops != nullptr) size.product_flops = row.product_flops(use);
  return size;
}

}  // namespace rehearsal::graph
