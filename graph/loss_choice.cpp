#include "graph/loss_choice.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"

namespace rehearsal::graph {
namespace {

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

class Choice {
 public:
  Choice(GraphBuilder& builder, const Graph& model, const TrainingOptions& options) : builder_(builder), model_(model), options_(options) {}

  ChosenLoss add() && {
    choose_loss();
    return chosen_;
  }

 private:
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
    chosen_.target = target(row.target_type(model_[prediction].type));
    chosen_.loss = row.build(builder_, prediction, chosen_.target);
    builder_.rename(chosen_.loss, "loss");
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
    chosen_.loss = output;
    if (!type.shape.empty()) chosen_.loss = builder_.add1("Reshape", {chosen_.loss}, {{"shape", Shape{}}});
    if (type.dtype != DType::F64) chosen_.loss = builder_.add1("Cast", {chosen_.loss}, {{"to", std::string(name(DType::F64))}});
    if (chosen_.loss != output) builder_.rename(chosen_.loss, "loss");
  }

  GraphBuilder& builder_;
  const Graph& model_;
  const TrainingOptions& options_;
  ChosenLoss chosen_;
};

}  // namespace

ChosenLoss add_loss(GraphBuilder& builder, const Graph& model, const TrainingOptions& options) {
  return Choice(builder, model, options).add();
}

}  // namespace rehearsal::graph
