// A Program's file says everything or is refused: keys are left out, added and made wrong, one at a time.
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "plan/collectives/exchange.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/program/describe.hpp"
#include "plan/program/program_json.hpp"
#include "tests/catch.hpp"
#include "tests/process.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using Json = nlohmann::json;

namespace {

/// Two layers on two stages of two replicas each, in two micro-batches: messages, sums of gradients, saved activations.
struct Written {
  explicit Written(const std::string& plan_text = "dp=2,pp=2,micro_batch=2", const std::string& optimizer = "sgd")
      : plan(plan_text), training(mlp(optimizer)) {
    write_program_file(path, lowered(), training.graph, {"mlp", training.graph.hash(), 8, "auto", "f32"});
    document = Json::parse(text_of(path));
  }
  [[nodiscard]] Program lowered() const { return lower(training, parse_plan(plan), TableBackend(), {}); }
  static graph::TrainingGraph mlp(const std::string& optimizer) {
    graph::zoo::Layers layers;
    const auto x = layers.builder().add_input("input", {DType::F32, {8, 6}});
    const auto y = layers.linear("b", layers.relu("relu", layers.linear("a", x, 6)), 3);
    graph::TrainingOptions options;
    options.optimizer.name = optimizer;
    return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(y, "output")), options);
  }
  /// What reading the document says; empty where it is taken.
  [[nodiscard]] std::string refusal(const Json& changed) const {
    write_text(path, changed.dump(1));
    try {
      (void)read_program_heading(path);
      (void)read_program_file(path, lowered(), training.graph);
      return "";
    } catch (const BadInput& error) {
      return error.what();
    }
  }

  std::string plan;
  TemporaryFolder folder;
  std::string path = folder / "program.json";
  graph::TrainingGraph training;
  Json document;
};

/// Places of one object of every kind: of lists the first entry, of instructions the first of each kind.
void collect(const Json& value, const Json::json_pointer& at, std::vector<Json::json_pointer>& places) {
  if (value.is_object()) {
    places.push_back(at);
    for (const auto& [key, inner] : value.items()) collect(inner, at / key, places);
  } else if (value.is_array()) {
    std::set<std::string> kinds;
    for (std::size_t n = 0; n < value.size(); ++n)
      if (value[n].is_object() && kinds.insert(value[n].value("kind", "")).second) collect(value[n], at / n, places);
  }
}

std::vector<Json::json_pointer> objects_of(const Json& document) {
  std::vector<Json::json_pointer> places;
  collect(document, Json::json_pointer(), places);
  return places;
}

std::string text_of_keys(const std::set<std::string>& keys) {
  std::string text;
  for (const auto& key : keys) text += key + " ";
  return text;
}

}  // namespace

TEST_CASE("a Program's file read again is the same file") {
  const auto* const plan = GENERATE("dp=2,pp=2,micro_batch=2", "dp=2,compression=sparcml:0.5,exact_steps=3",
                                    "dp=2,local_steps=4,outer=nesterov", "dp=2,local_steps=4,staleness=1,outer=elastic",
                                    "dp=2,local_steps=4,outer=gossip", "pp=2,schedule=pipedream-2bw,micro_batch=2", "dp=2,zero=3");
  INFO(plan);
  const Written w(plan);
  const auto again = read_program_file(w.path, w.lowered(), w.training.graph);
  write_program_file(w.path, again, w.training.graph, {"mlp", w.training.graph.hash(), 8, "auto", "f32"});
  CHECK(Json::parse(text_of(w.path)) == w.document);
  const auto heading = read_program_heading(w.path);
  CHECK(heading.context.batch == 8);
  CHECK(heading.plan == parse_plan(plan));
}

TEST_CASE("a Program's file says who decomposes what and when it is sent, or is refused") {
  const Written w("dp=2,decompositions=spread", "kfac");
  const auto again = read_program_file(w.path, w.lowered(), w.training.graph);
  write_program_file(w.path, again, w.training.graph, {"mlp", w.training.graph.hash(), 8, "auto", "f32"});
  CHECK(Json::parse(text_of(w.path)) == w.document);
  const auto refusal_of = [&](const auto& spoil) {
    auto changed = w.document;
    spoil(changed["roles"][0]);
    return w.refusal(changed);
  };
  const auto first_broadcast = [](Json& role) -> Json& {
    return *std::ranges::find_if(role["collectives"], [](const Json& c) { return c["kind"] == "broadcast"; });
  };
  const auto first = [](Json& role, const auto& wanted) -> Json& {
    for (auto& body : role["bodies"])
      for (auto& i : body["instructions"])
        if (wanted(i)) return i;
    throw InternalError("no such instruction");
  };
  const auto is_renewal = [](const Json& i) { return i.value("during", "") == "renewals"; };
  const auto is_left_to_one = [](const Json& i) { return i["kind"] == "kernel" && i.contains("collective"); };
  CHECK_THAT(refusal_of([&](Json& role) { first_broadcast(role)["root"] = 2; }), contains("root is a rank of dp, below 2"));
  CHECK_THAT(refusal_of([&](Json& role) { first_broadcast(role)["root"] = -1; }), contains("root is a rank of dp"));
  CHECK_THAT(refusal_of([&](Json& role) { first_broadcast(role)["every"] = 0; }), contains("every is a number of steps"));
  CHECK_THAT(refusal_of([&](Json& role) { first_broadcast(role)["kind"] = "all-gather"; }), contains("broadcast of what one rank makes"));
  CHECK_THAT(refusal_of([&](Json& role) { role["collectives"][0]["root"] = 1; }), contains("root is of a broadcast"));
  CHECK_THAT(refusal_of([&](Json& role) { first(role, is_renewal)["inputs"].erase(1); }), contains("number of the step"));
  const auto step_of = [&](Json& role) -> Json& { return role["buffers"][first(role, is_renewal)["inputs"][1].get<std::size_t>()]; };
  CHECK_THAT(refusal_of([&](Json& role) { step_of(role)["dtype"] = "f32"; }), contains("number of the step, one i64"));
  CHECK_THAT(refusal_of([&](Json& role) { step_of(role)["shapes"] = Json{{2}}; }), contains("number of the step, one i64"));
  CHECK_THAT(refusal_of([&](Json& role) { first(role, is_left_to_one)["collective"] = 0; }), contains("broadcast of what one rank makes"));
}

TEST_CASE("a key that a Program's file does not know is refused by name") {
  const Written w;
  for (const auto& place : objects_of(w.document)) {
    auto changed = w.document;
    changed[place]["surplus"] = 1;
    INFO(place.to_string());
    if (place.to_string() == "/context") continue;  // what other tools write about a Program does not matter
    CHECK_THAT(w.refusal(changed), contains("surplus"));
  }
}

TEST_CASE("a key that a Program's file lacks is refused by name, except those that mostly say nothing") {
  const Written w;
  std::set<std::string> optional;
  for (const auto& place : objects_of(w.document))
    for (const auto& [key, value] : w.document[place].items()) {
      auto changed = w.document;
      changed[place].erase(key);
      const auto refusal = w.refusal(changed);
      INFO(place.to_string() << " without " << key);
      if (refusal.empty()) optional.insert(key);
      if (!refusal.empty() && !value.is_array()) CHECK_THAT(refusal, contains(key));  // of a list that is empty what refers to it is named
    }
  CHECK(text_of_keys(optional) ==
        "after axis category input_formats instructions lifetime op output_formats redistribution tensor warnings when ");
}

TEST_CASE("what stands in a Program's file in place of an object is refused") {
  const Written w;
  for (const auto& place : objects_of(w.document))
    for (const Json& other : {Json(3), Json("text"), Json::array({1, 2}), Json(nullptr)}) {
      Json changed = w.document;
      changed[place] = other;
      INFO(place.to_string() << " is " << other.dump());
      CHECK_FALSE(w.refusal(changed).empty());
    }
}

TEST_CASE("numbers of a Program's file that lead nowhere are refused") {
  const Written w;
  std::set<std::string> taken;
  for (const auto& place : objects_of(w.document))
    for (const auto& [key, value] : w.document[place].items()) {
      if (!value.is_number_integer() && !(value.is_array() && !value.empty() && value[0].is_number_integer())) continue;
      for (const std::int64_t wrong : {-7, 1'000'000}) {
        auto changed = w.document;
        (value.is_array() ? changed[place][key][0] : changed[place][key]) = wrong;
        INFO(place.to_string() << ": " << key << " " << wrong);
        if (w.refusal(changed).empty()) taken.insert(key + (wrong < 0 ? "-" : "+"));
      }
    }
  // Sizes have no bound, stages are counted in both directions, and channels and chunks are only compared.
  CHECK(text_of_keys(taken) ==
        "arena_bytes+ batch+ bytes+ channel+ chunk+ in_flight+ offset+ saved_stride+ stage_offset+ stage_offset- workspace_bytes+ ");
}

TEST_CASE("buffers of a Program's file are counted from 0 to one less than there are") {
  const Written w;
  auto changed = w.document;
  for (auto& role : changed["roles"]) {
    const auto buffers = role["buffers"].size();
    for (auto& body : role["bodies"])
      for (auto& instruction : body["instructions"])
        if (!instruction.value("inputs", Json::array()).empty()) {
          instruction["inputs"][0] = buffers;
          CHECK_THAT(w.refusal(changed), contains("names a buffer that is not there: " + std::to_string(buffers)));
          return;
        }
  }
  FAIL("no instruction has operands");
}

TEST_CASE("what an instruction of a Program's file waits for, and the node that it computes, are there") {
  const Written w;
  const auto& bodies = w.document["roles"][0]["bodies"];
  const auto forward = std::ranges::find_if(bodies, [](const Json& b) { return b["kind"] == "forward"; }) - bodies.begin();
  const auto refusal_of = [&](const char* key, const Json& value) {
    auto changed = w.document;
    for (auto& i : changed["roles"][0]["bodies"][forward]["instructions"])
      if (i["kind"] == "kernel") i[key] = value;
    return w.refusal(changed);
  };
  const auto waiting_for = [&](std::size_t body, std::size_t instruction) {
    return refusal_of("after", Json::array({Json::array({body, instruction})}));
  };
  const auto at = static_cast<std::size_t>(forward);
  const auto instructions = bodies[at]["instructions"].size();
  CHECK(waiting_for(at, instructions - 1).empty());
  CHECK_THAT(waiting_for(at, instructions), contains("waits for one that is not there: [" + std::to_string(at) + ", "));
  for (const auto body : {bodies.size(), bodies.size() + 1})
    CHECK_THAT(waiting_for(body, 0), contains("waits for one that is not there: [" + std::to_string(body) + ", 0]"));
  CHECK_THAT(refusal_of("node", "nobody"), contains("the model has no such node"));
}

TEST_CASE("slots of a Program's file are of bodies and micro-batches that there are, forward passes of steps to come among them") {
  const Written w("pp=2,schedule=pipedream-2bw,micro_batch=4");
  const auto& role = w.document.at("roles").at(0);
  REQUIRE(w.document["micro_batches"] == 2);
  REQUIRE(role.at("opening").size() == 1);
  const auto body_of = [&](const std::string& kind) {
    return std::ranges::find_if(role["bodies"], [&](const Json& b) { return b["kind"] == kind; }) - role["bodies"].begin();
  };
  const auto refusal_of = [&](const char* list, std::int64_t body, int micro_batch) {
    auto changed = w.document;
    changed["roles"][0][list] = Json::array({Json::array({body, micro_batch})});
    return w.refusal(changed);
  };
  const auto forward = body_of("forward"), backward = body_of("backward");
  const auto bodies = static_cast<std::int64_t>(role["bodies"].size());
  for (const auto* list : {"slots", "opening"}) {
    INFO(list);
    CHECK(refusal_of(list, forward, 2).empty());
    CHECK(refusal_of(list, backward, 1).empty());
    CHECK_THAT(refusal_of(list, forward, 3), contains("there is no [" + std::to_string(forward) + ", 3]"));
    CHECK_THAT(refusal_of(list, backward, 2), contains("there is no [" + std::to_string(backward) + ", 2]"));
    CHECK_THAT(refusal_of(list, forward, -1), contains("a slot is [body, micro-batch]"));
    CHECK_THAT(refusal_of(list, bodies, 0), contains("there is no [" + std::to_string(bodies) + ", 0]"));
  }
  auto changed = w.document;
  changed["roles"][0]["opening"][0] = Json::array({backward, 1});
  write_text(w.path, changed.dump(1));
  const auto opening = read_program_file(w.path, w.lowered(), w.training.graph).roles[0].opening;
  REQUIRE(opening.size() == 1);
  CHECK(opening[0].body == backward);
  CHECK(opening[0].micro_batch == 1);
}

TEST_CASE("a Program's file says how many steps weights are behind, where they are, and who holds a meeting's center") {
  const Written late("pp=2,schedule=pipedream-2bw,micro_batch=4"), flushed;
  auto changed = late.document;
  CHECK(changed["roles"][0].erase("delay") == 1);
  CHECK_THAT(late.refusal(changed), contains("delay"));
  changed = flushed.document;
  changed["roles"][0]["delay"] = 1;
  CHECK_THAT(flushed.refusal(changed), contains("delay is 1; the plan gives 0"));
  int centers = 0;
  const Written met("dp=4,local_steps=1,staleness=0,servers=at:0+2");
  for (const auto& c : met.document["roles"][0]["collectives"]) centers += c.contains("center") && c["center"] == 0;
  CHECK(centers > 0);
}

TEST_CASE("what ranks deal out is counted in elements that there can be") {
  const Written w("dp=2,zero=3");
  const auto refusal_of = [&](const Json& dealt) {
    auto changed = w.document;
    for (auto& c : changed["roles"][0]["collectives"])
      if (!c["dealt"].empty()) c["dealt"] = dealt;
    return w.refusal(changed);
  };
  const std::int64_t most = std::int64_t{1} << 50;
  for (const auto& possible : {Json{{1, 1}}, Json{{1, most}}, Json{{most, 1}}, Json{{1, most / 2}, {1, most / 2}}})
    CHECK_THAT(refusal_of(possible), !contains("numbers from 1 on"));
  for (const auto& wrong : {Json{{0, 1}}, Json{{1, 0}}, Json{{1, most + 1}}, Json{{2, most}}, Json{{1, most / 2}, {1, most / 2 + 1}},
                            Json{{2, most / 4}, {2, most / 4}, {1, 1}}}) {
    INFO(wrong.dump());
    CHECK_THAT(refusal_of(wrong), contains("dealt is a list of [units, elements of each], numbers from 1 on"));
  }
}

TEST_CASE("a buffer of a Program's file has a shape for every size of micro-batch") {
  const Written w;
  auto changed = w.document;
  auto& shapes = changed["roles"][0]["buffers"][0]["shapes"];
  shapes.push_back(shapes[0]);
  CHECK_THAT(w.refusal(changed), contains("shapes are of 2 micro-batch sizes"));
  shapes = Json::array();
  CHECK_THAT(w.refusal(changed), contains("shapes are of 0 micro-batch sizes"));
}

TEST_CASE("only an all-to-all receives behind what it sends") {
  const Written w("dp=2,compression=sparcml:0.5");
  auto changed = w.document;
  int found = 0;
  for (auto& role : changed["roles"])
    for (auto& c : role["collectives"])
      if (c.value("received_behind", false)) c["kind"] = "all-reduce", c["algorithm"] = "ring", ++found;
  CHECK(found > 0);
  CHECK_THAT(w.refusal(changed), contains("received_behind"));
}

TEST_CASE("an algorithm that there is not, or that does not fit its ranks, is found in a Program that was read") {
  const auto refused = [](const std::string& plan, const std::string& algorithm, int center) {
    auto program = Written(plan).lowered();
    REQUIRE_NOTHROW(check_algorithms(program));
    for (auto& info : program.roles.front().collectives)
      if (info.algorithm.starts_with("partners") || info.algorithm == "servers") info.algorithm = algorithm, info.center = center;
    try {
      check_algorithms(program);
    } catch (const BadInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string adasum = "dp=4,local_steps=1,outer=adasum", centre = "dp=4,local_steps=1,staleness=0";
  CHECK(refused(adasum, "partners:1", -1).empty());
  for (const std::string wrong : {"partners:3", "partners:4", "partners:0", "partners:-2", "partners:x", "partners:"})
    CHECK_THAT(refused(adasum, wrong, -1), contains("\"" + wrong + "\"") && contains("twice that distance must divide the 4 ranks of dp"));
  for (const std::string wrong : {"partners", "servers:2", "neighbours:1", "magic"})
    CHECK_THAT(refused(adasum, wrong, -1), contains("'" + wrong + "' is not known"));
  CHECK(refused(centre, "servers", 0).empty());
  CHECK_THAT(refused(centre, "servers", -1), contains("center") && contains("from 0 on"));
}

TEST_CASE("what a compressor has not sent of a sum is kept for the next one") {
  const auto program = Written("dp=2,compression=1bit-adam,exact_steps=2", "adam").lowered();
  int sums = 0;
  for (const auto& body : program.roles.front().bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != InstructionKind::Recompress) continue;
      ++sums;
      REQUIRE(i.outputs.size() == 2);
      CHECK(i.inputs.back() == i.outputs.back());  // read, and written
    }
  CHECK(sums > 0);
}

TEST_CASE("the text of a Program says in which steps of a training an instruction runs") {
  const Written w("dp=2,local_steps=4,exact_steps=2,outer=nesterov");
  const auto program = w.lowered();
  const auto text = to_text(program, program.role(0), w.training.graph);
  for (const auto* steps : {"(exact steps)", "(later steps)", "(meetings)", "(partings)"}) CHECK_THAT(text, contains(steps));
  const Written one("dp=2,local_steps=4,exact_steps=1,outer=nesterov");  // one step is enough to have later ones
  const auto first = one.lowered();
  CHECK_THAT(to_text(first, first.role(0), one.training.graph), contains("(later steps)"));
}

TEST_CASE("a kernel's workspace may be the first of all buffers") {
  const Written w;
  auto changed = w.document;
  const auto& bodies = changed["roles"][0]["bodies"];
  std::size_t body = 0, at = 0;
  while (bodies[body]["instructions"].empty() || bodies[body]["instructions"][at]["kind"] != "kernel")
    if (++at >= bodies[body]["instructions"].size()) ++body, at = 0;
  changed["roles"][0]["bodies"][body]["instructions"][at]["workspace"] = 0;
  write_text(w.path, changed.dump(1));
  const auto again = read_program_file(w.path, w.lowered(), w.training.graph);
  CHECK(again.roles[0].bodies[body].instructions[at].workspace == 0);
}

TEST_CASE("an instruction of a Program's file that lacks operands is refused, not looked at") {
  const std::string compressor = GENERATE("topk:0.5", "powersgd:1", "sparcml:0.5");
  const Written w("dp=2,compression=" + compressor);
  CHECK(w.refusal(w.document).empty());
  const auto without = [&](const std::string& kind, const std::string& key, const auto& change) {
    auto changed = w.document;
    for (auto& role : changed["roles"])
      for (auto& body : role["bodies"])
        for (auto& i : body["instructions"])
          if (i["kind"] == kind) change(i[key]);
    INFO(kind << " " << key);
    CHECK_THAT(w.refusal(changed), contains("instructions["));
  };
  const auto none = [](Json& list) { list = Json::array(); };
  const auto nulls = [](Json& list) { std::fill(list.begin(), list.end(), nullptr); };
  const auto fewer = [](Json& list) { list.erase(list.size() - 1); };
  const auto more = [](Json& list) { list.push_back(list[0]); };
  std::vector<std::string> kinds{"kernel", "compress", "decompress"};
  if (compressor != "topk:0.5") kinds.push_back("recompress");
  for (const auto& kind : kinds)
    for (const std::string key : {"inputs", "outputs"}) {
      without(kind, key, none);
      without(kind, key, nulls);
    }
  without("kernel", "inputs", fewer);
  without("kernel", "outputs", fewer);
  without("compress", "inputs", fewer);
  without("compress", "outputs", fewer);
  without("compress", "outputs", more);
  without("decompress", "inputs", more);
  without("compress", "collective", [](Json& which) { which = nullptr; });
}
