#pragma once
// One kernel of the sweep made ready, and what its runs took.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "costmodel/calibration.hpp"
#include "exec/bench/cases.hpp"
#include "exec/kernels/compute_backend.hpp"

namespace rehearsal::exec::bench {

/// Thread CPU seconds and wall seconds of one run, and whether nobody interrupted it. On a GPU both are its own seconds.
struct MeasuredRun {
  double cpu = 0, wall = 0;
  bool quiet = true;
  double issue = 0;  ///< seconds in which the host asked a GPU for it
};

class Measured {
 public:
  /// The backend must outlive it. Throws Refusal when no kernel takes the case, and for copies of the executor where the device is not the
  /// host.
  Measured(const Case& c, const ComputeBackend& backend, int threads);
  Measured(const Case& c, const ComputeBackend&& temporary, int threads) = delete;
  ~Measured();
  Measured(Measured&&) noexcept;

  [[nodiscard]] const costmodel::KernelCase& kernel() const { return kernel_; }
  /// Of the node that was asked for, whichever kernel runs it; empty for copies.
  [[nodiscard]] const std::string& node() const;
  [[nodiscard]] std::int64_t bytes() const;
  /// One run on the host as in training: operand 0 was produced just before, the others lie wherever they were left.
  void run();
  /// The same on a GPU. `other`, memory of it that is larger than its caches, is written first: what was in the caches goes, and the GPU is
  /// busy while the host asks for the kernel, whose time then has nothing of the host's.
  void run_behind(const DeviceMemory& other);
  [[nodiscard]] const std::vector<MeasuredRun>& runs() const { return runs_; }

 private:
  struct Buffers;
  costmodel::KernelCase kernel_;
  std::unique_ptr<Buffers> buffers_;
  std::vector<MeasuredRun> runs_;
};

/// Of a product of large matrices of this type on one core, the fastest of a few.
[[nodiscard]] FlopsPerSecond product_rate(const ComputeBackend& backend, DType type);

/// Robust statistics of runs; nothing is left out but the first (which makes machine code), and interrupted wall times where enough
/// are not.
[[nodiscard]] costmodel::Sample sample_of(const costmodel::KernelCase& kernel, std::span<const MeasuredRun> runs);

}  // namespace rehearsal::exec::bench
