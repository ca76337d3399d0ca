#pragma once
// One kernel of the sweep made ready, and what its runs took.

#include <memory>
#include <span>
#include <vector>

#include "costmodel/calibration.hpp"
#include "exec/bench/cases.hpp"
#include "exec/host/cpu_backend.hpp"

namespace rehearsal::exec::bench {

/// Thread CPU seconds and wall seconds of one run, and whether nobody interrupted it.
struct Run {
  double cpu = 0, wall = 0;
  bool quiet = true;
};

class Measured {
 public:
  /// Throws Refusal when no kernel takes the case.
  Measured(const Case& c, const CpuBackend& backend, int threads);
  ~Measured();
  Measured(Measured&&) noexcept;

  [[nodiscard]] const costmodel::KernelCase& kernel() const { return kernel_; }
  [[nodiscard]] std::int64_t bytes() const;
  /// One run as in training: operand 0 was produced just before, the others lie wherever they were left.
  void run();
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }

 private:
  struct Buffers;
  void call();
  costmodel::KernelCase kernel_;
  std::unique_ptr<Buffers> buffers_;
  std::vector<Run> runs_;
};

/// Of a product of large matrices of this type on one core, the fastest of a few.
[[nodiscard]] FlopsPerSecond product_rate(const CpuBackend& backend, DType type);

/// Robust statistics of runs; nothing is left out but the first (which makes machine code), and interrupted wall times where enough
/// are not.
[[nodiscard]] costmodel::Sample sample_of(const costmodel::KernelCase& kernel, std::span<const Run> runs);

/// Value below which a share `q` of the values lies.
[[nodiscard]] double quantile(std::vector<double> values, double q);

}  // namespace rehearsal::exec::bench
