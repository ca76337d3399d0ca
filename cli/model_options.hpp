#pragma once
// The options by which every command names a model and how it is trained.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "formats/onnx/model_import.hpp"
#include "graph/evaluation_graph.hpp"
#include "graph/training.hpp"

namespace CLI {
class App;
}

namespace rehearsal::cli {

struct ModelOptions {
  std::string model;
  std::optional<std::int64_t> batch;
  std::vector<std::string> binds, freeze, train;
  std::string loss, lora, target = "target", dropout = "on", optimizer = "sgd", betas, nesterov = "off", dtype = "f32", loss_scale;
  std::set<std::string> typed;                    ///< options that the user wrote, without dashes
  std::map<std::string, double> hyperparameters;  ///< that it names behind a colon
  bool noise_scale = false;                       ///< squares of gradients are measured
  std::string lr_scaling;                         ///< how the rate follows the batch; empty: not
  std::optional<std::int64_t> base_batch;         ///< for which the rate is meant
  std::optional<double> lr, momentum, weight_decay, trust, eps, clip_norm, clip_value;
  std::uint64_t seed = 0;

  void add_to(CLI::App&);            ///< MODEL, --batch, --bind, --loss ... of commands that train or predict training
  void add_reference_to(CLI::App&);  ///< MODEL, --batch, --bind only
  void add_sizes_to(CLI::App&);      ///< --batch, --bind
  void add_dtype_to(CLI::App&, const std::string& help);
  void add_training_to(CLI::App&);  ///< --loss, --optimizer ...: how a model named otherwise is trained
};

struct LoadedModel {
  graph::Graph graph;
  std::vector<std::string> warnings;
  std::vector<std::string> warnings_of_training;  ///< of what costs the same, and trains otherwise
  std::vector<std::string> unresolved;
  std::vector<std::string> unknown_text;             ///< node, operator and reason of operators without a row, a line each
  std::map<std::string, std::int64_t> recognized;    ///< operators that were written as several nodes
  std::vector<formats::ExporterDamage> damage;       ///< by the exporter, weight by weight
  std::map<std::string, graph::TensorType> tensors;  ///< every tensor of the file, by the file's name
};

/// How far a model must be complete.
enum class Completeness { Trainable, Inspected, Structure };
/// Whether a model is a zoo: or hf: reference, so that Rehearsal builds it and no file holds its weights.
[[nodiscard]] bool is_built(std::string_view model);
/// A file or a zoo: or hf: reference. Inspected: goes on after unknown operators and without weights. Structure: sizes that nobody gave,
/// too.
/// `after_pass`, where it is given, hears of every pass over a file.
[[nodiscard]] LoadedModel load_model(const ModelOptions&, Completeness = Completeness::Trainable,
                                     const formats::ImportListener& after_pass = {});
/// Globs of tensor names that name, besides, what the file calls the weights that they match (an exporter renamed or shared them).
[[nodiscard]] std::vector<std::string> with_stored_names(std::vector<std::string> globs,
                                                         const std::vector<formats::ExporterDamage>& damage);
/// By what --lr-scaling multiplies the rate for a batch: linear (Goyal et al. 2017) or with its root (You et al. 2020). Throws BadInput for
/// an unknown rule, or one of the two options without the other.
[[nodiscard]] double rate_scaling(const ModelOptions&, std::int64_t batch);
/// Of what changes values and not times, where no training is built. Throws BadInput as load_training() does.
void require_possible_values(const ModelOptions&);
/// The name of an arithmetic that goes by several ("float16"). Throws BadInput.
[[nodiscard]] std::string named_arithmetic(const std::string& text);
/// Throws Refusal for an arithmetic that predictions alone know, of units that only GPUs have: no kernel here computes in it.
void require_kernels_for(const std::string& dtype);
/// NAME or NAME:KEY=VALUE,... as --optimizer has it. Throws BadInput.
void set_optimizer(const std::string& text, ModelOptions&);
/// What --optimizer, --lr, ... say, without defaults.
[[nodiscard]] graph::OptimizerSettings optimizer_of(const ModelOptions&);
/// Throws the Refusal of a training for real under --loss none, which asks for a forward pass.
[[noreturn]] void refuse_forward_pass();
/// The same for a batch: --lr as --lr-scaling makes it.
[[nodiscard]] graph::OptimizerSettings optimizer_for(const ModelOptions&, std::int64_t batch);
enum class ModelUse : std::uint8_t { Predict, Train };
/// The training graph in the element type of --dtype; of --loss none its forward pass, with a warning, which cannot be trained for real.
/// To train for real throws Refusal when the exporter computed with weights that --freeze and --train do not name: the model that was
/// exported cannot be trained from what is left of them.
[[nodiscard]] graph::TrainingGraph load_training(const ModelOptions&, std::vector<std::string>& warnings, ModelUse use = ModelUse::Predict);
/// What --freeze and --train say.
[[nodiscard]] graph::TrainingOptions roles_asked_for(const ModelOptions&, const std::vector<formats::ExporterDamage>&);
/// The model after training, for batches of this size, in f64 where --dtype says so and in f32 otherwise.
[[nodiscard]] graph::EvaluationGraph load_evaluation(const ModelOptions&, std::int64_t batch);
/// The arithmetic whose peak applies, as platforms name it; and the element type in memory.
[[nodiscard]] std::string peak_key(const ModelOptions&);
[[nodiscard]] DType element_type(const ModelOptions&);

}  // namespace rehearsal::cli
