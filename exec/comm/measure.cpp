#include "exec/comm/measure.hpp"

#include <mpi.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "exec/comm/mpi_error.hpp"
#include "exec/comm/one_sided.hpp"
#include "exec/comm/transfers.hpp"

namespace rehearsal::exec {
namespace {

constexpr int kMeasureWarmUp = 2;

/// Runs `work` on all ranks at once; seconds of the slowest.
template <class Work>
double slowest(Communicator& world, const Work& work) {
  world.barrier();
  const double start = now_seconds();
  work();
  return world.max(now_seconds() - start);
}

/// Memory and shares of MPI's counterparts, ready before they are timed.
class MpiCollective {
 public:
  MpiCollective(const Communicator& world, plan::CollectiveKind kind, std::int64_t count) : kind_(kind), count_(static_cast<int>(count)) {
    for (int r = 0; r < world.size(); ++r) {
      const auto share = plan::block(count, world.size(), r);
      counts_.push_back(static_cast<int>(share.count()));
      offsets_.push_back(static_cast<int>(share.begin));
    }
    own_ = counts_[static_cast<std::size_t>(world.rank())];
    equal_.assign(counts_.size(), own_);
    for (int r = 0; r < world.size(); ++r) equal_offsets_.push_back(r * own_);
    vector_.assign(static_cast<std::size_t>(count), 0.0F);
    received_.assign(std::max(vector_.size(), static_cast<std::size_t>(own_) * counts_.size()), 0.0F);
  }

  void run() { check_mpi(call(), "measuring MPI's own collective"); }

 private:
  int call() {
    switch (kind_) {
      case plan::CollectiveKind::AllReduce:
        return MPI_Allreduce(MPI_IN_PLACE, vector_.data(), count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      case plan::CollectiveKind::AllGather:
        return MPI_Allgatherv(MPI_IN_PLACE, own_, MPI_FLOAT, vector_.data(), counts_.data(), offsets_.data(), MPI_FLOAT, MPI_COMM_WORLD);
      case plan::CollectiveKind::ReduceScatter:
        return MPI_Reduce_scatter(vector_.data(), received_.data(), counts_.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      case plan::CollectiveKind::AllToAll:
        return MPI_Alltoallv(vector_.data(), counts_.data(), offsets_.data(), MPI_FLOAT, received_.data(), equal_.data(),
                             equal_offsets_.data(), MPI_FLOAT, MPI_COMM_WORLD);
      case plan::CollectiveKind::Broadcast:
        return MPI_Bcast(vector_.data(), count_, MPI_FLOAT, 0, MPI_COMM_WORLD);
      case plan::CollectiveKind::Reduce:
        return MPI_Reduce(vector_.data(), received_.data(), count_, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
      default:
        throw InternalError("MPI has no collective of this kind: " + std::string(plan::name(kind_)));
    }
  }

  plan::CollectiveKind kind_;
  int count_, own_ = 0;
  std::vector<int> counts_, offsets_, equal_, equal_offsets_;
  std::vector<float> vector_, received_;
};

}  // namespace

CollectiveTimes measure_collective(Communicator& world, const plan::CollectiveRow& row, std::size_t bytes, int repetitions) {
  const std::size_t elements = std::max<std::size_t>(bytes / sizeof(float), 1);
  ensure(elements <= std::numeric_limits<int>::max(), "a measured vector has at most 2^31-1 elements");
  const auto count = static_cast<std::int64_t>(elements);
  std::vector<int> group(static_cast<std::size_t>(world.size()));
  std::iota(group.begin(), group.end(), 0);
  const auto steps = row.steps(world.rank(), world.size(), count, world.ranks_per_node(group));
  const auto memory = row.memory == nullptr ? count : row.memory(world.rank(), world.size(), count);
  std::vector<float> data(static_cast<std::size_t>(memory), 0.0F);
  Transfers transfers(world);
  if (row.one_sided) transfers.take_puts_of(senders_in(steps, group, world.rank()));
  MpiCollective theirs(world, row.kind, count);
  CollectiveTimes times;
  for (int i = 0; i < kMeasureWarmUp + repetitions; ++i) {
    const double ours = slowest(world, [&] {
      transfers.wait(transfers.start_collective({&steps, group, data.data(), DType::F32, memory, graph::LabelKind::Sum, row.one_sided},
                                                "a measured vector"));
    });
    const double mpi = slowest(world, [&] { theirs.run(); });
    transfers.forget();
    if (i < kMeasureWarmUp) continue;
    times.ours.push_back(ours);
    times.mpi.push_back(mpi);
  }
  return times;
}

}  // namespace rehearsal::exec
