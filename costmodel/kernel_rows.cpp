#include "costmodel/kernel_rows.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::costmodel {
namespace {

/// Convolutions hide neither arithmetic nor traffic fully behind the other: their cubic mean, the maximum for all else.
bool of_convolution(RateKind kind) { return kind == RateKind::Convolution || kind == RateKind::Winograd; }

double joined(RateKind kind, double work, double bytes) {
  if (!of_convolution(kind) || work <= 0) return std::max(work, bytes);
  return std::cbrt(work * work * work + bytes * bytes * bytes);
}

}  // namespace

bool is_attention(RateKind kind) {
  return kind == RateKind::BatchedMatmul || kind == RateKind::CudaCoreMatmul || kind == RateKind::ScoreElementwise;
}

bool is_of_bytes(RateKind kind) { return kind == RateKind::Elementwise || kind == RateKind::ScoreElementwise; }

double time_of(const CostRow& row, const RateTable& rates) {
  const auto kind = static_cast<std::size_t>(row.kind);
  const double work = row.work > 0 ? row.work / rates.flops_per_second[kind] : 0;
  return (joined(row.kind, work, row.bytes / rates.bytes_per_second[kind]) + rates.gap * row.launches) * row.count;
}

LaunchQueue LaunchQueue::then(const LaunchQueue& next) const {
  return {host + next.host, device + next.device, std::max(both + next.device, host + next.both)};
}

LaunchQueue LaunchQueue::repeated(double times) const {
  if (times <= 1) return {host * times, device * times, both * times};
  return {host * times, device * times, both + (times - 1) * std::max(host, device)};
}

LaunchQueue queue_of(const CostRow& row, const RateTable& rates) {
  const double kernels = row.launches * row.count, pieces = std::max(1.0, kernels);
  const LaunchQueue one{kernels * rates.host / pieces, time_of(row, rates) / pieces, 0};
  return LaunchQueue{one.host, one.device, one.host + one.device}.repeated(pieces);
}

}  // namespace rehearsal::costmodel
