#pragma once
#include <string_view>

namespace rehearsal::exec {

/// Throws EnvironmentFailure with MPI's own words unless `code` is MPI_SUCCESS. `what` was being done.
void check_mpi(int code, std::string_view what);

}  // namespace rehearsal::exec
