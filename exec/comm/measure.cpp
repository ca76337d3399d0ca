#include "exec/comm/measure.hpp"

#include <mpi.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "exec/comm/mpi_error.hpp"
#include "exec/comm/transfers.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kWarmUp = 2;

/// Runs `work` on all ranks at once; seconds of the slowest.
template <class Work>
double slowest(Communicator& world, const Work& work) {
  world.barrier();
  const double start = now_seconds();
  work();
  return world.max(now_seconds() - start);
}

}  // namespace

CollectiveTimes measure_collective(Communicator& world, std::string_view algorithm, std::size_t bytes, int repetitions) {
  const auto& row = plan::collective(plan::CollectiveKind::AllReduce, algorithm);
  const std::size_t count = std::max<std::size_t>(bytes / sizeof(float), 1);
  ensure(count <= std::numeric_limits<int>::max(), "a measured vector has at most 2^31-1 elements");
  std::vector<int> group(static_cast<std::size_t>(world.size()));
  std::iota(group.begin(), group.end(), 0);
  const auto steps = row.steps(world.rank(), world.size(), static_cast<std::int64_t>(count), world.ranks_per_node(group));
  std::vector<float> vector(count, 0.0F);
  Transfers transfers(world);
  CollectiveTimes times;
  for (int i = 0; i < kWarmUp + repetitions; ++i) {
    const double ours = slowest(world, [&] {
      transfers.wait(transfers.start_collective({&steps, group, vector.data(), DType::F32}, "a measured vector"));
    });
    const double mpi = slowest(world, [&] {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, vector.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                "measuring MPI_Allreduce");
    });
    transfers.forget();
    if (i < kWarmUp) continue;
    times.ours.push_back(ours);
    times.mpi.push_back(mpi);
  }
  return times;
}

}  // namespace rehearsal::exec
