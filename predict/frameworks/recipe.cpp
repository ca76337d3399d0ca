#include "predict/frameworks/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/parse_number.hpp"
#include "base/text_lines.hpp"
#include "predict/frameworks/flow.hpp"
#include "predict/frameworks/timing.hpp"

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

/// Of a bool, or of an optional one.
template <auto Member>
bool set_switch(Recipe& recipe, std::string_view value) {
  const auto named = find_name(value, {"on", "off"});
  if (named) recipe.*Member = *named == "on";
  return named.has_value();
}

bool set_frozen(Recipe& recipe, std::string_view value) {
  recipe.frozen_bytes = bytes_of_frozen(value);
  return recipe.frozen_bytes >= 0;
}

struct DispatcherRow {
  std::string_view name;
  bool by_node;
};
constexpr DispatcherRow kDispatchers[] = {{"deepep", true}, {"hybridep", true}, {"alltoall", false}};

bool set_dispatcher(Recipe& recipe, std::string_view value) {
  recipe.dispatches_by_node = dispatches_by_node(value);
  return recipe.dispatches_by_node.has_value();
}

bool set_offloaded_blocks(Recipe& recipe, std::string_view value) {
  const auto blocks = parse_number<int>(value);
  if (!blocks || *blocks < 1) return false;
  recipe.offloaded_blocks = *blocks;
  return true;
}

/// Whole tokens; nothing where the text is no length.
std::optional<double> document_length(std::string_view text) {
  const auto length = parse_number<double>(text);
  return length && *length >= 1 && std::isfinite(*length) && *length == std::floor(*length) ? length : std::nullopt;
}

/// A length of a line. How many tokens of its own document a token stands among, in the mean: of lengths l it is the sum of l² over that
/// of l.
void set_documents(Recipe& recipe, const std::string& file) {
  std::ifstream in(file);
  if (!in.is_open()) throw BadInput("--recipe packed=" + file, "is neither a number of tokens nor a file that can be read");
  double sum = 0, squares = 0;
  TextLines lines(in);
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    const auto length = document_length(line);
    if (!length) throw BadInput(file, "line " + std::to_string(lines.number()) + ": '" + line + "' is no length of a document");
    sum += *length;
    squares += *length * *length;
    recipe.longest_document = std::max(recipe.longest_document, *length);
  }
  if (sum == 0) throw BadInput(file, "holds no length of a document; write one a line");
  recipe.attention_window = squares / sum;
}

bool set_packed(Recipe& recipe, std::string_view value) {
  const auto length = document_length(value);
  if (value.empty() || (!length && parse_number<double>(value))) return false;
  if (length)
    recipe.attention_window = recipe.longest_document = *length;
  else
    set_documents(recipe, std::string(value));
  return true;
}

/// Questions that choose the limit put watts in place of "auto" before they ask.
bool set_power(Recipe& recipe, std::string_view value) {
  if (plain_spelling(value) == "auto")
    throw BadInput("--recipe power=auto",
                   "is for estimate and search, which look for the limit of power; here name it in watts, as power=300");
  recipe.stage_clocks = find_name(value, {"stages"}).has_value();
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
    {"cuda_graph", "on|off", "a step replays one CUDA graph (default: as the framework does)", set_switch<&Recipe::captured>},
    {"fused_experts", "on|off", "products of experts compute gates and casts as they write (default: as the framework does)",
     set_switch<&Recipe::fused_experts>},
    {"expert_overlap", "on|off", "tokens travel to experts beside another micro-batch's computation (default: as the framework does)",
     set_switch<&Recipe::expert_overlap>},
    {"dispatcher", "deepep|hybridep|alltoall",
     "a token travels once to every node where it has experts, or to each of its experts (default: as the framework does)", set_dispatcher},
    {"tensor_overlap", "on|off", "sums of tensor parallelism hide behind products (default: as the framework does)",
     set_switch<&Recipe::tensor_overlap>},
    {"fp32_reduction", "on|off", "zero=3 scatters 16-bit gradients in 32 bits (default: as the framework does)",
     set_switch<&Recipe::fp32_reduction>},
    {"fp8_gather", "on|off", "sharded weights of fp8 products are gathered in 8 bits (default: as the framework does)",
     set_switch<&Recipe::fp8_gather>},
    {"keeps_gathered", "on|off", "zero=3 gathers once for both passes (SHARD_GRAD_OP)", set_switch<&Recipe::keeps_gathered>},
    {"momentum", "on|off", "sgd, lars and rmsprop keep a momentum", set_switch<&Recipe::momentum>},
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

void require_attention(const Recipe& recipe, const graph::Graph& model) {
  const Flow flow(model);
  const std::string key = recipe.longest_document > 0 ? "packed" : "parallel_blocks";
  if (flow.cores().empty()) throw Refusal("--recipe " + key + ": the model has no attention");
  double longest = 0;
  for (const auto& core : flow.cores()) {
    const auto& scores = model[model.nodes()[core.first_product].outputs[0]];
    longest = std::max(longest, static_cast<double>(scores.type.shape.back()));
  }
  if (recipe.longest_document > longest)
    throw Refusal("--recipe packed: a document of " + std::to_string(std::llround(recipe.longest_document)) +
                  " tokens is longer than the model's sequences of " + std::to_string(std::llround(longest)));
}

void require_drawn(double limit, const platforms::Platform& platform) {
  const auto holds = [&](const platforms::NodeGroup& group) { return limit <= group.device.busy_power.value.value(); };
  const auto& lowest = std::ranges::max(platform.nodes, {}, [](const auto& group) { return group.device.idle_power.value.value(); }).device;
  if (limit > lowest.idle_power.value.value() && std::ranges::any_of(platform.nodes, holds)) return;
  throw Refusal("--recipe power: " + lowest.name + " draws " + to_text(lowest.idle_power.value) + " when it is idle and " +
                to_text(lowest.busy_power.value) + " at most; name a limit between them");
}

}  // namespace

std::span<const RecipeRow> recipe_table() { return kRecipe; }

double bytes_of_frozen(std::string_view type) {
  const auto known = find_name(type, names_of_rows(kFrozen, &FrozenRow::type));
  return known ? std::ranges::find(kFrozen, *known, &FrozenRow::type)->bytes : -1;
}

std::optional<bool> dispatches_by_node(std::string_view dispatcher) {
  const auto known = find_name(dispatcher, names_of_rows(kDispatchers, &DispatcherRow::name));
  return known ? std::optional(std::ranges::find(kDispatchers, *known, &DispatcherRow::name)->by_node) : std::nullopt;
}

void require_devices(const Recipe& recipe, const platforms::Platform& platform) {
  if (recipe.power_limit > 0) require_drawn(recipe.power_limit, platform);
  for (const auto& group : platform.nodes)
    if (recipe.captured.value_or(false) && group.device.kind != platforms::DeviceKind::Gpu)
      throw Refusal("--recipe cuda_graph: " + group.device.name + " is no GPU; leave it out");
}

void require_effect(const Recipe& recipe, const graph::Graph& model) {
  const bool frozen = std::ranges::any_of(model.tensors(), [](const graph::Tensor& t) { return t.role == graph::TensorRole::Frozen; });
  if (recipe.frozen_bytes > 0 && !frozen)
    throw Refusal("--recipe frozen: every weight of the model is trained; say with --lora or --freeze which are not");
  if (recipe.longest_document > 0 || recipe.parallel_blocks) require_attention(recipe, model);
  if (router_of(model) != nullptr) return;
  if (recipe.expert_overlap) throw Refusal("--recipe expert_overlap: the model has no experts");
  if (recipe.fused_experts) throw Refusal("--recipe fused_experts: the model has no experts");
  if (recipe.dispatches_by_node) throw Refusal("--recipe dispatcher: the model has no experts");
}

namespace {

/// What recomputation and offloading of blocks change nothing about.
void add_idle_recomputation(const FrameworkJob& job, const ModelParts& model, std::vector<std::string>& sentences) {
  const auto rule = job.plan.recompute.rule;
  const auto again = [&](const Part& part) { return (part.repeated || model.image) && part.kept.attention > 0; };
  if (rule == plan::RecomputeRule::Selective && std::ranges::none_of(model.parts, again))
    sentences.emplace_back("recompute=selective has no effect: nothing of attention is kept for the backward pass");
  const bool at_once = job.plan.pp == 1 && !job.profile.checkpoints_stages && std::ranges::none_of(model.parts, &Part::repeated);
  if (rule == plan::RecomputeRule::Full && at_once)
    sentences.emplace_back(
        "recompute=full frees nothing: the model has no blocks that repeat, and is computed again as a whole; --framework rehearse cuts "
        "it");
}

}  // namespace

namespace {

/// Whether an optimizer keeps something only where a hyperparameter is not 0.
bool keeps_only_with(std::string_view optimizer, std::string_view hyperparameter) {
  const auto& slots = graph::optimizer_row(optimizer).slots;
  return std::ranges::any_of(slots, [&](const auto& slot) { return slot.only_with == hyperparameter; });
}

}  // namespace

void take_hyperparameters(Recipe& recipe, const graph::OptimizerSettings& optimizer) {
  constexpr std::string_view kName = "momentum";
  const auto given = optimizer.values.find(std::string(kName));
  if (given == optimizer.values.end() || !keeps_only_with(optimizer.name, kName)) return;
  if (given->second == 0) recipe.momentum = false;
  if (given->second != 0 && !recipe.momentum)
    throw BadInput("--recipe momentum=off", "is none beside a momentum of " + optimizer.name + " above 0; leave one of them out");
}

std::vector<std::string> choices_without_effect(const FrameworkJob& job, const ModelParts& model) {
  const auto& recipe = job.recipe;
  const auto& plan = job.plan;
  std::vector<std::string> sentences;
  const auto add = [&](bool chosen, std::string_view key, bool acts, std::string_view reason) {
    if (chosen && !acts) sentences.push_back("--recipe " + std::string(key) + " has no effect: " + std::string(reason));
  };
  add(recipe.fp32_reduction.has_value(), "fp32_reduction", gathers_every_pass(job) && job.precision_on(0).element_bytes == 2,
      "it says in what zero=3 without stages scatters gradients of 16-bit arithmetic, and here it scatters none");
  add(recipe.fp8_gather.has_value(), "fp8_gather", plan.zero > 0 && has_fp8_weights(job.precision_on(0)),
      "it says how zero=1 and above gathers weights that fp8 products read, with scales per tensor or block");
  add(recipe.tensor_overlap.value_or(false), "tensor_overlap", plan.tp > 1, "nothing is split by tensors (tp=1)");
  add(recipe.parallel_blocks, "parallel_blocks", plan.tp > 1, "nothing is summed over tp (tp=1)");
  add(recipe.keeps_gathered, "keeps_gathered", plan.zero == 3, "parameters are gathered under zero=3 alone");
  add(!recipe.momentum, "momentum", keeps_only_with(recipe.optimizer, recipe.without()),
      recipe.optimizer + " has no momentum that it could do without");
  add(recipe.stage_clocks, "power=stages", plan.pp > 1, "there is one stage (pp=1)");
  add(recipe.longest_document > 0, "packed", model.fused_attention, "attention is in parts, which compute all pairs of a sequence");
  add(recipe.chunked_loss, "chunked_loss", !model.image, "an image network's logits are few");
  add_idle_recomputation(job, model, sentences);
  add(recipe.dispatches_by_node.has_value(), "dispatcher", plan.ep > 1, "every rank has all experts (ep=1)");
  if (!recipe.expert_load.balanced() && plan.ep == 1)
    sentences.emplace_back("--imbalance has no effect: every rank has all experts (ep=1)");
  return sentences;
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
