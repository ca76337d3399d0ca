#include "validation/record_job.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

#include "base/error.hpp"
#include "base/names.hpp"
#include "base/short_number.hpp"
#include "base/words.hpp"
#include "costmodel/accelerator.hpp"
#include "predict/changes.hpp"
#include "predict/frameworks/recipe.hpp"
#include "predict/frameworks/usual_profile.hpp"
#include "validation/known_models.hpp"
#include "validation/record_precision.hpp"

namespace rehearsal::validation {
namespace {

using costmodel::FrameworkProfile;
using plan::RecomputeRule;

constexpr int kLargestDegree = 10'000'000, kMostMicroBatches = 1'000'000;
constexpr double kMostSamples = 1e9;  // what the zoo builds a model for

int degree(const Record& r, const char* key) {
  const double value = r.plan.number_or(key, 1);
  if (value < 1 || value > kLargestDegree || value != std::floor(value))
    throw Refusal(std::string("plan.") + key + ": must be a whole number from 1 up");
  return static_cast<int>(value);
}

/// 0 where the record says nothing.
int layers_of(const Record& r, const char* key) {
  const double value = r.plan.number_or(key, 0);
  if (value < 0 || value > kLargestDegree || value != std::floor(value))
    throw Refusal(std::string("plan.") + key + ": is " + r.plan.written(key) + "; it must be a whole number of layers");
  return static_cast<int>(value);
}

double positive(const Record& r, const char* key) {
  const auto value = r.plan.number(key);
  if (value && !(*value > 0)) throw Refusal(std::string("plan.") + key + ": must be above 0");
  if (value && *value > kMostSamples)
    throw Refusal(std::string("plan.") + key + ": is " + r.plan.written(key) + "; it must be " + short_number(kMostSamples, 6) +
                  " at most");
  return value.value_or(0);
}

int micro_batches_of(double replica, double micro_batch) {
  const double count = replica / micro_batch;
  if (!(count <= kMostMicroBatches))
    throw Refusal("plan.global_batch: " + short_number(replica, 6) + " samples of a replica are " + short_number(count, 6) +
                  " micro-batches of " + short_number(micro_batch, 6) + "; a step has at most " + std::to_string(kMostMicroBatches));
  return static_cast<int>(std::max(1.0, std::round(count)));
}

/// Ranks that a record leaves to no degree split the model: tensor first, then context parallel.
void split_replica(plan::Plan& p, int ranks, int per_node) {
  p.tp = std::min(ranks, std::max(1, per_node / 2));
  p.cp = std::max(1, ranks / p.tp);
}

void set_degrees(const Record& r, RecordJob& job) {
  auto& p = job.plan;
  const int devices = job.machine.devices, per_node = job.machine.platform.nodes.front().devices;
  p.tp = degree(r, "tp");
  p.pp = degree(r, "pp");
  p.cp = degree(r, "cp");
  p.ep = degree(r, "ep");
  const double gb = positive(r, "global_batch"), mb = positive(r, "micro_batch"), ga = positive(r, "grad_accum");
  if (r.plan.number("dp")) {
    p.dp = degree(r, "dp");
    const double stated = static_cast<double>(p.dp) * p.tp * p.pp * p.cp;
    if (stated != devices && stated * p.ep == devices) p.dp *= p.ep;  // replicas of the experts alone
    const double product = static_cast<double>(p.dp) * p.tp * p.pp, with_context = product * p.cp;
    if (product != devices && with_context != devices)
      throw Refusal("plan.dp: dp·tp·pp·cp is " + std::to_string(static_cast<std::int64_t>(with_context)) + ", hardware.count is " +
                    std::to_string(devices));
    if (with_context != devices) p.dp = std::max(1, p.dp / p.cp);
    return;
  }
  const double fixed = static_cast<double>(p.tp) * p.pp * p.cp;
  if (fixed > devices)
    throw Refusal("plan.tp: tp·pp·cp is " + std::to_string(static_cast<std::int64_t>(fixed)) + ", hardware.count is " +
                  std::to_string(devices));
  p.dp = std::max(1, static_cast<int>(devices / fixed));
  const bool free = job.model.sequence && !r.plan.number("tp");
  const double replicas = gb > 0 && mb > 0 && ga > 0 ? gb / mb / ga : 0;
  if (free && replicas >= 1 && replicas <= devices && std::fmod(devices, replicas) == 0) {
    p.dp = static_cast<int>(replicas);
    split_replica(p, devices / p.dp / p.pp, per_node);
  } else if (free && gb >= 1 && p.dp > gb) {
    p.dp = static_cast<int>(gb);
    split_replica(p, devices / p.dp, per_node);
  }
}

/// A micro-batch that is stated divides the batch of a replica: else a step would have fewer samples than are counted. Authors round.
void refuse_remainders(const Record& r, const RecordJob& job) {
  constexpr double kRounded = 1e-3;
  const double batch = positive(r, "global_batch"), replicas = job.plan.dp, micro = job.micro_batch;
  const double turns = batch / (replicas * micro);
  if (batch > 0 && std::fabs(turns - std::round(turns)) > kRounded * turns)
    throw Refusal("plan.global_batch: " + r.plan.written("global_batch") + " is no multiple of dp=" + std::to_string(job.plan.dp) +
                  " times a micro-batch of " + short_number(micro, 6));
  const double stated = positive(r, "grad_accum");
  if (batch > 0 && stated > 0 && std::fabs(stated - turns) > kRounded * turns)
    throw Refusal("plan.grad_accum: is " + r.plan.written("grad_accum") + ", and global_batch, dp and micro_batch make it " +
                  short_number(turns, 6));
}

/// Sentences of a record that counts tokens (translation): the mean of its corpora.
void set_batches(const Record& r, RecordJob& job) {
  auto& p = job.plan;
  const double local = positive(r, "local_batch"), chunks = positive(r, "chunks");
  double gb = positive(r, "global_batch"), mb = positive(r, "micro_batch");
  const double ga = positive(r, "grad_accum");
  if (gb <= 0) gb = local > 0 ? local * p.dp : mb * p.dp * std::max(1.0, ga);
  if (gb <= 0 && job.model.translation) gb = positive(r, "micro_batch_tokens") / job.model.seq * p.dp * std::max(1.0, ga);
  if (gb <= 0) throw Refusal("plan.global_batch: is missing, and micro_batch does not stand in for it");
  const bool cut = (p.pp > 1 || job.framework->checkpoints_stages) && chunks > 0;
  if (cut) mb = gb / p.dp / chunks;
  if (mb <= 0 && local > 0) mb = local / p.pp;  // as many micro-batches as stages
  if (mb <= 0) {
    const double replica = gb / p.dp;
    constexpr double kFewTokens = 8192;
    const double few = p.pp > 1 || job.framework->checkpoints_stages ? 1
                       : job.model.seq > 0                           ? std::max(4.0, kFewTokens / job.model.seq)
                                                                     : 4;
    mb = ga > 0 ? replica / ga : job.model.sequence ? std::min(replica, few) : replica;
    if (ga <= 0 && job.model.sequence) job.assumed.push_back("micro-batch");
  }
  if (r.plan.truth("spatial_parallel")) mb = gb / job.machine.devices;
  if (job.model.translation) {
    constexpr double kFewSentences = 2000;  // a larger batch counts tokens
    const double tokens = positive(r, "micro_batch_tokens");
    const double of_rank = tokens > 0 ? tokens : gb > kFewSentences ? gb / p.dp / std::max(1.0, ga) : mb * job.model.seq;
    mb = of_rank / job.model.seq;
    gb = mb * p.dp * std::max(1.0, ga);
  }
  job.micro_batch = mb;
  job.micro_batches = micro_batches_of(gb / p.dp, mb);
  job.samples = gb;
  job.tokens = job.model.sequence ? gb * job.model.seq : 0;
  const bool stated = r.plan.number("micro_batch") && r.plan.number("dp") && !cut;
  if (stated && !job.model.translation && !r.plan.truth("spatial_parallel")) refuse_remainders(r, job);
}

/// By how what authors write begins, the more special ones first.
RecomputeRule recompute_rule_of(const Record& r) {
  constexpr std::pair<RecomputeRule, std::string_view> kRows[] = {
      {RecomputeRule::FullExceptLast, "full-except"},
      {RecomputeRule::SelectiveOps, "selective-op"},
      {RecomputeRule::Selective, "selective core attention"},
      {RecomputeRule::Full, "full true yes on 1 all alternate block layer uniform activation gradient checkpoint"}};
  const auto text = dashed(r.plan.text("recompute"));
  for (const auto& [rule, beginnings] : kRows)
    if (std::ranges::any_of(words_of(beginnings), [&](auto word) { return text.starts_with(word); })) return rule;
  return RecomputeRule::None;
}

/// Megatron's method `block` computes the first layers of every part of a pipeline again; others take every second layer, which is as many.
plan::Recompute recompute_of(const Record& r, const plan::Plan& p) {
  const auto rule = recompute_rule_of(r);
  const auto text = r.plan.text("recompute");
  if (text.starts_with("block")) return {rule, 0, layers_of(r, "recompute_num_layers")};
  if (!text.starts_with("alternate")) return {rule, 0, 0};
  const double of_part = r.model.number_or("layers", 1) / (p.pp * p.interleave);
  return {rule, 0, std::max(1, static_cast<int>(of_part / 2))};
}

int interleave_of(const Record& r, const RecordJob& job) {
  if (job.plan.pp == 1) return 1;
  const double layers = r.model.number_or("layers", 1);
  const double chunks = r.plan.number_or("interleave", 1);
  if (chunks < 0 || chunks != std::floor(chunks) || (r.model.number("layers") && chunks > layers))
    throw Refusal("plan.interleave: is " + r.plan.written("interleave") + "; it must be a whole number, and no more than there are layers");
  if (const auto stated = r.plan.number("interleave"); stated && *stated >= 1 && *stated <= layers) {
    if (*stated > 1 || !holds(r.plan.text("schedule"), "interleaved")) return static_cast<int>(*stated);
  }
  const bool tuned = holds(r.plan.text("schedule"), "interleaved") || (!r.plan.has("interleave") && job.framework->interleaves);
  return tuned ? predict::usual_chunks(static_cast<int>(layers), job.plan.pp) : 1;
}

/// The stage of ZeRO: a number in the text, or what the text means; where nothing is said, what the sharding strategy of FSDP means.
int zero_of(const Record& r) {
  constexpr int kMost = 3;
  if (const auto stage = r.plan.number("zero")) {
    if (*stage < 0 || *stage > kMost || *stage != std::floor(*stage))
      throw Refusal("plan.zero: is " + r.plan.written("zero") + "; it must be 0, 1, 2 or 3");
    return static_cast<int>(*stage);
  }
  const auto text = r.plan.text("zero");
  if (const auto digit = text.find_first_of("0123"); digit != std::string::npos) return text[digit] - '0';
  if (holds_any(text, {"no", "off", "false"}) && !holds_any(text, {"offload", "not stated"})) return 0;
  if (!text.empty()) return kMost;
  return holds_any(dashed(r.plan.text("sharding")), {"full", "hybrid", "hsdp", "fsdp", "grad-op"}) ? kMost : 0;
}

/// FSDP's hybrid sharding shards inside of nodes.
int zero_group_of(const Record& r, const RecordJob& job) {
  if (job.plan.zero == 0 || !holds_any(dashed(r.plan.text("sharding")), {"hybrid", "hsdp"})) return 0;
  const int per_node = job.machine.platform.nodes.front().devices;
  return job.plan.dp > per_node && job.plan.dp % per_node == 0 ? per_node : 0;
}

std::string precision_text(const Record& r, const RecordJob& job) {
  const auto text = known_precision(r.plan.text("precision"));
  const auto& usual = job.framework->default_precision;
  const auto& device = job.machine.platform.nodes.front().device;
  if (text.empty() && usual == "narrowest") return job.model.sequence && !job.model.encoder && device.peak("fp8") ? "fp8" : "amp";
  if (text.empty() && !usual.empty()) return usual;
  if (text.empty() && job.model.sequence) return "bf16";
  if (text.starts_with("fp32/tf32")) return "tf32";
  if (text.starts_with("fp32") || text.empty())
    // PyTorch computes convolutions in tf32 where the device can, unless told otherwise; "not stated" leaves that default.
    return text.size() != 4 && job.framework->launch == costmodel::LaunchMode::Eager && device.peak("tf32") ? "tf32" : "fp32";
  if (holds(text, "half")) return "fp16";
  return text;
}

/// The row of the optimizer table that moves as many bytes as what a record names; nothing for names that no row begins.
std::optional<std::string> known_optimizer(const Record& r) {
  struct Row {
    std::string_view beginning, optimizer;
  };
  constexpr Row kRows[] = {{"adamw", "adamw"},     {"adadelta", "nadam"},  {"adafactor", "adafactor"}, {"adam", "adam"},
                           {"lamb", "lamb"},       {"lion", "lion"},       {"muon", "muon"},           {"lars", "lars"},
                           {"rmsprop", "rmsprop"}, {"adagrad", "adagrad"}, {"momentum", "sgd"},        {"nesterov", "sgd"},
                           {"nag", "sgd"},         {"sgd", "sgd"},         {"fused", "adam"},          {"distributed", "adam"}};
  const auto text = r.plan.text("optimizer");
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& known) { return text.starts_with(known.beginning); });
  return row == std::end(kRows) ? std::nullopt : std::optional(std::string(row->optimizer));
}

/// What torchao's recipes say of their all-gather.
std::optional<bool> fp8_gather(const Record& r) {
  const auto text = r.plan.text("quantisation");
  if (!holds(text, "all-gather")) return std::nullopt;
  if (holds_any(text, {"no float8", "no fp8", "without float8", "without fp8"})) return false;
  return holds_any(text, {"float8 all-gather", "fp8 all-gather", "f8 all-gather"});
}

/// Recipes of image networks do; who writes SGD or RMSprop and nothing else has what PyTorch makes of that.
bool keeps_momentum(const Record& r) {
  const auto text = r.plan.text("optimizer");
  const bool plain = text.starts_with("sgd") || text.starts_with("rmsprop");
  return !plain || holds_any(text, {"momentum", "nesterov", "sgdm", "sgd-m"});
}

std::string optimizer_of(const Record& r, const RecordJob& job) {
  if (job.model.block_alone) return "none";
  return known_optimizer(r).value_or(job.model.sequence ? "adam" : "sgd");
}

/// Mean tokens of the pieces that documents of exponentially distributed length are cut into: 249 of 512 in the Wikipedia set (MLPerf
/// Training's BERT, packing statistics), which a mean of 305 tokens a document gives.
double mean_piece(double seq) {
  constexpr double kMeanDocument = 305;
  return kMeanDocument * (1 - std::exp(-seq / kMeanDocument));
}

/// What a framework computes of sequences that are padded to `seq`: their own tokens, or those up to the end of their bin.
double computed_length(const RecordJob& job, const Record& r) {
  constexpr double kBinsOfLength = 8;  // 16 tokens of 128, 64 of 512: a piece fills half of its last bin
  const double seq = job.model.seq;
  if (!job.model.encoder) return seq;
  if (job.framework->packing == costmodel::SequencePacking::Unpadded) return std::floor(mean_piece(seq));
  if (job.framework->packing == costmodel::SequencePacking::LengthBins && holds(r.plan.text("task"), "pretrain"))
    return std::min(seq, std::floor(mean_piece(seq) + seq / kBinsOfLength / 2));
  return seq;
}

/// Activations that the record says are kept by the host, where the catalogue knows the link to it.
void set_offload(const Record& r, RecordJob& job) {
  const int layers = layers_of(r, "cpu_offload_layers");
  if (layers < 1 && !r.plan.truth("activation_offload")) return;
  if (!job.machine.platform.nodes.front().device.host_bandwidth) return;
  job.plan.offload = plan::Offload::Activations;
  job.recipe.offloaded_blocks = layers;
}

void set_modes(const Record& r, RecordJob& job) {
  auto& p = job.plan;
  auto& recipe = job.recipe;
  const auto& f = *job.framework;
  p.interleave = interleave_of(r, job);
  p.recompute = recompute_of(r, p);
  if (p.interleave > 1) p.schedule = "interleaved";
  if (holds(r.plan.text("schedule"), "gpipe")) p.schedule = "gpipe";
  p.zero = zero_of(r);
  p.zero_group = zero_group_of(r, job);
  p.sequence_parallel = p.tp > 1 && (r.plan.number("seq_parallel") ? r.plan.truth("seq_parallel") : f.sequence_parallel);
  const auto overlap = r.plan.text("overlap");
  p.overlap = (!r.plan.has("grad_bucketing") || r.plan.truth("grad_bucketing")) && overlap != "none";
  recipe.keeps_gathered = r.plan.text("sharding") == "shard_grad_op";
  recipe.fp8_gather = fp8_gather(r);
  if (r.plan.text("mixed_precision_mode") == "default") recipe.fp32_reduction = true;
  if (r.plan.number("tp_overlap")) recipe.tensor_overlap = r.plan.truth("tp_overlap");
  if (holds(overlap, "tp")) recipe.tensor_overlap = true;
  recipe.parallel_blocks = r.plan.truth("parallel_block");
  if (r.plan.has("cuda_graph")) recipe.captured = holds(r.plan.text("cuda_graph"), "full");
  if (r.plan.has("moe_a2a_overlap")) recipe.expert_overlap = r.plan.truth("moe_a2a_overlap");
  if (r.plan.truth("sliding_window_attention")) recipe.attention_window = job.model.seq / 2;
  if (holds_any(r.plan.text("precision"), {"nf4", "int4"}) || r.plan.truth("lora_quantised"))
    recipe.frozen_bytes = predict::frameworks::bytes_of_frozen("nf4");
  recipe.update_in_backward = r.plan.truth("optimizer_in_backward");
  recipe.fused_kernels = holds_any(r.plan.text("kernels"), {"fused", "liger", "triton", "unsloth"});
  recipe.chunked_loss = r.plan.truth("chunked_loss") || holds_any(r.plan.text("kernels"), {"fused linear cross", "chunked"});
  recipe.parameter_servers = holds(r.plan.text("comm"), "parameter server");
  const auto layout = r.plan.text("layout");
  recipe.channels_last = layout.empty() ? f.channels_last : layout != "nchw";
  recipe.channels_last_single = layout.empty() ? f.channels_last_single : layout != "nchw";
  recipe.optimizer = optimizer_of(r, job);
  recipe.momentum = keeps_momentum(r);
  recipe.power_limit = job.machine.power_limit;
  set_offload(r, job);
}

}  // namespace

namespace {

const FrameworkProfile* framework_of_device(const platforms::Device& d) {
  if (d.name.starts_with("TPU")) return costmodel::find_framework("jax");
  return d.name.starts_with("Gaudi") ? costmodel::find_framework("habana") : nullptr;
}

costmodel::ModelKind kind_of(const Record& r, const RecordModel& model) {
  const auto name = lower_case(r.model.text("name") + " " + model.zoo);
  const bool shaped = r.model.number_or("hidden", 0) > 0 || r.model.has("seq");
  const bool sequences = shaped || (model.sequence && !model.translation) || r.family.starts_with("transformer");
  if (!sequences || holds_any(name, {"bert", "vit", "t5", "electra", "gnmt"})) return costmodel::ModelKind::Other;
  const bool sharded = r.plan.has("text") ? predict::frameworks::is_sharded(plan::parse_plan(r.plan.written("text")))
                                          : !r.plan.text("sharding").empty() || zero_of(r) == 3;
  return sharded ? costmodel::ModelKind::ShardedDecoder : costmodel::ModelKind::Decoder;
}

/// Of a framework that no profile knows: what runs such models on such devices, as the catalogue says and `estimate` takes it.
const FrameworkProfile& framework_of_era(const Record& r, const platforms::Device& d, const RecordModel& model) {
  if (const auto* own = framework_of_device(d)) return *own;
  const bool splits = r.plan.number_or("tp", 1) > 1 || (r.plan.number_or("pp", 1) > 1 && r.model.number_or("hidden", 0) > 0);
  return costmodel::usual_framework(d, splits ? costmodel::ModelKind::Decoder : kind_of(r, model));
}

const FrameworkProfile& release_for(const FrameworkProfile& profile, const platforms::Device& d) {
  const auto* next =
      profile.successor.empty() || !costmodel::is_hopper_or_newer(d.generation) ? nullptr : costmodel::find_framework(profile.successor);
  return next != nullptr ? *next : profile;
}

/// The profile with what the record itself says of its kernels.
std::shared_ptr<const FrameworkProfile> adjusted(const Record& r, const FrameworkProfile& profile) {
  auto own = std::make_shared<FrameworkProfile>(profile);
  const auto attention = r.model.text("attn"), compiler = r.plan.text("compiler");
  if (holds_any(attention, {"flash", "fused", "xformers", "sdpa", "efficient", "triton", "cudnn"}))
    own->attention = std::max(own->attention, costmodel::AttentionKernel::Flash), own->attention_needs_hopper = false;
  else if (holds_any(attention, {"torch", "plain", "eager", "math", "naive", "vanilla"}))
    own->attention = costmodel::AttentionKernel::Plain;
  if (holds_any(compiler, {"compile", "inductor", "xla", "jit"}) || holds_any(r.plan.text("framework"), {"compile", "inductor"}))
    own->elementwise_fusion = own->normalization_fusion = 2;
  if (holds_any(compiler, {"eager"})) own->elementwise_fusion = std::min(own->elementwise_fusion, 1);
  return own;
}

}  // namespace

FrameworkChoice framework_of(const Record& r, const platforms::Device& device, const RecordModel& model) {
  const auto stated = r.plan.text("framework");
  static const std::regex kCommit(R"( ?\(commit [^)]*\))");
  const auto source = std::regex_replace(lower_case(r.source), kCommit, "");
  const auto* found = stated.empty() ? nullptr : costmodel::recognise_framework("framework:" + stated);
  if (const auto* named = costmodel::find_framework(stated); named != nullptr && r.plan.has("text")) return {named, true};
  if (found == nullptr) found = costmodel::recognise_framework(source);
  // Ports keep the name of what they port; what compiles and runs kernels on Gaudi is its own.
  if (found != nullptr && device.name.starts_with("Gaudi")) found = framework_of_device(device);
  if (found != nullptr) return {&release_for(*found, device), true};
  return {&release_for(framework_of_era(r, device, model), device), false};
}

namespace {

/// Tokens of a sample that are computed, and how many of them an encoder guesses.
void set_length(const Record& r, RecordJob& job) {
  constexpr double kMasked = 0.16;  // 20 of 128, 80 of 512 in BERT's recipes
  const double seq = std::max(1.0, std::floor(computed_length(job, r)));
  job.model.values["seq"] = static_cast<std::int64_t>(seq);
  if (!job.model.encoder) return;
  const double guessed = std::max(1.0, job.framework->predicts_all ? seq : kMasked * seq);
  job.model.values["predictions"] = holds(r.plan.text("task"), "squad") ? 1 : static_cast<std::int64_t>(guessed);
}

/// Degrees may stand beside the text, if they are its own.
void refuse_contradictions(const Record& r, const plan::Plan& p) {
  const std::pair<std::string, std::int64_t> degrees[] = {{"dp", p.dp}, {"tp", p.tp}, {"pp", p.pp},
                                                          {"cp", p.cp}, {"ep", p.ep}, {"interleave", p.interleave}};
  const auto refuse = [&](const std::string& key, std::int64_t in_text, std::optional<double> also) {
    if (also && *also != static_cast<double>(in_text))
      throw Refusal("plan." + key + ": is " + r.plan.written(key) + ", and plan.text says " + std::to_string(in_text) +
                    "; give one of them");
  };
  for (const auto& [key, in_text] : degrees) refuse(key, in_text, r.plan.number(key));
  if (p.micro_batch) refuse("micro_batch", *p.micro_batch, r.plan.number("micro_batch"));
  if (r.plan.has("zero")) refuse("zero", p.zero, zero_of(r));
}

/// Words under keys that only some words have a meaning for: what is none of them is taken for what is usual, which the answer then says.
void name_unknown_words(const Record& r, RecordJob& job) {
  const auto recompute = dashed(r.plan.text("recompute")), schedule = dashed(r.plan.text("schedule"));
  const bool no_recompute =
      recompute.starts_with("none") || recompute == "no" || recompute == "false" || recompute == "off" || recompute == "0";
  if (!recompute.empty() && !no_recompute && recompute_rule_of(r) == RecomputeRule::None) job.assumed.push_back("recompute");
  if (!r.plan.text("optimizer").empty() && !known_optimizer(r)) job.assumed.push_back("optimizer");
  if (!schedule.empty() && !holds_any(schedule, {"1f1b", "gpipe", "interleaved", "none"})) job.assumed.push_back("schedule");
}

void set_dispatcher(const Record& r, RecordJob& job) {
  const auto word = r.plan.text("dispatcher");
  job.recipe.dispatches_by_node = predict::frameworks::dispatches_by_node(word);
  if (!word.empty() && !job.recipe.dispatches_by_node) job.assumed.push_back("dispatcher");
}

/// The plan as compact text: every key as `estimate` takes it, and nothing that is usual elsewhere in its place.
void take_plan(const Record& r, RecordJob& job) {
  try {
    job.plan = plan::parse_plan(r.plan.written("text"));
    job.recipe.optimizer = graph::optimizer_row(r.plan.text("optimizer")).name;
  } catch (const BadInput& error) {
    throw Refusal(std::string("plan: ") + error.what());
  }
  const auto& p = job.plan;
  refuse_contradictions(r, p);
  if (!p.searched.empty()) throw Refusal("plan.text: " + p.searched.front() + "=auto is no plan that ran");
  if (p.ranks() != job.machine.devices)
    throw Refusal("plan.text: has " + std::to_string(p.ranks()) + " ranks, hardware.count is " + std::to_string(job.machine.devices));
  const double batch = positive(r, "global_batch"), replica = batch / p.dp;
  if (batch <= 0) throw Refusal("plan.global_batch: is missing");
  job.micro_batch = p.micro_batch ? static_cast<double>(*p.micro_batch) : replica;
  job.micro_batches = micro_batches_of(replica, job.micro_batch);
  refuse_remainders(r, job);
  job.samples = batch;
  job.tokens = batch * job.model.seq;
  const auto& f = *job.framework;
  job.recipe.channels_last = f.channels_last;
  job.recipe.channels_last_single = f.channels_last_single;
  job.recipe.power_limit = job.machine.power_limit;
}

/// Every rank holds as many experts, and every copy of them has as many ranks. Published tables have copies that are larger than a part of
/// the pipeline, so that only what no job of so many devices has is refused.
void refuse_experts(const RecordJob& job) {
  const int ep = job.plan.ep, devices = job.machine.devices;
  const auto found = job.model.values.find("experts");
  if (ep == 1 || found == job.model.values.end()) return;
  if (found->second % ep != 0)
    throw Refusal("plan.ep: " + std::to_string(ep) + " ranks do not divide " + std::to_string(found->second) + " experts");
  if (devices % ep != 0)
    throw Refusal("plan.ep: " + std::to_string(ep) + " ranks do not divide hardware.count, which is " + std::to_string(devices));
}

}  // namespace

RecordJob job_of(const Record& r) {
  RecordJob job;
  job.machine = machine_of(r);
  job.model = model_of(r);
  const auto& device = job.machine.platform.nodes.front().device;
  const auto choice = framework_of(r, device, job.model);
  job.framework = adjusted(r, *choice.profile);
  job.arithmetic = precision_text(r, job);
  job.precision = costmodel::precision_of(device, job.arithmetic);
  if (r.plan.has("text")) {
    take_plan(r, job);
  } else {
    set_degrees(r, job);
    set_batches(r, job);
    set_modes(r, job);
    name_unknown_words(r, job);
  }
  refuse_experts(job);
  set_dispatcher(r, job);
  if (job.model.sequence && job.model.values.contains("seq")) set_length(r, job);
  if (!job.machine.device_known) job.assumed.push_back("device");
  if (!choice.named) job.assumed.push_back("framework");
  if (!job.machine.network_known) job.assumed.push_back("network");
  if (job.model.shape_assumed) job.assumed.push_back("shape");
  if (!r.complete) job.assumed.push_back("record");
  return job;
}

}  // namespace rehearsal::validation
