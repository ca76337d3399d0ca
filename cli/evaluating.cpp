#include "cli/evaluating.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::int64_t kBatch = 32;

/// How many samples the file has: rows of the target, else of the first array that has rows.
std::int64_t samples_in(const std::map<std::string, exec::NpyArray>& arrays, const std::string& target) {
  const auto rows = [](const exec::NpyArray& array) { return array.type.shape.empty() ? 0 : array.type.shape.front(); };
  if (const auto at = arrays.find(target); at != arrays.end()) return rows(at->second);
  for (const auto& [name, array] : arrays)
    if (rows(array) > 0) return rows(array);
  return 0;
}

}  // namespace

exec::EvaluationResult evaluate_model(const EvaluationJob& job, const exec::StoredValues& values, exec::Communicator& world) {
  const auto arrays = exec::read_npz(job.data);
  auto model = job.model;
  const bool has_target = arrays.contains(model.target);
  const auto wanted = model.batch.value_or(std::max<std::int64_t>(1, std::min(samples_in(arrays, model.target), kBatch)));
  const auto first = load_evaluation(model, wanted);
  const auto batch = first.step.batch;  // a model that is written for one batch keeps it
  if (model.batch && batch != wanted)
    throw BadInput(model.model, "the model is written for a batch of " + std::to_string(batch) + ", not " + std::to_string(wanted));
  if (first.step.target != graph::TensorId::None && !has_target) model.loss = "none";
  exec::EvaluationOptions options;
  options.data = job.data;
  options.threads = exec::threads_per_rank(world);
  options.seed = model.seed;
  options.keep_outputs = job.keep_outputs;
  options.backend = element_type(model) == DType::F64 ? "reference" : job.backend;
  return exec::evaluate([&](std::int64_t n) { return load_evaluation(model, n); }, batch, values, world, options);
}

nlohmann::ordered_json to_json(const exec::EvaluationResult& result) {
  nlohmann::ordered_json json{{"samples", result.samples}};
  if (result.loss) json["loss"] = *result.loss;
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  return json;
}

}  // namespace rehearsal::cli
