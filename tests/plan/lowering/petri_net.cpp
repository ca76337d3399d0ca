// A step as a Petri net: every transition of a flushed step fires once, tokens end where streams end, and a wrong net does not.
#include "plan/program/petri_net.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// Fires what can fire until nothing can. How often each transition fired, and where the tokens are then.
struct PlayedNet {
  std::vector<int> fired;   ///< by transition
  std::vector<int> tokens;  ///< by place
};
/// Throws BadInput naming a transition that fires more than `most` times: the net does not come to rest.
PlayedNet played(const PetriNet& net, int most = 1) {
  PlayedNet result{std::vector<int>(net.transitions.size()), {}};
  for (const auto& place : net.places) result.tokens.push_back(place.tokens);
  std::vector<std::vector<std::size_t>> takers(net.places.size());
  std::vector<std::size_t> waiting;
  for (std::size_t t = 0; t < net.transitions.size(); ++t) {
    for (const auto place : net.transitions[t].takes) takers[place].push_back(t);
    waiting.push_back(t);
  }
  const auto can_fire = [&](std::size_t t) {
    return std::ranges::all_of(net.transitions[t].takes, [&](std::size_t place) { return result.tokens[place] > 0; });
  };
  while (!waiting.empty()) {
    const auto t = waiting.back();
    waiting.pop_back();
    if (!can_fire(t)) continue;
    if (++result.fired[t] > most)
      throw BadInput("transition \"" + net.transitions[t].name + "\" fires more than " + std::to_string(most) + " times");
    for (const auto place : net.transitions[t].takes) --result.tokens[place];
    for (const auto place : net.transitions[t].gives) {
      ++result.tokens[place];
      waiting.insert(waiting.end(), takers[place].begin(), takers[place].end());
    }
  }
  return result;
}

const graph::TrainingGraph& decoder() {
  static const auto kDecoder =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=4&hidden=16&heads=2&seq=8&vocab=24", 16)), {});
  return kDecoder;
}

PetriNet net_of(const std::string& plan) { return petri_net_of(lower(decoder(), parse_plan(plan), TableBackend(), {}), decoder().graph); }

std::size_t count_of(const PetriNet& net, const std::string& part) {
  return static_cast<std::size_t>(
      std::ranges::count_if(net.transitions, [&](const auto& t) { return t.name.find(part) != std::string::npos; }));
}

/// Where tokens are that are not at the end of a stream, and transitions that did not fire.
std::vector<std::string> left_over(const PetriNet& net) {
  const auto end = played(net);
  std::vector<std::string> left;
  for (std::size_t t = 0; t < net.transitions.size(); ++t)
    if (end.fired[t] != 1) left.push_back(net.transitions[t].name);
  for (std::size_t p = 0; p < net.places.size(); ++p)
    if (end.tokens[p] != (net.places[p].name.starts_with("end of rank") ? 1 : 0)) left.push_back(net.places[p].name);
  return left;
}

struct Dice {
  std::uint64_t seed = 0, next = 0;
  template <class T, std::size_t N>
  T one_of(const std::array<T, N>& values) {
    return values[static_cast<std::size_t>(random_uniform(seed, 0, next++) * N)];
  }
};

std::string random_plan(std::uint64_t seed) {
  Dice dice{seed};
  const int pp = dice.one_of(std::array{1, 2, 4});
  std::string plan = "dp=" + std::to_string(dice.one_of(std::array{1, 2})) + ",tp=" + std::to_string(dice.one_of(std::array{1, 2})) +
                     ",cp=" + std::to_string(dice.one_of(std::array{1, 2})) + ",pp=" + std::to_string(pp) +
                     ",micro_batch=" + std::to_string(dice.one_of(std::array{1, 2}));
  if (pp > 1) plan += dice.one_of(std::array{",schedule=1f1b", ",schedule=gpipe", ",schedule=zb-h1", ",schedule=zb-v"});
  return plan + dice.one_of(std::array{"", ",zero=1", ",zero=3"}) + dice.one_of(std::array{"", ",recompute=full"}) +
         dice.one_of(std::array{"", ",overlap=off"});
}

}  // namespace

TEST_CASE("the net of a pipeline has a transition for every message of every micro-batch") {
  // 16 samples in micro-batches of 4: 4 activations forwards and 4 gradients backwards between the two stages, each sent and received; both
  // stages have the embedding, whose gradients travel once more in the update
  const auto net = net_of("pp=2,micro_batch=4,schedule=1f1b");
  CHECK(count_of(net, "rank 0: send to stage 1, forward of micro-batch") == 4);
  CHECK(count_of(net, "rank 1: receive from stage 0, forward of micro-batch") == 4);
  CHECK(count_of(net, "rank 1: send to stage 0, backward of micro-batch") == 4);
  CHECK(count_of(net, "rank 0: receive from stage 1, backward of micro-batch") == 4);
  CHECK(count_of(net, "send to stage") == 10);
  CHECK(left_over(net).empty());
  for (const auto& place : net.places) CHECK((place.tokens == 0 || place.name.ends_with("is free")));
}

TEST_CASE("in a flushed step every transition fires once, whatever the plan") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto plan = random_plan(seed);
    CAPTURE(plan);
    const auto net = net_of(plan);
    CHECK(left_over(net) == std::vector<std::string>{});
    CHECK(std::ranges::none_of(net.places, [](const auto& p) { return p.tokens != 0 && p.name.starts_with("message"); }));
  }
}

TEST_CASE("without a flush, messages of the step before are there at the beginning") {
  const auto net = net_of("pp=2,micro_batch=4,schedule=pipedream-2bw");
  CHECK(played(net).fired == std::vector<int>(net.transitions.size(), 1));
}

TEST_CASE("a net that waits for itself comes to rest too early") {
  // Two ranks that each receive before they send: neither can begin.
  PetriNet net;
  net.places = {{"a is free", 1}, {"b is free", 1}, {"a to b", 0}, {"b to a", 0}, {"a received", 0}, {"b received", 0}};
  net.transitions = {{"a receives", {0, 3}, {4}}, {"a sends", {4}, {2}}, {"b receives", {1, 2}, {5}}, {"b sends", {5}, {3}}};
  CHECK(played(net).fired == std::vector<int>{0, 0, 0, 0});
  net.places[3].tokens = 1;  // as soon as one message is there, all can
  CHECK(played(net).fired == std::vector<int>{1, 1, 1, 1});
  CHECK(played(net).tokens == std::vector<int>{0, 0, 0, 1, 0, 0});
}

TEST_CASE("a net that never comes to rest is refused") {
  PetriNet net;
  net.places = {{"p", 1}};
  net.transitions = {{"again", {0}, {0}}};
  CHECK_THROWS_WITH(played(net, 5), contains("\"again\" fires more than 5 times"));
}

TEST_CASE("PNML names what XML does not allow") {
  PetriNet net;
  net.places = {{"a < b & \"c\"", 2}};
  net.transitions = {{"t\n", {0}, {}}};
  const auto text = to_pnml(net, "dp=1");
  CHECK_THAT(text, contains("<place id=\"p0\"><name><text>a &lt; b &amp; &quot;c&quot;</text></name><initialMarking><text>2</text>"));
  CHECK_THAT(text, contains("<transition id=\"t0\"><name><text>t</text></name></transition>"));
  CHECK_THAT(text, contains("<arc id=\"a0\" source=\"p0\" target=\"t0\"/>"));
}
