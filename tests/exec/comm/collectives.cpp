// Every row of the collective table, run through messages, against what MPI's own collectives give. Runs on 1 rank without mpirun and on
// several with it; only CHECK, never REQUIRE: a rank that left early would keep the others waiting.
#include <mpi.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.hpp"
#include "exec/comm/transfers.hpp"
#include "plan/block.hpp"
#include "plan/collectives/packed_trees.hpp"
#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using plan::CollectiveKind;

namespace {

template <class T>
struct Types;
template <>
struct Types<float> {
  static constexpr DType ours = DType::F32;
  static MPI_Datatype mpi() { return MPI_FLOAT; }
};
template <>
struct Types<double> {
  static constexpr DType ours = DType::F64;
  static MPI_Datatype mpi() { return MPI_DOUBLE; }
};

std::vector<int> everyone() {
  std::vector<int> group(static_cast<std::size_t>(world().size()));
  std::iota(group.begin(), group.end(), 0);
  return group;
}

template <class T>
std::vector<T> values(int rank, std::int64_t count) {
  std::vector<T> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random_normal(5, static_cast<std::uint64_t>(rank), i));
  return v;
}

/// How block() deals a vector, as MPI wants to be told.
struct Shares {
  std::vector<int> counts, offsets;
  explicit Shares(std::int64_t count) {
    for (int r = 0; r < world().size(); ++r) {
      const auto b = plan::block(count, world().size(), r);
      counts.push_back(static_cast<int>(b.count()));
      offsets.push_back(static_cast<int>(b.begin));
    }
  }
  [[nodiscard]] int own() const { return counts[static_cast<std::size_t>(world().rank())]; }
  [[nodiscard]] int begin() const { return offsets[static_cast<std::size_t>(world().rank())]; }
};

/// The data of a call afterwards: the vector, and for an all-to-all what was received behind it.
template <class T>
std::vector<T> ours(const std::vector<plan::CollectiveStep>& steps, CollectiveKind kind, std::int64_t count, bool one_sided) {
  auto data = values<T>(world().rank(), count);
  if (kind == CollectiveKind::AllToAll)
    data.resize(data.size() + static_cast<std::size_t>(Shares(count).own()) * static_cast<std::size_t>(world().size()));
  const auto group = everyone();
  Transfers transfers(world(), 4096);
  auto others = group;
  std::erase(others, world().rank());
  if (one_sided) transfers.take_puts_of(others);
  const auto elements = static_cast<std::int64_t>(data.size());
  transfers.wait(
      transfers.start_collective({&steps, group, data.data(), Types<T>::ours, elements, graph::LabelKind::Sum, one_sided}, "a collective"));
  return data;
}

/// What rank 0's, or this rank's, part is according to MPI. Only [begin, begin + result.size()) is promised.
template <class T>
struct Wanted {
  std::size_t begin = 0;
  std::vector<T> result;
};

template <class T>
Wanted<T> mpi(CollectiveKind kind, std::int64_t count) {
  const auto type = Types<T>::mpi();
  const Shares shares(count);
  const int n = static_cast<int>(count), ranks = world().size();
  const auto own = values<T>(world().rank(), count);
  Wanted<T> w{0, own};
  switch (kind) {
    case CollectiveKind::AllReduce:
      MPI_Allreduce(own.data(), w.result.data(), n, type, MPI_SUM, MPI_COMM_WORLD);
      break;
    case CollectiveKind::AllGather:
      MPI_Allgatherv(own.data() + shares.begin(), shares.own(), type, w.result.data(), shares.counts.data(), shares.offsets.data(), type,
                     MPI_COMM_WORLD);
      break;
    case CollectiveKind::ReduceScatter:
      w.begin = static_cast<std::size_t>(shares.begin());
      w.result.resize(static_cast<std::size_t>(shares.own()));
      MPI_Reduce_scatter(own.data(), w.result.data(), shares.counts.data(), type, MPI_SUM, MPI_COMM_WORLD);
      break;
    case CollectiveKind::AllToAll: {
      std::vector<int> counts(static_cast<std::size_t>(ranks), shares.own()), offsets;
      for (int r = 0; r < ranks; ++r) offsets.push_back(r * shares.own());
      w.begin = own.size();
      w.result.resize(static_cast<std::size_t>(ranks * shares.own()));
      MPI_Alltoallv(own.data(), shares.counts.data(), shares.offsets.data(), type, w.result.data(), counts.data(), offsets.data(), type,
                    MPI_COMM_WORLD);
      break;
    }
    case CollectiveKind::Broadcast:
      MPI_Bcast(w.result.data(), n, type, 0, MPI_COMM_WORLD);
      break;
    case CollectiveKind::Reduce:
      MPI_Reduce(own.data(), w.result.data(), n, type, MPI_SUM, 0, MPI_COMM_WORLD);
      if (world().rank() != 0) w.result.clear();
      break;
    default:
      FAIL("a kind without MPI's counterpart");
  }
  return w;
}

template <class T>
void check(const std::vector<plan::CollectiveStep>& steps, CollectiveKind kind, std::int64_t count, bool one_sided = false) {
  const auto data = ours<T>(steps, kind, count, one_sided);
  const auto wanted = mpi<T>(kind, count);
  double worst = 0;
  for (std::size_t i = 0; i < wanted.result.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(data[wanted.begin + i] - wanted.result[i])));
  // P addends below 6 in size, each addition off by half a unit of a sum below 6 P: 2 x P x 6 P x eps / 2; what is only moved is exact
  const bool adds = kind == CollectiveKind::AllReduce || kind == CollectiveKind::Reduce || kind == CollectiveKind::ReduceScatter;
  const double p = world().size();
  CHECK(worst <= (adds ? 6.0 * p * p * std::numeric_limits<T>::epsilon() : 0.0));
}

}  // namespace

TEST_CASE("every collective of the table gives what MPI's own gives") {
  for (const auto& row : plan::collective_table())
    for (const std::int64_t count : {0, 1, 7, 1003, 60'001})
      for (const int ranks_per_node : {1, 2}) {
        INFO(row.name << " (" << plan::name(row.kind) << ") of " << count << ", " << ranks_per_node << " per node");
        const auto steps = row.steps(world().rank(), world().size(), count, ranks_per_node);
        check<float>(steps, row.kind, count, row.one_sided);
        check<double>(steps, row.kind, count, row.one_sided);
      }
}

TEST_CASE("trees packed into an irregular wiring give MPI's sum") {
  std::vector<int> gpus{1, 5, 4, 7, 6, 2, 3, 0};  // each is wired to the one before it
  gpus.resize(std::min<std::size_t>(gpus.size(), static_cast<std::size_t>(world().size())));
  if (static_cast<int>(gpus.size()) < world().size()) return;
  const plan::PackedTrees trees(plan::dgx1_wiring(gpus));
  for (const std::int64_t count : {1, 1003, 60'001}) {
    INFO(count << " elements");
    check<double>(trees.steps(world().rank(), count), CollectiveKind::AllReduce, count);
  }
}
