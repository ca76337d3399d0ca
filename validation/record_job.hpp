#pragma once
// A record as a question to the closed form: machine, model, plan, framework.

#include <memory>
#include <string>
#include <vector>

#include "predict/frameworks/framework_job.hpp"
#include "validation/model.hpp"
#include "validation/record_machine.hpp"

namespace rehearsal::validation {

struct RecordJob {
  RecordMachine machine;
  RecordModel model;
  std::shared_ptr<const costmodel::FrameworkProfile> framework;  ///< with what the record says of kernels put over the profile
  costmodel::Precision precision;
  std::string arithmetic;  ///< as costmodel::precision_of() reads it
  plan::Plan plan;
  double micro_batch = 1;  ///< samples; below 1: a sample is shared out among ranks
  int micro_batches = 1;
  predict::frameworks::Recipe recipe;
  double samples = 0;                ///< of one step
  double tokens = 0;                 ///< of one step as the record counts them; 0: no sequences
  std::vector<std::string> assumed;  ///< what the record does not say: widens the interval
};

/// Throws Refusal naming the record's key that is missing or contradicts another.
[[nodiscard]] RecordJob job_of(const Record&);
/// The profile that a record's framework or source names, in the release that the device's generation ran.
struct FrameworkChoice {
  const costmodel::FrameworkProfile* profile = nullptr;
  bool named = true;  ///< false: nearest to what the plan and the device say
};
[[nodiscard]] FrameworkChoice framework_of(const Record&, const platforms::Device&, const RecordModel& = {});

}  // namespace rehearsal::validation
