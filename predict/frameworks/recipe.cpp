#include "predict/frameworks/recipe.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "predict/frameworks/flow.hpp"

namespace rehearsal::predict::frameworks {
namespace {

struct FrozenRow {
  std::string_view type;
  double bytes;
};
constexpr FrozenRow kFrozen[] = {
    {"16bit", 0},
    {"fp8", 1},
    {"int8", 1 + 2.0 / 64},                        // a scale of 16 bits for 64 (Dettmers et al. 2022)
    {"nf4", 4.0 / 8 + 1.0 / 64 + 4.0 / 64 / 256},  // codes, 8-bit scales of 64, their scales of 256 (Dettmers et al. 2023)
    {"int4", 4.0 / 8 + 2.0 / 128},                 // a scale of 16 bits for 128 (Frantar et al. 2023)
};

template <bool Recipe::*Member>
bool set_switch(Recipe& recipe, std::string_view value) {
  if (value != "on" && value != "off") return false;
  recipe.*Member = value == "on";
  return true;
}

template <std::optional<bool> Recipe::*Member>
bool set_choice(Recipe& recipe, std::string_view value) {
  if (value != "on" && value != "off") return false;
  recipe.*Member = value == "on";
  return true;
}

bool set_frozen(Recipe& recipe, std::string_view value) {
  recipe.frozen_bytes = bytes_of_frozen(value);
  return recipe.frozen_bytes >= 0;
}

bool set_offloaded_blocks(Recipe& recipe, std::string_view value) {
  const auto blocks = parse_number<int>(value);
  if (!blocks || *blocks < 1) return false;
  recipe.offloaded_blocks = *blocks;
  return true;
}

/// How many tokens of its own document a token stands among, in the mean: of lengths l it is the sum of l² over the sum of l.
double tokens_beside(std::istream& lengths) {
  double sum = 0, squares = 0;
  for (std::string line; std::getline(lengths, line);) {
    if (line.empty()) continue;
    const auto length = parse_number<double>(line);
    if (!length || !(*length >= 1)) return 0;
    sum += *length;
    squares += *length * *length;
  }
  return sum > 0 ? squares / sum : 0;
}

bool set_packed(Recipe& recipe, std::string_view value) {
  const auto length = parse_number<double>(value);
  std::ifstream file{length ? std::string() : std::string(value)};
  recipe.attention_window = length ? *length : tokens_beside(file);
  return recipe.attention_window >= 1;
}

bool set_power(Recipe& recipe, std::string_view value) {
  recipe.stage_clocks = value == "stages";
  if (recipe.stage_clocks) return true;
  const auto watts = parse_number<double>(value);
  if (!watts || !(*watts > 0)) return false;
  recipe.power_limit = *watts;
  return true;
}

constexpr RecipeRow kRecipe[] = {
    {"frozen", "16bit|fp8|int8|nf4|int4", "what weights that are not trained are stored in (QLoRA: nf4)", set_frozen},
    {"fused_kernels", "on|off", "norms, positions, gates and loss are a kernel each (Liger, Unsloth)", set_switch<&Recipe::fused_kernels>},
    {"chunked_loss", "on|off", "logits are made and used chunk by chunk", set_switch<&Recipe::chunked_loss>},
    {"optimizer_in_backward", "on|off", "every weight is updated as soon as its gradient is there",
     set_switch<&Recipe::update_in_backward>},
    {"cuda_graph", "on|off", "a step replays one CUDA graph (default: as the framework does)", set_choice<&Recipe::captured>},
    {"fused_experts", "on|off", "products of experts compute gates and casts as they write (default: as the framework does)",
     set_choice<&Recipe::fused_experts>},
    {"expert_overlap", "on|off", "tokens travel to experts beside another micro-batch's computation (default: as the framework does)",
     set_choice<&Recipe::expert_overlap>},
    {"tensor_overlap", "on|off", "sums of tensor parallelism hide behind products (default: as the framework does)",
     set_choice<&Recipe::tensor_overlap>},
    {"fp32_reduction", "on|off", "sharded gradients are summed in 32 bits", set_switch<&Recipe::fp32_reduction>},
    {"keeps_gathered", "on|off", "zero=3 gathers once for both passes (SHARD_GRAD_OP)", set_switch<&Recipe::keeps_gathered>},
    {"offload_layers", "N", "blocks that offload=activations moves (default: all)", set_offloaded_blocks},
    {"packed", "tokens|FILE", "sequences are documents of that length, or of the lengths in FILE (one a line), that do not see each other",
     set_packed},
    {"parallel_blocks", "on|off", "attention and feed-forward layer share one sum over tp", set_switch<&Recipe::parallel_blocks>},
    {"power", "watts|auto|stages",
     "limit of a device; auto: estimate takes that of least energy, search ranks plans under all; stages: those of a pipeline that wait "
     "for "
     "others run at lower clocks",
     set_power},
};

}  // namespace

std::span<const RecipeRow> recipe_table() { return kRecipe; }

double bytes_of_frozen(std::string_view type) {
  const auto* row = std::ranges::find(kFrozen, type, &FrozenRow::type);
  return row == std::end(kFrozen) ? -1 : row->bytes;
}

void require_effect(const Recipe& recipe, const graph::Graph& model) {
  const bool frozen = std::ranges::any_of(model.tensors(), [](const graph::Tensor& t) { return t.role == graph::TensorRole::Frozen; });
  if (recipe.frozen_bytes > 0 && !frozen)
    throw Refusal("--recipe frozen: every weight of the model is trained; say with --lora or --freeze which are not");
  if (router_of(model) != nullptr) return;
  if (recipe.expert_overlap) throw Refusal("--recipe expert_overlap: the model has no experts");
  if (recipe.fused_experts) throw Refusal("--recipe fused_experts: the model has no experts");
}

Recipe parse_recipe(std::string_view where, const std::string& text) {
  Recipe recipe;
  std::set<std::string_view> given;
  std::istringstream in(text);
  for (std::string entry; std::getline(in, entry, ',');) {
    const auto equals = entry.find('=');
    const auto names = names_of_rows(kRecipe, &RecipeRow::key);
    const auto key = known_name(std::string(where), entry.substr(0, equals), names);
    const auto* row = std::ranges::find(kRecipe, key, &RecipeRow::key);
    if (!given.insert(row->key).second) throw BadInput(std::string(where), "'" + std::string(key) + "' stands twice");
    if (equals == std::string::npos || !row->set(recipe, entry.substr(equals + 1)))
      throw BadInput(std::string(where), "'" + entry + "': write " + std::string(key) + "=" + std::string(row->values));
  }
  return recipe;
}

}  // namespace rehearsal::predict::frameworks
