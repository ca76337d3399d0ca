// Programs written out, to be read: what small models become under plans of every kind, line by line. A change to lowering shows here as
// a change of these files, which REHEARSAL_WRITE_OUT=1 writes anew; whoever makes it reads the difference (docs/testing.md).
#include "tests/written_out.hpp"

#include <map>
#include <sstream>

#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/program/describe.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

graph::Graph layers_of_one_kind() {
  graph::zoo::Layers layers;
  auto x = layers.input("input", {6, 6});
  for (int n = 0; n < 2; ++n) x = layers.relu("relu" + std::to_string(n), layers.linear("fc" + std::to_string(n), x, 8));
  return std::move(layers).finish(layers.linear("last", x, 5), "output");
}

graph::Graph convolutions() {
  graph::zoo::Layers layers;
  auto x = layers.relu("relu1", layers.batch_norm("bn", layers.conv("conv1", layers.image(6, 3, 9), 4, graph::zoo::Square{}, false)));
  x = layers.max_pool("pool", x, {3, 2, 1});
  x = layers.relu("relu2", layers.conv("conv2", x, 6, graph::zoo::Square{}, true));
  return std::move(layers).finish(layers.linear("fc", layers.global_average("average", x), 5), "output");
}

/// Windows that do not tile the blocks of a split image, pixels between pixels, borders that mirror.
graph::Graph resizing() {
  graph::zoo::Layers layers;
  auto x = layers.conv("conv", layers.image(2, 2, 13), 3, graph::zoo::Square{}, true);
  x = layers.max_pool("pool", x, {3, 2, 1});
  const std::vector<std::int64_t> three{3, 3}, one{1, 1}, all_round{1, 1, 1, 1};
  x = layers.node("mean", "AveragePool", {x}, {{"kernel_shape", three}, {"strides", one}, {"pads", all_round}});
  x = layers.node("grow", "Resize", {x}, {{"sizes", std::vector<std::int64_t>{17, 17}}, {"mode", std::string("linear")}});
  x = layers.node("mirror", "Pad", {x}, {{"pads", std::vector<std::int64_t>{1, 0, 2, 0}}, {"mode", std::string("reflect")}});
  return std::move(layers).finish(layers.linear("fc", layers.global_average("average", x), 4), "output");
}

graph::Graph model_of(const std::string& name) {
  if (name == "layers") return layers_of_one_kind();
  if (name == "convolutions") return convolutions();
  if (name == "resizing") return resizing();
  if (name == "masked") return graph::zoo::build("bert?layers=1&hidden=8&heads=2&seq=6&vocab=10&positions=8&predictions=2", 4);
  if (name == "experts") return graph::zoo::build("moe?layers=1&hidden=8&heads=2&kv_heads=1&ffn=6&seq=4&vocab=10&experts=2&top_k=1", 4);
  return graph::zoo::build("gpt?layers=1&hidden=8&heads=2&seq=4&vocab=10", 4);
}

/// Bytes by category, and buffers of which there is more to say than instructions say of those that they touch.
std::string buffers_of(const Role& role) {
  std::ostringstream text;
  std::map<std::string, std::int64_t> sums;
  for (const auto& b : role.buffers) {
    std::ostringstream more;
    for (std::size_t v = 1; v < b.shapes.size(); ++v)
      if (b.shapes[v] != b.shapes.front()) more << ", or " << graph::to_text(b.shapes[v]);
    if (b.part_of != kNoBuffer) more << ", in " << role.buffers[b.part_of].name << " from " << b.part_offset;
    if (b.sent) more << ", kept until sent";
    if (b.on_host) more << ", on the host";
    if (b.common) more << ", the same on all replicas";
    if (b.versions > 1) more << ", " << b.versions << " versions";
    if (!more.str().empty()) text << "  " << b.name << more.str() << "\n";
    if (b.part_of == kNoBuffer) sums[std::string(name(b.category)) + ", " + std::string(name(b.dtype))] += b.bytes;
  }
  for (const auto& [what, bytes] : sums) text << "  " << what << ": " << bytes << " B\n";
  return text.str();
}

std::string collectives_of(const Program& program, const Role& role) {
  std::ostringstream text;
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions)
      if (i.kind == InstructionKind::Collective)
        text << "  " << describe(program, role, i, graph::Graph()) << ", " << message_bytes(role, i, 0) << " B\n";
  return text.str();
}

std::string written_out(const std::string& model, const std::string& plan) {
  graph::TrainingOptions options;
  options.optimizer = {"sgd", {{"momentum", 0.9}}};
  if (plan.find("zero=") != std::string::npos) options.clip_norm = 1;
  const auto training = graph::build_training_graph(graph::with_initial_values(model_of(model)), options);
  const auto program = lower(training, parse_plan(plan), TableBackend(), {});
  std::ostringstream text;
  text << model << " under " << plan << "\n";
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    const auto& role = program.roles[r];
    text << "\nrole " << r << ": " << to_text(program, role, training.graph) << " slots\n ";
    for (const auto& slot : role.slots) text << " " << name(role.bodies[slot.body].kind) << slot.body << "/" << slot.micro_batch;
    text << "\n collectives\n" << collectives_of(program, role) << " buffers\n" << buffers_of(role);
  }
  return text.str();
}

}  // namespace

TEST_CASE("Programs are those that are written out") {
  struct Written {
    const char *file, *model, *plan;
  };
  const auto [file, model, plan] = GENERATE(values<Written>({
      {"data", "layers", "dp=2,micro_batch=2"},
      {"shares", "layers", "dp=2,shares=3:1,overlap=off"},
      {"interleaved", "layers", "pp=2,micro_batch=4,schedule=interleaved,interleave=2"},
      {"sharded", "convolutions", "dp=2,zero=3"},
      {"spatial", "convolutions", "spatial=2"},
      {"resized", "resizing", "spatial=2"},
      {"masked", "masked", "tp=2"},
      {"masked-context", "masked", "cp=2"},
      {"unfused", "gpt", "dp=2,fuse=none"},
      {"channels", "convolutions", "tp=2"},
      {"tensor", "gpt", "tp=2,sequence_parallel=on,dp=2,zero=1"},
      {"vocabulary", "gpt", "tp=2,recompute=selective"},
      {"ring", "gpt", "cp=2,attention=ring,recompute=full"},
      {"heads", "gpt", "cp=2,attention=all-to-all"},
      {"zero-bubble", "gpt", "pp=2,micro_batch=1,schedule=zb-h1,offload=activations"},
      {"both-ways", "gpt", "pp=2,micro_batch=2,schedule=dualpipe"},
      {"asynchronous", "layers", "pp=2,micro_batch=3,schedule=pipedream-2bw"},
      {"experts", "experts", "dp=2,ep=2"},
      {"compressed", "layers", "dp=2,compression=powersgd:2"},
      {"outer", "layers", "dp=2,local_steps=2,outer=nesterov"},
      {"center", "layers", "dp=2,local_steps=2,staleness=0,outer=elastic"},
      {"adaptive", "layers", "dp=2,tp=2,local_steps=1,outer=adasum"},
      {"one-bit", "layers", "dp=2,pp=2,compression=1bit"},
      {"resized-both", "resizing", "spatial=2x2"},
      {"stages-in-flight", "layers", "pp=3,schedule=pipedream"},
      {"groups", "layers", "dp=4,zero=3,zero_group=2,recompute=full"},
  }));
  test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + file + ".txt", written_out(model, plan));
}
