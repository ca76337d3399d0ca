// What ranks share out: whose elements lie where in the vector of an all-gather or reduce-scatter, alone and with other tensors.
#include "plan/sharding/redistribution.hpp"

#include <map>

#include "plan/sharding/copies.hpp"
#include "tests/catch.hpp"
#include "tests/graph/dims/models.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;
using namespace rehearsal::plan;

namespace {

bool deals_out(ConversionKind kind) { return kind == ConversionKind::AllGather || kind == ConversionKind::ReduceScatter; }

/// Every step of every conversion that shards, in the layouts in which it happens.
std::vector<Redistribution> dealt_out(const Sharding& s) {
  std::vector<Redistribution> all;
  for (const Conversion& c : s.conversions) {
    Layout now = c.from;
    for (const ConversionStep& step : c.steps) {
      Redistribution r{c.tensor, {}, 0, now, now, step.axis, step.kind};
      r.user = NodeId::None;
      r.to[step.axis] = now[step.axis] = step.to;
      if (deals_out(step.kind) && !s.axes[step.axis].in_time && s.dims->graph()[c.tensor].role != TensorRole::Constant) all.push_back(r);
    }
  }
  return all;
}

/// By copying: is the vector the whole tensor in its own order?
bool lies_in_order(const Sharding& s, const Redistribution& r, const Coordinates& at) {
  const bool gathers = r.kind == ConversionKind::AllGather;
  const Region whole = s.region(s.dims->of(r.tensor), gathers ? r.to : r.from, at);
  const auto packing = packing_of(s, r, at);
  bool in_order = true;
  for (const PackedBlock& b : gathers ? packing.unpacked : packing.packed) {
    int runs = 0;
    BlockCopy(whole, b.region).for_each_run([&](std::int64_t from, std::int64_t, std::int64_t) {
      in_order &= ++runs == 1 && from == b.offset;
    });
  }
  return in_order;
}

}  // namespace

TEST_CASE("the blocks of several tensors share a vector, rank after rank") {
  // fc1.weight [8, 12] and fc2.bias [3] of 3 ranks: 4 columns of 8 rows, and one element.
  const TrainingGraph t = graph::test::mlp(6);
  const Sharding s = shard(t, {{"dp", 3, {"batch"}, false, true}});
  std::map<std::string, Redistribution> by_name;
  for (const auto& r : dealt_out(s))
    if (r.kind == ConversionKind::AllGather) by_name[t.graph[r.tensor].name] = r;
  std::vector<Redistribution> list{by_name.at("fc1.weight"), by_name.at("fc2.bias")};
  list[0].behind = list[1].before = 1;
  CHECK(dealing_of(s, list[0], {1}).out == DealtOut{12, 8});
  CHECK(dealing_of(s, list[1], {1}).out == DealtOut{3, 1});
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const auto weight = packing_of(s, list, 0, {rank}), bias = packing_of(s, list, 1, {rank});
    CHECK(weight.count == 99);
    CHECK(bias.count == 99);
    REQUIRE(weight.packed.size() == 1);
    CHECK(weight.packed[0].offset == 33 * rank);
    CHECK(weight.packed[0].count == 32);
    CHECK(bias.packed[0].offset == 33 * rank + 32);
    CHECK(bias.packed[0].count == 1);
    REQUIRE(weight.unpacked.size() == 3);
    for (std::int64_t q = 0; q < 3; ++q) CHECK(weight.unpacked[static_cast<std::size_t>(q)].offset == 33 * q);
  }
  CHECK(packing_of(s, by_name.at("fc2.bias"), {2}).packed[0].offset == 2);  // alone
}

TEST_CASE("a tensor is its own vector where ranks have neighbouring blocks of it") {
  int in_order = 0, other = 0;
  for (const auto& training : {graph::test::mlp(6), graph::test::gpt(), graph::test::cnn()})
    for (const std::vector<MeshAxis>& axes : {std::vector<MeshAxis>{{"dp", 3, {"batch"}, false, true}},
                                              {{"dp", 2, {"batch"}, false, true}},
                                              {{"dp", 2, {"batch"}, false, true, true}, {"tp", 2, {"in0.batch"}, false}}}) {
      const Sharding s = shard(training, axes);
      for (const auto& r : dealt_out(s))
        for (std::int64_t rank = 0; rank < axes[0].size; ++rank) {
          Coordinates at(axes.size());
          at[0] = rank;
          const bool said = dealing_of(s, r, at).in_order, lies = lies_in_order(s, r, at);
          INFO(training.graph[r.tensor].name);
          CHECK(said == lies);
          (lies ? in_order : other) += 1;
        }
    }
  CHECK(in_order > 0);
  CHECK(other > 0);
}

TEST_CASE("ranks that change from rows to columns send each other what both have, were it one element") {
  const TrainingGraph t = graph::test::mlp(3);  // scores of 3 samples and 3 classes
  const Sharding s = shard(t, {{"dp", 3, {"batch"}, false}});
  const TensorId scores = t.graph.outputs().front();
  REQUIRE(t.graph[scores].type.shape == Shape{3, 3});
  const auto split = [&](std::int16_t dim) {
    AxisLayout l;
    l.kind = LayoutKind::Split, l.dim = dim, l.atom = s.dims->of(scores)[static_cast<std::size_t>(dim)].front();
    return Layout{l};
  };
  const Redistribution r{scores, NodeId::None, 0, split(0), split(1), 0, ConversionKind::AllToAll};
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const auto packing = packing_of(s, r, {rank});
    CHECK(packing.count == 4);  // two elements go, and two come
    REQUIRE(packing.packed.size() == 2);
    REQUIRE(packing.unpacked.size() == 2);
    for (std::size_t n = 0; n < 2; ++n) {
      const std::int64_t peer = static_cast<std::int64_t>(n) + (static_cast<std::int64_t>(n) >= rank ? 1 : 0);
      const auto &sent = packing.packed[n], &received = packing.unpacked[n];
      CHECK(std::tuple{sent.peer, sent.offset, sent.count} == std::tuple{peer, std::int64_t(n), std::int64_t{1}});
      CHECK(std::tuple{received.peer, received.offset, received.count} == std::tuple{peer, std::int64_t(n) + 2, std::int64_t{1}});
      CHECK(sent.region == Region{{{rank, rank + 1}}, {{peer, peer + 1}}});
      CHECK(received.region == Region{{{peer, peer + 1}}, {{rank, rank + 1}}});
    }
  }
}
