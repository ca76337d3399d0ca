#include "graph/training.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "graph/clipping.hpp"
#include "graph/loss_choice.hpp"
#include "graph/loss_scaling.hpp"
#include "graph/master_weights.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

bool matches_any(const std::string& name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; });
}

bool is_stored(TensorRole role) { return is_weight(role) || role == TensorRole::State || role == TensorRole::Constant; }

/// The role of a stored tensor after --freeze and --train.
TensorRole trained_role(const Tensor& tensor, const TrainingOptions& options) {
  const bool trainable = is_float(tensor.type.dtype) && tensor.role != TensorRole::State;
  if (trainable && matches_any(tensor.name, options.train)) return TensorRole::Parameter;
  if (tensor.role != TensorRole::Parameter) return tensor.role;
  return trainable && !matches_any(tensor.name, options.freeze) ? TensorRole::Parameter : TensorRole::Frozen;
}

void warn_of_unused_globs(const Graph& model, const std::vector<std::string>& globs, const std::string& flag,
                          std::vector<std::string>& warnings) {
  for (const std::string& glob : globs) {
    const bool used = std::any_of(model.tensors().begin(), model.tensors().end(),
                                  [&](const Tensor& t) { return is_stored(t.role) && matches_any(t.name, {glob}); });
    if (!used) warnings.push_back(flag + " '" + glob + "' matches no stored tensor of the model");
  }
}

/// Of every stored tensor that may be trained or not.
std::vector<std::pair<TensorId, TensorRole>> chosen_roles(const Graph& model, const TrainingOptions& options,
                                                          std::vector<std::string>& warnings) {
  warn_of_unused_globs(model, options.freeze, "--freeze", warnings);
  warn_of_unused_globs(model, options.train, "--train", warnings);
  std::vector<std::pair<TensorId, TensorRole>> roles;
  for (std::size_t i = 0; i < model.tensors().size(); ++i) {
    const Tensor& tensor = model.tensors()[i];
    if (tensor.producer == NodeId::None && is_stored(tensor.role))
      roles.emplace_back(static_cast<TensorId>(i), trained_role(tensor, options));
  }
  return roles;
}

/// Grows the training graph from the model's.
class TrainingStep {
 public:
  TrainingStep(const Graph& model, const TrainingOptions& options, const LossScale& scale)
      : model_(model), options_(options), scale_(scale), builder_(model) {}

  TrainingGraph build() && {
    result_.optimizer = completed(options_.optimizer);
    if (!options_.dropout) remove_dropout();
    result_.batch = batch_size();
    choose_parameters();
    const ChosenLoss chosen = add_loss(builder_, model_, options_);
    loss_ = chosen.loss;
    result_.target = chosen.target;
    if (loss_ != TensorId::None) add_updates();
    warn_of_statistics();
    return finish();
  }

 private:
  struct Trained {
    TensorId parameter, gradient, updated;
    std::vector<TensorId> slots;
  };

  std::int64_t batch_size() {
    std::optional<std::int64_t> batch;
    for (const TensorId t : model_.inputs()) {
      const Shape& shape = model_[t].type.shape;
      if (!batch && !shape.empty()) batch = shape[0];
      if (batch && !shape.empty() && shape[0] != *batch) {
        result_.warnings.push_back("input '" + model_[t].name + "' has " + std::to_string(shape[0]) + " rows where the batch is " +
                                   std::to_string(*batch));
      }
    }
    return batch.value_or(0);
  }

  /// Readers of a Dropout read its operand; the node stays, keeping everything, where it is an output of the model.
  void remove_dropout() {
    for (std::size_t n = 0; n < model_.nodes().size(); ++n) {
      if (!has(schema(model_.nodes()[n]).traits, Trait::TrainingOnly)) continue;
      const Node node = builder_[static_cast<NodeId>(n)];  // not the model's: its operand may be a Dropout that is gone
      builder_.replace_uses(node.outputs[0], node.inputs[0]);
      builder_.set_attribute(static_cast<NodeId>(n), "ratio", 0.0);
    }
  }

  void choose_parameters() {
    for (const auto& [t, role] : chosen_roles(model_, options_, result_.warnings)) {
      builder_.set_role(t, role);
      if (role == TensorRole::Parameter) wanted_.push_back(t);
    }
  }

  void add_updates() {
    LossScaling scaling(builder_, scale_);
    const std::vector<TensorId> gradients = differentiate(builder_, scaling.scaled(loss_), wanted_, result_.untrainable);
    name_gradients(gradients);
    if (options_.noise_scale) measure_noise(gradients);
    std::vector<TensorId> applied = scaling.unscaled(loss_, gradients);
    if (options_.clip_value > 0) applied = add_value_clipping(builder_, applied, options_.clip_value);
    if (options_.clip_norm > 0) applied = add_clipping(builder_, applied, options_.clip_norm);
    const OptimizerRow& row = optimizer_row(result_.optimizer.name);
    if (row.sees_products && scaling.used())
      throw Refusal("optimizer " + std::string(row.name) +
                    ": its factors are of gradients as they are, and a loss scale multiplies them; use --dtype bf16 or f32");
    const auto uses = parameter_uses(model_);
    std::vector<Trainee> trainees;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (gradients[i] == TensorId::None) {
        result_.warnings.push_back("parameter '" + builder_[wanted_[i]].name + "' is not updated: no gradient reaches it from the loss");
      } else {
        const ParameterUse& use = uses[index(wanted_[i])];
        trainees.push_back({row_for(row, use), wanted_[i], gradients[i], applied[i], use, {}});
      }
    }
    if (trainees.empty()) refuse();
    begin(trainees);
    for (Trainee& trainee : trainees) trained_.push_back(updated(scaling, trainee));
    if (step_ != TensorId::None) count_step(scaling);
  }

  /// Of weights that are not those which are evaluated.
  void warn_of_statistics() {
    const auto is_statistic = [](const Tensor& tensor) { return tensor.role == TensorRole::State; };
    if (average_share(result_.optimizer) == 0 || std::ranges::none_of(model_.tensors(), is_statistic)) return;
    result_.warnings.push_back("optimizer " + result_.optimizer.name +
                               ": the running statistics of the model are of the weights that training computes with, and the average "
                               "of the weights, which is evaluated, has others");
  }

  void measure_noise(const std::vector<TensorId>& gradients) {
    if (scale_.first > 0) throw Refusal("the noise scale is measured from gradients as they are, and a loss scale multiplies them");
    if (std::ranges::any_of(model_.tensors(), [](const Tensor& tensor) { return tensor.role == TensorRole::State; }))
      result_.warnings.emplace_back(
          "noise scale: normalization by statistics of a batch makes the gradients of its parts depend on each other, and they are "
          "measured "
          "as if they did not");
    if (std::ranges::any_of(gradients, [](TensorId g) { return g != TensorId::None; }))
      result_.noise = add_noise_measurement(builder_, gradients, std::max<std::int64_t>(1, result_.batch));
  }

  void name_gradients(const std::vector<TensorId>& gradients) {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const bool ours = gradients[i] != TensorId::None && builder_[gradients[i]].role == TensorRole::Gradient;
      if (ours) builder_.rename(gradients[i], builder_[wanted_[i]].name + ".grad");
    }
  }

  struct Trainee {
    const OptimizerRow& row;
    TensorId parameter, gradient, applied;  ///< applied: what the optimizer gets
    const ParameterUse& use;
    std::optional<UpdateOperands> operands;
  };

  /// What an update works on: the f32 copy of a parameter of 16 bits.
  UpdateOperands operands_of(const Trainee& trainee) {
    const std::string parameter_name = builder_[trainee.parameter].name;
    const DType dtype = builder_.type(trainee.parameter).dtype;
    UpdateOperands operands{trainee.parameter, trainee.applied, trainee.row.counts_steps ? step() : TensorId::None, {}, trainee.use, dtype,
                            trainee.gradient};
    if (size_of(dtype) == 2) {
      operands.parameter = add_master(trainee.parameter);
      if (trainee.row.build != nullptr) operands.gradient = cast(trainee.applied, DType::F32, parameter_name);
    }
    operands.slots = add_slots(trainee.row, parameter_name, operands.parameter, operands.use);
    return operands;
  }

  /// Updates that share a number of all their parameters, up to where they need it.
  void begin(std::span<Trainee> trainees) {
    TensorId sum = TensorId::None;
    for (Trainee& trainee : trainees) {
      if (trainee.row.begin == nullptr) continue;
      trainee.operands = operands_of(trainee);
      auto& begun = trainee.operands->begun;
      begun = trainee.row.begin(builder_, *trainee.operands, attributes_of(trainee.row), update_name(trainee));
      const std::string name = "optimizer." + std::string(trainee.row.name) + ".sum";
      sum = sum == TensorId::None ? begun.summed
                                  : builder_.add("Add", {sum, begun.summed}, {}, {name, Phase::Update, NodeId::None, {}}).front();
    }
    for (Trainee& trainee : trainees)
      if (trainee.operands) trainee.operands->begun.summed = sum;
  }

  /// Adds what brings one parameter up to date.
  Trained updated(LossScaling& scaling, const Trainee& trainee) {
    const std::string parameter_name = builder_[trainee.parameter].name;
    const DType dtype = builder_.type(trainee.parameter).dtype;
    const UpdateOperands operands = trainee.operands ? *trainee.operands : operands_of(trainee);
    const bool has_master = operands.parameter != trainee.parameter;
    Trained trained{trainee.parameter, trainee.gradient, TensorId::None, {}};
    if (has_master) trained.slots.push_back(operands.parameter);
    trained.slots.insert(trained.slots.end(), operands.slots.begin(), operands.slots.end());
    const std::vector<TensorId> results = update_nodes(trainee.row, operands, update_name(trainee));
    trained.updated = store(scaling, results[0], operands.parameter);
    for (std::size_t s = 0; s < operands.slots.size(); ++s) (void)store(scaling, results[s + 1], operands.slots[s]);
    if (has_master) {
      trained.updated = rounds(operands) ? results.back() : cast(trained.updated, dtype, parameter_name);
      builder_.set_stored_in(trained.updated, trainee.parameter);
    }
    return trained;
  }

  /// Does the update itself make the parameter that passes in 16 bits read? It reads their gradients then, too.
  bool rounds(const UpdateOperands& operands) const { return size_of(builder_.type(operands.gradient).dtype) == 2; }

  TensorId store(LossScaling& scaling, TensorId updated, TensorId storage) {
    const TensorId kept = scaling.kept(updated, storage);
    builder_.set_stored_in(kept, storage);
    return kept;
  }

  TensorId cast(TensorId t, DType to, const std::string& parameter) {
    if (builder_.type(t).dtype == to) return t;
    return builder_.add("Cast", {t}, {{"to", std::string(name(to))}}, {parameter + ".cast", Phase::Update, NodeId::None, {}}).front();
  }

  TensorId add_master(TensorId parameter) {
    const Tensor tensor = builder_[parameter];
    return builder_.add_stored(master_name(tensor.name), {DType::F32, tensor.type.shape}, TensorRole::Slot, tensor.contents);
  }

  std::vector<TensorId> add_slots(const OptimizerRow& row, const std::string& parameter, TensorId of, const ParameterUse& use) {
    const Tensor beginning = builder_[of];
    std::vector<TensorId> slots;
    for (const OptimizerSlot& slot : row.slots) {
      if (!slot.only_with.empty() && result_.optimizer.values.at(std::string(slot.only_with)) == 0) continue;
      const std::string slot_name = builder_.fresh_name(parameter + "." + std::string(slot.name));
      const DType dtype = slot.shape == SlotShape::Number ? DType::F64 : beginning.type.dtype;
      slots.push_back(builder_.add_stored(slot_name, {dtype, slot_shape(slot.shape, use)}, TensorRole::Slot,
                                          slot.starts_as_parameter ? beginning.contents : Contents{dtype, Fill{0}}));
    }
    return slots;
  }

  std::string update_name(const Trainee& trainee) const { return builder_[trainee.parameter].name + ".update"; }

  Attributes attributes_of(const OptimizerRow& row) const {
    Attributes attributes = row.fixed;
    for (const auto& [key, value] : result_.optimizer.values) attributes.set(key, value);
    return attributes;
  }

  std::vector<TensorId> update_nodes(const OptimizerRow& row, const UpdateOperands& operands, const std::string& name) {
    Attributes attributes = attributes_of(row);
    if (row.build) return row.build(builder_, operands, attributes, name);
    if (rounds(operands)) attributes.set(kRoundedTo, std::string(rehearsal::name(operands.computes_in)));
    std::vector<TensorId> inputs = {operands.parameter, operands.gradient, operands.step};
    inputs.insert(inputs.end(), operands.slots.begin(), operands.slots.end());
    return builder_.add(row.op, std::move(inputs), attributes, {name, Phase::Update, NodeId::None, {}});
  }

  TensorId step() {
    if (step_ == TensorId::None)
      step_ = builder_.add_stored(builder_.fresh_name("optimizer.step"), {DType::I64, {}}, TensorRole::Slot, {DType::I64, Fill{1}});
    return step_;
  }

  /// A step that updates nothing is none: Adam's corrections belong to the updates (PyTorch's GradScaler leaves step() out, too).
  void count_step(LossScaling& scaling) {
    const TensorId one = builder_.add_constant(builder_.fresh_name("optimizer.one"), Value::scalar(1, DType::I64));
    const TensorId next = builder_.add("Add", {step_, one}, {}, {"optimizer.step.update", Phase::Update, NodeId::None, {}}).front();
    (void)store(scaling, next, step_);
  }

  [[noreturn]] void refuse() const {
    std::string text = "nothing in this model can be trained: ";
    if (wanted_.empty()) throw Refusal(text + "it has no floating-point parameter that is not frozen");
    text += "no gradient reaches a parameter from the loss";
    for (const Untrainable& u : result_.untrainable) {
      text += "\n  node '" + builder_[u.node].name + "' (" + std::string(schema(builder_[u.node]).name) + "): " + u.reason;
    }
    throw Refusal(text);
  }

  TrainingGraph finish() {
    if (loss_ != TensorId::None) builder_.keep(loss_);
    Renumbering renumber;
    result_.graph = std::move(builder_).build(&renumber);
    result_.loss = renumber(loss_);
    result_.target = renumber(result_.target);
    result_.step = renumber(step_);
    result_.noise = {renumber(result_.noise.parts), renumber(result_.noise.whole)};
    for (const Trained& trained : trained_) {
      TrainedParameter parameter{
          renumber(trained.parameter), renumber(trained.gradient), result_.graph[renumber(trained.updated)].producer, {}};
      for (const TensorId slot : trained.slots) parameter.slots.push_back(renumber(slot));
      result_.parameters.push_back(std::move(parameter));
    }
    for (Untrainable& u : result_.untrainable) u.node = renumber(u.node);
    return std::move(result_);
  }

  const Graph& model_;
  const TrainingOptions& options_;
  const LossScale& scale_;
  GraphBuilder builder_;
  TrainingGraph result_;
  TensorId loss_ = TensorId::None, step_ = TensorId::None;
  std::vector<TensorId> wanted_;
  std::vector<Trained> trained_;
};

}  // namespace

Graph with_roles(const Graph& model, const TrainingOptions& options, std::vector<std::string>& warnings) {
  GraphBuilder builder(model);
  for (const auto& [t, role] : chosen_roles(model, options, warnings)) builder.set_role(t, role);
  builder.keep_all();
  return std::move(builder).build();
}

TrainingGraph build_training_graph(const Graph& model, const TrainingOptions& options) { return build_training_graph(model, options, {}); }

TrainingGraph build_training_graph(const Graph& model, const TrainingOptions& options, const LossScale& scale) {
  auto training = TrainingStep(model, options, scale).build();
  if (!options.noise_scale) return training;
  auto plain = options;
  plain.noise_scale = false;
  training.unmeasured_hash = TrainingStep(model, plain, scale).build().graph.hash();
  return training;
}

}  // namespace rehearsal::graph
