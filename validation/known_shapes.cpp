#include <algorithm>
#include <array>
#include <cmath>
#include <regex>

#include "base/words.hpp"
#include "graph/zoo/zoo.hpp"
#include "validation/known_models.hpp"

namespace rehearsal::validation {
namespace {

// Shapes from the models' papers and the configurations published with their weights.
const KnownShape kShapes[] = {
    {"bert-large", 24, 1024, 16, 16, 4096, 30522, 0},
    {"bert-base", 12, 768, 12, 12, 3072, 30522, 0},
    {"roberta-large", 24, 1024, 16, 16, 4096, 50265, 512},
    {"roberta-base", 12, 768, 12, 12, 3072, 50265, 512},
    {"distilbert", 6, 768, 12, 12, 3072, 30522, 0},
    {"electra-base", 12, 768, 12, 12, 3072, 30522, 0},
    {"electra-large", 24, 1024, 16, 16, 4096, 30522, 0},
    {"gpt-neo-125m", 12, 768, 12, 12, 3072, 50257, 2048},
    {"gpt-neo-1.3b", 24, 2048, 16, 16, 8192, 50257, 2048},
    {"gpt-neo-2.7b", 32, 2560, 20, 20, 10240, 50257, 2048},
    {"gptj", 28, 4096, 16, 16, 16384, 50400, 2048},
    {"gpt-2-1.5b", 48, 1600, 25, 25, 6400, 50257, 1024},
    {"turing-nlg", 78, 4256, 28, 28, 17024, 51200, 1024},
    {"megatron-8.3b", 72, 3072, 24, 24, 12288, 51200, 1024},
    {"megatron-3.9b", 48, 2560, 40, 40, 10240, 30522, 512},
    {"pythia-70m", 6, 512, 8, 8, 2048, 50304, 2048},
    {"pythia-160m", 12, 768, 12, 12, 3072, 50304, 2048},
    {"pythia-410m", 24, 1024, 16, 16, 4096, 50304, 2048},
    {"pythia-1.4b", 24, 2048, 16, 16, 8192, 50304, 2048},
    {"pythia-2.8b", 32, 2560, 32, 32, 10240, 50304, 2048},
    {"opt-125m", 12, 768, 12, 12, 3072, 50272, 2048},
    {"opt-350m", 24, 1024, 16, 16, 4096, 50272, 2048},
    {"opt-2.7b", 32, 2560, 32, 32, 10240, 50272, 2048},
    {"bloom-560m", 24, 1024, 16, 16, 4096, 250880, 2048},
    {"bloom-1b7", 24, 2048, 16, 16, 8192, 250880, 2048},
    {"bloom-3b", 30, 2560, 32, 32, 10240, 250880, 2048},
    {"bloom-7b", 30, 4096, 32, 32, 16384, 250880, 2048},
    {"palm-8b", 32, 4096, 16, 1, 16384, 256000, 2048},
    {"palm-62b", 64, 8192, 32, 1, 32768, 256000, 2048},
    {"palm-540b", 118, 18432, 48, 1, 73728, 256000, 2048},
    {"chinchilla-70b", 80, 8192, 64, 64, 32768, 32000, 2048},
    {"gopher-280b", 80, 16384, 128, 128, 65536, 32000, 2048},
    {"lamda-137b", 64, 8192, 128, 128, 65536, 32000, 2048},
    {"falcon-180b", 80, 14848, 232, 8, 59392, 65024, 2048},
    {"mpt-1b", 24, 2048, 16, 16, 8192, 50432, 2048},
    {"starcoder2-15b", 40, 6144, 48, 4, 24576, 49152, 4096},
    {"codellama-34b", 48, 8192, 64, 8, 22016, 32016, 4096},
    {"qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936, 4096},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 151936, 4096},
    {"qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936, 4096},
    {"qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064, 4096},
    {"qwen-72b", 80, 8192, 64, 64, 24576, 152064, 4096},
    {"deepseek-67b", 95, 8192, 64, 8, 22016, 102400, 4096},
    {"phi-1.5", 24, 2048, 32, 32, 8192, 51200, 2048},
    {"phi-3-medium", 40, 5120, 40, 10, 17920, 32064, 4096},
    {"phi-4", 40, 5120, 40, 10, 17920, 100352, 4096},
    {"olmo-1b", 16, 2048, 16, 16, 8192, 50304, 2048},
    {"olmo-2-32b", 64, 5120, 40, 8, 27648, 100352, 4096},
    {"yi-34b", 60, 7168, 56, 8, 20480, 64000, 4096},
    {"baichuan2-13b", 40, 5120, 40, 40, 13696, 125696, 4096},
    {"chatglm-6b", 28, 4096, 32, 32, 16384, 130528, 2048},
    {"chatglm2-6b", 28, 4096, 32, 2, 13696, 65024, 4096},
    {"glm-10b", 48, 4096, 64, 64, 16384, 50304, 1024},
    {"grok-1", 64, 6144, 48, 8, 32768, 131072, 8192, {{"experts", 8}, {"top_k", 2}}},
    {"dbrx", 40, 6144, 48, 8, 10752, 100352, 4096, {{"experts", 16}, {"top_k", 4}}},
    {"smollm3-3b", 36, 2048, 16, 4, 11008, 128256, 4096},
    {"nemotron-4-340b", 96, 18432, 96, 8, 73728, 256000, 4096},
    {"transformer-xl-base", 16, 512, 8, 8, 2048, 0, 192},
    {"txl-base", 16, 512, 8, 8, 2048, 0, 192},
    {"transformer-xl-large", 18, 1024, 16, 16, 4096, 0, 384},
    {"txl-large", 18, 1024, 16, 16, 4096, 0, 384},
    {"albert-large", 24, 1024, 16, 16, 4096, 30000, 512},
    {"albert-xlarge", 24, 2048, 16, 16, 8192, 30000, 512},
    {"albert-xxlarge", 12, 4096, 64, 64, 16384, 30000, 512},
    {"bert-huge", 32, 1280, 16, 16, 5120, 30522, 512},
    {"gpt2-xl", 48, 1600, 25, 25, 6400, 50257, 1024},
    {"gpt2-large", 36, 1280, 20, 20, 5120, 50257, 1024},
    {"gpt2-medium", 24, 1024, 16, 16, 4096, 50257, 1024},
    {"gpt2-small", 12, 768, 12, 12, 3072, 50257, 1024},
    {"gpt-3-175b", 96, 12288, 96, 96, 49152, 51200, 2048},
    {"neox-20b", 44, 6144, 64, 64, 24576, 50432, 2048},
    {"pythia-1b", 16, 2048, 8, 8, 8192, 50304, 2048},
    {"pythia-6.9b", 32, 4096, 32, 32, 16384, 50432, 2048},
    {"pythia-12b", 36, 5120, 40, 40, 20480, 50688, 2048},
    {"opt-1.3b", 24, 2048, 32, 32, 8192, 50272, 2048},
    {"opt-6.7b", 32, 4096, 32, 32, 16384, 50272, 2048},
    {"opt-13b", 40, 5120, 40, 40, 20480, 50272, 2048},
    {"opt-30b", 48, 7168, 56, 56, 28672, 50272, 2048},
    {"opt-66b", 64, 9216, 72, 72, 36864, 50272, 2048},
    {"opt-175b", 96, 12288, 96, 96, 49152, 50272, 2048},
    {"bloom-176b", 70, 14336, 112, 112, 57344, 250880, 2048},
    {"bloom-7b1", 30, 4096, 32, 32, 16384, 250880, 2048},
    {"mt-nlg-530b", 105, 20480, 128, 128, 81920, 51200, 2048},
    {"falcon-7b", 32, 4544, 71, 1, 18176, 65024, 2048},
    {"falcon-40b", 60, 8192, 128, 8, 32768, 65024, 2048},
    {"mpt-7b", 32, 4096, 32, 32, 16384, 50432, 2048},
    {"mpt-30b", 48, 7168, 64, 64, 28672, 50432, 8192},
    {"glm-130b", 70, 12288, 96, 96, 32768, 150528, 2048},
    {"starcoderbase-15.5b", 40, 6144, 48, 1, 24576, 49152, 8192},
    {"phi-2", 32, 2560, 32, 32, 10240, 51200, 2048},
    {"phi-3-mini", 32, 3072, 32, 32, 8192, 32064, 4096},
    {"nemotron-8b", 32, 4096, 32, 32, 16384, 256000, 4096},
    {"nemotron-4-15b", 32, 6144, 48, 8, 24576, 256000, 4096},
    {"nemotron-340b", 96, 18432, 96, 8, 73728, 256000, 4096},
    {"olmo-7b", 32, 4096, 32, 32, 11008, 50304, 2048},
    {"olmo1-7b", 32, 4096, 32, 32, 11008, 50304, 2048},
    {"tinyllama", 22, 2048, 32, 4, 5632, 32000, 2048},
    {"llama-1b", 16, 2048, 32, 8, 8192, 128256, 4096},
    {"llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 8192},
    {"llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, 8192},
    {"llama-7b", 32, 4096, 32, 32, 11008, 32000, 2048},
    {"llama-13b", 40, 5120, 40, 40, 13824, 32000, 2048},
    {"llama-30b", 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama-33b", 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama-65b", 80, 8192, 64, 64, 22016, 32000, 2048},
    {"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096},
    {"llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 4096},
    {"llama-2-34b", 48, 8192, 64, 8, 22016, 32000, 4096},
    {"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096},
    {"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8192},
    {"llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 8192},
    {"llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama-3.1-70b", 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama-3.3-70b", 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256, 8192},
    {"llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192},
};

/// Models that the zoo has by size, and what it calls those that have another name there.
constexpr std::string_view kPresets =
    "gemma-2b gemma-7b gemma2-2b gemma2-9b gemma2-27b gemma3-4b gemma3-12b gemma3-27b olmo2-7b olmo2-13b glm4.5-air "
    "mistral-nemo mixtral-8x7b mixtral-8x22b mistral-7b qwen2.5-7b qwen2.5-32b qwen2.5-72b qwen3-0.6b qwen3-1.7b qwen3-4b "
    "qwen3-8b qwen3-14b qwen3-32b gpt-oss-20b gpt-oss-120b llama4-scout llama4-maverick deepseek-moe-16b deepseek-v2 "
    "deepseek-v2-lite deepseek-v3 kimi-k2";
struct PresetRow {
  std::string_view name, preset;
};
constexpr PresetRow kRenamedPresets[] = {
    {"qwen2-7b", "qwen2.5-7b"},        {"qwen2-72b", "qwen2.5-72b"},   {"qwen3-30b", "qwen3-30b-a3b"},
    {"qwen3-235b", "qwen3-235b-a22b"}, {"deepseek-r1", "deepseek-v3"},
};

std::vector<PresetRow> preset_rows() {
  std::vector<PresetRow> rows(std::begin(kRenamedPresets), std::end(kRenamedPresets));
  for (const auto name : words_of(kPresets)) rows.push_back({name, name});
  return rows;
}

/// The sizes of a preset; what a KnownShape has no member for is in `more`.
KnownShape shape_of(const PresetRow& row) {
  auto values = graph::zoo::parse(row.preset).values;
  const auto take = [&](const char* key) {
    const auto value = static_cast<int>(values.at(key));
    values.erase(values.find(key));
    return value;
  };
  KnownShape shape{row.name, take("layers"), take("hidden"), take("heads"), take("kv_heads"), take("ffn"), take("vocab"), take("seq")};
  for (const char* key : {"batch", "capacity", "balance", "mtp", "theta", "rotary", "window", "window_every"}) values.erase(key);
  shape.more.insert(values.begin(), values.end());
  return shape;
}

/// What a family is called without a size: its usual member. The whole name.
const KnownShape kPlain[] = {
    {"gpt2", 12, 768, 12, 12, 3072, 50257, 1024},       {"gpt3", 96, 12288, 96, 96, 49152, 51200, 2048},
    {"transformer-xl", 16, 512, 8, 8, 2048, 0, 192},    {"bert", 24, 1024, 16, 16, 4096, 30522, 0},
    {"roberta", 12, 768, 12, 12, 3072, 50265, 512},     {"bloom", 70, 14336, 112, 112, 57344, 250880, 2048},
    {"gpt-neox", 44, 6144, 64, 64, 24576, 50432, 2048}, {"starcoder", 40, 6144, 48, 1, 24576, 49152, 8192},
};

/// Decoders by size: Brown et al. 2020 (table 2.1) to 13 B, Narayanan et al. 2021 (table 1) above. Of equal parameters other families
/// differ little in time.
struct SizeRow {
  double billions;
  int layers, hidden, heads;
};
constexpr std::array<SizeRow, 17> kSizes{{{0.125, 12, 768, 12},
                                          {0.35, 24, 1024, 16},
                                          {0.76, 24, 1536, 16},
                                          {1.3, 24, 2048, 16},
                                          {2.7, 32, 2560, 32},
                                          {3.6, 30, 3072, 32},
                                          {6.7, 32, 4096, 32},
                                          {13, 40, 5120, 40},
                                          {18.4, 40, 6144, 48},
                                          {30, 48, 7168, 56},
                                          {39.1, 48, 8192, 64},
                                          {65, 80, 8192, 64},
                                          {76.1, 60, 10240, 80},
                                          {145.6, 80, 12288, 96},
                                          {175, 96, 12288, 96},
                                          {310.1, 96, 16384, 128},
                                          {529.6, 105, 20480, 128}}};

/// A name with the dashes between its numbers only: "gpt-2-xl" and "gpt2-xl" are one, "llama-3-3b" and "llama-33b" are not.
std::string without_needless_dashes(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  std::string kept;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool between = i > 0 && i + 1 < name.size() && holds(kDigits, name.substr(i - 1, 1)) && holds(kDigits, name.substr(i + 1, 1));
    if (name[i] != '-' || between) kept += name[i];
  }
  return kept;
}

/// Billions of parameters in a name ("13b", "1.5B", "350m", "1t"); 0: none.
double billions_in(const std::string& name) {
  static const std::regex kSize(R"((?:^|[^a-z0-9.])(\d+(?:\.\d+)?)(m|b|t)(?![a-z0-9]))");
  std::smatch m;
  if (!std::regex_search(name, m, kSize)) return 0;
  const double scale = m[2] == "m" ? 1e-3 : m[2] == "t" ? 1e3 : 1;
  return std::stod(m[1]) * scale;
}

}  // namespace

std::optional<KnownShape> known_shape(const std::string& name) {
  const auto wanted = without_needless_dashes(name);
  const auto matched = [&](const auto& row) {
    const auto own = without_needless_dashes(row.name);
    return holds(wanted, own) ? own.size() : 0;
  };
  const auto& best = *std::ranges::max_element(kShapes, {}, matched);
  const auto presets = preset_rows();
  const auto& preset = *std::ranges::max_element(presets, {}, matched);
  if (matched(preset) > 0 && matched(preset) >= matched(best)) return shape_of(preset);
  if (matched(best) > 0) return best;
  const auto* plain = std::ranges::find_if(kPlain, [&](const KnownShape& row) { return without_needless_dashes(row.name) == wanted; });
  return plain == std::end(kPlain) ? std::nullopt : std::optional(*plain);
}

std::optional<KnownShape> shape_of_size(const std::string& name, double parameters) {
  constexpr double kBillion = 1e9, kLeast = 0.05, kMost = 2000;
  const double named = billions_in(name), billions = named > 0 ? named : parameters / kBillion;
  if (!(billions >= kLeast && billions <= kMost)) return std::nullopt;
  const auto distance = [&](const SizeRow& row) { return std::fabs(std::log(row.billions / billions)); };
  const auto& near =
      *std::min_element(kSizes.begin(), kSizes.end(), [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  const int layers = std::max(1, static_cast<int>(std::lround(near.layers * billions / near.billions)));
  return KnownShape{"", layers, near.hidden, near.heads, near.heads, 0, 0, 0};
}

bool names_decoder(const std::string& name) {
  return holds_any(name, {"gpt",      "llama",      "opt-",   "bloom",    "mistral",   "qwen",    "deepseek", "gemma",     "palm",
                          "lm-",      "glm",        "mpt-",   "falcon",   "starcoder", "codegen", "phi-",     "olmo",      "yi-",
                          "baichuan", "pythia",     "dolly",  "pajama",   "nemotron",  "grok",    "granite",  "command-r", "vicuna",
                          "alpaca",   "chinchilla", "gopher", "megatron", "turing",    "stablelm"});
}

}  // namespace rehearsal::validation
