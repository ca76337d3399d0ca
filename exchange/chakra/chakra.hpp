#pragma once
// Chakra execution traces (MLCommons): what ASTRA-sim and others simulate, and what profilers of several frameworks are converted to.

#include <iosfwd>
#include <string>
#include <vector>

#include "exchange/profile/profile.hpp"
#include "graph/graph.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::exchange {

/// A played step. `timeline`: of every rank, or of every role's representative alone, whose ranks `shown` names.
struct PlayedStep {
  const plan::Program& program;
  const graph::Graph& graph;  ///< whose nodes and tensors the program names
  const predict::Timeline& timeline;
  std::vector<int> shown;  ///< rank of every row of the timeline
  int threads = 1;         ///< of a rank
};

/// The bytes of one rank's file. A node for every instruction, in the order in which they were issued, with its time, in microseconds; its
/// data dependencies are the one before it on its own stream and what it waits for on others. What the host takes to launch a kernel is a
/// node of its own (is_cpu_op). A rank that was not played does what its role's representative did.
[[nodiscard]] std::string chakra_trace(const PlayedStep&, int rank);
/// {"0": [ranks], ...}: the groups that collectives name by pg_name, as ASTRA-sim reads them.
[[nodiscard]] std::string chakra_groups(const plan::Program&);

/// Whether a file that begins so can be one.
[[nodiscard]] bool is_chakra(const std::string& beginning);
/// Work of the device alone. Throws BadInput naming `file` and the node: truncated, no trace, an id given twice, no times at all.
/// Converters of PyTorch's profiles say how long nodes took and not when they began.
[[nodiscard]] GpuProfile read_chakra(std::istream&, const std::string& file);

}  // namespace rehearsal::exchange
