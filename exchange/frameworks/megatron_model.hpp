#pragma once
#include "exchange/frameworks/plan_export.hpp"

namespace rehearsal::exchange {

/// The flags of the model's shape, of decoders that the zoo has as Megatron-Core's GPTModel builds them (zoo:gpt, zoo:llama, zoo:moe, their
/// presets, and what hf: references are of these). Refuses other models, and by its name every parameter that has no flag.
void megatron_model(const TrainingJob&, Sheet&);

}  // namespace rehearsal::exchange
