#include "predict/scaling/language_model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "predict/assessment.hpp"
#include "predict/frameworks/flow.hpp"

namespace rehearsal::predict::scaling {
namespace {

constexpr std::size_t kMatrix = 2;
/// The gradient of a product is two products as large.
constexpr double kForwardAndBackward = 3;

void require_decoder(const graph::Graph& forward, const std::string& name) {
  const std::string what = "model " + name + ": scaling laws are of dense decoders that predict the next token, ";
  if (tokens_per_sample(forward) == 0) throw Refusal(what + "and it reads no tokens; give --steps or --epochs instead of --budget");
  const frameworks::Flow flow(forward);
  const auto& cores = flow.cores();
  if (std::ranges::none_of(cores, &frameworks::AttentionCore::causal))
    throw Refusal(what + "and its attention looks ahead, or it has none; give --tokens instead of --budget");
  if (!std::ranges::all_of(cores, &frameworks::AttentionCore::causal))
    throw Refusal(what + "and a part of its attention looks ahead, or at an encoder; give --tokens instead of --budget");
  if (forward.outputs().empty() || forward[forward.outputs().front()].type.shape.empty())
    throw Refusal(what + "and its first output has no scores of words; give --tokens instead of --budget");
  if (frameworks::router_of(forward) != nullptr)
    throw Refusal(what + "and its tokens choose among experts, of which the laws here know nothing; give --tokens instead of --budget");
}

}  // namespace

LanguageModel language_model(const graph::Graph& forward, const std::string& name) {
  require_decoder(forward, name);
  LanguageModel model;
  model.words = forward[forward.outputs().front()].type.shape.back();
  for (const auto& tensor : forward.tensors()) {
    if (!graph::is_weight(tensor.role)) continue;
    const auto& shape = tensor.type.shape;
    const auto elements = static_cast<double>(graph::element_count(shape));
    model.parameters += elements;
    if (shape.size() != kMatrix || std::ranges::find(shape, model.words) == shape.end()) model.without_embeddings += elements;
  }
  double samples = 1;
  for (const auto input : forward.inputs())
    if (const auto& type = forward[input].type; type.shape.size() == kMatrix && is_integer(type.dtype))
      samples = static_cast<double>(type.shape.front());
  model.tokens_per_sample = static_cast<double>(tokens_per_sample(forward));
  model.per_token = Flops(kForwardAndBackward * graph::flops_of(forward) / (samples * model.tokens_per_sample));
  return model;
}

}  // namespace rehearsal::predict::scaling
