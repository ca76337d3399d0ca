// Runs on 1 rank without mpirun and on several with it. Only CHECK, never REQUIRE: a rank that left early would keep the others waiting.
#include "exec/comm/transfers.hpp"

#include <mpi.h>

#include <cmath>
#include <numeric>

#include "base/hash.hpp"
#include "base/random.hpp"
#include "exec/comm/measure.hpp"
#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using plan::CollectiveKind;

namespace {

std::vector<int> everyone() {
  std::vector<int> group(static_cast<std::size_t>(world().size()));
  std::iota(group.begin(), group.end(), 0);
  return group;
}

std::vector<int> others() {
  auto group = everyone();
  std::erase(group, world().rank());
  return group;
}

template <class T>
constexpr DType kType = sizeof(T) == 4 ? DType::F32 : DType::F64;

template <class T>
std::vector<T> values(int rank, std::int64_t count) {
  std::vector<T> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random_normal(1, static_cast<std::uint64_t>(rank), i));
  return v;
}

template <class T>
bool same_everywhere(const std::vector<T>& v) {
  const auto all = world().gather(Hasher().add(v.data(), v.size() * sizeof(T)).text());
  bool same = true;
  for (const auto& hash : all) same = same && hash == all.front();
  return world().min(same ? 1.0 : 0.0) == 1.0;
}

/// Runs a row's steps on everyone's values.
template <class T>
std::vector<T> collected(const plan::CollectiveRow& row, std::int64_t count, std::size_t segment_bytes, int ranks_per_node) {
  Transfers transfers(world(), segment_bytes);
  auto v = values<T>(world().rank(), count);
  const auto group = everyone();
  const auto steps = row.steps(world().rank(), world().size(), count, ranks_per_node);
  if (row.one_sided) transfers.take_puts_of(others());
  transfers.wait(transfers.start_collective({&steps, group, v.data(), kType<T>, count, graph::LabelKind::Sum, row.one_sided}, "test"));
  return v;
}

template <class T>
void check_all_reduce(const plan::CollectiveRow& row, std::int64_t count, std::size_t segment_bytes, int ranks_per_node) {
  INFO(row.name << " of " << count << " " << name(kType<T>) << " in segments of " << segment_bytes << ", " << ranks_per_node
                << " per node");
  const auto ours = collected<T>(row, count, segment_bytes, ranks_per_node);
  auto theirs = values<T>(world().rank(), count);
  MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(count), sizeof(T) == 4 ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double worst = 0.0;
  for (std::size_t i = 0; i < theirs.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(ours[i] - theirs[i])));
  // P addends below 6 in size, each addition off by half a unit of a sum below 6 P: 2 x P x 6 P x eps / 2
  const double p = world().size();
  CHECK(worst <= 6.0 * p * p * std::numeric_limits<T>::epsilon());
  CHECK(same_everywhere(ours));
}

}  // namespace

TEST_CASE("every all-reduce gives MPI's sum, with the same bits on every rank") {
  for (const auto& row : plan::collective_table()) {
    if (row.kind != CollectiveKind::AllReduce) continue;
    for (const std::int64_t count : {0, 1, 7, 1000, 100'003})
      for (const std::size_t segment_bytes : {std::size_t{64}, std::size_t{256 * 1024}})
        for (const int ranks_per_node : {1, 2}) {
          check_all_reduce<float>(row, count, segment_bytes, ranks_per_node);
          check_all_reduce<double>(row, count, segment_bytes, ranks_per_node);
        }
  }
}

TEST_CASE("segments do not change a bit of a sum") {
  for (const auto& row : plan::collective_table())
    if (row.kind == CollectiveKind::AllReduce) CHECK(collected<float>(row, 10'007, 64, 1) == collected<float>(row, 10'007, 1 << 20, 1));
}

TEST_CASE("collectives and messages under way together all arrive, collectives in their order") {
  auto& w = world();
  const int p = w.size(), me = w.rank(), next = (me + 1) % p, before = (me + p - 1) % p;
  constexpr int kRounds = 12;
  Transfers transfers(w, 4096);
  const auto group = everyone();
  std::vector<std::vector<float>> vectors, incoming;
  std::vector<std::vector<plan::CollectiveStep>> steps;
  for (int i = 0; i < kRounds; ++i) {
    const std::int64_t count = 1 + 7919 * (i % 4);
    vectors.push_back(std::vector<float>(static_cast<std::size_t>(count), static_cast<float>(me + i)));
    incoming.emplace_back(static_cast<std::size_t>(i * 1000));
    steps.push_back(plan::collective(CollectiveKind::AllReduce, i % 2 ? "ring" : "halving-doubling").steps(me, p, count, 1));
  }
  const std::vector<std::vector<float>> outgoing = [&] {
    std::vector<std::vector<float>> all;
    for (int i = 0; i < kRounds; ++i) all.emplace_back(static_cast<std::size_t>(i * 1000), static_cast<float>(100 * me + i));
    return all;
  }();
  std::vector<Ticket> sums, messages;
  for (std::size_t i = 0; i < kRounds; ++i) {
    messages.push_back(transfers.start_receive(before, incoming[i].data(), incoming[i].size() * sizeof(float), 3, "incoming"));
    messages.push_back(transfers.start_send(next, outgoing[i].data(), outgoing[i].size() * sizeof(float), 3, "outgoing"));
    sums.push_back(transfers.start_collective({&steps[i], group, vectors[i].data(), DType::F32}, "sum"));
    transfers.progress();
  }
  transfers.wait_all();
  for (int i = 0; i < kRounds; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const int sum_of_ranks = p * (p - 1) / 2;
    const auto wanted = static_cast<float>(sum_of_ranks + p * i);  // sum over ranks of rank + i
    CHECK(vectors[k] == std::vector<float>(vectors[k].size(), wanted));
    CHECK(incoming[k] == std::vector<float>(incoming[k].size(), static_cast<float>(100 * before + i)));
    CHECK(transfers.done(sums[k]));
    CHECK(transfers.times(sums[k]).start <= transfers.times(sums[k]).end);
    if (i > 0) CHECK(transfers.times(sums[k - 1]).end <= transfers.times(sums[k]).start);
  }
  transfers.forget();
  CHECK_THROWS_AS(transfers.done(sums[0]), InternalError);
}

TEST_CASE("groups sum among themselves") {
  auto& w = world();
  if (w.size() < 4) return;
  const std::vector<int> group = w.rank() % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
  const auto steps = plan::collective(CollectiveKind::AllReduce, "ring").steps(w.rank() / 2, 2, 10, 1);
  std::vector<double> v(10, w.rank());
  Transfers transfers(w);
  if (w.rank() < 4) transfers.wait(transfers.start_collective({&steps, group, v.data(), DType::F64}));
  if (w.rank() < 4) CHECK(v == std::vector<double>(10, w.rank() % 2 == 0 ? 2.0 : 4.0));  // 0 + 2, 1 + 3
  w.barrier();
}

TEST_CASE("a wait that sees no progress gives up and names the peer and the tensor") {
  auto& w = world();
  if (w.size() < 2) return;
  const double before = w.stall_seconds();
  std::array<char, 16> bytes{};
  Transfers transfers(w);
  if (w.rank() == 0) {
    w.set_stall_seconds(0.2);
    const auto ticket = transfers.start_receive(1, bytes.data(), bytes.size(), 9, "layer4.relu");
    const double start = now_seconds();
    CHECK_THROWS_WITH(transfers.wait(ticket), contains("rank 0 has waited 0.2 s for rank 1 to send 'layer4.relu' (16 bytes)"));
    CHECK(now_seconds() - start >= 0.2);
    w.set_stall_seconds(before);
    w.barrier();
    transfers.wait(ticket);  // it comes late: the wait can be taken up again
    CHECK(bytes[15] == 'z');
  } else {
    w.barrier();
    bytes.fill('z');
    if (w.rank() == 1) transfers.wait(transfers.start_send(0, bytes.data(), bytes.size(), 9, "layer4.relu"));
  }
  w.barrier();
}

TEST_CASE("a collective whose peer does not come names the peer and the step") {
  auto& w = world();
  if (w.size() < 2) return;
  const double before = w.stall_seconds();
  const auto group = everyone();
  const auto steps = plan::collective(CollectiveKind::AllReduce, "ring").steps(w.rank(), w.size(), 1000, 1);
  std::vector<float> v(1000, 1.0F);
  Transfers transfers(w);
  Ticket ticket{};
  if (w.rank() == 0) {
    w.set_stall_seconds(0.2);
    ticket = transfers.start_collective({&steps, group, v.data(), DType::F32}, "fc.weight");
    const std::string last = std::to_string(w.size() - 1);
    CHECK_THROWS_WITH(transfers.wait(ticket),
                      contains("for rank " + last + " to send a part of a collective (step 1 of ") && contains("for 'fc.weight'"));
    w.set_stall_seconds(before);
  }
  w.barrier();
  if (w.rank() != 0) ticket = transfers.start_collective({&steps, group, v.data(), DType::F32}, "fc.weight");
  transfers.wait(ticket);
  CHECK(v == std::vector<float>(1000, static_cast<float>(w.size())));
}

TEST_CASE("a one-sided collective whose peer does not come names it, too") {
  auto& w = world();
  if (w.size() < 2) return;
  const double before = w.stall_seconds();
  const auto group = everyone();
  const auto& row = plan::collective(CollectiveKind::AllReduce, "one-sided-ring");
  const auto steps = row.steps(w.rank(), w.size(), 1000, 1);
  std::vector<float> v(1000, 1.0F);
  Transfers transfers(w);
  transfers.take_puts_of(others());
  const CollectiveCall call{&steps, group, v.data(), DType::F32, 1000, graph::LabelKind::Sum, true};
  Ticket ticket{};
  if (w.rank() == 0) {
    w.set_stall_seconds(0.2);
    ticket = transfers.start_collective(call, "fc.weight");
    const std::string last = std::to_string(w.size() - 1);
    CHECK_THROWS_WITH(transfers.wait(ticket), contains("for rank " + last + " to send a part") && contains("for 'fc.weight'"));
    w.set_stall_seconds(before);
  }
  w.barrier();
  if (w.rank() != 0) ticket = transfers.start_collective(call, "fc.weight");
  transfers.wait(ticket);
  CHECK(v == std::vector<float>(1000, static_cast<float>(w.size())));
}

TEST_CASE("what is reduced may be a maximum, a minimum or a logarithm of a sum of exponentials") {
  std::vector<std::int64_t> largest{world().rank(), -world().rank()}, least = largest;
  // log(1) + ... of every rank: exp(total) is 1 + 2 + ... + size.
  std::vector<double> total{std::log(1.0 + world().rank()), -INFINITY};
  const auto group = everyone();
  const auto& ring = plan::collective(CollectiveKind::AllReduce, "ring");
  const auto steps = ring.steps(world().rank(), world().size(), 2, 1);
  Transfers transfers(world());
  transfers.start_collective({&steps, group, largest.data(), DType::I64, 2, graph::LabelKind::Max});
  transfers.start_collective({&steps, group, least.data(), DType::I64, 2, graph::LabelKind::Min});
  transfers.start_collective({&steps, group, total.data(), DType::F64, 2, graph::LabelKind::LogSumExp});
  transfers.wait_all();
  CHECK(largest == std::vector<std::int64_t>{world().size() - 1, 0});
  CHECK(least == std::vector<std::int64_t>{0, 1 - world().size()});
  CHECK(std::exp(total[0]) == Approx(world().size() * (world().size() + 1) / 2.0));
  CHECK(std::isinf(total[1]));
}

TEST_CASE("truth values are not added") {
  std::vector<plan::CollectiveStep> steps(1);
  steps[0].reduce = true;
  bool value = true;
  Transfers transfers(world());
  const auto group = everyone();
  CHECK_THROWS_AS(transfers.start_collective({&steps, group, &value, DType::Bool}), InternalError);
}

TEST_CASE("collectives are measured against MPI's") {
  const auto times = measure_collective(world(), plan::collective(CollectiveKind::AllReduce, "ring"), 1 << 16, 3);
  CHECK(times.ours.size() == 3);
  CHECK(times.mpi.size() == 3);
  for (const double t : times.ours) CHECK(t > 0.0);
}
