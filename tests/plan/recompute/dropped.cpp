// Which results every kind of recomputation drops, written out by name; and the least that a budget asks for, found by trying all.
#include <sstream>

#include "base/error.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/stage_work.hpp"
#include "plan/recompute/recompute.hpp"
#include "plan/sharding/rule_book.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using graph::TensorId;

namespace {

graph::Graph products() {
  graph::zoo::Layers layers;
  auto x = layers.input("input", {64, 8});
  for (int n = 0; n < 6; ++n) {
    const auto name = std::to_string(n);
    x = layers.relu("relu" + name, layers.linear("fc" + name, x, n == 3 ? 2 : 8));
  }
  return std::move(layers).finish(layers.linear("last", x, 2), "output");
}

graph::Graph images() {
  graph::zoo::Layers layers;
  auto x = layers.image(4, 3, 8);
  for (const auto* name : {"a", "b"}) {
    const std::string n = name;
    const auto y = layers.relu(n + ".relu", layers.batch_norm(n + ".bn", layers.conv(n + ".conv", x, 4, graph::zoo::Square{}, false)));
    x = n == "a" ? y : layers.add("sum", x, y);
  }
  return std::move(layers).finish(layers.linear("fc", layers.global_average("average", x), 5), "output");
}

graph::Graph dropped_model(const std::string& name) {
  if (name == "products") return products();
  if (name == "images") return images();
  if (name == "deep") return graph::zoo::build("gpt?layers=24&hidden=8&heads=2&seq=6&vocab=11", 4);
  return graph::zoo::build("gpt?layers=2&hidden=8&heads=2&seq=6&vocab=11", 4);
}

/// What recomputation is found from.
struct Found {
  Found(const std::string& model, const std::string& text)
      : training(graph::build_training_graph(graph::with_initial_values(dropped_model(model)), {})), plan(parse_plan(text)) {
    const int micro_batches = plan.micro_batch ? static_cast<int>(training.batch / *plan.micro_batch) : 1;
    RuleBook rules;
    const auto dims = std::make_shared<const graph::LogicalDims>(training.graph);
    sharding = shard(training, dims, sharding_axes(training, dims, plan, micro_batches, rules));
    Plan cut = plan;
    cut.pp = parts(schedule_of(plan).placement, pipeline_shape(plan, micro_batches));
    auto stages = assign_stages(training, cut, work_of_stages(training, sharding, {micro_batches}));
    pipeline = pipeline_of(training, plan, micro_batches, stages);
    results.emplace(training, sharding, pipeline.part_of_node);
  }
  graph::TrainingGraph training;
  Plan plan;
  Sharding sharding;
  Pipeline pipeline;
  std::optional<ForwardResults> results;
};

/// What one drops and the other does not.
std::string names_of(const Found& f, const Recomputation& r, const Recomputation& before) {
  std::string text;
  for (std::size_t t = 0; t < f.training.graph.tensors().size(); ++t) {
    const auto id = static_cast<TensorId>(t);
    if (r.drops(id) && !before.drops(id)) text += " " + f.training.graph[id].name;
    if (!r.drops(id) && before.drops(id)) text += " (not " + f.training.graph[id].name + ")";
  }
  return text.empty() ? " nothing" : text;
}

std::string dropped_text(const std::string& model, const std::string& plan) {
  const Found f(model, plan);
  const auto& results = *f.results;
  const auto segments = segment_count(results, f.pipeline), worth = selective_count(results);
  std::ostringstream text;
  text << model << " under " << plan << ", " << segments << " segments, " << worth << " results worth it\n";
  const Recomputation none{std::vector<bool>(f.training.graph.tensors().size(), false)};
  auto before = none;
  const auto row = [&](const std::string& what, Recomputation r) {
    text << "  " << what << ":" << names_of(f, r, before) << "\n";
    before = std::move(r);
  };
  for (std::size_t n = 1; n <= segments; ++n) row("segment " + std::to_string(n), with_full_segments(none, n, results, f.pipeline));
  row("in full, beside these", full_recomputation(results, f.pipeline));
  before = none;
  for (std::size_t n = 1; n <= std::min<std::size_t>(4, worth); ++n)
    row("worth it " + std::to_string(n), selective_recomputation(results, n));
  row("all others", selective_recomputation(results));
  before = none;
  if (model == "gpt") row("one block", block_recomputation(results, 1)), row("another one", block_recomputation(results, 2));
  return text.str();
}

/// Bytes of what a stage keeps: what an arena would take if there were nothing else.
std::int64_t kept_bytes(const Found& f, int stage, const Recomputation& r) {
  std::int64_t bytes = 0;
  for (std::size_t t = 0; t < f.training.graph.tensors().size(); ++t) {
    const auto id = static_cast<TensorId>(t);
    const auto producer = f.training.graph[id].producer;
    if (producer == graph::NodeId::None || !f.results->is_saved(id) || r.drops(id) || f.results->part(producer) < 0) continue;
    if (f.pipeline.places[static_cast<std::size_t>(f.results->part(producer))].stage == stage) bytes += f.results->bytes(id);
  }
  return bytes;
}

/// Of a stage: ever more results that are worth it, then all of these with ever more segments.
std::vector<Recomputation> rungs(const Found& f) {
  std::vector<Recomputation> all;
  const auto worth = selective_count(*f.results);
  for (std::size_t n = 0; n <= worth; ++n) all.push_back(selective_recomputation(*f.results, n));
  for (std::size_t n = 1; n <= segment_count(*f.results, f.pipeline); ++n)
    all.push_back(with_full_segments(selective_recomputation(*f.results), n, *f.results, f.pipeline));
  return all;
}

}  // namespace

TEST_CASE("results that are made again are those that are written out") {
  std::string text;
  for (const char* model : {"products", "images", "gpt"}) text += dropped_text(model, "dp=1");
  text += dropped_text("products", "pp=2,micro_batch=16") + dropped_text("gpt", "pp=2,micro_batch=1,schedule=gpipe") +
          dropped_text("gpt", "pp=2,micro_batch=1,schedule=interleaved,interleave=2") + dropped_text("gpt", "tp=2");
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/dropped.txt", text);
}

TEST_CASE("what deep networks keep is what is written out, in bytes") {
  std::ostringstream text;
  for (const char* plan : {"dp=1", "pp=2,micro_batch=1", "pp=2,micro_batch=1,schedule=interleaved,interleave=2"}) {
    const Found f("deep", plan);
    const auto segments = segment_count(*f.results, f.pipeline);
    const Recomputation none{std::vector<bool>(f.training.graph.tensors().size(), false)};
    text << "a gpt of 24 layers under " << plan << ", " << segments << " segments: keeps, by stage,\n";
    const auto row = [&](const std::string& what, const Recomputation& r) {
      text << "  " << what << ":";
      for (int stage = 0; stage < f.plan.pp; ++stage) text << " " << kept_bytes(f, stage, r);
      text << "\n";
    };
    row("all", none);
    for (const std::size_t n : {segments / 4, segments / 2, segments})
      row("but " + std::to_string(n) + " segments", with_full_segments(none, n, *f.results, f.pipeline));
    row("what is not worth it", selective_recomputation(*f.results));
  }
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/deep.txt", text.str());
}

TEST_CASE("a budget takes the lowest rung that fits, on every stage its own") {
  for (const char* plan : {"dp=1", "pp=2,micro_batch=1"}) {
    const Found f("gpt", plan);
    const auto all = rungs(f);
    const auto arena = [&](int stage, const Recomputation& r) { return kept_bytes(f, stage, r); };
    REQUIRE(all.size() > 4);
    const auto least = std::max(arena(0, all.back()), f.plan.pp == 1 ? 0 : arena(1, all.back())), most = arena(0, all.front());
    REQUIRE(least < most);
    for (std::int64_t budget = least; budget <= most; budget += (most - least) / 7) {
      INFO(plan << ", " << budget << " B");
      const auto chosen = budgeted_recomputation(*f.results, f.pipeline, budget, arena);
      for (int stage = 0; stage < f.plan.pp; ++stage) {
        const auto rung = std::ranges::find_if(all, [&](const Recomputation& r) { return arena(stage, r) <= budget; });
        REQUIRE(rung != all.end());
        CHECK(arena(stage, chosen) == arena(stage, *rung));
      }
    }
    CHECK_THROWS_AS(budgeted_recomputation(*f.results, f.pipeline, least - 1, arena), Refusal);
    CHECK_NOTHROW(budgeted_recomputation(*f.results, f.pipeline, least, arena));
  }
}
