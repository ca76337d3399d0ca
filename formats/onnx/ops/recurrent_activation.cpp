#include "formats/onnx/ops/recurrent_activation.hpp"

#include <algorithm>

#include "base/names.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorId;

enum class Takes { Nothing, Alpha, AlphaAndBeta };

struct Row {
  std::string_view name;
  Takes takes;
  double alpha, beta;  ///< defaults
  TensorId (*apply)(NodeImport&, TensorId, double, double);
};

template <const char* kOp>
TensorId plain(NodeImport& n, TensorId x, double, double) {
  return n.emit(kOp, {x});
}

template <const char* kOp>
TensorId with_alpha(NodeImport& n, TensorId x, double alpha, double) {
  return n.emit(kOp, {x}, {{"alpha", alpha}});
}

TensorId affine(NodeImport& n, TensorId x, double alpha, double beta) {
  return n.emit("Add", {n.emit("Scale", {x}, {{"factor", alpha}}), n.scalar(beta, n.builder().type(x).dtype)});
}

/// alpha * tanh(beta * x)
TensorId scaled_tanh(NodeImport& n, TensorId x, double alpha, double beta) {
  return n.emit("Scale", {n.emit("Tanh", {n.emit("Scale", {x}, {{"factor", beta}})})}, {{"factor", alpha}});
}

TensorId hard_sigmoid(NodeImport& n, TensorId x, double alpha, double beta) {
  return n.emit("HardSigmoid", {x}, {{"alpha", alpha}, {"beta", beta}});
}

constexpr char kRelu[] = "Relu", kTanh[] = "Tanh", kSigmoid[] = "Sigmoid", kSoftsign[] = "Softsign", kSoftplus[] = "Softplus";
constexpr char kLeakyRelu[] = "LeakyRelu", kThresholdedRelu[] = "ThresholdedRelu", kElu[] = "Elu";

constexpr Row kRecurrentActivationRows[] = {
    {"Relu", Takes::Nothing, 0, 0, plain<kRelu>},
    {"Tanh", Takes::Nothing, 0, 0, plain<kTanh>},
    {"Sigmoid", Takes::Nothing, 0, 0, plain<kSigmoid>},
    {"Softsign", Takes::Nothing, 0, 0, plain<kSoftsign>},
    {"Softplus", Takes::Nothing, 0, 0, plain<kSoftplus>},
    {"LeakyRelu", Takes::Alpha, 0.01, 0, with_alpha<kLeakyRelu>},
    {"ThresholdedRelu", Takes::Alpha, 1, 0, with_alpha<kThresholdedRelu>},
    {"Elu", Takes::Alpha, 1, 0, with_alpha<kElu>},
    {"Affine", Takes::AlphaAndBeta, 1, 0, affine},
    {"ScaledTanh", Takes::AlphaAndBeta, 1, 1, scaled_tanh},
    {"HardSigmoid", Takes::AlphaAndBeta, 0.2, 0.5, hard_sigmoid},
};

/// The next number of a list that only those functions read which take one.
double next_of(const std::vector<double>& list, std::size_t& at, bool takes, double otherwise) {
  return takes && at < list.size() ? list[at++] : otherwise;
}

}  // namespace

std::vector<RecurrentActivation> recurrent_activations(NodeImport& n, std::int64_t directions, const std::vector<std::string>& otherwise) {
  const auto given = n.has_attribute("activations") ? n.texts("activations") : std::vector<std::string>{};
  const auto alphas = n.has_attribute("activation_alpha") ? n.numbers("activation_alpha") : std::vector<double>{};
  const auto betas = n.has_attribute("activation_beta") ? n.numbers("activation_beta") : std::vector<double>{};
  const std::size_t count = otherwise.size() * static_cast<std::size_t>(directions);
  if (!given.empty() && given.size() != count)
    n.fail("has " + std::to_string(given.size()) + " activations, it needs " + std::to_string(count));
  std::vector<RecurrentActivation> result;
  std::size_t alpha = 0, beta = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = given.empty() ? otherwise[i % otherwise.size()] : given[i];
    const auto* row = std::find_if(std::begin(kRecurrentActivationRows), std::end(kRecurrentActivationRows),
                                   [&](const Row& r) { return lower_case(r.name) == lower_case(name); });
    if (row == std::end(kRecurrentActivationRows)) n.unsupported("the activation " + name + " is not supported here");
    const double a = next_of(alphas, alpha, row->takes != Takes::Nothing, row->alpha);
    const double b = next_of(betas, beta, row->takes == Takes::AlphaAndBeta, row->beta);
    result.push_back({row->apply, a, b});
  }
  return result;
}

}  // namespace rehearsal::formats
