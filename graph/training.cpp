#include "graph/training.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/error.hpp"
#include "graph/clipping.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

bool matches_any(const std::string& name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; });
}

bool is_stored(Role role) { return role == Role::Parameter || role == Role::State || role == Role::Constant; }

/// The role of a stored tensor after --freeze and --train.
Role trained_role(const Tensor& tensor, const TrainingOptions& options) {
  const bool trainable = is_float(tensor.type.dtype) && tensor.role != Role::State;
  if (trainable && matches_any(tensor.name, options.train)) return Role::Parameter;
  if (tensor.role != Role::Parameter) return tensor.role;
  return trainable && !matches_any(tensor.name, options.freeze) ? Role::Parameter : Role::Constant;
}

void warn_of_unused_globs(const Graph& model, const std::vector<std::string>& globs, const std::string& flag,
                          std::vector<std::string>& warnings) {
  for (const std::string& glob : globs) {
    const bool used = std::any_of(model.tensors().begin(), model.tensors().end(),
                                  [&](const Tensor& t) { return is_stored(t.role) && matches_any(t.name, {glob}); });
    if (!used) warnings.push_back(flag + " '" + glob + "' matches no stored tensor of the model");
  }
}

bool is_loss_output(const Graph& model, TensorId t) {
  const Tensor& tensor = model[t];
  if (!is_float(tensor.type.dtype) || element_count(tensor.type.shape) != 1) return false;
  std::string lower = tensor.name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.find("loss") != std::string::npos || (model.outputs().size() == 1 && tensor.type.shape.empty());
}

std::string names_of_losses(const Graph& model) {
  std::string text;
  for (const LossRow& row : loss_table()) text += std::string(row.name) + ", ";
  text += "none, or an output of the model:";
  for (const TensorId t : model.outputs()) text += " '" + model[t].name + "'";
  return text;
}

/// Grows the training graph from the model's.
class Step {
 public:
  Step(const Graph& model, const TrainingOptions& options) : model_(model), options_(options), builder_(model) {}

  TrainingGraph build() && {
    result_.optimizer = completed(options_.optimizer);
    if (!options_.dropout) remove_dropout();
    result_.batch = batch_size();
    choose_parameters();
    choose_loss();
    if (loss_ != TensorId::None) add_updates();
    return finish();
  }

 private:
  struct Trained {
    UpdateOperands operands;
    TensorId gradient, updated;
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
    const OpIndex dropout = op("Dropout");
    for (std::size_t n = 0; n < model_.nodes().size(); ++n) {
      if (model_.nodes()[n].op != dropout) continue;
      const Node node = builder_[static_cast<NodeId>(n)];  // not the model's: its operand may be a Dropout that is gone
      builder_.replace_uses(node.outputs[0], node.inputs[0]);
      builder_.set_attribute(static_cast<NodeId>(n), "ratio", 0.0);
    }
  }

  void choose_parameters() {
    warn_of_unused_globs(model_, options_.freeze, "--freeze", result_.warnings);
    warn_of_unused_globs(model_, options_.train, "--train", result_.warnings);
    for (std::size_t i = 0; i < model_.tensors().size(); ++i) {
      const auto t = static_cast<TensorId>(i);
      const Tensor& tensor = model_.tensors()[i];
      if (tensor.producer != NodeId::None || !is_stored(tensor.role)) continue;
      const Role role = trained_role(tensor, options_);
      builder_.set_role(t, role);
      if (role == Role::Parameter) wanted_.push_back(t);
    }
  }

  void choose_loss() {
    if (options_.loss == "none") return;
    const auto rows = loss_table();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const LossRow& r) { return r.name == options_.loss; });
    if (row != rows.end()) return use_row(*row);
    if (!options_.loss.empty()) return use_output(output_named(options_.loss));
    const auto& outputs = model_.outputs();
    const auto ends_in = std::find_if(outputs.begin(), outputs.end(), [&](TensorId t) { return is_loss_output(model_, t); });
    if (ends_in != outputs.end()) return use_output(*ends_in);
    use_row(rows.front());
  }

  TensorId output_named(const std::string& name) const {
    for (const TensorId t : model_.outputs()) {
      if (model_[t].name == name) return t;
    }
    throw BadInput("loss '" + name + "' is not known; it can be " + names_of_losses(model_));
  }

  void use_row(const LossRow& row) {
    if (model_.outputs().empty()) throw BadInput("the model has no output for the loss " + std::string(row.name));
    const TensorId prediction = model_.outputs().front();
    result_.target = target(row.target_type(model_[prediction].type));
    loss_ = row.build(builder_, prediction, result_.target);
    builder_.rename(loss_, "loss");
  }

  TensorId target(const TensorType& type) {
    const std::string& name = options_.target_name;
    const TensorId there = builder_.find(name);
    if (there == TensorId::None) return builder_.add_input(name, type);
    if (builder_[there].role == Role::Input && builder_.type(there) == type) return there;
    throw BadInput("the model has a tensor '" + name + "' that cannot be the target, which is " + std::string(rehearsal::name(type.dtype)) +
                   to_text(type.shape) + "; name the target otherwise");
  }

  void use_output(TensorId output) {
    const TensorType type = builder_.type(output);
    if (!is_float(type.dtype) || element_count(type.shape) != 1) {
      throw BadInput("output '" + model_[output].name + "' is " + std::string(name(type.dtype)) + to_text(type.shape) +
                     "; a loss is one floating-point number");
    }
    loss_ = output;
    if (!type.shape.empty()) loss_ = builder_.add1("Reshape", {loss_}, {{"shape", Shape{}}});
    if (type.dtype != DType::F64) loss_ = builder_.add1("Cast", {loss_}, {{"to", std::string(name(DType::F64))}});
    if (loss_ != output) builder_.rename(loss_, "loss");
  }

  void add_updates() {
    const std::vector<TensorId> gradients = differentiate(builder_, loss_, wanted_, result_.untrainable);
    name_gradients(gradients);
    const std::vector<TensorId> clipped = options_.clip_norm > 0 ? add_clipping(builder_, gradients, options_.clip_norm) : gradients;
    const OptimizerRow& row = optimizer_row(result_.optimizer.name);
    Attributes attributes = row.fixed;
    for (const auto& [key, value] : result_.optimizer.values) attributes.set(key, value);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (gradients[i] == TensorId::None) {
        result_.warnings.push_back("parameter '" + builder_[wanted_[i]].name + "' is not updated: no gradient reaches it from the loss");
      } else {
        const UpdateOperands operands = state_of(row, wanted_[i], clipped[i]);
        trained_.push_back({operands, gradients[i], update(row, attributes, operands)});
      }
    }
    if (trained_.empty()) refuse();
    if (step_ != TensorId::None) count_step();
  }

  void name_gradients(const std::vector<TensorId>& gradients) {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const bool ours = gradients[i] != TensorId::None && builder_[gradients[i]].role == Role::Gradient;
      if (ours) builder_.rename(gradients[i], builder_[wanted_[i]].name + ".grad");
    }
  }

  UpdateOperands state_of(const OptimizerRow& row, TensorId parameter, TensorId gradient) {
    const Tensor tensor = builder_[parameter];
    UpdateOperands operands{parameter, gradient, row.counts_steps ? step() : TensorId::None, {}};
    for (const OptimizerSlot& slot : row.slots) {
      if (!slot.only_with.empty() && result_.optimizer.values.at(std::string(slot.only_with)) == 0) continue;
      const std::string slot_name = builder_.fresh_name(tensor.name + "." + std::string(slot.name));
      operands.slots.push_back(builder_.add_stored(slot_name, tensor.type, Role::Slot, {tensor.type.dtype, Fill{0}}));
    }
    return operands;
  }

  /// Returns the new parameter.
  TensorId update(const OptimizerRow& row, const Attributes& attributes, const UpdateOperands& operands) {
    const std::vector<TensorId> updated = update_nodes(row, attributes, operands, builder_[operands.parameter].name + ".update");
    builder_.set_stored_in(updated[0], operands.parameter);
    for (std::size_t s = 0; s < operands.slots.size(); ++s) builder_.set_stored_in(updated[s + 1], operands.slots[s]);
    return updated[0];
  }

  std::vector<TensorId> update_nodes(const OptimizerRow& row, const Attributes& attributes, const UpdateOperands& operands,
                                     const std::string& name) {
    if (row.build) return row.build(builder_, operands, attributes, name);
    std::vector<TensorId> inputs = {operands.parameter, operands.gradient, operands.step};
    inputs.insert(inputs.end(), operands.slots.begin(), operands.slots.end());
    return builder_.add(row.op, std::move(inputs), attributes, {name, Phase::Update, NodeId::None, {}});
  }

  TensorId step() {
    if (step_ == TensorId::None)
      step_ = builder_.add_stored(builder_.fresh_name("optimizer.step"), {DType::I64, {}}, Role::Slot, {DType::I64, Fill{1}});
    return step_;
  }

  void count_step() {
    const TensorId one = builder_.add_constant(builder_.fresh_name("optimizer.one"), Value::scalar(1, DType::I64));
    const TensorId next = builder_.add("Add", {step_, one}, {}, {"optimizer.step.update", Phase::Update, NodeId::None, {}}).front();
    builder_.set_stored_in(next, step_);
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
    for (const Trained& trained : trained_) {
      TrainedParameter parameter{
          renumber(trained.operands.parameter), renumber(trained.gradient), result_.graph[renumber(trained.updated)].producer, {}};
      for (const TensorId slot : trained.operands.slots) parameter.slots.push_back(renumber(slot));
      result_.parameters.push_back(std::move(parameter));
    }
    for (Untrainable& u : result_.untrainable) u.node = renumber(u.node);
    return std::move(result_);
  }

  const Graph& model_;
  const TrainingOptions& options_;
  GraphBuilder builder_;
  TrainingGraph result_;
  TensorId loss_ = TensorId::None, step_ = TensorId::None;
  std::vector<TensorId> wanted_;
  std::vector<Trained> trained_;
};

}  // namespace

TrainingGraph build_training_graph(const Graph& model, const TrainingOptions& options) { return Step(model, options).build(); }

}  // namespace rehearsal::graph
