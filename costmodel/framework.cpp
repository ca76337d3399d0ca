#include "costmodel/framework.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "costmodel/embedded_constants.hpp"
#include "platforms/strict_json.hpp"

namespace rehearsal::costmodel {
namespace {

using UnorderedJson = nlohmann::json;

constexpr std::array<std::string_view, 3> kLaunchNames{"eager", "static", "captured"};
constexpr std::array<std::string_view, 3> kCoordinationNames{"none", "ddp", "horovod"};
constexpr std::array<std::string_view, 3> kAttentionNames{"plain", "flash", "flash-tuned"};
constexpr std::array<std::string_view, 3> kPackingNames{"none", "unpadded", "length-bins"};
constexpr std::array<std::string_view, kModelKinds> kKinds{"decoders", "sharded_decoders", "others"};
constexpr std::array<std::string_view, 3> kAllocatorNames{"deepspeed", "pytorch", "static"};

struct Flag {
  std::string_view key;
  bool FrameworkProfile::*member;
};
constexpr Flag kFlags[] = {
    {"host_bound", &FrameworkProfile::host_bound},
    {"channels_last", &FrameworkProfile::channels_last},
    {"channels_last_single", &FrameworkProfile::channels_last_single},
    {"volumes_transposed", &FrameworkProfile::volumes_transposed},
    {"gradient_overlap", &FrameworkProfile::gradient_overlap},
    {"tuned_overlap", &FrameworkProfile::tuned_overlap},
    {"gathers_in_computing_type", &FrameworkProfile::gathers_in_computing_type},
    {"gathers_fp8", &FrameworkProfile::gathers_fp8},
    {"tensor_overlap", &FrameworkProfile::tensor_overlap},
    {"dispatches_by_node", &FrameworkProfile::dispatches_by_node},
    {"launches_each_expert", &FrameworkProfile::launches_each_expert},
    {"captures_experts", &FrameworkProfile::captures_experts},
    {"backward_tensor_overlap", &FrameworkProfile::backward_tensor_overlap},
    {"experts_need_sequence_parallel", &FrameworkProfile::experts_need_sequence_parallel},
    {"whole_experts", &FrameworkProfile::whole_experts},
    {"attention_needs_hopper", &FrameworkProfile::attention_needs_hopper},
    {"dropout", &FrameworkProfile::dropout},
    {"fused_optimizer", &FrameworkProfile::fused_optimizer},
    {"checkpoint_stops_early", &FrameworkProfile::checkpoint_stops_early},
    {"sequence_parallel", &FrameworkProfile::sequence_parallel},
    {"interleaves", &FrameworkProfile::interleaves},
    {"tied_embedding_reduction", &FrameworkProfile::tied_embedding_reduction},
    {"gathers_layerwise", &FrameworkProfile::gathers_layerwise},
    {"sharded_after_all_reduce", &FrameworkProfile::sharded_after_all_reduce},
    {"reduces_in_fp32", &FrameworkProfile::reduces_in_fp32},
    {"checkpoints_stages", &FrameworkProfile::checkpoints_stages},
    {"reports_total_memory", &FrameworkProfile::reports_total_memory},
    {"gradient_buffers", &FrameworkProfile::gradient_buffers},
    {"fused_accumulation", &FrameworkProfile::fused_accumulation},
    {"masters_cast", &FrameworkProfile::masters_cast},
    {"pure_16bit", &FrameworkProfile::pure_16bit},
    {"casts_norms", &FrameworkProfile::casts_norms},
    {"composed_optimizer", &FrameworkProfile::composed_optimizer},
    {"predicts_all", &FrameworkProfile::predicts_all},
    {"keeps_quantised_operands", &FrameworkProfile::keeps_quantised_operands},
    {"keeps_quantised_gates", &FrameworkProfile::keeps_quantised_gates},
    {"keeps_quantised_weights", &FrameworkProfile::keeps_quantised_weights},
    {"weighs_gated_rows", &FrameworkProfile::weighs_gated_rows},
    {"holds_inputs_of_frozen", &FrameworkProfile::holds_inputs_of_frozen},
    {"adapters_in_fp32", &FrameworkProfile::adapters_in_fp32},
    {"keeps_no_scores", &FrameworkProfile::keeps_no_scores},
    {"keeps_gathered_inputs", &FrameworkProfile::keeps_gathered_inputs},
    {"newer_on_blackwell", &FrameworkProfile::newer_on_blackwell},
};

struct FrameworkNumber {
  std::string_view key;
  double FrameworkProfile::*member;
};
constexpr FrameworkNumber kNumbers[] = {
    {"composed_instance_norm", &FrameworkProfile::composed_instance_norm},
    {"composed_instance_norm_16bit", &FrameworkProfile::composed_instance_norm_16bit},
    {"update_copies", &FrameworkProfile::update_copies},
    {"gradient_bytes_fp16", &FrameworkProfile::gradient_bytes_fp16},
    {"gradient_bytes_bf16", &FrameworkProfile::gradient_bytes_bf16},
    {"gradient_bytes_amp", &FrameworkProfile::gradient_bytes_amp},
    {"bucket_bytes", &FrameworkProfile::bucket_bytes},
    {"logit_bytes_16bit", &FrameworkProfile::logit_bytes_16bit},
};

template <class E>
E choice(const UnorderedJson& json, std::string_view key, const std::array<std::string_view, 3>& names, const std::string& where) {
  const auto text = json.at(std::string(key)).get<std::string>();
  const auto known = known_name(where + ": " + std::string(key), text, {names.begin(), names.end()});
  return static_cast<E>(std::ranges::find(names, known) - names.begin());
}

void read_choices(FrameworkProfile& p, const UnorderedJson& json, const std::string& where) {
  p.elementwise_fusion = json.at("elementwise_fusion").get<int>();
  p.normalization_fusion = json.at("normalization_fusion").get<int>();
  p.launch = choice<LaunchMode>(json, "launch", kLaunchNames, where);
  p.coordination = choice<Coordination>(json, "coordination", kCoordinationNames, where);
  p.attention = choice<AttentionKernel>(json, "attention", kAttentionNames, where);
  p.packing = choice<SequencePacking>(json, "packing", kPackingNames, where);
  p.allocator = choice<AllocatorKind>(json, "allocator", kAllocatorNames, where);
}

FrameworkProfile profile_of(const UnorderedJson& json, const std::string& where) {
  FrameworkProfile p;
  p.name = json.at("name").get<std::string>();
  p.description = json.at("description").get<std::string>();
  p.source = json.at("source").get<std::string>();
  p.recognised_by = json.at("recognised_by").get<std::vector<std::string>>();
  read_choices(p, json, where);
  for (const auto& flag : kFlags) p.*flag.member = json.value(std::string(flag.key), p.*flag.member);
  for (const auto& number : kNumbers) p.*number.member = json.value(std::string(number.key), p.*number.member);
  p.default_precision = json.value("default_precision", p.default_precision);
  p.successor = json.value("successor", p.successor);
  p.release_of = json.value("release_of", p.release_of);
  p.parallelism = json.value("parallelism", p.parallelism);
  p.values = json.value("values", p.values);
  p.values_in_pipelines = json.value("values_in_pipelines", p.values_in_pipelines);
  p.usual_keys = json.value("usual_keys", p.usual_keys);
  if (json.contains("usual_on"))
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind)
      p.usual_on[kind] = json.at("usual_on").value(std::string(kKinds[kind]), std::vector<std::string>{});
  if (json.contains("state_bytes")) {
    const auto& state = json.at("state_bytes");
    p.state = {state.at("weights").get<double>(), state.at("gradients").get<double>(), state.at("optimizer").get<double>()};
  }
  return p;
}

void refuse_unknown_keys(const UnorderedJson& json, const std::string& where) {
  static constexpr std::string_view kOthers[] = {
      "name",      "description",  "source",    "release_of", "recognised_by", "elementwise_fusion", "normalization_fusion",
      "launch",    "coordination", "attention", "packing",    "allocator",     "state_bytes",        "default_precision",
      "successor", "parallelism",  "values",    "usual_on",   "usual_keys",    "values_in_pipelines"};
  for (const auto& item : json.items()) {
    const auto& key = item.key();
    const bool known = std::ranges::find(kOthers, key) != std::end(kOthers) ||
                       std::any_of(std::begin(kFlags), std::end(kFlags), [&](const Flag& f) { return f.key == key; }) ||
                       std::any_of(std::begin(kNumbers), std::end(kNumbers), [&](const FrameworkNumber& n) { return n.key == key; });
    if (!known) throw BadInput(where, "'" + key + "' is no key of a framework profile");
  }
}

/// What a profile says, and where it is a release of another what that one says of the rest.
UnorderedJson completed(const UnorderedJson& own, const std::string& where) {
  if (!own.contains("release_of")) return own;
  const auto name = own.at("release_of").get<std::string>();
  const auto files = embedded_profiles();
  const auto base = std::ranges::find(files, name, &EmbeddedProfile::name);
  auto all = base == files.end() ? UnorderedJson() : UnorderedJson::parse(base->text);
  if (all.is_null() || all.contains("release_of"))
    throw BadInput(where, "release_of: '" + name + "' must be a profile that is no release of another");
  all.erase("usual_on");  // its own is said, or none
  all.merge_patch(own);
  return all;
}

}  // namespace

FrameworkProfile framework_from_json_text(const std::string& text, const std::string& where) {
  try {
    const auto json = UnorderedJson::parse(text);
    refuse_unknown_keys(json, where);
    return profile_of(completed(json, where), where);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(where, platforms::reason_of(error));
  }
}

std::span<const FrameworkProfile> framework_profiles() {
  static const std::vector<FrameworkProfile> kProfiles = [] {
    std::vector<FrameworkProfile> profiles;
    for (const auto& file : embedded_profiles())
      profiles.push_back(framework_from_json_text(std::string(file.text), "costmodel/profiles/" + std::string(file.name) + ".json"));
    return profiles;
  }();
  return kProfiles;
}

const FrameworkProfile* find_framework(std::string_view name) {
  const auto found = find_name(name, names_of_rows(framework_profiles(), &FrameworkProfile::name));
  if (!found) return nullptr;
  return &*std::ranges::find(framework_profiles(), *found, &FrameworkProfile::name);
}

const FrameworkProfile& own_framework() {
  static const auto* const kOwn = find_framework("rehearse");
  return *kOwn;
}

const FrameworkProfile& known_framework(const std::string& where, std::string_view name) {
  return *find_framework(known_name(where, name, names_of_rows(framework_profiles(), &FrameworkProfile::name)));
}

std::optional<NameMatch> named_by(const std::vector<std::string>& beginnings, const platforms::Device& device) {
  std::optional<NameMatch> best;
  for (const auto& beginning : beginnings) {
    const bool product = !beginning.empty() && device.name.starts_with(beginning);
    if (product || device.generation.starts_with(beginning)) best = std::max(best, std::optional(NameMatch{product, beginning.size()}));
  }
  return best;
}

const FrameworkProfile& usual_framework(const platforms::Device& device, ModelKind kind) {
  if (device.kind == platforms::DeviceKind::Cpu) return own_framework();
  const auto match = [&](const FrameworkProfile& p) { return named_by(p.usual_on[static_cast<std::size_t>(kind)], device); };
  const auto usual = std::ranges::max_element(framework_profiles(), {}, match);
  ensure(match(*usual).has_value(), "a profile is usual on every generation");
  return *usual;
}

const FrameworkProfile* recognise_framework(std::string_view text) {
  const FrameworkProfile* best = nullptr;
  std::size_t longest = 0;
  for (const auto& p : framework_profiles())
    for (const auto& mark : p.recognised_by)
      if (mark.size() > longest && text.find(mark) != std::string_view::npos) {
        longest = mark.size();
        best = &p;
      }
  return best;
}

bool FrameworkProfile::lists(const std::map<std::string, std::vector<std::string>>& values, const std::string& key,
                             std::string_view value) {
  const auto known = values.find(key);
  if (known == values.end()) return true;
  const auto numbered = std::string(value.substr(0, value.find(':'))) + ":N";
  const bool has_number = value.find(':') != std::string_view::npos;
  return std::ranges::any_of(known->second, [&](const auto& one) { return one == value || (has_number && one == numbered); });
}

}  // namespace rehearsal::costmodel
