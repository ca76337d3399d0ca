// Runs on 1 rank without mpirun and on several with it. Only CHECK, never REQUIRE: a rank that left early would keep the others waiting.
#include "exec/comm/one_sided.hpp"

#include <cstring>
#include <numeric>

#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

constexpr OneSided::ArrivalPlaces kSmall{64, 2};

std::vector<int> all_others() {
  std::vector<int> others;
  for (int rank = 0; rank < world().size(); ++rank)
    if (rank != world().rank()) others.push_back(rank);
  return others;
}

/// What `from` sends to `to` as its message `number`: no two bytes of neighbouring places are alike.
std::vector<std::uint8_t> content(int from, int to, int number) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(number * 97));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i + i / 64 + 31 * static_cast<std::size_t>(number) + static_cast<std::size_t>(7 * from + to));
  return bytes;
}

OneSided::Take into(std::vector<std::uint8_t>& to) {
  return [&to](const std::byte* arrived, std::size_t first, std::size_t bytes) { std::memcpy(to.data() + first, arrived, bytes); };
}

void wait_for(OneSided& puts, std::vector<Request>& requests) {
  for (auto& request : requests)
    while (!puts.done(request)) world().require_neighbours();
}

}  // namespace

TEST_CASE("parts that are put arrive whole and in order, between all pairs at once, through places of which there are two") {
  constexpr int kMessages = 20;  // up to 1,843 bytes, 29 places
  const int me = world().rank();
  const auto others = all_others();
  OneSided puts(world(), others, kSmall);
  std::vector<std::vector<std::uint8_t>> sent, got;
  sent.reserve(others.size() * kMessages);
  got.reserve(others.size() * kMessages);
  std::vector<Request> requests;
  for (int number = 0; number < kMessages; ++number)
    for (const int other : others) {
      sent.push_back(content(me, other, number));
      requests.push_back(puts.put(other, sent.back().data(), sent.back().size()));
      got.emplace_back(static_cast<std::size_t>(number * 97));
      requests.push_back(puts.receive(other, got.back().size(), into(got.back())));
    }
  wait_for(puts, requests);
  std::size_t n = 0;
  for (int number = 0; number < kMessages; ++number)
    for (const int other : others) CHECK(got[n++] == content(other, me, number));
}

TEST_CASE("a sender waits while all places are taken, and for nothing else") {
  if (world().size() < 2) return;
  OneSided puts(world(), all_others(), kSmall);
  std::vector<std::uint8_t> fits(128, 1), third(64, 2), got(192);
  if (world().rank() == 0) {
    std::vector<Request> first{puts.put(1, fits.data(), fits.size())};
    auto behind = puts.put(1, third.data(), third.size());
    CHECK(puts.done(first[0]));  // both places, though nobody has asked for them
    CHECK(!puts.done(behind));
    world().barrier();
    std::vector<Request> second{behind};
    wait_for(puts, second);
  } else {
    world().barrier();
    std::vector<Request> requests;
    if (world().rank() == 1) requests.push_back(puts.receive(0, got.size(), into(got)));
    wait_for(puts, requests);
    if (world().rank() == 1) CHECK(std::accumulate(got.begin(), got.end(), 0) == 128 + 2 * 64);
  }
  world().barrier();
}

TEST_CASE("messages without bytes are done at once, and nobody puts where it was not expected") {
  OneSided puts(world(), {}, kSmall);
  auto nothing = puts.put(world().rank(), nullptr, 0);
  CHECK(puts.done(nothing));
  const std::uint8_t byte = 1;
  CHECK_THROWS_AS(puts.put((world().rank() + 1) % world().size(), &byte, 1), InternalError);
  CHECK_THROWS_AS(OneSided(world(), {}, {100, 2}), InternalError);  // the next counter would not be where numbers may be
}
