// A stripped Program answers what its ranks ask while they play it as before.
#include "plan/program/strip.hpp"

#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

struct Held {
  std::vector<Region> buffers, moved;
  std::vector<std::int64_t> packed;
  friend bool operator==(const Held&, const Held&) = default;
};

Held held_by(const Program& program, int rank, int micro_batch) {
  Held held;
  const auto& role = program.role(rank);
  const auto at = position(program, rank, micro_batch);
  for (const Buffer& b : role.buffers)
    if (!b.layout.empty()) held.buffers.push_back(region(program, b, at));
  for (const Redistribution& r : role.redistributions) {
    held.moved.push_back(region_before(*program.sharding, r, at));
    held.moved.push_back(region_after(*program.sharding, r, at));
    held.packed.push_back(packing_of(*program.sharding, r, at).count);
  }
  return held;
}

std::vector<Held> all_held(const Program& program) {
  std::vector<Held> all;
  for (int rank = 0; rank < program.ranks; ++rank)
    for (int m = 0; m < program.micro_batches; ++m) all.push_back(held_by(program, rank, m));
  return all;
}

}  // namespace

TEST_CASE("a stripped program knows where every block lies") {
  struct Row {
    const char *model, *plan;
  };
  const Row rows[]{{"gpt?layers=2&hidden=24&heads=6&seq=12&vocab=50", "dp=2,tp=4,micro_batch=1,zero=3"},
                   {"gpt?layers=2&hidden=24&heads=6&seq=13&vocab=50", "cp=3,attention=ring,pp=2,micro_batch=2"},
                   {"gpt?layers=2&hidden=24&heads=6&seq=12&vocab=50", "tp=2,sequence_parallel=on,dp=3"},
                   {"unet2d?image=48&channels=4", "spatial=3x2"},
                   {"resnet18?image=32&classes=10", "dp=2,spatial=2"},
                   {"moe?layers=2&hidden=16&heads=2&kv_heads=2&ffn=32&rotary=0&seq=8&experts=4&vocab=40", "ep=2,dp=4"}};
  for (const Row& row : rows) {
    INFO(row.model << " " << row.plan);
    const auto training = graph::build_training_graph(graph::with_initial_values(graph::zoo::build(row.model, 4)), {});
    auto program = lower(training, parse_plan(row.plan), TableBackend(), {});
    const auto before = all_held(program);
    REQUIRE(!before.front().buffers.empty());
    REQUIRE(!before.front().moved.empty());
    strip(program);
    CHECK(program.sharding->conversions.empty());
    CHECK(all_held(program) == before);
  }
}
