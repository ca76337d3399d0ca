// The model of Megatron-LM's flags. Defaults are those of megatron/training/arguments.py.
#include <cmath>
#include <regex>

#include "base/parse_number.hpp"
#include "exchange/frameworks/imports.hpp"

namespace rehearsal::exchange {
namespace {

struct Sizes {
  Flags& flags;
  Found& found;
  graph::zoo::ZooChoice choice;

  void set(const char* parameter, std::int64_t value) { choice.values[parameter] = value; }
  [[nodiscard]] std::int64_t of(const char* parameter) const { return choice.values.find(parameter)->second; }
  void refuse(const char* flag, std::string problem, std::string remedy) { found.refuse(flag, std::move(problem), std::move(remedy)); }
  [[nodiscard]] std::int64_t required(const char* flag) {
    if (const auto value = flags.whole(flag)) return *value;
    refuse(flag, "is missing", flag == std::string_view("--vocab-size") ? "give it: the tokenizer's files are not read" : "give it");
    return 1;
  }
};

/// The zoo's row: with gated feed-forward layers, rotary positions and no biases "llama", and "moe" with experts; "gpt" with none of them.
const char* row_of(Flags& flags, Found& found) {
  const bool rotary =
      flags.text("--position-embedding-type").value_or("learned_absolute") == "rope" || flags.has("--use-rotary-position-embeddings");
  const bool gated = flags.has("--swiglu"), unbiased = flags.has("--disable-bias-linear"), experts = flags.has("--num-experts");
  const auto norm = flags.text("--normalization").value_or("LayerNorm");
  const bool decoder = rotary && gated && unbiased;
  if (norm != (decoder ? "RMSNorm" : "LayerNorm"))
    found.left_out.push_back({"--normalization", norm + " is taken as the other one, which reads and writes as much"});
  if (decoder) return experts ? "moe" : "llama";
  if (rotary || gated || unbiased || experts)
    found.refuse("--position-embedding-type",
                 "rope, --swiglu and --disable-bias-linear are only built together, and experts (--num-experts) only with them",
                 "give all three or none");
  return experts ? "moe" : rotary || gated ? "llama" : "gpt";
}

void read_attention(Sizes& s) {
  const auto heads = s.of("heads"), groups = s.flags.whole("--num-query-groups").value_or(1);
  if (s.flags.has("--group-query-attention") && groups != heads) s.set("kv_heads", groups);
  s.set("tied", s.flags.has("--untie-embeddings-and-output-weights") ? 0 : 1);
  if (s.choice.row->name == "gpt") {
    if (const auto width = s.flags.whole("--kv-channels"); width && *width * heads != s.of("hidden"))
      s.refuse("--kv-channels", "is " + std::to_string(*width), "a model with learned positions has --hidden-size / --num-attention-heads");
    if (s.flags.has("--rotary-base") || s.flags.has("--rotary-percent"))
      s.found.left_out.push_back({"--rotary-base, --rotary-percent", "positions are learned"});
    return;
  }
  s.set("head_dim", s.flags.whole("--kv-channels").value_or(0));
  if (s.of("head_dim") * heads == s.of("hidden")) s.set("head_dim", 0);
  s.set("qkv_bias", s.flags.has("--add-qkv-bias") ? 1 : 0);
  s.set("qk_norm", s.flags.has("--qk-layernorm") ? 1 : 0);
  s.set("theta", s.flags.whole("--rotary-base").value_or(10000));
  s.set("rotary", std::llround(100 * s.flags.number("--rotary-percent").value_or(1)));
  const auto window = s.flags.text("--window-size");
  if (!window) return;
  const auto before = parse_number<std::int64_t>(std::string_view(*window).substr(0, window->find(',')));
  if (!before || *before < 0 || !window->ends_with(",0"))
    return s.refuse("--window-size", "is " + *window, "write N,0: so many tokens before a token and none behind it");
  s.set("window", *before + 1);
}

/// Four times the width, two thirds of that in whole 64s where layers are gated.
std::int64_t usual_width(const Sizes& s) {
  const auto four = 4 * s.of("hidden");
  return s.choice.row->name == "gpt" ? four : four * 2 / 3 / 64 * 64;
}

/// "1" where every layer has experts, "([0]*3+[1]*58)" where the first three have none.
std::int64_t dense_layers(Sizes& s) {
  const auto text = s.flags.text("--moe-layer-freq").value_or("1");
  static const std::regex kFirst(R"(\(\[0\]\*(\d+)\+\[1\]\*\d+\))");
  constexpr std::size_t kLongest = 200;
  std::smatch m;
  if (text.size() < kLongest && std::regex_match(text, m, kFirst)) return parse_number<std::int64_t>(m[1].str()).value_or(0);
  if (text != "1" && text != "([1]*" + std::to_string(s.of("layers")) + ")")
    s.refuse("--moe-layer-freq", "is " + text, "write 1, or ([0]*N+[1]*M): the first N layers without experts");
  return 0;
}

void read_experts(Sizes& s) {
  if (s.choice.row->name != "moe") return;
  s.set("experts", s.required("--num-experts"));
  s.set("top_k", s.flags.whole("--moe-router-topk").value_or(2));
  const auto width = s.flags.whole("--moe-ffn-hidden-size").value_or(s.of("ffn"));
  s.set("moe_ffn", width == s.of("ffn") ? 0 : width);
  // Without a factor no token is dropped: every expert has room for all.
  const double all = static_cast<double>(s.of("experts")) / static_cast<double>(std::max(std::int64_t{1}, s.of("top_k")));
  s.set("capacity", std::llround(100 * s.flags.number("--moe-expert-capacity-factor").value_or(all)));
  s.set("dense_layers", dense_layers(s));
  const auto shared = s.flags.whole("--moe-shared-expert-intermediate-size").value_or(0);
  if (width < 1 || shared % width != 0)
    s.refuse("--moe-shared-expert-intermediate-size", "is no multiple of --moe-ffn-hidden-size",
             "shared experts are as wide as the others");
  else
    s.set("shared_experts", shared / width);
  if (const auto dispatcher = s.flags.text("--moe-token-dispatcher-type"); dispatcher.value_or("alltoall") != "alltoall")
    s.refuse("--moe-token-dispatcher-type", "is " + *dispatcher, "use alltoall");
}

/// The tokenizer's files are not read; GPT-2's has one size.
std::int64_t words_of(Sizes& s) {
  constexpr std::int64_t kGpt2 = 50257;
  const bool gpt2 = s.flags.text("--tokenizer-type").value_or(s.flags.has("--merge-file") ? "GPT2BPETokenizer" : "") == "GPT2BPETokenizer";
  if (!gpt2 || s.flags.has("--vocab-size")) return s.required("--vocab-size");
  s.found.left_out.push_back({"--tokenizer-type", "GPT-2's has 50257 words; nothing is added to make it divisible"});
  return kGpt2;
}

}  // namespace

std::string short_reference(const graph::zoo::ZooChoice& choice) {
  std::string text = "zoo:" + std::string(choice.row->name);
  char sign = '?';
  for (const auto& parameter : choice.row->parameters) {
    const auto value = choice.values.find(parameter.name)->second;
    if (parameter.name == "batch" || value == parameter.otherwise) continue;
    text += sign + std::string(parameter.name) + "=" + std::to_string(value);
    sign = '&';
  }
  return text;
}

void read_megatron_model(Flags& flags, Found& found) {
  Sizes s{flags, found, graph::zoo::parse(row_of(flags, found))};
  s.set("layers", s.required("--num-layers"));
  s.set("hidden", s.required("--hidden-size"));
  s.set("heads", s.required("--num-attention-heads"));
  s.set("seq", s.required("--seq-length"));
  s.set("vocab", words_of(s));
  s.set("kv_heads", 0);
  const auto width = flags.whole("--ffn-hidden-size").value_or(usual_width(s));
  s.set("ffn", s.choice.row->name == "gpt" && width == 4 * s.of("hidden") ? 0 : width);
  read_attention(s);
  read_experts(s);
  found.job.model = short_reference(s.choice);
  if (found.refusals.empty()) static_cast<void>(graph::zoo::parse(found.job.model));  // refuses sizes that no model has
}

}  // namespace rehearsal::exchange
