#include "formats/hugging_face/hugging_face_model.hpp"

#include <algorithm>
#include <filesystem>

#include "base/join.hpp"
#include "base/names.hpp"
#include "base/short_number.hpp"
#include "formats/hugging_face/architectures.hpp"
#include "formats/hugging_face/reading.hpp"
#include "graph/zoo/zoo.hpp"

namespace rehearsal::formats {
namespace {

constexpr std::string_view kPrefix = "hf:";
constexpr std::int64_t kUsualLength = 4096;  ///< tokens of a sample where nothing says it

std::string file_of(std::string_view path) {
  std::filesystem::path file(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) file /= "config.json";
  return file.string();
}

/// The part that describes the language model, and what is beside it.
Configuration language_model(const Configuration& whole, std::vector<std::string>& without) {
  for (const char* part : {"vision_config", "audio_config"})
    if (whole.is_object(part) && whole.is_object("text_config"))
      without.push_back(std::string("what ") + part + " describes is left out: the language model alone is built");
  return whole.is_object("text_config") ? whole.part("text_config") : whole;
}

/// The language model's own, or where it has none the whole file's.
const Architecture& architecture_of(const Configuration& c, const Configuration& whole) {
  if (!whole.has("model_type") && !c.has("model_type")) c.refuse("model_type", "is missing");
  const auto type = c.has("model_type") ? c.text("model_type", "") : whole.text("model_type", "");
  const auto rows = architectures();
  const auto row = std::ranges::find(rows, type, &Architecture::type);
  if (row != rows.end()) return *row;
  const auto names = names_of_rows(rows, &Architecture::type);
  const auto near = nearest_name(type, names);
  c.refuse("model_type", "'" + type + "' is not read" + (near ? "; the nearest that is read is " + *near : std::string()) + ". Read are " +
                             joined(rows, ", ", [](const auto& known) { return known.type; }));
}

/// Families call the number of experts differently, and some files have it under several names.
void refuse_two_numbers_of_experts(const Configuration& c) {
  std::string first;
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}) {
    if (!c.has(key)) continue;
    if (!first.empty() && c.count(key, 0) != c.count(first, 0))
      c.refuse(key, "is " + std::to_string(c.count(key, 0)) + ", and " + first + " is " + std::to_string(c.count(first, 0)) +
                        ": leave out the one that is wrong");
    first = key;
  }
}

constexpr double kEpsilon = 1e-5;  ///< of the zoo's norms

/// A kind of scaling that changes something, of all layers or of those of one type.
bool scales_positions(const Configuration& c, const std::string& key) {
  if (!c.has(key)) return false;
  const auto scaling = c.part(key);
  for (const char* layers : {kWhole, kSliding})
    if (scales_positions(scaling, layers)) return true;
  return scaling.text(scaling.has("rope_type") ? "rope_type" : "type", "default") != "default";
}

std::vector<std::string> other_constants(const Configuration& c) {
  std::vector<std::string> sentences;
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (scales_positions(c, key))
      sentences.push_back(std::string(key) + ": frequencies that are scaled for longer contexts are left out, positions turn as without");
  for (const char* key : {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"})
    if (const double epsilon = c.number(key, kEpsilon); epsilon != kEpsilon)
      sentences.push_back(std::string(key) + "=" + short_number(epsilon, 6) + ": norms are built with " + short_number(kEpsilon, 6));
  return sentences;
}

}  // namespace

HuggingFaceModel read_hugging_face(std::string_view reference) {
  if (reference.starts_with(kPrefix)) reference.remove_prefix(kPrefix.size());
  const auto question = std::min(reference.find('?'), reference.size());
  HuggingFaceModel model;
  const Configuration whole(file_of(reference.substr(0, question)));
  const auto config = language_model(whole, model.without);
  const auto& architecture = architecture_of(config, whole);
  ZooValues values;
  architecture.read(config, values);
  if (!values.contains("seq")) values["seq"] = std::min(kUsualLength, config.size("max_position_embeddings", architecture.positions));
  const bool mixture = !architecture.mixture_flag.empty() && config.flag(std::string(architecture.mixture_flag), false);
  const auto choice = graph::zoo::parse(std::string(mixture ? "moe" : architecture.zoo) + std::string(reference.substr(question)), values);
  model.zoo = graph::zoo::to_text(choice);
  std::string modules = "num_nextn_predict_layers";
  for (const char* key : {"mtp_num_hidden_layers", "num_mtp_modules"})
    if (config.has(key)) modules = key;
  const auto further = config.count(modules, 0);
  const auto built = choice.values.find("mtp");
  if (further > 0 && (built == choice.values.end() || built->second == 0))
    model.without.push_back("modules that predict further tokens are left out, of which " + modules + "=" + std::to_string(further) +
                            (built == choice.values.end() ? std::string() : "; mtp=" + std::to_string(further) + " adds them"));
  config.refuse_misspelt();
  refuse_two_numbers_of_experts(config);
  model.otherwise = other_constants(config);
  return model;
}

}  // namespace rehearsal::formats
