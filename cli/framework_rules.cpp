#include "cli/framework_rules.hpp"

namespace rehearsal::cli {

exchange::TrainingJob training_job(const ModelOptions& o, std::int64_t batch) {
  exchange::TrainingJob job;
  job.model = o.model;
  job.batch = batch;
  job.loss = o.loss;
  job.dtype = o.dtype;
  job.optimizer = graph::completed(optimizer_for(o, batch));
  job.clip_norm = o.clip_norm.value_or(0);
  job.loss_scale = o.loss_scale;
  return job;
}

}  // namespace rehearsal::cli
