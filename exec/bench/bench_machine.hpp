#pragma once
// What one core and the memory of this machine can do, and what the machine is.

#include "base/units.hpp"
#include "costmodel/calibration.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::exec::bench {

/// Of one core while the others do the same.
struct CoreLimits {
  FlopsPerSecond f32, f64;
  BytesPerSecond memory;               ///< a[i] = b[i] + c[i] on arrays larger than the last-level cache
  BytesPerSecond reduction;            ///< bytes added into what is in cache: what adding a received message takes
  FlopsPerSecond bf16 = {}, f16 = {};  ///< of a large product by the kernel that a plan would take; 0: not measured
};

/// Best of short bursts of thread CPU time within `seconds`.
[[nodiscard]] CoreLimits measure_core(double seconds);

[[nodiscard]] costmodel::MachineContext describe_machine();
/// As the system calls it: "AMD EPYC 7742 64-Core Processor".
[[nodiscard]] std::string processor_name();

/// What times of this build's kernels depend on here.
[[nodiscard]] costmodel::KernelHome kernel_home();
/// Memory that kernels which are measured may have, of all ranks of this node together: a quarter of what it has.
[[nodiscard]] Bytes memory_to_measure_in();

/// Where the ranks that measured were.
struct MeasuringRanks {
  int nodes = 1;
  int of_node = 1;
};

/// One device per physical core; links as the calibration has them. Several nodes are on a switch, half of whose latency is each card's.
[[nodiscard]] platforms::Platform platform_of(const CoreLimits& limits, const costmodel::Calibration&, MeasuringRanks);

}  // namespace rehearsal::exec::bench
