#pragma once
// Loss and accuracy of a model on a data file: what `evaluate` prints and `run --eval` adds to its result.

#include <optional>
#include <set>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/model_options.hpp"
#include "exec/trained_model.hpp"

namespace rehearsal::cli {

struct EvaluationJob {
  const ModelOptions& model;
  const exec::DataOptions& data;
  const std::string& backend;
  bool keep_outputs = false;
  std::optional<std::set<std::string>> untrained = {};  ///< exec::EvaluationOptions'
};

/// In batches of --batch, else of the model's size where it has one, else of at most 32. Without a target in the data the loss is left out.
[[nodiscard]] exec::EvaluationResult evaluate_model(const EvaluationJob&, const exec::StoredValues&, exec::Communicator& world);
/// samples, loss, accuracy, not_finite.
[[nodiscard]] nlohmann::ordered_json to_json(const exec::EvaluationResult&);

}  // namespace rehearsal::cli
