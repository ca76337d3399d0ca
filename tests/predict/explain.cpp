// What is said of a plan, layer by layer; Programs as files.
#include "predict/explain.hpp"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/program/describe.hpp"
#include "plan/program/program_json.hpp"
#include "platforms/catalog.hpp"
#include "predict/lowered_predictor.hpp"
#include "tests/catch.hpp"
#include "tests/process.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::predict;

namespace {

struct Setting {
  graph::TrainingGraph training =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=3&hidden=64&heads=4&seq=16&vocab=96", 4)), {});
  std::shared_ptr<const graph::LogicalDims> dims = std::make_shared<const graph::LogicalDims>(training.graph);
  platforms::Platform platform = platforms::with_devices(platforms::load("dgx-a100"), 4);
  TableBackend backend;
  costmodel::CostModel model{platforms::device_of(platform, 0), {}, "f32"};

  [[nodiscard]] Workload job() const { return {training, dims, platform, backend, model, "f32"}; }
  [[nodiscard]] std::unique_ptr<Predictor> predictor() const { return lowered_predictor(job()); }
  [[nodiscard]] Program program(const std::string& plan) const { return lower_for(job(), parse_plan(plan)); }
  [[nodiscard]] PlanContext context() const { return {"zoo:gpt", training.graph.hash(), 4, "auto", "f32"}; }
  /// What is written to `path` for a plan.
  [[nodiscard]] nlohmann::json written(const std::string& plan, const std::string& path) const {
    write_program_file(path, program(plan), training.graph, context());
    return nlohmann::json::parse(text_of(path));
  }
};

std::vector<StagePlan> in_layers(const Setting& setting, Program program) {
  const auto predictor = setting.predictor();
  return explain(*predictor, predictor->priced(std::move(program)));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const TensorPlace& tensor(const LayerPlan& layer, const std::string& name) {
  const auto at = std::find_if(layer.tensors.begin(), layer.tensors.end(), [&](const TensorPlace& t) { return t.name == name; });
  REQUIRE(at != layer.tensors.end());
  return *at;
}

}  // namespace

TEST_CASE("layers are scopes of names") {
  CHECK(layer_of("h.3.attn.q") == "h.3");
  CHECK(layer_of("/model/layers.12/mlp/MatMul") == "/model/layers.12");
  CHECK(layer_of("/conv1/Conv") == "/conv1");
  CHECK(layer_of("layer1.0.conv2.weight") == "layer1.0");
  CHECK(layer_of("ln_f") == "ln_f");
  CHECK(layer_of("Add_37") == "Add_37");
  CHECK(layer_of("12.weight") == "12");
  CHECK(layer_of("").empty());
}

TEST_CASE("a tensor parallel GPT is explained as Megatron-LM lays it out") {
  const Setting setting;
  const auto program = setting.program("dp=2,tp=2");
  const auto stages = in_layers(setting, program);
  REQUIRE(stages.size() == 1);
  CHECK(stages[0].ranks == 4);
  CHECK(stages[0].memory_bytes == program.role(0).memory.arena_bytes);
  const auto block =
      std::find_if(stages[0].layers.begin(), stages[0].layers.end(), [](const LayerPlan& l) { return l.messages.size() >= 4; });
  REQUIRE(block != stages[0].layers.end());
  // Columns of the first product, rows of the second: 64 x 256 and 256 x 64 in f32, half of each.
  const auto& columns = tensor(*block, "mlp.c_fc.weight");
  CHECK(columns.layout == "[64, 256/tp]");
  CHECK(columns.local == graph::Shape{64, 128});
  CHECK(columns.bytes == 64 * 128 * 4);
  CHECK(columns.stored);
  const auto& rows = tensor(*block, "mlp.c_proj.weight");
  CHECK(rows.layout == "[256/tp, 64]");
  CHECK(tensor(*block, "mlp.c_proj").layout == "[4/dp, 16, 64] summed over tp");
  // Forward: one sum behind attention, one behind the MLP, of 2 samples x 16 x 64 numbers; as many backward.
  int forward = 0, backward = 0;
  for (const auto& m : block->messages)
    if (m.what.find("over tp") != std::string::npos) {
      CHECK(m.bytes == 2 * 16 * 64 * 4);
      CHECK(m.times == 1);
      CHECK(m.seconds > Seconds(0));
      ++(m.body == BodyKind::Forward ? forward : backward);
    }
  CHECK(forward == 2);
  CHECK(backward == 2);
}

TEST_CASE("what attention in a ring makes is explained by the block") {
  const Setting setting;
  const auto stages = in_layers(setting, setting.program("cp=4,attention=ring"));
  const auto& layers = stages.at(0).layers;
  const auto block = std::find_if(layers.begin(), layers.end(), [](const LayerPlan& l) { return l.name.starts_with("h.0"); });
  REQUIRE(block != layers.end());
  const auto& scores = tensor(*block, "attn.scores");
  CHECK(scores.layout == "[4, 4, 16/cp, 16/cp in turn]");
  CHECK(scores.bytes == 4 * 4 * 4 * 4 * 4);  // samples, heads, 16 / 4 rows, 16 / 4 keys, f32
  CHECK(tensor(*block, "attn.k.heads").layout == "[4, 4, 16, 16/cp]");
}

TEST_CASE("what layers send adds up to what the role sends") {
  const Setting setting;
  const auto program = setting.program("tp=2,pp=2,micro_batch=1");
  std::int64_t explained = 0, sent = 0;
  for (const auto& stage : in_layers(setting, program)) explained += stage.message_bytes();
  for (const auto& role : program.roles)
    for (const auto& slot : role.slots)
      for (const auto& i : role.bodies[slot.body].instructions)
        if ((i.kind == InstructionKind::Send || i.kind == InstructionKind::Collective) && runs(program, role, i, slot.micro_batch))
          sent += message_bytes(role, i, 0);
  CHECK(explained == sent);
  CHECK(sent > 0);
}

TEST_CASE("what waits in the host's memory, and what is computed again, is said") {
  const Setting setting;
  const auto stage = in_layers(setting, setting.program("dp=2,recompute=full,offload=activations")).at(0);
  std::map<std::string, std::int64_t> leave, come;
  std::int64_t room = 0;
  Seconds again;
  for (const auto& layer : stage.layers) {
    CHECK(layer.recompute <= layer.compute);
    again += layer.recompute * layer.alike;
    for (const auto& m : layer.host_moves) {
      CHECK(m.seconds > Seconds(0));
      (m.body == BodyKind::Forward ? leave : come)[layer.name + m.tensor] += m.bytes;
      if (m.body == BodyKind::Forward) room += layer.alike * m.bytes;
    }
  }
  CHECK(leave == come);  // one micro-batch: each goes once and comes back once
  CHECK(room > 0);
  CHECK(stage.host_memory_bytes == room);  // all are there before the first comes back; sizes are multiples of 64
  CHECK(again > Seconds(0));
  const auto kept = in_layers(setting, setting.program("dp=2")).at(0);
  CHECK(kept.host_memory_bytes == 0);
  for (const auto& layer : kept.layers) CHECK((layer.host_moves.empty() && layer.recompute == Seconds(0)));
}

TEST_CASE("a message of several gradients is named by their bucket") {
  const Setting setting;
  std::size_t buckets = 0;
  for (const auto& stage : in_layers(setting, setting.program("pp=2,micro_batch=1,schedule=dualpipe")))
    for (const auto& layer : stage.layers)
      for (const auto& m : layer.messages)
        if (m.tensor.starts_with("gradient bucket")) {
          CHECK(m.what == "send to stage " + std::to_string(1 - stage.stage));
          ++buckets;
        }
  CHECK(buckets == 4);  // both stages send those of the first half to their twins, and those of the second
}

TEST_CASE("a Program is the same after a file") {
  const Setting setting;
  const auto program = setting.program(GENERATE("dp=2,pp=2,micro_batch=1,zero=1", "pp=2,cp=2,attention=ring,micro_batch=1",
                                                "pp=4,micro_batch=1,schedule=pipedream-2bw", "dp=2,pp=2,micro_batch=1,schedule=dualpipe",
                                                "dp=2,offload=activations"));
  const TemporaryFolder folder;
  const auto path = folder / "program.json";
  write_program_file(path, program, setting.training.graph, setting.context());
  REQUIRE(is_program_file(path));
  const auto heading = read_program_heading(path);
  CHECK(heading.plan == program.plan);
  CHECK(heading.context.model == "zoo:gpt");
  CHECK(heading.context.batch == 4);
  const auto read = read_program_file(path, setting.program(to_text(program.plan)), setting.training.graph);
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    CHECK(to_text(read, read.roles[r], setting.training.graph) == to_text(program, program.roles[r], setting.training.graph));
    CHECK(read.roles[r].slots.size() == program.roles[r].slots.size());
    CHECK(read.roles[r].opening.size() == program.roles[r].opening.size());
    CHECK(read.roles[r].delay == program.roles[r].delay);
    for (std::size_t b = 0; b < read.roles[r].bodies.size(); ++b) CHECK(read.roles[r].bodies[b].first == program.roles[r].bodies[b].first);
  }
}

TEST_CASE("what a file says is what is played, not what the plan would make") {
  const Setting setting;
  const TemporaryFolder folder;
  const auto path = folder / "program.json";
  auto document = setting.written("dp=4,allreduce=ring", path);
  for (auto& c : document["roles"][0]["collectives"])
    if (c["kind"] == "all-reduce") c["algorithm"] = "binomial-tree";
  write_text(path, document.dump());
  const auto changed = read_program_file(path, setting.program("dp=4,allreduce=ring"), setting.training.graph);
  CHECK_THAT(to_text(changed, changed.roles[0], setting.training.graph), contains("binomial-tree"));
}

TEST_CASE("a damaged Program is refused where it is damaged") {
  const Setting setting;
  const TemporaryFolder folder;
  const auto path = folder / "program.json";
  const auto whole = setting.written("dp=2", path);
  const auto refusal_of = [&](const auto& damage) {
    auto document = whole;
    damage(document);
    write_text(path, document.dump());
    try {
      static_cast<void>(read_program_heading(path));
      static_cast<void>(read_program_file(path, setting.program("dp=2"), setting.training.graph));
    } catch (const BadInput& problem) {
      return std::string(problem.what());
    }
    return std::string("nothing");
  };
  auto& body = "bodies";
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0][body][1]["instructions"][0]["kind"] = "dance"; }), contains("dance"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0][body][1]["instructions"][3]["outputs"] = {99999}; }), contains("99999"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0][body][1]["instructions"][0]["tensor"] = "no such"; }), contains("no such"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0]["slots"] = {{77, 0}}; }), contains("77"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0]["buffers"].erase(0); }), contains("buffers"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"].clear(); }), contains("roles"));
  CHECK_THAT(refusal_of([&](auto& d) { d.erase("plan"); }), contains("plan is missing"));
  CHECK_THAT(refusal_of([&](auto& d) { d["context"]["batch"] = "four"; }), contains("batch"));
  CHECK_THAT(refusal_of([&](auto& d) { d["ranks"] = 3; }), contains("ranks is 3; the plan gives 2"));
  CHECK_THAT(refusal_of([&](auto& d) { d["micro_batches"] = 2; }), contains("micro_batches is 2; the plan gives 1"));
  CHECK_THAT(refusal_of([&](auto& d) { d["axes"][0]["size"] = 4; }), contains("axes are"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0]["arena_bytes"] = -1; }), contains("arena_bytes is -1"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0]["delay"] = -3; }), contains("delay is -3; the plan gives 0"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0]["delay"] = 1000000; }), contains("delay is 1000000; the plan gives 0"));
  CHECK_THAT(refusal_of([&](auto& d) { d["roles"][0]["buffers"][0]["colour"] = "red"; }), contains("there is no key \"colour\""));
}

TEST_CASE("a Program is a graph for Graphviz: a node per instruction, an edge only between nodes that are there") {
  const Setting setting;
  const auto program = setting.program("tp=2,pp=2,micro_batch=2");
  const auto dot = to_dot(program, setting.training.graph);
  std::size_t instructions = 0;
  for (const auto& role : program.roles)
    for (const auto& b : role.bodies) instructions += b.instructions.size();
  CHECK(count_of(dot, "shape=") == instructions);
  CHECK(count_of(dot, "{") == count_of(dot, "}"));
  CHECK(count_of(dot, " -> ") > instructions / 2);
  CHECK_THAT(dot, contains("all-reduce (") && contains("style=dashed"));
  // A message says what it carries; a kernel is named after its node, which makes that.
  for (const auto& role : program.roles)
    for (const auto& b : role.bodies)
      for (const auto& i : b.instructions) {
        if (i.tensor == graph::TensorId::None) continue;
        const auto label = describe(program, role, i, setting.training.graph);
        const auto whole = label + "\n" + setting.training.graph[i.tensor].name;
        CHECK_THAT(dot, contains("label=\"" + (i.kind == InstructionKind::Kernel ? label : whole) + "\"]"));
      }
}
