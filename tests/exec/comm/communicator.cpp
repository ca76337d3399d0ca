// Runs on 1 rank without mpirun and on several with it. Only CHECK, never REQUIRE: a rank that left early would keep the others waiting.
#include "exec/comm/communicator.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

TEST_CASE("ranks of one machine are on one node") {
  auto& w = world();
  CHECK(w.local_rank() == w.rank());
  CHECK(w.local_size() == w.size());
  CHECK(w.nodes() == 1);
  std::vector<int> all(static_cast<std::size_t>(w.size()));
  std::iota(all.begin(), all.end(), 0);
  CHECK(w.ranks_per_node(all) == w.size());
  CHECK(w.ranks_per_node({}) == 1);
  CHECK(MpiSession::launched() == (w.size() > 1));
  CHECK(std::getenv("OMPI_MCA_orte_create_session_dirs") == nullptr);  // an mpirun that is started from here has a folder of its own
}

TEST_CASE("small numbers are agreed on") {
  auto& w = world();
  const int p = w.size();
  CHECK(w.sum(w.rank() + 1) == p * (p + 1) / 2.0);
  CHECK(w.min(10.0 - w.rank()) == 11.0 - p);
  CHECK(w.max(10.0 - w.rank()) == 10.0);
  // 1e16 + 1 + ... in order of rank: the same bits on every rank, whatever they are
  const double sum = w.sum(w.rank() == 0 ? 1e16 : 1.0);
  CHECK(w.min(sum) == w.max(sum));
}

TEST_CASE("bytes are gathered in order of rank, and told to all") {
  auto& w = world();
  const auto text = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 100'000, static_cast<char>('a' + rank)); };
  const auto all = w.gather(text(w.rank()));
  CHECK(all.size() == (w.rank() == 0 ? static_cast<std::size_t>(w.size()) : 0U));
  for (std::size_t r = 0; r < all.size(); ++r) CHECK(all[r] == text(static_cast<int>(r)));
  const std::string told = std::string("x\0y", 3) + std::string(1 << 20, 'z');
  CHECK(w.broadcast(w.rank() == 0 ? told : "not this") == told);
  CHECK(w.broadcast("").empty());
}

TEST_CASE("clocks of one machine agree within their uncertainty and a margin for a busy machine") {
  const auto clock = world().clock_offset();
  // one steady clock for all processes: the true offset is 0
  CHECK(std::abs(clock.offset_seconds) <= clock.uncertainty_seconds + 1e-6);
  CHECK(clock.uncertainty_seconds < 0.5);
}

TEST_CASE("messages of one channel and tag keep their order, others do not mix") {
  auto& w = world();
  const int next = (w.rank() + 1) % w.size(), before = (w.rank() + w.size() - 1) % w.size();
  std::array<int, 6> sent{0, 1, 2, 3, 4, 5}, received{};
  std::array<Request, 12> requests;
  for (std::size_t i = 0; i < 6; ++i) {  // awaited in another order of channel and tag than they are sent
    const auto channel = i < 3 ? Channel::Pipeline : Channel::Collective;
    requests[i] = w.receive(before, &received[i], sizeof(int), channel, i % 3 == 2 ? 7 : 5);
  }
  for (const std::size_t i : {5U, 3U, 2U, 0U, 4U, 1U})
    requests[6 + i] = w.send(next, &sent[i], sizeof(int), i < 3 ? Channel::Pipeline : Channel::Collective, i % 3 == 2 ? 7 : 5);
  for (auto& request : requests) w.wait(request, "a number");
  CHECK(received == std::array<int, 6>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a message of another size than awaited is an internal error that names the rank") {
  auto& w = world();
  if (w.size() < 2) return;
  std::array<char, 8> bytes{};
  if (w.rank() == 1) {
    auto request = w.send(0, bytes.data(), 4, Channel::Pipeline, 1);
    w.wait(request, "half of it");
  }
  if (w.rank() == 0) {
    auto request = w.receive(1, bytes.data(), 8, Channel::Pipeline, 1);
    CHECK_THROWS_WITH(w.wait(request, "all of it"), contains("rank 1 sent 4 bytes where rank 0 awaits 8"));
  }
  w.barrier();
}
