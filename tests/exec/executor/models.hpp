#pragma once
// Small models of three families, and the Programs that plans make of them: what the ranks under mpirun and the test beside them both
// build.

#include <string>

#include "exec/host/cpu_backend.hpp"
#include "graph/training.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::exec::sample {

/// "mlp", "cnn" (with BatchNormalization and a skip) or "gpt" (one matrix shared by the embedding and the last layer).
struct Case {
  std::string model;
  std::int64_t batch = 8;
  std::string plan = "dp=1";
  std::string dtype = "f64";
};
/// "mlp/8/dp=2/f64"
[[nodiscard]] std::string to_text(const Case&);
[[nodiscard]] Case parse_case(const std::string& text);

[[nodiscard]] graph::TrainingGraph training_of(const Case&, const std::string& optimizer = "sgd");
/// Reference kernels in f64, the preferred ones in f32.
[[nodiscard]] CpuBackend backend_of(const Case&);
[[nodiscard]] plan::Program program_of(const Case&, const graph::TrainingGraph&);

}  // namespace rehearsal::exec::sample
