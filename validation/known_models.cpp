#include "validation/known_models.hpp"

#include <algorithm>
#include <regex>

#include "graph/zoo/zoo.hpp"

namespace rehearsal::validation {
namespace {

struct ImageRow {
  const char* pattern;  ///< of the name, dashed
  const char* zoo;      ///< "$1" takes the first group
  const char* values = "";
};
/// The first that fits; a row without a network of the zoo stands for names that hold another network's. Detectors before their trunks, and
/// a family's variants before its plain name.
const ImageRow kImages[] = {
    {"\\b(fcn|deeplab|psp-?net|yolo|detr|fcos|efficient-?det|unetr|pnas-?net|mnas-?net|res2net|resnest|clip-rn)", ""},
    {"ssd.*(vgg|mobile|512)|inception-?res|bn-incep|preact", ""},
    {R"(torchgpipe.*u-?net.*?\(b=(\d+), ?c=(\d+)\))", "unet2d_stacked", "convolutions=$1&channels=$2"},
    {R"(torchgpipe.*u-?net.*?\((\d+), ?-?(\d+)\))", "unet2d_stacked", "convolutions=$1&channels=$2"},
    {"ssd.*?(34|50)", "ssd300_resnet$1"},
    {"^ssd(-?300)?$|\\bssd\\b", "ssd300_resnet50"},
    {"retina.*resnext", "retinanet_resnext50"},
    {"retina", "retinanet_resnet50"},
    {"mask|faster-?r-?cnn|cascade-?r-?cnn", "maskrcnn_trunk"},
    {"ronneberger|unet-2d|u-?net-medical", "unet2d_valid"},
    {"nnu-?net-2d", "nnunet2d"},
    {"nnu-?net-3d", "nnunet3d"},
    {"3d-?u-?net|u-?net-?3d", "unet3d"},
    {"(?:stable-diffusion(?!.*xl)|latent-diffusion)(?!-?3)|sd-?v?[12]\\b", "diffusion"},
    {"^u-?net(?:-?2d)?$", "unet2d"},
    {"conv-?next.*?(tiny|small|base|large)", "convnext_$1"},
    {"swin.*?(tiny|small|base|large)", "swin_$1"},
    {R"(swin-?(?:v2-?)?t\b)", "swin_tiny"},
    {R"(swin-?(?:v2-?)?s\b)", "swin_small"},
    {R"(swin-?(?:v2-?)?b\b)", "swin_base"},
    {R"(swin-?(?:v2-?)?l\b)", "swin_large"},
    {R"(conv-?next-?(?:v2-?)?t\b)", "convnext_tiny"},
    {R"(conv-?next-?(?:v2-?)?s\b)", "convnext_small"},
    {R"(conv-?next-?(?:v2-?)?b\b)", "convnext_base"},
    {R"(conv-?next-?(?:v2-?)?l\b)", "convnext_large"},
    {R"(regnet-?([xy])-?(\d\d\d)\b)", "regnet$1_$2"},
    {R"(regnet-?([xy])-?(400|800)mf)", "regnet$1_00$2"},
    {R"(regnet-?([xy])-?(\d)[-_.](\d)gf)", "regnet$1_0$2$3"},
    {R"(regnet-?([xy])-?(8|4)\.?0?gf)", "regnet$1_0$020"},
    {R"(regnet-?([xy])-?(12|16|32)gf)", "regnet$1_$020"},
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
    {"ssd", 117266},        {"mask", 117266},        {"faster", 117266},         {"retinanet", 1170301}, {"cifar", 50000},
    {"kits", 168},          {"gnmt", 3498161},       {"transformer-b", 4590101}, {"rnn-t", 278528},      {"deepspeech", 281241},
    {"squad", 88641},       {"sent140", 1600000},    {"ncf", 19861770},          {"dlrm", 4195197692.0}, {"resnet", 1281167},
    {"inception", 1281167}, {"vgg", 1281167},        {"efficient", 1281167},     {"resnext", 1281167},   {"alexnet", 1281167},
    {"mobilenet", 1281167}, {"shufflenet", 1281167}, {"densenet", 1281167},      {"vit", 1281167},       {"swin", 1281167},
    {"convnext", 1281167},
};
constexpr double kSquadLength = 384, kSquadFeatures = 88641;  // of SQuAD 1.1 cut at 384 tokens with a stride of 128

}  // namespace

std::string dashed(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

std::optional<RecordModel> known_vision_model(const std::string& name) {
  if (auto model = vision_transformer(name)) return model;
  for (const auto& row : kImages) {
    std::smatch match;
    if (!std::regex_search(name, match, std::regex(row.pattern))) continue;
    if (*row.zoo == '\0') return std::nullopt;
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

}  // namespace rehearsal::validation
