// Shares of what caches hold, against epochs that are distributed and caches that are filled sample by sample.
#include "predict/input/cached_shares.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.hpp"

using namespace rehearsal::predict;

namespace {

const CacheKind& kind(const std::string& name) { return *std::ranges::find(cache_kinds(), name, &CacheKind::name); }
CachedShares shares(const std::string& name, const CacheQuestion& q) { return kind(name).behind_first_epoch(q); }

/// What one training of `nodes` nodes wants: by epoch and node the samples, in order.
using Wants = std::vector<std::vector<std::vector<int>>>;

Wants dealt_out(int samples, int nodes, int epochs) {
  std::mt19937 random(7);
  std::vector<int> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  Wants wants;
  for (int e = 0; e < epochs; ++e) {
    std::shuffle(order.begin(), order.end(), random);
    auto& epoch = wants.emplace_back(static_cast<std::size_t>(nodes));
    for (int n = 0; n < samples; ++n) epoch[static_cast<std::size_t>(n % nodes)].push_back(order[static_cast<std::size_t>(n)]);
  }
  return wants;
}

/// Counts what was wanted behind the first epoch, and what of it was there.
struct Count {
  double wanted = 0, own = 0, peers = 0;
  [[nodiscard]] CachedShares shares() const { return {own / wanted, peers / wanted, 1 - (own + peers) / wanted}; }
};

Count first_touched(const Wants& wants, std::size_t room, int samples) {
  Count count;
  for (std::size_t node = 0; node < wants.front().size(); ++node) {
    std::vector<bool> here(static_cast<std::size_t>(samples));
    std::size_t kept = 0;
    for (std::size_t e = 0; e < wants.size(); ++e)
      for (const int sample : wants[e][node]) {
        const bool hit = here[static_cast<std::size_t>(sample)];
        count.wanted += e > 0 ? 1 : 0;
        count.own += e > 0 && hit ? 1 : 0;
        if (hit || kept == room) continue;
        here[static_cast<std::size_t>(sample)] = true;
        ++kept;
      }
  }
  return count;
}

Count least_recently_used(const Wants& wants, std::size_t room, int samples) {
  Count count;
  for (std::size_t node = 0; node < wants.front().size(); ++node) {
    std::list<int> latest;
    std::vector<std::list<int>::iterator> at(static_cast<std::size_t>(samples), latest.end());
    for (std::size_t e = 0; e < wants.size(); ++e)
      for (const int sample : wants[e][node]) {
        auto& place = at[static_cast<std::size_t>(sample)];
        const bool hit = place != latest.end();
        count.wanted += e > 0 ? 1 : 0;
        count.own += e > 0 && hit ? 1 : 0;
        if (hit) latest.erase(place);
        latest.push_front(sample);
        place = latest.begin();
        if (latest.size() <= room) continue;
        at[static_cast<std::size_t>(latest.back())] = latest.end();
        latest.pop_back();
      }
  }
  return count;
}

/// The samples that a node wants most often in the training; of those that it wants equally often, any.
std::vector<bool> most_wanted_by(const Wants& wants, std::size_t node, std::size_t room, int samples) {
  std::mt19937 random(static_cast<unsigned>(node));
  std::vector<int> often(static_cast<std::size_t>(samples)), order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (const auto& epoch : wants)
    for (const int sample : epoch[node]) ++often[static_cast<std::size_t>(sample)];
  std::ranges::stable_sort(order, std::greater<>(), [&](int s) { return often[static_cast<std::size_t>(s)]; });
  std::vector<bool> kept(static_cast<std::size_t>(samples));
  for (std::size_t n = 0; n < room; ++n) kept[static_cast<std::size_t>(order[n])] = often[static_cast<std::size_t>(order[n])] > 0;
  return kept;
}

/// What a node keeps is its own from when it first wanted it, and there for the others from then on.
Count most_wanted(const Wants& wants, std::size_t room, int samples) {
  Count count;
  const auto nodes = wants.front().size();
  std::vector<std::vector<bool>> kept, here(nodes, std::vector<bool>(static_cast<std::size_t>(samples)));
  for (std::size_t node = 0; node < nodes; ++node) kept.push_back(most_wanted_by(wants, node, room, samples));
  std::vector<bool> somewhere(static_cast<std::size_t>(samples));
  for (std::size_t e = 0; e < wants.size(); ++e)
    for (std::size_t node = 0; node < nodes; ++node)
      for (const int sample : wants[e][node]) {
        const auto s = static_cast<std::size_t>(sample);
        count.wanted += e > 0 ? 1 : 0;
        count.own += e > 0 && here[node][s] ? 1 : 0;
        count.peers += e > 0 && !here[node][s] && somewhere[s] ? 1 : 0;
        if (kept[node][s]) here[node][s] = somewhere[s] = true;
      }
  return count;
}

/// A node keeps what nobody else has; once everything is somewhere, what it got from peers.
Count kept_by_all(const Wants& wants, std::size_t room, int samples) {
  Count count;
  const auto nodes = wants.front().size();
  std::vector<std::vector<bool>> here(nodes, std::vector<bool>(static_cast<std::size_t>(samples)));
  std::vector<std::size_t> kept(nodes);
  std::vector<bool> somewhere(static_cast<std::size_t>(samples));
  for (std::size_t e = 0; e < wants.size(); ++e)
    for (std::size_t node = 0; node < nodes; ++node)
      for (const int sample : wants[e][node]) {
        const auto s = static_cast<std::size_t>(sample);
        count.wanted += e > 0 ? 1 : 0;
        count.own += e > 0 && here[node][s] ? 1 : 0;
        count.peers += e > 0 && !here[node][s] && somewhere[s] ? 1 : 0;
        if (here[node][s] || kept[node] == room) continue;
        here[node][s] = somewhere[s] = true;
        ++kept[node];
      }
  return count;
}

void check_near(const CachedShares& predicted, const CachedShares& counted) {
  CHECK(predicted.own == Approx(counted.own).margin(0.01));
  CHECK(predicted.peers == Approx(counted.peers).margin(0.01));
  CHECK(predicted.storage == Approx(counted.storage).margin(0.01));
  CHECK(predicted.own + predicted.peers + predicted.storage == Approx(1));
}

}  // namespace

TEST_CASE("what was distributed and cached sample by sample is what the formulas say") {
  constexpr int kSamples = 8000;
  for (const int nodes : {1, 2, 8})
    for (const int epochs : {2, 5, 20}) {
      const auto wants = dealt_out(kSamples, nodes, epochs);
      for (const double room : {0.05, 0.2, 0.6, 1.0}) {
        INFO(nodes << " nodes, " << epochs << " epochs, room for " << room);
        const auto places = static_cast<std::size_t>(room * kSamples);
        const CacheQuestion q{nodes, room, static_cast<double>(epochs)};
        check_near(shares("node", q), first_touched(wants, places, kSamples).shares());
        check_near(shares("node:lru", q), least_recently_used(wants, places, kSamples).shares());
        const auto clairvoyant = most_wanted(wants, places, kSamples).shares();
        check_near(shares("node:clairvoyant", q), {clairvoyant.own, 0, clairvoyant.peers + clairvoyant.storage});
        check_near(shares("global:clairvoyant", q), clairvoyant);
        check_near(shares("global", q), kept_by_all(wants, places, kSamples).shares());
      }
    }
}

TEST_CASE("on one node the shares are known in closed form") {
  // An epoch wants everything once: what is kept is there, and of least recently used ones c + (1 - c) ln(1 - c) are left.
  const CacheQuestion half{1, 0.5, 0};
  CHECK(shares("node", half).own == Approx(0.5));
  CHECK(shares("node:clairvoyant", half).own == Approx(0.5));
  CHECK(shares("node:lru", half).own == Approx(0.5 + 0.5 * std::log(0.5)));
  CHECK(shares("global", half).own == Approx(0.5));
  CHECK(shares("none", half).storage == 1);
}

TEST_CASE("two epochs on two nodes, by hand") {
  // A sample is wanted 0, 1 or 2 times by a node: 1/4, 1/2, 1/4. A quarter of room holds those that are wanted twice. They are half of what
  // is wanted in the second epoch; all of these are there.
  CHECK(shares("node:clairvoyant", {2, 0.25, 2}).own == Approx(0.5));
  // First come: a quarter of the samples, whichever they are.
  CHECK(shares("node", {2, 0.25, 2}).own == Approx(0.25));
  // Both together have half.
  const auto global = shares("global", {2, 0.25, 2});
  CHECK(global.own == Approx(0.25));
  CHECK(global.peers == Approx(0.25));
  // Keeping the quarter that it wants twice, a node has nothing that the other one wants.
  CHECK(shares("global:clairvoyant", {2, 0.25, 2}).peers == Approx(0).margin(1e-9));
  // Room for half of what is wanted once besides, a quarter of all: a sample that each wants once lies with the other one, which had it in
  // the first epoch, in half of the cases. These are half of what is wanted in the second epoch.
  CHECK(shares("global:clairvoyant", {2, 0.5, 2}).peers == Approx(0.25));
  // Room for everything: of the second epoch a node has what it had in the first one.
  CHECK(shares("node", {2, 1, 2}).own == Approx(0.5));
  CHECK(shares("global", {2, 1, 2}).peers == Approx(0.5));
}

TEST_CASE("who knows the future keeps no less than who does not") {
  for (const int nodes : {1, 4, 64})
    for (const double room : {0.01, 0.1, 0.5})
      for (const double epochs : {2., 10., 90.}) {
        const CacheQuestion q{nodes, room, epochs};
        INFO(nodes << " nodes, room for " << room << ", " << epochs << " epochs");
        CHECK(shares("node:clairvoyant", q).own >= shares("node", q).own - 1e-9);
        CHECK(shares("node", q).own >= shares("node:lru", q).own - 1e-9);
        CHECK(shares("global", q).storage <= shares("node", q).storage + 1e-9);
        CHECK(shares("global:clairvoyant", q).storage <= shares("node:clairvoyant", q).storage + 1e-9);
        CHECK(shares("global:clairvoyant", q).own == shares("node:clairvoyant", q).own);
      }
}
