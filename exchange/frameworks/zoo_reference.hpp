#pragma once
#include <optional>
#include <string>

#include "graph/zoo/zoo.hpp"

namespace rehearsal::exchange {

/// The zoo's model that a zoo: or hf: reference means; nothing for files and for no reference. Throws BadInput where the reference is
/// wrong.
[[nodiscard]] std::optional<graph::zoo::ZooChoice> zoo_choice(const std::string& model);

}  // namespace rehearsal::exchange
