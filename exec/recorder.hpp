#pragma once
#include "exec/trainer.hpp"
#include "traces/build.hpp"

namespace rehearsal::exec {

/// Collects every rank's instructions on rank 0, on rank 0's clock from the beginning of the first recorded step. Collective.
class Recorder {
 public:
  Recorder(const Training& training, int threads, std::int64_t first_step);
  void add(const StepReport& report, const StepResult& result, bool warm_up);
  [[nodiscard]] traces::Trace finish() && { return std::move(builder_).finish(); }

 private:
  traces::TraceBuilder builder_;
  Communicator& world_;
  double shift_ = 0, zero_ = 0;
  std::int64_t first_ = 1;
};

}  // namespace rehearsal::exec
