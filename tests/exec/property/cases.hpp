#pragma once
// A model, how it is trained, and a plan: what one trial of the property test is about, as a text and at random.

#include <cstdint>
#include <string>

#include "exec/host/cpu_backend.hpp"
#include "graph/training.hpp"
#include "plan/program/program.hpp"
#include "tests/exec/property/random_draws.hpp"

namespace rehearsal::property {

struct Case {
  std::string model;  ///< see models.hpp
  std::int64_t batch = 4;
  std::string plan = "dp=1";
  std::string optimizer = "sgd";  ///< its name, then settings behind ':', "clip" being the largest norm of the gradients
  std::string dtype = "f64";
  std::int64_t bucket_bytes = 2000;
};
/// "MODEL/BATCH/PLAN/OPTIMIZER/DTYPE/BUCKET"
[[nodiscard]] std::string to_text(const Case&);
[[nodiscard]] Case parse_case(const std::string& text);

[[nodiscard]] graph::TrainingGraph training_of(const Case&);
/// Reference kernels in f64, the preferred ones in f32.
[[nodiscard]] exec::CpuBackend backend_of(const Case&);
[[nodiscard]] plan::Program program_of(const Case&, const graph::TrainingGraph&);

/// A model, an optimizer and a batch; the plan is still to be drawn.
[[nodiscard]] Case random_job(Draws&);
/// A plan for so many ranks; whether the model can use it is another question.
[[nodiscard]] std::string random_plan(Draws&, std::int64_t batch, int ranks);

}  // namespace rehearsal::property
