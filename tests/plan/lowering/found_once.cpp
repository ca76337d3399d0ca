// What plans and roles have in common is found once.
#include <memory>
#include <set>
#include <utility>

#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/program/describe.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

graph::TrainingGraph small_gpt() {
  const auto model = graph::zoo::build("gpt?layers=4&hidden=16&heads=2&seq=8&vocab=16", 8);
  return graph::build_training_graph(graph::with_initial_values(model), {});
}

}  // namespace

TEST_CASE("plans that differ in what sharding does not look at have one sharding, and few are kept") {
  const auto training = small_gpt();
  LoweringOptions options;
  options.rules = std::make_shared<RuleBook>();
  const TableBackend backend;
  std::set<const Sharding*> found;
  for (const char* text : {"dp=2,micro_batch=2", "dp=2,micro_batch=2,recompute=full", "dp=2,micro_batch=2,overlap=off",
                           "dp=2,pp=2,micro_batch=2", "dp=2,pp=2,micro_batch=2,schedule=gpipe"})
    found.insert(lower(training, parse_plan(text), backend, options).sharding.get());
  CHECK(found.size() == 1);
  CHECK(options.rules->shardings.size() == 1);
  for (const char* text : {"dp=1", "dp=2", "dp=4", "dp=8", "dp=2,zero=1", "dp=2,zero=3", "dp=2,micro_batch=1", "tp=2"})
    CHECK(lower(training, parse_plan(text), backend, options).sharding != nullptr);
  CHECK(options.rules->shardings.size() == 4);
  // Programs that live longer keep theirs.
  const auto again = lower(training, parse_plan("dp=2,micro_batch=2"), backend, options);
  CHECK_FALSE(again.sharding->axes.empty());
}

TEST_CASE("where a stage ends within fused attention, only the plan that cuts it has a sharding of its own") {
  const auto training = small_gpt();
  LoweringOptions options;
  options.rules = std::make_shared<RuleBook>();
  const TableBackend backend(true);
  const auto whole = lower(training, parse_plan("dp=1,pp=2,micro_batch=4"), backend, options);
  REQUIRE(whole.sharding->fused.size() == 4);  // one a layer
  const auto& inside = whole.sharding->fused[1].forward;
  auto plan = parse_plan("dp=1,pp=2,micro_batch=4");
  plan.cuts = {training.graph[inside.back()].name};
  const auto cut = lower(training, plan, backend, options);
  CHECK(cut.sharding->fused.size() == 3);
  CHECK(lower(training, parse_plan("dp=1,pp=2,micro_batch=4"), backend, options).sharding == whole.sharding);
}

TEST_CASE("ranks on devices of two kinds that do the same are lowered once, and have roles of their own") {
  const auto training = small_gpt();
  const TableBackend table;
  int asked = 0;
  const ListeningBackend backend(table, [&](const LocalNode&, const KernelOffer&) { ++asked; });
  const auto plan = parse_plan("dp=4,pp=2,micro_batch=2");
  LoweringOptions options;
  const auto alike = lower(training, plan, backend, options);
  const int once = std::exchange(asked, 0);
  options.device_of = [](int rank) { return rank % 2; };
  const auto mixed = lower(training, plan, backend, options);
  CHECK(asked == once);
  CHECK(alike.roles.size() == 2);  // one a stage
  CHECK(mixed.roles.size() == 4);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    CHECK(to_text(mixed, mixed.role(rank), training.graph) == to_text(alike, alike.role(rank), training.graph));
}
