#pragma once
// Operators as an accelerator sees them: rows of work, bytes and launches, independent of every fitted constant.

#include <array>
#include <cstdint>

namespace rehearsal::costmodel {

/// What decides the rate of a row.
enum class RateKind : std::uint8_t {
  Matmul,            ///< dense product on the matrix units of the precision
  WideMatmul,        ///< dense product that stays in 16 bits in a job of fewer
  Convolution,       ///< implicit product
  Winograd,          ///< fp32 convolution by a transform; its work is divided already
  BatchedMatmul,     ///< products of plain attention
  FlashAttention,    ///< fused attention; always in 16 bits
  CudaCoreMatmul,    ///< product whose alignment keeps it off the matrix units
  Depthwise,         ///< convolution without channel sums
  Elementwise,       ///< bytes only
  ScoreElementwise,  ///< passes over attention scores: bytes only, repeated when attention alone is recomputed
  Decomposition,     ///< eigenvectors of matrices, on one core of a host
  Count
};
inline constexpr std::size_t kRateKinds = static_cast<std::size_t>(RateKind::Count);

/// Of plain attention: what selective recomputation does again.
[[nodiscard]] bool is_attention(RateKind);
/// Bound by memory alone.
[[nodiscard]] bool is_of_bytes(RateKind);

struct CostRow {
  RateKind kind = RateKind::Elementwise;
  double work = 0;      ///< FLOPs after quantisation, of one execution
  double bytes = 0;     ///< traffic to memory, of one execution
  double count = 1;     ///< executions
  double launches = 1;  ///< kernels of one execution
};

/// Rates under one set of constants.
struct RateTable {
  std::array<double, kRateKinds> flops_per_second{}, bytes_per_second{};
  double gap = 0;   ///< seconds that the device idles between two kernels
  double host = 0;  ///< seconds that the host takes to issue one
};

/// Work that a host issues and a device runs, side by side: the host goes on while kernels wait in their queue, and the device waits only
/// where the queue runs dry. From a start at which both are free, the host is free after `host` seconds and the device after `both`; a
/// device that is behind takes `device` seconds (a max-plus system: Baccelli et al., Synchronization and Linearity, 1992).
struct LaunchQueue {
  double host = 0, device = 0, both = 0;
  /// This, then `next`.
  [[nodiscard]] LaunchQueue then(const LaunchQueue& next) const;
  /// This `times` times; below 1 that share of it.
  [[nodiscard]] LaunchQueue repeated(double times) const;
};

/// t(row) = max(work / rate, bytes / bandwidth) · count + gap · launches · count.
[[nodiscard]] double time_of(const CostRow&, const RateTable&);
[[nodiscard]] LaunchQueue queue_of(const CostRow&, const RateTable&);

}  // namespace rehearsal::costmodel
