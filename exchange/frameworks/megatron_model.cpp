#include "exchange/frameworks/megatron_model.hpp"

#include <algorithm>
#include <array>

#include "base/short_number.hpp"
#include "exchange/frameworks/export_rules.hpp"
#include "exchange/frameworks/zoo_reference.hpp"

namespace rehearsal::exchange {
namespace {

using graph::zoo::ZooChoice;

/// Parameters of the zoo with a flag of the same meaning and value.
struct SizeFlag {
  std::string_view parameter, flag;
};
constexpr std::array kSizeFlags{SizeFlag{"layers", "--num-layers"}, SizeFlag{"hidden", "--hidden-size"},
                                SizeFlag{"heads", "--num-attention-heads"}, SizeFlag{"seq", "--seq-length"},
                                SizeFlag{"vocab", "--vocab-size"}};
/// Handled below, or meaningless for one batch.
constexpr std::array<std::string_view, 17> kWrittenBelow{"batch",          "kv_heads",     "ffn",      "tied",    "rotary", "theta",
                                                         "head_dim",       "qkv_bias",     "qk_norm",  "experts", "top_k",  "moe_ffn",
                                                         "shared_experts", "dense_layers", "capacity", "seq",     "window"};

constexpr std::int64_t kShareInFull = 100;  // per cent

std::int64_t of(const ZooChoice& choice, std::string_view parameter) {
  const auto found = choice.values.find(parameter);
  return found == choice.values.end() ? 0 : found->second;
}

void refuse_the_rest(const ZooChoice& choice, Sheet& sheet) {
  for (const auto& parameter : choice.row->parameters) {
    const bool written = std::ranges::find(kSizeFlags, parameter.name, &SizeFlag::parameter) != kSizeFlags.end() ||
                         std::ranges::find(kWrittenBelow, parameter.name) != kWrittenBelow.end();
    // a model without latent attention leaves the sizes of its parts at their defaults
    if (!written && of(choice, parameter.name) != parameter.otherwise)
      sheet.refuse("model", std::string(parameter.name) + "=" + std::to_string(of(choice, parameter.name)) + " has no flag here",
                   "leave it out, or write the model's flags by hand");
  }
}

void attention_flags(const ZooChoice& choice, Sheet& sheet) {
  const auto heads = of(choice, "heads"), groups = of(choice, "kv_heads");
  if (groups != 0 && groups != heads) {
    sheet.set("--group-query-attention", "");
    sheet.set("--num-query-groups", std::to_string(groups));
  }
  if (const auto features = of(choice, "head_dim"); features != 0) sheet.set("--kv-channels", std::to_string(features));
  if (of(choice, "qkv_bias") != 0) sheet.set("--add-qkv-bias", "");
  if (const auto norm = of(choice, "qk_norm"); norm == 1)
    sheet.set("--qk-layernorm", "");
  else if (norm > 1)
    sheet.refuse("model", "qk_norm=" + std::to_string(norm) + " has no flag here", "write the model's flags by hand");
  if (const auto window = of(choice, "window"); window != 0) sheet.set("--window-size", std::to_string(window - 1) + ",0");
}

/// GPT-2: learned positions, biases, LayerNorm. Llama: rotary positions, gated feed-forward, RMSNorm, no biases.
void style_flags(const ZooChoice& choice, Sheet& sheet) {
  if (of(choice, "tied") == 0) sheet.set("--untie-embeddings-and-output-weights", "");
  if (choice.row->name == "gpt") return sheet.set("--position-embedding-type", "learned_absolute");
  sheet.set("--position-embedding-type", "rope");
  sheet.set("--rotary-base", std::to_string(of(choice, "theta")));
  if (of(choice, "rotary") != 100) sheet.set("--rotary-percent", shortest_number(static_cast<double>(of(choice, "rotary")) / 100));
  sheet.set("--normalization", "RMSNorm");
  sheet.set("--swiglu", "");
  sheet.set("--disable-bias-linear", "");
}

void expert_flags(const ZooChoice& choice, Sheet& sheet) {
  const auto experts = of(choice, "experts");
  if (experts == 0) return;
  const auto width = of(choice, "moe_ffn") != 0 ? of(choice, "moe_ffn") : of(choice, "ffn");
  sheet.set("--num-experts", std::to_string(experts));
  sheet.set("--moe-router-topk", std::to_string(of(choice, "top_k")));
  sheet.set("--moe-ffn-hidden-size", std::to_string(width));
  sheet.set("--moe-token-dispatcher-type", "alltoall");
  if (const auto shared = of(choice, "shared_experts"); shared != 0)
    sheet.set("--moe-shared-expert-intermediate-size", std::to_string(shared * width));
  if (const auto dense = of(choice, "dense_layers"); dense != 0)
    sheet.set("--moe-layer-freq", "([0]*" + std::to_string(dense) + "+[1]*" + std::to_string(of(choice, "layers") - dense) + ")");
}

/// Where not all stages have as many layers: embedding and loss count as one each where that comes out even (NVIDIA's recipes of Llama 3.1
/// 405B), else those of first and last stage, as near to the others as they come.
void stage_flags(std::int64_t layers, const plan::Plan& plan, Sheet& sheet) {
  const auto chunks = std::int64_t{plan.pp} * plan.interleave;
  if (layers % chunks == 0) return;
  if ((layers + 2) % chunks == 0) {
    sheet.set("--account-for-embedding-in-pipeline-split", "");
    sheet.set("--account-for-loss-in-pipeline-split", "");
    return;
  }
  if (plan.interleave > 1)
    return sheet.refuse("interleave",
                        std::to_string(layers) + " layers are not shared out evenly among " + std::to_string(chunks) + " chunks",
                        "use interleave=1, or chunks that divide them");
  if (layers < plan.pp) return sheet.refuse("pp", "the model has " + std::to_string(layers) + " layers", "use fewer stages");
  const auto inner = std::int64_t{plan.pp} - 2;
  auto each = (layers + plan.pp - 1) / plan.pp;  // of the stages between
  if (layers - inner * each < 2) --each;
  const auto ends = layers - inner * each;
  sheet.set("--decoder-first-pipeline-num-layers", std::to_string((ends + 1) / 2));
  sheet.set("--decoder-last-pipeline-num-layers", std::to_string(ends / 2));
}

/// What Megatron-Core asserts of degrees and sizes when it starts.
void require_divisors(const ZooChoice& choice, const plan::Plan& plan, Sheet& sheet) {
  const auto divides = [&](std::string_view key, std::int64_t degree, std::int64_t size, const std::string& what) {
    if (size % degree != 0)
      sheet.refuse(key, std::to_string(degree) + " does not divide " + std::to_string(size) + " " + what, "use a degree that does");
  };
  divides("tp", plan.tp, of(choice, "heads"), "heads of attention");
  if (plan.cp > 1) divides("cp", std::int64_t{2} * plan.cp, of(choice, "seq"), "tokens: every rank has two pieces of a sequence");
  stage_flags(of(choice, "layers"), plan, sheet);
  const auto experts = of(choice, "experts");
  if (plan.ep > 1 && experts == 0) return sheet.refuse("ep", "the model has no experts", "use ep=1");
  divides("ep", plan.ep, std::max(experts, std::int64_t{1}), "experts");
  if (plan.has_whole_experts())
    sheet.set("--expert-tensor-parallel-size", "1");
  else
    divides("ep", plan.ep, std::int64_t{plan.dp} * plan.cp, "replicas and ranks of cp");
  if (experts > 0 && plan.tp > 1 && !plan.sequence_parallel)
    sheet.refuse("sequence_parallel", "mixtures of experts need it beside tp", "use sequence_parallel=on");
}

/// Of hf: no token is dropped; of zoo: those beyond what an expert has room for, unless every expert has room for all.
void capacity_flag(const std::string& model, const ZooChoice& choice, Sheet& sheet) {
  const auto capacity = of(choice, "capacity"), experts = of(choice, "experts");
  const bool said = model.find("capacity=") != std::string::npos;
  if ((model.starts_with("hf:") && !said) || capacity * of(choice, "top_k") >= kShareInFull * experts) return;
  sheet.set("--moe-expert-capacity-factor", shortest_number(static_cast<double>(capacity) / kShareInFull));
}

}  // namespace

void megatron_model(const TrainingJob& job, Sheet& sheet) {
  const auto choice = zoo_choice(job.model);
  constexpr std::array<std::string_view, 3> kBuilt{"gpt", "llama", "moe"};
  if (!choice || std::ranges::find(kBuilt, choice->row->name) == kBuilt.end())
    return sheet.refuse("model", (job.model.empty() ? "nobody said which" : job.model + " is no decoder whose flags are known"),
                        "give --model zoo:gpt?..., zoo:llama?..., zoo:moe?..., a preset of them or hf:FOLDER");
  refuse_the_rest(*choice, sheet);
  for (const auto& [parameter, flag] : kSizeFlags) sheet.set(std::string(flag), std::to_string(of(*choice, parameter)));
  sheet.set("--tokenizer-type", "NullTokenizer");
  sheet.set("--max-position-embeddings", std::to_string(of(*choice, "seq")));
  const auto ffn = of(*choice, "ffn");
  sheet.set("--ffn-hidden-size", std::to_string(ffn != 0 ? ffn : 4 * of(*choice, "hidden")));
  sheet.set("--attention-dropout", "0");
  sheet.set("--hidden-dropout", "0");
  attention_flags(*choice, sheet);
  style_flags(*choice, sheet);
  expert_flags(*choice, sheet);
  if (of(*choice, "experts") != 0) capacity_flag(job.model, *choice, sheet);
  require_divisors(*choice, job.plan, sheet);
}

}  // namespace rehearsal::exchange
