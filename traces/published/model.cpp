#include "traces/published/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
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
    model.values["topk"] = take("topk", known != nullptr ? known->topk : 2);
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
  int image;            ///< default side
};
const ImageRow kImages[] = {
    {"ssd.*(34|50)|ssd", "ssd$1", 300},
    {"retina-?net", "retinanet", 800},
    {"mask", "maskrcnn", 832},
    {"wide-?resnet-?(50|101)", "wideresnet$1", 224},
    {"se-?resnext-?(50|101)", "seresnext$1", 224},
    {"resnext-?(50|101|152)", "resnext$1", 224},
    {"se-?(?:resnet|rn)-?(50|101|152)", "seresnet$1", 224},
    {"(?:resnet|rn)-?(18|34|50|101|152|200)", "resnet$1", 224},
    {"vgg-?(11|13|16|19)", "vgg$1", 224},
    {"alexnet", "alexnet", 224},
    {"inception.?v?-?(3|4)", "inceptionv$1", 299},
    {"googlenet|inception.?v?-?1", "googlenet", 224},
    {"densenet-?(121|161|169|201)", "densenet$1", 224},
    {"mobilenet-?v?2", "mobilenetv2", 224},
    {"mobilenet", "mobilenetv1", 224},
    {"efficientnet-?b(\\d)", "efficientnet-b$1", 0},
};

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

RecordModel image_model(const Record& r, const std::string& name) {
  for (const auto& row : kImages) {
    std::smatch match;
    if (!std::regex_search(name, match, std::regex(row.pattern))) continue;
    const auto found = zoo_name(match.format(row.zoo));
    if (!found) break;
    RecordModel model;
    model.zoo = *found;
    const double image = r.model.number_or("image", row.image);
    if (image > 0) model.values["image"] = static_cast<std::int64_t>(image);
    return model;
  }
  throw Refusal("model.name: the zoo has no generator for '" + r.model.text("name") + "'");
}

}  // namespace

RecordModel model_of(const Record& r) {
  const auto name = dashed(r.model.text("name"));
  const bool transformer_like = r.model.number_or("hidden", 0) > 0 || shape_of(name) != nullptr || r.family.rfind("transformer", 0) == 0;
  if (r.model.has("enc_layers")) throw Refusal("model.name: the zoo has no generator for '" + r.model.text("name") + "'");
  auto model = transformer_like ? transformer(r, name) : image_model(r, name);
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
