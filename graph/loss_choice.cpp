#include "graph/loss_choice.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"

namespace rehearsal::graph {
namespace {

constexpr std::string_view kNoLoss = "none";

bool is_loss_output(const Graph& model, TensorId t) {
  const Tensor& tensor = model[t];
  if (!is_float(tensor.type.dtype) || element_count(tensor.type.shape) != 1) return false;
  return lower_case(tensor.name).find("loss") != std::string::npos || (model.outputs().size() == 1 && tensor.type.shape.empty());
}

std::string names_of_losses(const Graph& model) {
  std::string text;
  for (const LossRow& row : loss_table()) text += std::string(row.name) + ", ";
  text += std::string(kNoLoss) + ", or an output of the model:";
  for (const TensorId t : model.outputs()) text += " '" + model[t].name + "'";
  return text;
}

class LossChoiceChoice {
 public:
  LossChoiceChoice(GraphBuilder& builder, const Graph& model, const TrainingOptions& options)
      : builder_(builder), model_(model), options_(options) {}

  ChosenLoss add() && {
    const auto terms = terms_of(options_.loss);
    choose_loss(terms.front());
    for (std::size_t n = 1; n < terms.size(); ++n) add_term(terms[n]);
    return chosen_;
  }

 private:
  /// What stands between the plus signs; a name of an output may have some.
  [[nodiscard]] std::vector<std::string> terms_of(const std::string& loss) const {
    const auto& outputs = model_.outputs();
    if (std::any_of(outputs.begin(), outputs.end(), [&](TensorId t) { return model_[t].name == loss; })) return {loss};
    std::vector<std::string> terms{""};
    for (const char c : loss) c == '+' ? void(terms.emplace_back()) : terms.back().push_back(c);
    return terms;
  }

  void choose_loss(const std::string& name) {
    const auto rows = loss_table();
    auto names = names_of_rows(rows, &LossRow::name);
    names.emplace_back(kNoLoss);
    const auto& outputs = model_.outputs();
    const bool names_output = std::ranges::any_of(outputs, [&](TensorId t) { return model_[t].name == name; });
    if (const auto known = find_name(name, names); known && (*known == name || !names_output)) {
      if (*known == kNoLoss) return;
      return use_row(*std::ranges::find(rows, *known, &LossRow::name));
    }
    if (!name.empty()) return use_output(output_named(name));
    const auto ends_in = std::find_if(outputs.begin(), outputs.end(), [&](TensorId t) { return is_loss_output(model_, t); });
    if (ends_in != outputs.end()) return use_output(*ends_in);
    use_row(rows.front());
  }

  TensorId output_named(const std::string& name) const {
    for (const TensorId t : model_.outputs()) {
      if (model_[t].name == name) return t;
    }
    throw BadInput("loss '" + name + "' is not known" + suggestion(name, names_of_rows(loss_table(), &LossRow::name)) + " It can be " +
                   names_of_losses(model_));
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
    if (builder_[there].role == TensorRole::Input && builder_.type(there) == type) return there;
    throw BadInput("the model has a tensor '" + name + "' that cannot be the target, which is " + std::string(rehearsal::name(type.dtype)) +
                   to_text(type.shape) + "; name the target otherwise");
  }

  void use_output(TensorId output) {
    chosen_.loss = scalar(output);
    if (chosen_.loss != output) builder_.rename(chosen_.loss, "loss");
  }

  /// f64, without dimensions.
  TensorId scalar(TensorId output) {
    const TensorType type = builder_.type(output);
    if (!is_float(type.dtype) || element_count(type.shape) != 1) {
      throw BadInput("output '" + model_[output].name + "' is " + std::string(name(type.dtype)) + to_text(type.shape) +
                     "; a loss is one floating-point number");
    }
    if (!type.shape.empty()) output = builder_.add1("Reshape", {output}, {{"shape", Shape{}}});
    return type.dtype == DType::F64 ? output : builder_.add1("Cast", {output}, {{"to", std::string(name(DType::F64))}});
  }

  /// "0.01*balance" or "balance".
  void add_term(const std::string& term) {
    const auto times = term.find('*');
    const auto weight = times == std::string::npos ? 1.0 : parse_number<double>(term.substr(0, times));
    if (!weight || !std::isfinite(*weight) || chosen_.loss == TensorId::None)
      throw BadInput("loss '" + options_.loss + "'",
                     "what is added to a loss is an output of the model, or a number times one: "
                     "cross-entropy+0.01*balance");
    TensorId more = scalar(output_named(times == std::string::npos ? term : term.substr(times + 1)));
    if (*weight != 1.0) more = builder_.add1("Scale", {more}, {{"factor", *weight}});
    if (builder_[chosen_.loss].name == "loss") builder_.rename(chosen_.loss, "loss.terms" + std::to_string(++terms_));
    chosen_.loss = builder_.add1("Add", {chosen_.loss, more});
    builder_.rename(chosen_.loss, "loss");
  }

  GraphBuilder& builder_;
  const Graph& model_;
  const TrainingOptions& options_;
  ChosenLoss chosen_;
  int terms_ = 0;
};

}  // namespace

ChosenLoss add_loss(GraphBuilder& builder, const Graph& model, const TrainingOptions& options) {
  return LossChoiceChoice(builder, model, options).add();
}

}  // namespace rehearsal::graph
