#include "traces/published/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <regex>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::traces::published {
namespace {

/// Published shapes of models that records often give by name alone.
struct ShapeRow {
  std::string_view name;
  int layers, hidden, heads, kv_heads, ffn, vocab, seq, experts, topk;
};
constexpr ShapeRow kShapes[] = {
    {"bert-large", 24, 1024, 16, 16, 4096, 30522, 0, 0, 0},         {"bert-base", 12, 768, 12, 12, 3072, 30522, 0, 0, 0},
    {"gpt-3-175b", 96, 12288, 96, 96, 49152, 51200, 2048, 0, 0},    {"gpt3-175b", 96, 12288, 96, 96, 49152, 51200, 2048, 0, 0},
    {"mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 4096, 8, 2},    {"mixtral-8x22b", 56, 6144, 48, 8, 16384, 32768, 4096, 8, 2},
    {"qwen3-30b", 48, 2048, 32, 4, 768, 151936, 4096, 128, 8},      {"qwen3-235b", 94, 4096, 64, 4, 1536, 151936, 4096, 128, 8},
    {"llama-1b", 16, 2048, 32, 8, 8192, 128256, 0, 0, 0},           {"llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 0, 0, 0},
    {"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 0, 0, 0},         {"llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 0, 0, 0},
    {"llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 0, 0, 0},        {"llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 0, 0, 0},
    {"llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 0, 0, 0},        {"llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 0, 0, 0},
    {"llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256, 0, 0, 0},
};

/// Samples of an epoch of the usual data sets: ImageNet, COCO, Open Images (MLPerf's part), KiTS19, WMT.
struct EpochRow {
  std::string_view name;
  double samples;
};
constexpr EpochRow kEpochs[] = {{"ssd300", 117266},     {"mask", 117266},  {"retinanet", 1170301}, {"resnet", 1281167},
                                {"inception", 1281167}, {"vgg", 1281167},  {"efficient", 1281167}, {"kits", 168},
                                {"gnmt", 3498161},      {"rnn-t", 278528}, {"resnext", 1281167}};

std::string dashed(std::string text) {
  std::replace(text.begin(), text.end(), '_', '-');
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

const ShapeRow* shape_of(const std::string& name) {
  const ShapeRow* best = nullptr;
  for (const auto& row : kShapes)
    if (holds(name, row.name) && (best == nullptr || row.name.size() > best->name.size())) best = &row;
  return best;
}

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
  if (holds(name, "bert") || family == "bert") return "bert";
  if (r.model.has("mem_len") || holds(name, "transformer-xl")) return "transformer-xl";
  for (const char* mark : {"llama", "mixtral", "qwen", "mistral", "deepseek"})
    if (holds(name, mark) || holds(family, mark)) return "llama";
  return family == "gpt-mpt" ? "mpt" : "gpt";
}

RecordModel transformer(const Record& r, const std::string& name) {
  RecordModel model;
  const auto* known = shape_of(name);
  const auto take = [&](const char* key, double of_table) { return whole(r, key, of_table); };
  const auto layers = take("layers", known != nullptr ? known->layers : 0), hidden = take("hidden", known != nullptr ? known->hidden : 0);
  if (layers < 1) throw Refusal("model.layers: is missing, and '" + name + "' is not known by name");
  if (hidden < 1) throw Refusal("model.hidden: is missing, and '" + name + "' is not known by name");
  const auto kind = transformer_kind(r, name);
  const auto heads = take("heads", known != nullptr ? known->heads : std::max<double>(1, static_cast<double>(hidden) / 64));
  const auto seq = take("seq", known != nullptr && known->seq > 0 ? known->seq : (kind == "bert" ? 128 : 0));
  if (seq < 1) throw Refusal("model.seq: is missing");
  const double usual_vocab = kind == "bert" ? 30522 : 50257;
  model.values = {{"layers", layers},
                  {"hidden", hidden},
                  {"heads", heads},
                  {"kv_heads", take("kv_heads", known != nullptr ? known->kv_heads : static_cast<double>(heads))},
                  {"ffn", take("ffn", known != nullptr ? known->ffn : 4 * static_cast<double>(hidden))},
                  {"seq", seq},
                  {"vocab", take("vocab", known != nullptr ? known->vocab : usual_vocab)}};
  const auto experts = take("experts", known != nullptr ? known->experts : 0);
  if (experts > 0) {
    model.values["experts"] = experts;
    model.values["top_k"] = take("topk", known != nullptr ? known->topk : 2);
  }
  if (r.model.has("mem_len")) model.values["mem_len"] = take("mem_len", 0);
  const auto zoo = experts > 0 ? first_in_zoo({"moe", "mixtral", "llama"}) : first_in_zoo({kind, kind == "mpt" ? "gpt" : kind, "gpt"});
  if (!zoo) throw Refusal("model.name: the zoo has no generator for '" + name + "'");
  model.zoo = *zoo;
  model.sequence = true;
  model.encoder = kind == "bert";
  model.seq = static_cast<double>(seq);
  model.block_alone = layers == 1 && !r.model.has("vocab");
  if (model.block_alone) model.values["layers"] = 2;  // a repetition shows where the block begins and ends
  model.lora = holds(name, "lora") || r.plan.truth("lora");
  return model;
}

struct ImageRow {
  const char* pattern;  ///< of the name, dashed
  const char* zoo;      ///< "$1" takes the first group
};
/// Detectors first: their names hold that of their trunk.
const ImageRow kImages[] = {
    {"ssd.*?(34|50)", "ssd300_resnet$1"},
    {"retina.*resnext", "retinanet_resnext50"},
    {"retina", "retinanet_resnet50"},
    {"mask", "maskrcnn_trunk"},
    {"ronneberger|unet-2d", "unet2d_valid"},
    {"nnu-?net-2d", "nnunet2d"},
    {"nnu-?net-3d", "nnunet3d"},
    {"3d-?u-?net|unet-?3d", "unet3d"},
    {"wide-?resnet-?(50|101)", "wide_resnet$1_2"},
    {"se-?resnext-?(50|101)", "seresnext$1_32x4d"},
    {"resnext-?(101).*32x8", "resnext$1_32x8d"},
    {"resnext-?(50|101)", "resnext$1_32x4d"},
    {"se-?(?:resnet|rn)-?(50)", "seresnet$1"},
    {"(?:resnet|rn)-?(18|34|50|101|152)", "resnet$1"},
    {"vgg-?(11|13|16|19)", "vgg$1"},
    {"alexnet", "alexnet"},
    {"inception.?v?-?(3|4)", "inception_v$1"},
    {"googlenet|inception.?v?-?1", "googlenet"},
    {"densenet-?(121|161|169|201)", "densenet$1"},
    {"mobilenet-?v3-?(large|small)", "mobilenet_v3_$1"},
    {"mobilenet-?v?2", "mobilenet_v2"},
    {"mobilenet", "mobilenet_v1"},
    {"efficientnet-?b(\\d)$", "efficientnet_b$1"},
    {"stable-diffusion", "sd_unet"},
    {"amoebanet", "amoebanetd"},
    {"xception", "xception"},
    {"shufflenet", "shufflenet_v2"},
};

struct VisionRow {
  const char* pattern;
  int layers, hidden, heads;
};
constexpr VisionRow kVision[] = {{"(vit|deit|beit)-tiny", 12, 192, 3},
                                 {"(vit|deit|beit)-small", 12, 384, 6},
                                 {"(vit|deit|beit)-base", 12, 768, 12},
                                 {"(vit|deit|beit)-large", 24, 1024, 16}};

std::string without_dashes(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == '-' || c == '_' || c == '.'; }), text.end());
  return text;
}

/// The zoo's own name of a model, however it is spelled there.
std::optional<std::string> zoo_name(const std::string& wanted) {
  for (const auto& row : graph::zoo::zoo_table())
    if (without_dashes(std::string(row.name)) == without_dashes(wanted)) return std::string(row.name);
  return std::nullopt;
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

RecordModel vision_transformer(const Record& r, const VisionRow& row) {
  RecordModel model;
  model.zoo = "vit";
  model.values = {{"layers", row.layers}, {"hidden", row.hidden}, {"heads", row.heads}};
  if (r.model.number("image")) model.values["image"] = whole(r, "image", 224);
  return model;
}

RecordModel image_model(const Record& r, const std::string& name) {
  for (const auto& row : kVision)
    if (in_zoo("vit") && std::regex_search(name, std::regex(row.pattern))) return vision_transformer(r, row);
  for (const auto& row : kImages) {
    std::smatch match;
    if (!std::regex_search(name, match, std::regex(row.pattern))) continue;
    const auto found = zoo_name(match.format(row.zoo));
    if (!found) break;
    RecordModel model;
    model.zoo = *found;
    if (holds(*found, "nnunet") || holds(*found, "unet3d"))
      set_volume(model, r);
    else if (const auto image = r.model.number("image"); image && *image >= 1)
      model.values["image"] = whole(r, "image", 224);
    if (holds(name, "isensee")) model.values["channels"] = 16;  // thinner, with a third convolution per level
    return model;
  }
  throw Refusal("model.name: the zoo has no generator for '" + r.model.text("name") + "'");
}

/// Encoders with decoders: T5 by its shape, the translation Transformer by its name.
RecordModel encoder_decoder(const Record& r, const std::string& name) {
  RecordModel model;
  const bool t5 = holds(name, "t5");
  const auto zoo = first_in_zoo({t5 ? "t5" : "transformer"});
  if (!zoo) throw Refusal("model.name: the zoo has no generator for '" + r.model.text("name") + "'");
  model.zoo = *zoo;
  model.sequence = true;
  constexpr double kSentence = 30;  // mean tokens of a sentence of WMT
  for (const char* key : {"enc_layers", "dec_layers", "hidden", "heads", "ffn", "vocab", "kv_channels", "enc_seq", "dec_seq"})
    if (r.model.number(key)) model.values[key] = whole(r, key, 0);
  if (!t5) model.values["enc_seq"] = model.values["dec_seq"] = static_cast<std::int64_t>(kSentence);
  if (t5) model.values["gated"] = holds(name, "mt5") || holds(name, "1.1") ? 1 : 0;
  model.translation = !t5;
  model.seq = t5 ? r.model.number_or("enc_seq", 512) + r.model.number_or("dec_seq", 128) : kSentence;
  return model;
}

}  // namespace

RecordModel model_of(const Record& r) {
  const auto name = dashed(r.model.text("name"));
  const bool transformer_like = r.model.number_or("hidden", 0) > 0 || shape_of(name) != nullptr || r.family.rfind("transformer", 0) == 0;
  const bool pair =
      r.model.has("enc_layers") || name.rfind("transformer-b", 0) == 0 || name.rfind("t5", 0) == 0 || name.rfind("mt5", 0) == 0;
  auto model = pair ? encoder_decoder(r, name) : transformer_like ? transformer(r, name) : image_model(r, name);
  for (const auto& row : kEpochs)
    if (model.epoch_samples == 0 && holds(name, row.name)) model.epoch_samples = row.samples;
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

}  // namespace rehearsal::traces::published
