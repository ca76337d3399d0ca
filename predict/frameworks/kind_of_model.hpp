#pragma once
// Of what kind a model is, as far as predictions of one kind say something of another. costmodel::ModelKind is something else: which
// framework is usual.

#include <string>

#include "predict/frameworks/folded_model.hpp"

namespace rehearsal::predict::frameworks {

/// "decoder", "encoder", "encoder and decoder", "image network", "image network with attention", "recurrent network" or "other network";
/// where it has them, "… with experts", "… with state spaces", "… with frozen weights".
[[nodiscard]] std::string kind_of_model(const FoldedModel&);
/// Weights, trained or not, of the whole model.
[[nodiscard]] double parameters_of_model(const FoldedModel&);

}  // namespace rehearsal::predict::frameworks
