#pragma once
// Predictions of how another framework runs a plan.

#include <memory>

#include "costmodel/site_corrections.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::predict::frameworks {

/// What a framework is asked to train.
struct TrainingRequest {
  graph::Graph model;     ///< forward nodes, for the whole batch of a step
  std::string precision;  ///< as costmodel::precision_of() reads it
  std::string optimizer;  ///< a row of graph::optimizer_table()
  Recipe recipe = {};     ///< its optimizer is not looked at
};

/// `platform` and `profile` must outlive it. `site`: what measured runs say about predictions of time, memory and energy. Throws Refusal
/// when the device has no peak for the precision, BadInput for an optimizer that is not known.
[[nodiscard]] std::unique_ptr<Predictor> framework_predictor(TrainingRequest, const platforms::Platform& platform,
                                                             const costmodel::FrameworkProfile& profile, costmodel::Site site = {});

}  // namespace rehearsal::predict::frameworks
