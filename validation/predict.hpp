#pragma once
// Records answered by the closed form, or by playing the Program that it is the closed form of.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/constants.hpp"
#include "predict/frameworks/closed_step.hpp"
#include "predict/frameworks/lower.hpp"
#include "validation/record_job.hpp"

namespace rehearsal::validation {

/// A collective of its own, as nccl-tests measure it.
struct RecordedCollective {
  costmodel::CollectiveKind kind = costmodel::CollectiveKind::AllReduce;
  double bytes = 0;
  int ranks = 1;
};

/// Everything of a record that no fitted constant enters: asked again and again by a fit.
struct Prepared {
  RecordJob job;
  std::optional<RecordedCollective> collective;
  predict::frameworks::ModelParts parts;
  std::optional<predict::frameworks::ModelParts> plain_parts;  ///< without sequence parallelism, where a record compares with that
  std::optional<predict::frameworks::NodeLinks> links;
  bool sums_over_devices = false;                                 ///< the record's memory is of all accelerators together
  std::shared_ptr<const predict::frameworks::FoldedModel> model;  ///< that `parts` are of
  [[nodiscard]] predict::frameworks::FrameworkJob framework_job() const;
};

/// Keeps the models of the last records, since records of one model stand together.
class Preparer {
 public:
  /// Throws Refusal naming the key of the record.
  [[nodiscard]] Prepared prepare(const Record&);

 private:
  using Folded = std::shared_ptr<const predict::frameworks::FoldedModel>;
  Folded folded(const RecordModel&, std::int64_t batch, predict::frameworks::Grain);
  std::vector<std::pair<std::string, Folded>> models_;
};

/// Quantities under the names of a record's `measured`. Energy of runs uses the measured minutes where only they say how long it took. Of
/// `oom` it is the share of a device's memory that is needed: whether that runs out is for who knows how sure of it we are.
struct Answer {
  std::map<std::string, double, std::less<>> values;
  predict::frameworks::StepTime step;
  bool played = false;  ///< otherwise the closed form
};
/// `player`: plays the step; nullptr: the closed form, which also answers collectives, single blocks and samples shared out among ranks:
/// these have no Program.
[[nodiscard]] Answer answer(const Prepared&, const Record&, const costmodel::Constants&, predict::StepEvaluator* player = nullptr);

}  // namespace rehearsal::validation
