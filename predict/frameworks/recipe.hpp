#pragma once
// What recipes choose besides plan and framework, and users may name.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "graph/optimizer.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/frameworks/model_part.hpp"

namespace rehearsal::predict::frameworks {

/// A choice by its key. A new one is a row.
struct RecipeRow {
  std::string_view key, values;  ///< how a value is written: "on|off", "watts"
  std::string_view description;
  bool (*set)(Recipe&, std::string_view value);  ///< false: no such value
};
[[nodiscard]] std::span<const RecipeRow> recipe_table();

/// "KEY=VALUE,...". Throws BadInput naming `where` and the key or value that is unknown, with the nearest one, or a key that stands twice;
/// or naming file and line of lengths that cannot be read.
[[nodiscard]] Recipe parse_recipe(std::string_view where, const std::string& text);

/// Takes from numbers of the optimizer that were given what the recipe says of it: a momentum of 0 is `momentum=off`. Throws BadInput where
/// the recipe leaves out a momentum that they give.
void take_hyperparameters(Recipe&, const graph::OptimizerSettings&);

/// Throws Refusal naming a choice that means nothing for the model: weights that are not trained where all are, experts or attention where
/// there are none, documents longer than a sequence.
void require_effect(const Recipe&, const graph::Graph& model);
/// Throws Refusal naming a choice that devices of the platform cannot keep: a limit of power beyond what they draw, graphs of what is no GPU.
void require_devices(const Recipe&, const platforms::Platform&);

/// A sentence for each choice of the job's recipe that changes nothing of its plan. `fused_attention`: it is one kernel, which knows where
/// documents end.
[[nodiscard]] std::vector<std::string> choices_without_effect(const FrameworkJob&, const ModelParts&);

/// Bytes of a weight that is not trained, in blocks of the model: of "nf4", "int4", "int8" or "fp8"; 0 for "16bit"; below 0: no such type.
[[nodiscard]] double bytes_of_frozen(std::string_view type);

/// Does a dispatcher of tokens know the nodes: "deepep" and "hybridep" do, "alltoall" does not; nothing for other words.
[[nodiscard]] std::optional<bool> dispatches_by_node(std::string_view dispatcher);

}  // namespace rehearsal::predict::frameworks
