#include "validation/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <regex>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "validation/known_models.hpp"

namespace rehearsal::validation {
namespace {

bool in_zoo(std::string_view name) {
  const auto rows = graph::zoo::zoo_table();
  return std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
}

/// The first of several names that the zoo has.
std::optional<std::string> first_in_zoo(std::initializer_list<std::string> names) {
  for (const auto& name : names)
    if (in_zoo(name)) return name;
  return std::nullopt;
}

std::int64_t whole(const Record& r, const char* key, double otherwise) {
  const double value = r.model.number_or(key, otherwise);
  if (value < 0 || value > 1e9 || value != std::floor(value)) throw Refusal(std::string("model.") + key + ": must be a whole number");
  return static_cast<std::int64_t>(value);
}

std::string transformer_kind(const Record& r, const std::string& name) {
  const auto family = r.model.text("family");
  if (holds(name, "bert") || holds(name, "electra") || family == "bert") return "bert";
  if (r.model.has("mem_len") || holds_any(name, {"transformer-xl", "transformerxl", "txl-"})) return "transformer-xl";
  for (const char* mark : {"llama", "mixtral", "qwen", "mistral", "deepseek", "gemma", "phi-3", "olmo", "gpt-oss", "yi-"})
    if (holds(name, mark) || holds(family, mark)) return "llama";
  if (family == "gpt-mpt" || holds(name, "mpt-")) return "mpt";
  for (const char* mark : {"neox", "pythia", "gpt-j"})
    if (holds(name, mark) || holds(family, mark)) return "gpt-neox";
  return "gpt";
}

/// The table's shape, unless the record gives another of its own: then nothing of the table holds. Where it gives none and no table has it,
/// the usual one of as many parameters.
std::optional<KnownShape> shape_behind(const Record& r, const std::string& name) {
  const auto known = known_shape(name);
  const auto differs = [&](const char* key, int of_table) { return r.model.number_or(key, of_table) != of_table; };
  const bool other = known && (differs("layers", known->layers) || differs("hidden", known->hidden) || differs("heads", known->heads));
  if (known) return other ? std::nullopt : known;
  const bool given = r.model.number("layers") && r.model.number("hidden");
  return given ? std::nullopt : shape_of_size(name, r.model.number_or("params", 0));
}

/// Tokens of a sample where neither record nor table says it.
double usual_length(const std::string& kind, const std::string& name) {
  if (kind == "bert") return 128;
  return kind == "llama" || holds(name, "nemotron") ? 4096 : 2048;
}

/// Half of 8/3 hidden twice, in whole 256s: what gated feed-forward layers have where nothing is said (Shazeer 2020).
double usual_width(const std::string& kind, double hidden) { return kind == "llama" ? std::ceil(8 * hidden / 3 / 256) * 256 : 4 * hidden; }

/// Published tables have 40 heads beside a hidden size of 5140, where 40 of 128 are meant (Brown et al. 2020, table 2.1).
bool nearly_whole(std::int64_t hidden, std::int64_t heads) {
  constexpr double kStep = 8, kNear = 0.01;
  const double width = static_cast<double>(hidden) / static_cast<double>(heads), meant = std::round(width / kStep) * kStep;
  return std::fabs(meant / width - 1) <= kNear;
}

/// Heads that the zoo can build: whole features (pairs where positions rotate them), groups of equal size. The nearest number where those
/// that are usual do not fit; what a record itself says is refused. Heads with a width of their own fit in any number, and latent
/// attention has no groups.
void fit_heads(const Record& r, RecordModel& model, bool rotary) {
  auto& heads = model.values["heads"];
  auto& groups = model.values["kv_heads"];
  const auto hidden = model.values.at("hidden");
  const auto given = [&](const char* key) { return model.values.contains(key) && model.values.at(key) > 0; };
  if (given("kv_lora")) return;
  const auto fits = [&](std::int64_t h) { return h > 0 && hidden % h == 0 && (!rotary || hidden / h % 2 == 0); };
  if (!given("head_dim")) {
    if (r.model.number_or("heads", 0) > 0 && !fits(heads) && !nearly_whole(hidden, heads))
      throw Refusal("model.heads: " + std::to_string(heads) + " do not share out hidden=" + std::to_string(hidden) +
                    (rotary ? " in pairs of features" : "") + ", and kv_channels does not say how wide they are");
    heads = std::clamp<std::int64_t>(heads, 1, std::max<std::int64_t>(1, hidden / 2));
    for (std::int64_t away = 0; away < hidden && !fits(heads); ++away) {
      if (fits(heads + away)) heads += away;
      if (fits(heads - away)) heads -= away;
    }
  }
  if (r.model.number_or("kv_heads", 0) > 0 && heads % groups != 0)
    throw Refusal("model.kv_heads: " + std::to_string(groups) + " do not divide heads=" + std::to_string(heads));
  groups = std::clamp<std::int64_t>(groups, 1, heads);
  while (heads % groups != 0) --groups;
}

/// "mla (q_lora 1536, kv_lora 512, qk 128+64 rope, v 128)": widths of multi-head latent attention; those of DeepSeek-V3 where a record only
/// says that it is one.
void set_latent_attention(const std::string& attention, RecordModel& model) {
  if (!attention.starts_with("mla")) return;
  struct Part {
    const char *key, *pattern;
    std::int64_t usual;
  };
  for (const auto& [key, pattern, usual] :
       {Part{"q_lora", R"(q_lora (\d+))", 1536}, Part{"kv_lora", R"(kv_lora (\d+))", 512}, Part{"nope_dim", R"(qk (\d+))", 128},
        Part{"rope_dim", R"(qk \d+\+(\d+))", 64}, Part{"v_dim", R"(\bv (\d+))", 128}}) {
    std::smatch found;
    model.values[key] = std::regex_search(attention, found, std::regex(pattern)) ? std::atoll(found[1].str().c_str()) : usual;
  }
}

/// What a record says beside the shape that all transformers have, over what its name says.
void set_details(const Record& r, const std::string& name, const std::optional<KnownShape>& known, RecordModel& model) {
  if (known) model.values.insert(known->more.begin(), known->more.end());
  const auto take = [&](const char* key, const char* of_record) {
    if (r.model.number(of_record)) model.values[key] = whole(r, of_record, 0);
  };
  take("head_dim", "kv_channels");
  take("tied", "tied_embeddings");
  take("qkv_bias", "qkv_bias");
  set_latent_attention(r.model.text("attn"), model);
  if (model.values.contains("kv_lora") && model.values.at("kv_lora") > 0) {
    model.values.erase("head_dim");
    model.values["kv_heads"] = 0;
  }
  take("experts", "experts");
  if (!model.values.contains("experts")) return;
  if (model.values.at("experts") < 2) return void(model.values.erase("experts"));
  take("top_k", "topk");
  take("top_k", "experts_topk");
  take("moe_ffn", "moe_ffn");
  take("shared_experts", "shared_experts");
  take("dense_layers", "dense_layers");
  if (const auto dense = model.values.find("dense_layers"); dense != model.values.end() && dense->second > model.values.at("layers"))
    throw Refusal("model.dense_layers: is " + std::to_string(dense->second) +
                  ", more than layers=" + std::to_string(model.values.at("layers")));
  if (holds(name, "w/-mtp")) model.values["mtp"] = 1;
  model.values["capacity"] = 100;  // balanced routing: as many rows as tokens choose
  const auto top_k = model.values.try_emplace("top_k", 2).first->second, experts = model.values.at("experts");
  if (top_k < 1 || top_k > experts)
    throw Refusal("model.experts_topk: " + std::to_string(top_k) + " must be from 1 to experts=" + std::to_string(experts));
}

/// Recipes of LoRA adapt the projections of attention, unless they name those of the feed-forward layer, too (Hu et al. 2021, section 4.2;
/// MLPerf's and Megatron-LM's have a rank of 16).
std::optional<graph::AdapterOptions> adapters_of(const Record& r, const std::string& name) {
  constexpr double kUsualRank = 16, kLargestRank = 1e6;
  const bool stated = r.plan.number("lora") || !r.plan.text("lora").empty(), has = holds(name, "lora") || r.plan.truth("lora");
  const double rank = r.plan.number_or("lora_rank", has ? kUsualRank : 0);
  if (!has && (stated || rank == 0)) return std::nullopt;
  if (!(rank >= 1 && rank <= kLargestRank) || rank != std::floor(rank))
    throw Refusal("plan.lora_rank: is " + r.plan.written("lora_rank") + "; it must be a whole number from 1 up");
  graph::AdapterOptions options;
  options.rank = static_cast<std::int64_t>(rank);
  if (!holds_any(r.plan.text("lora_targets"), {"up", "gate", "down", "fc", "mlp", "linear", "all"})) options.targets = {"*att*n*"};
  return options;
}

RecordModel transformer(const Record& r, const std::string& name) {
  RecordModel model;
  const auto known = shape_behind(r, name);
  const auto take = [&](const char* key, int KnownShape::*of_table, double otherwise) {
    const auto value = whole(r, key, known && (*known).*of_table > 0 ? (*known).*of_table : otherwise);
    return value > 0 ? value : static_cast<std::int64_t>(otherwise);
  };
  const auto layers = take("layers", &KnownShape::layers, 0), hidden = take("hidden", &KnownShape::hidden, 0);
  if (layers < 1) throw Refusal("model.layers: is missing, and '" + name + "' is not known by name");
  if (hidden < 1) throw Refusal("model.hidden: is missing, and '" + name + "' is not known by name");
  const auto kind = transformer_kind(r, name);
  const auto wide = static_cast<double>(hidden);
  const auto heads = take("heads", &KnownShape::heads, std::max(1.0, std::floor(wide / (wide < 2048 ? 64 : 128))));
  const auto seq = take("seq", &KnownShape::seq, usual_length(kind, name));
  model.shape_assumed = (known && known->name.empty()) || (!r.model.number("seq") && kind != "bert");
  model.values = {{"layers", layers},
                  {"hidden", hidden},
                  {"heads", heads},
                  {"kv_heads", take("kv_heads", &KnownShape::kv_heads, static_cast<double>(heads))},
                  {"ffn", take("ffn", &KnownShape::ffn, usual_width(kind, wide))},
                  {"seq", seq},
                  {"vocab", take("vocab", &KnownShape::vocab,
                                 kind == "bert"    ? 30522
                                 : kind == "llama" ? 32000
                                                   : 50257)}};
  set_details(r, name, known, model);
  fit_heads(r, model, kind == "llama" || kind == "gpt-neox" || model.values.contains("experts"));
  const bool experts = model.values.contains("experts");
  if (kind == "transformer-xl") model.values["mem_len"] = whole(r, "mem_len", static_cast<double>(seq));
  const auto zoo = experts ? first_in_zoo({"moe"}) : first_in_zoo({kind, "gpt"});
  if (!zoo) throw Refusal("model.name: the zoo has no generator for '" + name + "'");
  model.zoo = *zoo;
  // A quarter of a head turns in pairs only where a head has eight features or a multiple.
  if (*zoo == "gpt-neox" && model.values.at("hidden") / model.values.at("heads") % 8 != 0) model.values["rotary"] = 100;
  model.sequence = true;
  model.encoder = kind == "bert";
  model.seq = static_cast<double>(seq);
  model.block_alone = layers == 1 && !r.model.has("vocab");
  if (model.block_alone) model.values["layers"] = 2;  // a repetition shows where the block begins and ends
  model.adapters = adapters_of(r, name);
  return model;
}

/// Decoders with state-space layers: records give no sizes of these, so that they are known by name alone.
struct HybridRow {
  const char *name, *preset;
};
constexpr HybridRow kHybrids[] = {{"nemotron-3-nano", "nemotron3-nano"},
                                  {"nemotron-3-5-lightning", "nemotron3-nano"},
                                  {"nemotron-3-super", "nemotron3-super"},
                                  {"nemotron-3-ultra", "nemotron3-ultra"},
                                  {"nemotron-h-56b", "nemotron-h-56b"}};

bool is_hybrid(const Record& r, const std::string& name) {
  return holds(r.model.text("family"), "mamba") ||
         std::ranges::any_of(kHybrids, [&](const HybridRow& row) { return holds(name, row.name); });
}

RecordModel hybrid(const Record& r, const std::string& name) {
  const auto* row = std::ranges::find_if(kHybrids, [&](const HybridRow& known) { return holds(name, known.name); });
  if (row == std::end(kHybrids))
    throw Refusal("model.name: the sizes of the state-space layers of '" + r.model.text("name") + "' are not known");
  const auto choice = graph::zoo::parse(row->preset);
  RecordModel model;
  model.zoo = choice.row->name;
  model.values.insert(choice.values.begin(), choice.values.end());
  model.values.erase("batch");
  model.values["capacity"] = 100;  // balanced routing, as of other experts
  if (r.model.number("seq")) model.values["seq"] = whole(r, "seq", 0);
  model.shape_assumed = !r.model.number("seq");
  model.sequence = true;
  model.seq = static_cast<double>(model.values.at("seq"));
  model.adapters = adapters_of(r, name);
  return model;
}

/// Sides of "128x128x128x4" (depth, height, width, channels) as the cube or square of equal volume that a network halving its image
/// `depth` times takes.
void set_volume(RecordModel& model, const Record& r) {
  const auto text = r.model.text("image");
  std::vector<double> sizes;
  for (std::size_t at = 0; at < text.size();) {
    sizes.push_back(std::atof(text.c_str() + at));
    at = std::min(text.find('x', at), text.size() - 1) + 1;
  }
  const bool volume = holds(model.zoo, "3d");
  const std::size_t axes = volume ? 3 : 2;
  if (sizes.size() == axes + 1) model.values["in_channels"] = static_cast<std::int64_t>(sizes.back());
  double side = sizes.empty() ? 0 : sizes.front();
  if (sizes.size() > axes) {
    double product = 1;
    for (std::size_t i = 0; i < axes; ++i) product *= sizes[i];
    side = std::pow(product, 1.0 / static_cast<double>(axes));
  }
  if (side < 1) return;
  constexpr int kDeepest = 5;
  constexpr double kNear = 0.03;
  for (int depth = kDeepest; depth > 2; --depth) {
    const double step = std::exp2(depth), near = std::round(side / step) * step;
    if (std::fabs(near / side - 1) > kNear && depth > 3) continue;
    model.values["image"] = static_cast<std::int64_t>(near);
    model.values["depth"] = depth;
    return;
  }
}

RecordModel image_model(const Record& r, const std::string& name) {
  auto found = known_vision_model(name);
  if (!found) throw Refusal("model.name: the zoo has no generator for '" + r.model.text("name") + "'");
  RecordModel model = *found;
  if (holds(model.zoo, "nnunet") || holds(model.zoo, "unet3d"))
    set_volume(model, r);
  else if (const auto image = r.model.number("image"); image && *image >= 1 && model.zoo != "diffusion")
    model.values["image"] = whole(r, "image", 224);
  // Networks for tiny images do not halve them in their stem, which the zoo's do twice.
  constexpr std::int64_t kTiny = 40, kStem = 4;
  const auto size = model.values.find("image");
  if (size != model.values.end() && size->second <= kTiny && !model.values.contains("patch")) size->second *= kStem;
  return model;
}

/// Sizes of encoders with decoders that are known by name.
struct PairRow {
  const char* pattern;
  int layers, hidden, heads, kv_channels, ffn, vocab;
  bool gated;
};
constexpr PairRow kPairs[] = {
    {"mt5.*small", 8, 512, 6, 64, 1024, 250112, true},
    {"mt5.*base", 12, 768, 12, 64, 2048, 250112, true},
    {"mt5.*large", 24, 1024, 16, 64, 2816, 250112, true},
    {"mt5.*(xxl|13b)", 24, 4096, 64, 64, 10240, 250112, true},
    {"mt5.*(xl|3\\.7b)", 24, 2048, 32, 64, 5120, 250112, true},
    {"(flan|1\\.1).*(xxl|11b)", 24, 4096, 64, 64, 10240, 32128, true},
    {"(flan|1\\.1).*(xl|3b)", 24, 2048, 32, 64, 5120, 32128, true},
    {"t5.*small", 6, 512, 8, 64, 2048, 32128, false},
    {"t5.*base", 12, 768, 12, 64, 3072, 32128, false},
    {"t5.*large", 24, 1024, 16, 64, 4096, 32128, false},
    {"t5.*3b", 24, 1024, 32, 128, 16384, 32128, false},
    {"t5.*11b", 24, 1024, 128, 128, 65536, 32128, false},
    {"ul2", 32, 4096, 16, 256, 16384, 32128, true},
    {"m?bart.*large", 12, 1024, 16, 64, 4096, 50265, false},
    {"m?bart.*base", 6, 768, 12, 64, 3072, 50265, false},
};

void take_pair(RecordModel& model, const std::string& name) {
  const auto* row =
      std::find_if(std::begin(kPairs), std::end(kPairs), [&](const PairRow& p) { return std::regex_search(name, std::regex(p.pattern)); });
  if (row == std::end(kPairs)) return;
  model.values = {{"enc_layers", row->layers}, {"dec_layers", row->layers},       {"hidden", row->hidden}, {"heads", row->heads},
                  {"ffn", row->ffn},           {"kv_channels", row->kv_channels}, {"vocab", row->vocab},   {"gated", row->gated ? 1 : 0}};
}

/// Encoders with decoders: T5 and its like by shape or name, the translation Transformer by its name.
RecordModel encoder_decoder(const Record& r, const std::string& name) {
  RecordModel model;
  const bool translation = !holds_any(name, {"t5", "ul2", "bart"}) && !r.model.has("enc_seq");
  const auto zoo = first_in_zoo({translation ? "transformer" : "t5"});
  if (!zoo) throw Refusal("model.name: the zoo has no generator for '" + r.model.text("name") + "'");
  model.zoo = *zoo;
  model.sequence = true;
  constexpr double kSentence = 30;  // mean tokens of a sentence of WMT
  take_pair(model, name);
  const bool named = !model.values.empty() || holds(name, "transformer") || holds_any(name, {"t5", "bart"});
  if (!named && !r.model.number("hidden")) throw Refusal("model.hidden: is missing, and '" + name + "' is not known by name");
  if (translation && holds(name, "base")) model.values = {{"hidden", 512}, {"heads", 8}, {"ffn", 2048}};  // Vaswani et al. 2017, table 3
  for (const char* key : {"enc_layers", "dec_layers", "hidden", "heads", "ffn", "vocab", "kv_channels", "enc_seq", "dec_seq"})
    if (r.model.number(key)) model.values[key] = whole(r, key, 0);
  if (translation) model.values["enc_seq"] = model.values["dec_seq"] = static_cast<std::int64_t>(kSentence);
  if (!translation && (holds(name, "mt5") || holds(name, "1.1"))) model.values["gated"] = 1;
  model.translation = translation;
  model.seq = translation ? kSentence : r.model.number_or("enc_seq", 512) + r.model.number_or("dec_seq", 128);
  return model;
}

/// GNMT (Wu et al. 2016): a recurrent encoder and decoder of sentences. A batch takes as many time steps as its longest
/// sentence; what is counted are the tokens that the sentences have.
RecordModel recurrent_translator(const Record& r, const std::string& name) {
  constexpr double kSource = 26, kResult = 28;  // mean tokens of WMT 16 en-de, byte pairs, up to 50
  // Tokens a place of a batch, where sentences of up to 50 tokens are drawn from five buckets by their length, as NVIDIA's
  // examples and MLPerf's reference do: 0.80 to 0.82 for lognormal lengths of that mean and half to 0.7 of spread.
  constexpr double kFilled = 0.8;
  RecordModel model;
  model.zoo = "gnmt";
  const auto layers = name.find_first_of("0123456789") == std::string::npos || holds(name, "v2")
                          ? 8
                          : std::atoi(name.c_str() + name.find_first_of("0123456789"));
  model.values = {{"layers", std::max(2, layers / 2)},
                  {"hidden", whole(r, "hidden", 1024)},
                  {"vocab", whole(r, "vocab", 32320)},
                  {"enc_seq", std::llround(kSource / kFilled)},
                  {"dec_seq", std::llround(kResult / kFilled)}};
  model.sequence = true;
  model.seq = kSource + kResult;
  return model;
}

/// The model in the zoo's own words, with every value as it stands there.
RecordModel zoo_model(const Record& r) {
  RecordModel model;
  try {
    const auto choice = graph::zoo::parse(r.model.written("zoo"));
    model.zoo = choice.row->name;
    model.values.insert(choice.values.begin(), choice.values.end());
  } catch (const BadInput& error) {
    throw Refusal(std::string("model.zoo: ") + error.what());
  }
  model.values.erase("batch");
  model.sequence = model.values.contains("seq");
  model.seq = model.sequence ? static_cast<double>(model.values.at("seq")) : 0;
  return model;
}

}  // namespace

RecordModel model_of(const Record& r) {
  if (r.model.has("zoo")) return zoo_model(r);
  const auto name = dashed(r.model.text("name"));
  const bool sized = names_decoder(name) && shape_of_size(name, 0);
  const bool transformer_like = r.model.number_or("hidden", 0) > 0 || known_shape(name) || sized || r.family.starts_with("transformer");
  const bool pair = r.model.has("enc_layers") || name == "transformer" || name.starts_with("transformer-b") ||
                    holds_any(name, {"t5-", "mt5", "ul2", "bart-", "t5x"}) || name == "t5";
  auto model = holds(name, "gnmt")  ? recurrent_translator(r, name)
               : pair               ? encoder_decoder(r, name)
               : is_hybrid(r, name) ? hybrid(r, name)
               : transformer_like   ? transformer(r, name)
                                    : image_model(r, name);
  model.epoch_samples = usual_epoch(name, model.seq);
  return model;
}

std::string zoo_reference(const RecordModel& model) {
  const auto choice = graph::zoo::parse(model.zoo);
  std::string text = "zoo:" + model.zoo;
  char sign = '?';
  for (const auto& [key, value] : model.values) {
    if (!choice.values.contains(key)) continue;
    text += sign + key + "=" + std::to_string(value);
    sign = '&';
  }
  return text;
}

}  // namespace rehearsal::validation
