#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "base/table.hpp"
#include "predict/scaling/law.hpp"

namespace rehearsal::predict::scaling {
namespace {

const auto& law_rows() {
  static const auto kTable = rows_of(kLaws);
  return kTable;
}

/// "parameters 7.3e+10 (fitted up to 1.6e+10)"
std::string beyond(const char* what, double value, const FittedRange& fitted) {
  if (fitted.holds(value)) return {};
  char text[120];
  const bool above = value > fitted.high;
  std::snprintf(text, sizeof text, "%s %.2g (fitted %s %.2g)", what, value, above ? "up to" : "from", above ? fitted.high : fitted.low);
  return text;
}

}  // namespace

std::span<const ScalingLaw> scaling_laws() { return law_rows(); }

const ScalingLaw& usual_law() { return known_law("--law", std::string(kUsualLaw)); }

const ScalingLaw& known_law(const std::string& option, const std::string& name, AskedOfLaw asked) {
  const auto found = known_name(option, name, names_of_rows(law_rows(), &ScalingLaw::name));
  const auto& law = *std::ranges::find(law_rows(), found, &ScalingLaw::name);
  const bool both = asked == AskedOfLaw::LossAndSize;
  const auto gives = [&](const ScalingLaw& row) { return row.loss != nullptr && (row.best != nullptr || !both); };
  if (gives(law)) return law;
  std::vector<std::string_view> others;
  for (const auto& row : law_rows())
    if (gives(row)) others.push_back(row.name);
  throw BadInput(option + " " + name, std::string("its source gives no ") + (law.loss == nullptr ? "loss" : "best size for a budget") +
                                          " as a formula; those that " + (both ? "give both: " : "do: ") + joined(others));
}

std::string outside(const ScalingLaw& law, const TrainingSize& scale) {
  const double n = law.counted(scale);
  std::vector<std::string> far;
  for (auto& text : {beyond("parameters", n, law.parameters), beyond("tokens", scale.tokens, law.tokens),
                     beyond("FLOPs", law.flops_of(scale).value(), law.flops)})
    if (!text.empty()) far.push_back(text);
  return joined(far);
}

double ParametricLoss::at(double parameters, double tokens) const {
  return floor + a / std::pow(parameters, alpha) + b / std::pow(tokens, beta);
}

Allocation ParametricLoss::best(Flops budget) const {
  const double product = budget.value() / kFlopsOfParameterAndToken;
  const double g = std::pow(alpha * a / (beta * b), 1 / (alpha + beta));
  const double parameters = g * std::pow(product, beta / (alpha + beta));
  return {parameters, product / parameters};
}

}  // namespace rehearsal::predict::scaling
