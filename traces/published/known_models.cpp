#include "traces/published/known_models.hpp"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "graph/zoo/zoo.hpp"

namespace rehearsal::traces::published {
namespace {

// Shapes from the models' papers and the configurations published with their weights.
constexpr Shape kShapes[] = {
    {"bert-large", 24, 1024, 16, 16, 4096, 30522, 0},
    {"bert-base", 12, 768, 12, 12, 3072, 30522, 0},
    {"roberta-large", 24, 1024, 16, 16, 4096, 50265, 512},
    {"roberta-base", 12, 768, 12, 12, 3072, 50265, 512},
    {"distilbert", 6, 768, 12, 12, 3072, 30522, 0},
    {"electra-base", 12, 768, 12, 12, 3072, 30522, 0},
    {"electra-large", 24, 1024, 16, 16, 4096, 30522, 0},
    {"gpt2-xl", 48, 1600, 25, 25, 6400, 50257, 1024},
    {"gpt-2-xl", 48, 1600, 25, 25, 6400, 50257, 1024},
    {"gpt2-large", 36, 1280, 20, 20, 5120, 50257, 1024},
    {"gpt2-medium", 24, 1024, 16, 16, 4096, 50257, 1024},
    {"gpt-2-medium", 24, 1024, 16, 16, 4096, 50257, 1024},
    {"gpt2", 12, 768, 12, 12, 3072, 50257, 1024},
    {"gpt-2-small", 12, 768, 12, 12, 3072, 50257, 1024},
    {"gpt-3-175b", 96, 12288, 96, 96, 49152, 51200, 2048},
    {"gpt3-175b", 96, 12288, 96, 96, 49152, 51200, 2048},
    {"gpt-j", 28, 4096, 16, 16, 16384, 50400, 2048},
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
    {"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 4096, 8, 2},
    {"mixtral-8x22b", 56, 6144, 48, 8, 16384, 32768, 4096, 8, 2},
    {"mistral-7b", 32, 4096, 32, 8, 14336, 32000, 4096},
    {"qwen3-30b", 48, 2048, 32, 4, 768, 151936, 4096, 128, 8},
    {"qwen3-235b", 94, 4096, 64, 4, 1536, 151936, 4096, 128, 8},
    {"qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064, 4096},
    {"qwen2-7b", 28, 3584, 28, 4, 18944, 152064, 4096},
    {"qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064, 4096},
    {"qwen2.5-72b", 80, 8192, 64, 8, 29568, 152064, 4096},
    {"qwen2-72b", 80, 8192, 64, 8, 29568, 152064, 4096},
    {"qwen3-8b", 36, 4096, 32, 8, 12288, 151936, 4096},
    {"qwen3-32b", 64, 5120, 64, 8, 25600, 151936, 4096},
    {"gemma-2b", 18, 2048, 8, 1, 16384, 256000, 8192},
    {"gemma-7b", 28, 3072, 16, 16, 24576, 256000, 8192},
    {"gemma2-9b", 42, 3584, 16, 8, 14336, 256000, 8192},
    {"gemma-2-9b", 42, 3584, 16, 8, 14336, 256000, 8192},
    {"gemma2-27b", 46, 4608, 32, 16, 36864, 256000, 8192},
    {"phi-2", 32, 2560, 32, 32, 10240, 51200, 2048},
    {"phi-3-mini", 32, 3072, 32, 32, 8192, 32064, 4096},
    {"nemotron-8b", 32, 4096, 32, 32, 16384, 256000, 4096},
    {"nemotron-4-15b", 32, 6144, 48, 8, 24576, 256000, 4096},
    {"nemotron-340b", 96, 18432, 96, 8, 73728, 256000, 4096},
    {"olmo-7b", 32, 4096, 32, 32, 11008, 50304, 2048},
    {"olmo1-7b", 32, 4096, 32, 32, 11008, 50304, 2048},
    {"olmo2-7b", 32, 4096, 32, 32, 11008, 100352, 4096},
    {"olmo2-13b", 40, 5120, 40, 40, 13824, 100352, 4096},
    {"gpt-oss-20b", 24, 2880, 64, 8, 2880, 201088, 4096, 32, 4},
    {"gpt-oss-120b", 36, 2880, 64, 8, 2880, 201088, 4096, 128, 4},
    {"deepseek-moe-16b", 28, 2048, 16, 16, 1408, 102400, 4096, 64, 6},
    {"deepseek-v2-lite", 27, 2048, 16, 16, 1408, 102400, 4096, 64, 6},
    {"deepseekv3", 61, 7168, 128, 128, 2048, 129280, 4096, 256, 8},
    {"deepseek-v3", 61, 7168, 128, 128, 2048, 129280, 4096, 256, 8},
    {"tinyllama", 22, 2048, 32, 4, 5632, 32000, 2048},
    {"llama-1b", 16, 2048, 32, 8, 8192, 128256, 0},
    {"llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 0},
    {"llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 0},
    {"llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, 0},
    {"llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, 0},
    {"llama-7b", 32, 4096, 32, 32, 11008, 32000, 2048},
    {"llama-13b", 40, 5120, 40, 40, 13824, 32000, 2048},
    {"llama-30b", 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama-33b", 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama-65b", 80, 8192, 64, 64, 22016, 32000, 2048},
    {"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 0},
    {"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 0},
    {"llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 0},
    {"llama2-13b", 40, 5120, 40, 40, 13824, 32000, 0},
    {"llama-2-34b", 48, 8192, 64, 8, 22016, 32000, 0},
    {"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 0},
    {"llama2-70b", 80, 8192, 64, 8, 28672, 32000, 0},
    {"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 0},
    {"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 0},
    {"llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 0},
    {"llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 0},
    {"llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 0},
    {"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 0},
    {"llama-3.1-70b", 80, 8192, 64, 8, 28672, 128256, 0},
    {"llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 0},
    {"llama-3.3-70b", 80, 8192, 64, 8, 28672, 128256, 0},
    {"llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256, 0},
    {"llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, 0},
    {"llama3-405b", 126, 16384, 128, 8, 53248, 128256, 0},
};

struct ImageRow {
  const char* pattern;  ///< of the name, dashed
  const char* zoo;      ///< "$1" takes the first group
  const char* values = "";
};
/// The first that fits: detectors before their trunks, and a family's variants before its plain name.
const ImageRow kImages[] = {
    {R"(torchgpipe.*u-?net.*?\(b=(\d+), ?c=(\d+)\))", "unet2d_stacked", "convolutions=$1&channels=$2"},
    {R"(torchgpipe.*u-?net.*?\((\d+), ?-?(\d+)\))", "unet2d_stacked", "convolutions=$1&channels=$2"},
    {"ssd.*?(34|50)", "ssd300_resnet$1"},
    {"retina.*resnext", "retinanet_resnext50"},
    {"retina", "retinanet_resnet50"},
    {"mask|faster-?r-?cnn|cascade-?r-?cnn", "maskrcnn_trunk"},
    {"ronneberger|unet-2d", "unet2d_valid"},
    {"nnu-?net-2d", "nnunet2d"},
    {"nnu-?net-3d", "nnunet3d"},
    {"3d-?u-?net|unet-?3d", "unet3d"},
    {"(?:stable-diffusion(?!.*xl)|latent-diffusion)(?!-?3)|sd-?v?[12]\\b", "diffusion"},
    {"^u-?net(?:-?2d)?$", "unet2d"},
    {"conv-?next.*?(tiny|small|base|large)", "convnext_$1"},
    {"swin.*?(tiny|small|base|large)", "swin_$1"},
    {R"(swin-?(?:v2-?)?t\b)", "swin_tiny"},
    {R"(swin-?(?:v2-?)?s\b)", "swin_small"},
    {R"(swin-?(?:v2-?)?b\b)", "swin_base"},
    {R"(regnet-?([xy])-?(\d\d\d)\b)", "regnet$1_$2"},
    {R"(regnet-?([xy])-?(400|800)mf)", "regnet$1_00$2"},
    {R"(regnet-?([xy])-?(\d)[-_.](\d)gf)", "regnet$1_0$2$3"},
    {R"(regnet-?([xy])-?(8|4)\.?0?gf)", "regnet$1_0$20"},
    {R"(regnet-?([xy])-?(12|16|32)gf)", "regnet$1_$20"},
    {R"(mixer-?s-?(16|32))", "mixer", "patch=$1&layers=8&hidden=512"},
    {R"(mixer-?b-?(16|32))", "mixer", "patch=$1"},
    {R"(mixer-?l-?(16|32))", "mixer", "patch=$1&layers=24&hidden=1024"},
    {"xception", "xception"},
    {"shufflenet", "shufflenet_v2"},
    {"nas-?net.*(mobile)", "nasnet_$1"},
    {"nas-?net", "nasnet_large"},
    {R"(amoebanet.*?\(?(\d+)[,-]+ ?-?(\d+)\)?)", "amoebanetd", "layers=$1&filters=$2"},
    {"amoebanet", "amoebanetd"},
    {"wide-?resnet-?(50|101)", "wide_resnet$1_2"},
    {"se-?resnext-?(50|101)", "seresnext$1_32x4d"},
    {"resnext-?(101).*32x8", "resnext$1_32x8d"},
    {"resnext-?(50|101)", "resnext$1_32x4d"},
    {"se-?(?:resnet|rn)-?(50)", "seresnet$1"},
    {"resnet-?v2-?(50|101|152)", "resnet$1_v2"},
    {"resnet-?(50|101|152)-?v2", "resnet$1_v2"},
    {"(?:resnet|rn)-?(?:v1[-.]?5?-)?(18|34|50|101|152)", "resnet$1"},
    {"vgg-?(11|13|16|19)", "vgg$1"},
    {"vgg", "vgg16"},
    {"alexnet", "alexnet"},
    {"inception.?v?-?(3|4)", "inception_v$1"},
    {"googlenet|inception.?v?-?1", "googlenet"},
    {"densenet-?(121|161|169|201)", "densenet$1"},
    {"mobilenet-?v3-?(large|small)", "mobilenet_v3_$1"},
    {"mobilenet-?v3", "mobilenet_v3_large"},
    {"mobilenet-?v?2", "mobilenet_v2"},
    {"mobilenet", "mobilenet_v1"},
    {R"(efficientnet-?v2.*?\b(s|m)\b)", "efficientnet_v2_$1"},
    {R"(efficientnet(?!-?v2).*?b-?(\d))", "efficientnet_b$1"},
    {"dlrm", "dlrm"},
};

struct VisionRow {
  const char* pattern;
  int layers, hidden, heads;
};
constexpr VisionRow kVision[] = {
    {R"(\b(vit|deit|deit3|beit|beitv2|cait)-(tiny|ti)\b)", 12, 192, 3},
    {R"(\b(vit|deit|deit3|beit|beitv2)-(small|s)\b)", 12, 384, 6},
    {R"(\b(vit|deit|deit3|beit|beitv2)-(base|b)\b)", 12, 768, 12},
    {R"(\b(vit|deit|deit3|beit|beitv2)-(large|l)\b)", 24, 1024, 16},
    {R"(\b(vit|deit3)-(huge|h)\b)", 32, 1280, 16},
    {R"(\b(vit|vision-transformer)$)", 12, 768, 12},
};

std::string without_dashes(std::string text) {
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == '.'; });
  return text;
}

/// The zoo's own name of a model, however it is spelled there.
std::optional<std::string> zoo_name(const std::string& wanted) {
  for (const auto& row : graph::zoo::zoo_table())
    if (without_dashes(std::string(row.name)) == without_dashes(wanted)) return std::string(row.name);
  return std::nullopt;
}

void set_values(RecordModel& model, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('&', at), text.size()), equals = text.find('=', at);
    model.values[text.substr(at, equals - at)] = std::atoll(text.c_str() + equals + 1);
    at = end + 1;
  }
}

std::optional<RecordModel> vision_transformer(const std::string& name) {
  static const std::regex kPatch("patch-?(\\d+)|[a-z]/(\\d+)\\b");
  for (const auto& row : kVision) {
    if (!std::regex_search(name, std::regex(row.pattern))) continue;
    RecordModel model;
    model.zoo = "vit";
    model.values = {{"layers", row.layers}, {"hidden", row.hidden}, {"heads", row.heads}};
    std::smatch patch;
    if (std::regex_search(name, patch, kPatch)) model.values["patch"] = std::stoll(patch[1].matched ? patch[1] : patch[2]);
    return model;
  }
  return std::nullopt;
}

/// Samples of an epoch: ImageNet, COCO, Open Images (MLPerf's part), KiTS19, WMT, LibriSpeech, CIFAR, SQuAD 1.1, Sentiment140, MovieLens
/// 20M.
struct EpochRow {
  std::string_view name;
  double samples;
};
constexpr EpochRow kEpochs[] = {
    {"ssd", 117266},         {"mask", 117266},       {"faster", 117266},     {"retinanet", 1170301}, {"cifar", 50000},
    {"kits", 168},           {"gnmt", 3498161},      {"rnn-t", 278528},      {"deepspeech", 281241}, {"squad", 88641},
    {"sent140", 1600000},    {"ncf", 19861770},      {"dlrm", 4195197692.0}, {"resnet", 1281167},    {"inception", 1281167},
    {"vgg", 1281167},        {"efficient", 1281167}, {"resnext", 1281167},   {"alexnet", 1281167},   {"mobilenet", 1281167},
    {"shufflenet", 1281167}, {"densenet", 1281167},  {"vit", 1281167},       {"swin", 1281167},      {"convnext", 1281167},
};
constexpr double kSquadLength = 384, kSquadFeatures = 88641;  // of SQuAD 1.1 cut at 384 tokens with a stride of 128

}  // namespace

std::string dashed(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

const Shape* known_shape(std::string_view name) {
  const Shape* best = nullptr;
  for (const auto& row : kShapes)
    if (holds(name, row.name) && (best == nullptr || row.name.size() > best->name.size())) best = &row;
  return best;
}

std::optional<RecordModel> known_vision_model(const std::string& name) {
  if (auto model = vision_transformer(name)) return model;
  for (const auto& row : kImages) {
    std::smatch match;
    if (!std::regex_search(name, match, std::regex(row.pattern))) continue;
    const auto found = zoo_name(match.format(row.zoo));
    if (!found) continue;
    RecordModel model;
    model.zoo = *found;
    set_values(model, match.format(row.values));
    return model;
  }
  return std::nullopt;
}

double usual_epoch(std::string_view name, double seq) {
  for (const auto& row : kEpochs)
    if (holds(name, row.name)) return row.samples;
  // BERT at 384 tokens is fine-tuned on SQuAD: pre-training takes 128 and 512.
  return holds(name, "bert") && seq == kSquadLength ? kSquadFeatures : 0;
}

}  // namespace rehearsal::traces::published
