// Who decomposes which matrix where replicas share them out, and who gets what from whom.
#include "plan/lowering/spread_decompositions.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

graph::TrainingGraph decoder(const std::string& optimizer, int interval = 1) {
  graph::TrainingOptions options;
  options.optimizer.name = optimizer;
  if (optimizer == "kfac") options.optimizer.values = {{"interval", interval}};
  return graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=2&hidden=16&heads=2&seq=8&vocab=24", 16)),
                                     options);
}

std::string refusal(const graph::TrainingGraph& training, const std::string& plan) {
  try {
    static_cast<void>(lower(training, parse_plan(plan), TableBackend(), {}));
    return "";
  } catch (const Refusal& refused) {
    return refused.what();
  }
}

}  // namespace

TEST_CASE("the largest matrices are shared out first, and who has most is the first rank") {
  // 5 to one, 3 and 3 to the other, 2 to the one (5 < 6), 2 to the other (6 < 7): 7 and 8.
  CHECK(shared_out({3, 5, 2, 3, 2}, 2) == std::vector{0, 1, 1, 0, 0});
  CHECK(shared_out({1, 4, 2}, 4) == std::vector{2, 0, 1});
  CHECK(shared_out({}, 3).empty());
  CHECK(shared_out({2, 2, 2}, 1) == std::vector{0, 0, 0});
}

TEST_CASE("every matrix is decomposed by one replica, whose result all have before they use it") {
  const auto training = decoder("kfac", 7);
  const auto program = lower(training, parse_plan("dp=4,decompositions=spread"), TableBackend(), {});
  REQUIRE(program.roles.size() == 1);
  const auto& role = program.roles.front();
  const auto update = std::ranges::find(role.bodies, BodyKind::Update, &Body::kind);
  const auto& instructions = update->instructions;
  std::map<std::int32_t, std::size_t> kernel_of;  // by its broadcast
  std::size_t last_kernel = 0, first_broadcast = instructions.size(), broadcasts = 0;
  std::vector<std::int64_t> cubes(4);
  for (std::size_t n = 0; n < instructions.size(); ++n) {
    const auto& i = instructions[n];
    if (i.kind == InstructionKind::Kernel && i.collective >= 0) {
      kernel_of[i.collective] = last_kernel = n;
      int taking_part = 0;
      for (int rank = 0; rank < 4; ++rank) {
        if (!takes_part(program, rank, i)) continue;
        ++taking_part;
        CHECK(rank == role.collectives[static_cast<std::size_t>(i.collective)].root);
        const auto side = role.buffers[i.outputs.front()].shapes.front().back();
        cubes[static_cast<std::size_t>(rank)] += side * side * side;
      }
      CHECK(taking_part == 1);
    }
    if (i.during != During::Renewals) continue;
    first_broadcast = std::min(first_broadcast, n);
    ++broadcasts;
    const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
    CHECK(info.kind == CollectiveKind::Broadcast);
    CHECK(info.every == 7);
    const auto kernel = kernel_of.find(i.collective);
    REQUIRE(kernel != kernel_of.end());
    CHECK(instructions[kernel->second].outputs.front() == i.outputs.front());
    REQUIRE(i.inputs.size() == 2);
    CHECK(role.buffers[i.inputs[1]].dtype == DType::I64);
  }
  // Two layers of four products with two sides each.
  CHECK(kernel_of.size() == 16);
  CHECK(broadcasts == 16);
  CHECK(last_kernel < first_broadcast);
  // Sides 16 and 48, 16 and 16, 16 and 64, 64 and 16, twice: 4 x 64^3, one each, 2 x 48^3 to the first two, 10 x 16^3 to the others.
  const std::int64_t large = 64 * 64 * 64, medium = 48 * 48 * 48, small = 16 * 16 * 16;
  CHECK(cubes == std::vector{large + medium, large + medium, large + 5 * small, large + 5 * small});
}

TEST_CASE("decompositions are shared out where there are some, and replicas that have the same") {
  CHECK_THAT(refusal(decoder("adam"), "dp=2,decompositions=spread"), contains("decompositions") && contains("decomposes nothing"));
  const auto shampoo = decoder("shampoo");
  CHECK_THAT(refusal(shampoo, "tp=2,decompositions=spread"), contains("among replicas, of which there is one"));
  CHECK_THAT(refusal(shampoo, "dp=2,local_steps=4,decompositions=spread"), contains("with local_steps each has its own"));
  CHECK(refusal(shampoo, "dp=2,decompositions=spread").empty());
  CHECK_THROWS_WITH(parse_plan("dp=2,decompositions=all"), contains("everywhere") && contains("spread"));
}
