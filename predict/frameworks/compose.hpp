#pragma once
// From rows of work to the seconds of one optimizer step: pipeline, tensor, data and context parallelism, sharded parameters,
// recomputation, host, optimizer. Sources: Narayanan et al. SC 2021 (1F1B and interleaving), Korthikanti et al. 2022 (recomputation,
// sequence parallelism), Rajbhandari et al. SC 2020 (ZeRO), Shoeybi et al. 2019 (tensor parallelism).

#include "costmodel/network.hpp"
#include "predict/frameworks/job.hpp"
#include "predict/frameworks/part.hpp"

namespace rehearsal::predict::frameworks {

/// Seconds of one step and what they are made of, on the slowest rank.
struct StepTime {
  double seconds = 0;
  double forward = 0, backward = 0;  ///< of one micro-batch through one stage, recomputation in the backward pass
  double bubble = 0, exposed = 0, tensor = 0, recompute = 0, optimizer = 0, coordination = 0;
  double gradient_communication = 0;          ///< hidden and exposed
  double host = 0;                            ///< issuing the kernels of a micro-batch, where the host can be slower
  double matrix_share = 0, memory_share = 0;  ///< of the step: arithmetic, element-wise traffic
};

[[nodiscard]] StepTime compose(const ModelRows&, const AnalyticJob&, const costmodel::Network&, const costmodel::Constants&);

/// m·t_max + (sum of stages - t_max) / v: 1F1B of m micro-batches, interleaved v times; GPipe is v = 1.
[[nodiscard]] double pipeline_seconds(double micro_batches, double slowest, double sum, int interleave);
/// max(a, b) + share·min(a, b).
[[nodiscard]] double overlapped(double a, double b, double share);
/// Elements of parameters on the fullest rank.
[[nodiscard]] double parameters_of_rank(const ModelRows&, const ParallelPlan&);
/// Bytes of one gradient element on the wire.
[[nodiscard]] double gradient_bytes(const AnalyticJob&);

}  // namespace rehearsal::predict::frameworks
