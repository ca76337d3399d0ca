#pragma once
// --lora: adapters beside weights that are not trained.

#include <string>

#include "graph/adapters.hpp"

namespace rehearsal::cli {

/// "RANK[,alpha=A][,targets=GLOB+GLOB...]". Throws BadInput naming the part that is wrong.
[[nodiscard]] graph::AdapterOptions parse_adapters(const std::string& text);

/// alpha / rank; 0 for an empty text.
[[nodiscard]] double adapter_factor(const std::string& text);

/// The model with the adapters; throws BadInput naming --lora.
[[nodiscard]] graph::Graph adapted(const graph::Graph& model, const std::string& text);

}  // namespace rehearsal::cli
