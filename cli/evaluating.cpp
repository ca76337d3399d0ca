#include "cli/evaluating.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::int64_t kBatch = 32;

/// Whether the data has what the loss compares with.
bool has_target(const EvaluationJob& job) {
  const auto names = exec::array_names(job.data);
  const auto named = job.data.arrays.find(job.model.target);
  const auto& target = named == job.data.arrays.end() ? job.model.target : named->second;
  return !names || std::ranges::find(*names, target) != names->end();
}

}  // namespace

exec::EvaluationResult evaluate_model(const EvaluationJob& job, const exec::StoredValues& values, exec::Communicator& world) {
  auto model = job.model;
  auto first = load_evaluation(model, model.batch.value_or(kBatch));
  if (first.step.target != graph::TensorId::None && !has_target(job)) {
    model.loss = "none";
    first = load_evaluation(model, model.batch.value_or(kBatch));
  }
  const auto wanted = model.batch.value_or(std::min(exec::samples_of(job.data, first.step), kBatch));
  if (wanted != first.step.batch) first = load_evaluation(model, wanted);
  const auto batch = first.step.batch;  // a model that is written for one batch keeps it
  if (model.batch && batch != wanted)
    throw BadInput(model.model, "the model is written for a batch of " + std::to_string(batch) + ", not " + std::to_string(wanted));
  exec::EvaluationOptions options;
  options.data = job.data;
  options.threads = exec::threads_per_rank(world);
  options.seed = model.seed;
  options.keep_outputs = job.keep_outputs;
  options.untrained = job.untrained;
  options.backend = element_type(model) == DType::F64 ? "reference" : job.backend;
  return exec::evaluate([&](std::int64_t n) { return load_evaluation(model, n); }, batch, values, world, options);
}

nlohmann::ordered_json to_json(const exec::EvaluationResult& result) {
  nlohmann::ordered_json json{{"samples", result.samples}};
  if (result.loss) json["loss"] = *result.loss;
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  if (!result.not_finite.empty()) json["not_finite"] = result.not_finite;
  return json;
}

}  // namespace rehearsal::cli
