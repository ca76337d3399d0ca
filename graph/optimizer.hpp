#pragma once
// Optimizers: how each brings a parameter up to date, and what it keeps of it from step to step.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.hpp"
#include "graph/parameter_use.hpp"

namespace rehearsal::graph {

/// Hyperparameters by name ("lr", "momentum", "weight_decay", "beta1", "beta2", "eps", "nesterov", "trust"): each row lists what it takes.
struct OptimizerSettings {
  std::string name = "sgd";
  std::map<std::string, double> values;
};
struct OptimizerParameter {
  std::string_view name;
  double otherwise;  ///< PyTorch's default where it has one
};

/// What shape a slot has beside its parameter's.
enum class SlotShape : std::uint8_t {
  Parameter,
  Rows,           ///< the last dimension is 1
  Columns,        ///< the last dimension but one is 1
  Number,         ///< one f64 number
  RowsSquare,     ///< of a hidden matrix: as many rows and columns as it has rows
  ColumnsSquare,  ///< the same of its columns
};
[[nodiscard]] Shape slot_shape(SlotShape, const ParameterUse&);

/// State of a parameter.
struct OptimizerSlot {
  std::string_view name;            ///< PyTorch's: "momentum_buffer", "exp_avg"
  std::string_view only_with = {};  ///< kept only when this hyperparameter is not 0
  SlotShape shape = SlotShape::Parameter;
  bool starts_as_parameter = false;  ///< else at zero
};

/// An update up to where it needs a number that is summed over all parameters.
struct BegunUpdate {
  TensorId summed = TensorId::None;  ///< f64 number of this parameter; OptimizerRow::build gets the sum
  std::vector<TensorId> made = {};   ///< for OptimizerRow::build
};

/// Operands of an update that are known before its state: one TensorId per purpose.
struct UpdateOperands {
  TensorId parameter, gradient, step;  ///< step: None for optimizers that do not count
  std::vector<TensorId> slots;
  ParameterUse use = {};
  DType computes_in = DType::F32;      ///< type of the parameter in the passes; the operands are f32 where that has 16 bits
  TensorId produced = TensorId::None;  ///< the gradient as the backward pass makes it: not yet unscaled, clipped or widened
  BegunUpdate begun = {};
};

struct OptimizerRow {
  std::string_view name = {};
  std::string_view description = {};
  std::string_view op;  ///< operator row of its update node: (parameter, gradient, step, slots...) -> (parameter, slots...)
  std::span<const OptimizerParameter> parameters = {};
  std::span<const OptimizerSlot> slots = {};
  bool counts_steps = false;
  Attributes fixed = {};  ///< attributes of the update node besides the hyperparameters
  /// Adds the nodes of one parameter's update and returns (new parameter, new slots...); nullptr: one node of row `op`.
  std::vector<TensorId> (*build)(GraphBuilder&, const UpdateOperands&, const Attributes&, const std::string& name) = nullptr;
  double extra_passes = 0;                       ///< over a parameter's elements: norms, and a direction that is written and read again
  bool (*takes)(const ParameterUse&) = nullptr;  ///< nullptr: every parameter
  const OptimizerRow* others = nullptr;          ///< how parameters are updated that it does not take; their hyperparameters are its own
  double (*product_flops)(const ParameterUse&) = nullptr;  ///< of matrix products in a parameter's update; nullptr: none
  /// Hyperparameter: the share of the average x in the weights y that training computes with, y = (1 - share) z + share x. What is
  /// evaluated and exported is x. Empty: the weights are what is evaluated.
  std::string_view average_share = {};
  bool decomposes = false;     ///< needs eigenvectors or inverses of matrices
  bool sees_products = false;  ///< takes more from the backward pass than the gradient
  /// For every parameter that the row takes, before `build` of the first; nullptr: parameters are updated each by itself.
  BegunUpdate (*begin)(GraphBuilder&, const UpdateOperands&, const Attributes&, const std::string& name) = nullptr;
  bool follows_rate = true;  ///< false: the rate is where its steps begin, and what a schedule makes of it changes nothing
};
[[nodiscard]] std::span<const OptimizerRow> optimizer_table();
/// Throws BadInput listing the names when there is no such optimizer.
[[nodiscard]] const OptimizerRow& optimizer_row(std::string_view name);
/// The row by which a parameter is updated: `row`, or that of what it does not take.
[[nodiscard]] const OptimizerRow& row_for(const OptimizerRow& row, const ParameterUse& use);
/// The slots of parameters that it takes or does not take which are kept only with a hyperparameter, each name once.
[[nodiscard]] std::vector<OptimizerSlot> conditional_slots(const OptimizerRow& row);
/// `settings` with every default filled in. Throws BadInput naming a hyperparameter that the optimizer does not take (and those it takes),
/// or a value outside its range.
[[nodiscard]] OptimizerSettings completed(const OptimizerSettings& settings);
/// Does it smooth gradients over steps? Recipes clip their norm then.
[[nodiscard]] bool has_moments(const OptimizerRow& row);
/// The share of the average (OptimizerRow::average_share) in the weights that training computes with; 0: there is no average.
[[nodiscard]] double average_share(const OptimizerSettings& completed);

/// What an update of one parameter costs besides what every row says of itself, in f32.
struct UpdateSize {
  double elements = 0;       ///< of the parameter
  double state = 0;          ///< numbers that are kept from step to step, with momentum where the row has one
  double moved = 0;          ///< numbers read and written: parameter, gradient and state, norms and directions
  double product_flops = 0;  ///< of matrix products
};
/// `without`: a hyperparameter that is 0, so that what is kept only with it is not kept.
[[nodiscard]] UpdateSize update_size(const OptimizerRow& row, const ParameterUse& use, std::string_view without = {});

}  // namespace rehearsal::graph
