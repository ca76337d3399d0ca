#pragma once
// What a run that goes on with a checkpoint says of it before it begins.

#include <optional>
#include <string>
#include <vector>

#include "cli/data_options.hpp"
#include "cli/model_options.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/play/executor.hpp"

namespace rehearsal::cli {

/// What the checkpoint says that this training goes on with; nothing where `folder` is empty. Warns of another batch. Throws BadInput as
/// exec::load_checkpoint() does.
[[nodiscard]] std::optional<exec::CheckpointHeader> header_to_resume(const std::string& folder, const exec::Training& training,
                                                                     std::vector<std::string>& warnings);

/// What one step of a training is given from outside, for as long as it lasts.
struct Course {
  const DataFlags& data;
  const exec::DataSource& source;
  std::string schedule;  ///< of the learning rate, with where it ends
};

/// What checkpoints of a training keep of the command that began it.
[[nodiscard]] exec::TrainedAs trained_as(const ModelOptions&, const Course&, const graph::TrainingGraph&);
/// The hash of the training of these options, had it the batch of a checkpoint and those of its numbers that decide what an optimizer
/// keeps.
[[nodiscard]] std::string hash_as_then(ModelOptions, const exec::CheckpointHeader&);
/// Warns of what ranks keep for themselves under another plan, and of the optimizer's numbers, of data and of a schedule that are not as
/// they were when the checkpoint in `folder` was written. Throws Refusal where the plan takes Adam's second moment for settled earlier
/// than the checkpoint's training did.
void warn_of_other_course(const std::string& folder, const exec::CheckpointHeader&, const exec::Training&, const exec::TrainedAs& now,
                          std::vector<std::string>& warnings);
/// That what is evaluated is what was trained: the seed of the checkpoint is taken where none was given. Throws BadInput for another seed,
/// other untrained weights or another factor of adapters; warns of another network.
void take_trained(ModelOptions&, const exec::CheckpointHeader&, const std::string& folder, std::vector<std::string>& warnings);

}  // namespace rehearsal::cli
