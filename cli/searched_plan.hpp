#pragma once
#include "cli/run_options.hpp"
#include "cli/terminal.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/kernels/compute_device.hpp"

namespace rehearsal::cli {

/// What `--plan auto` means: the quickest plan for these ranks, by closed forms, on the machine of --machine. Without that one of a
/// processor is searched on the cores of an ordinary server, as many as there are, which is said. Rank 0 searches for all.
/// Throws Refusal where no plan fits, or where a GPU computes and no --machine says what it does.
[[nodiscard]] plan::Plan searched_plan(const RunOptions&, const exec::ComputeDevice&, exec::Communicator& world, const Terminal&);

}  // namespace rehearsal::cli
