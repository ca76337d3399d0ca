#include "plan/plan.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/random.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/compressors.hpp"
#include "plan/plan_keys.hpp"
#include "plan/schedules/schedule.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// Draws from one seeded sequence.
struct Draw {
  std::uint64_t seed, next = 0;
  int below(int n) { return static_cast<int>(random_uniform(seed, 0, next++) * n); }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
};

Plan any_plan(std::uint64_t seed) {
  Draw draw{seed};
  Plan p;
  for (int* degree : {&p.dp, &p.tp, &p.pp, &p.cp, &p.ep, p.spatial.data(), &p.spatial[1], &p.spatial[2]}) *degree = 1 + draw.below(7);
  if (draw.below(2)) p.micro_batch = 1 + draw.below(1000);
  p.schedule = draw.of({"gpipe", "1f1b"});
  p.interleave = 1 + draw.below(4);
  p.zero = draw.below(4);
  p.recompute = parse_recompute(draw.of({"none", "selective", "full", "full:3", "4GiB"}));
  p.sequence_parallel = draw.below(2);
  p.offload = choice_named<Offload>(draw.of({"none", "optimizer"}));
  p.compression = parse_compression(draw.of({"none", "bf16", "gist-sparse", "gist-sparse:0.6", "1bit-adam", "sparcml:0.05"}));
  p.exact_steps = draw.of({0, 0, 100});
  p.local_steps = draw.of({0, 0, 7});
  p.outer = parse_outer_step(draw.of({"average", "nesterov", "nesterov:1:0", "elastic:0.5", "gossip"}));
  p.staleness = draw.of({std::optional<std::int64_t>(), std::optional<std::int64_t>(3), std::optional(kAnyStaleness)});
  p.servers = draw.of({Servers(), Servers(2), Servers(std::vector{0, 3})});
  p.decompositions = choice_named<Decompositions>(draw.of({"everywhere", "spread"}));
  p.allreduce = draw.of({"auto", "ring", "hierarchical"});
  p.overlap = draw.below(2);
  p.bn = choice_named<BatchStatistics>(draw.of({"batch", "local", "sync"}));
  p.order = draw.of({"tp.cp.ep.dp.pp", "dp.tp.pp.ep.cp", "spatial.tp.cp.ep.dp.pp"});
  if (draw.below(2)) p.cuts = {"conv/1", draw.of({"a,b", "x|y", "100%", "two words", "k=v", "gr\xC3\xB6\xC3\x9F\x65"})};
  if (draw.below(2)) p.fill = {"V100", draw.of({"DGX A100", "8 x A100, 4 cards", "a|b"})};
  if (draw.below(3) == 0) p.dp = 1, p.searched.push_back("dp");
  if (draw.below(3) == 0) p.spatial = {1, 1, 1}, p.searched.push_back("spatial");
  if (draw.below(3) == 0) p.micro_batch.reset(), p.searched.push_back("micro_batch");
  if (draw.below(3) == 0) p.overlap = true, p.searched.push_back("overlap");
  if (draw.below(2)) p.shares = draw.of({"equal", "3:1", "24x8:8x8"});
  if (draw.below(2)) p.algorithms = {"all-reduce:dp:4096:ring", "all-gather:dp.tp:12:recursive-doubling"};
  if (draw.below(3) == 0) p.cuts.clear(), p.searched.push_back("cuts");
  return p;
}

std::string refusal(const std::string& text) {
  try {
    (void)parse_plan(text);
  } catch (const BadInput& problem) {
    return problem.what();
  }
  return "accepted";
}

struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() / ("rehearsal_plan_" + std::to_string(::getpid()) + ".json")).string();
  explicit TemporaryFile(const std::string& text = "") {
    if (!text.empty()) std::ofstream(path) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
};

const PlanContext kContext{"zoo:gpt?layers=2",
                           "0123456789abcdef",
                           64,
                           "cross-entropy",
                           "fp8-block",
                           "adamw",
                           {{"lora", {"16,alpha=32"}}, {"freeze", {"a*", "b*"}}},
                           {{"platform", {"dgx-h100"}}, {"nodes", {"2"}}}};

/// Reads plan.json with one value changed; the refusal's message.
std::string file_refusal(const std::string& pointer, const nlohmann::json& value) {
  const TemporaryFile file;
  write_plan_file(file.path, {parse_plan("dp=2"), kContext});
  nlohmann::json document;
  std::ifstream(file.path) >> document;
  document[nlohmann::json::json_pointer(pointer)] = value;
  std::ofstream(file.path) << document;
  try {
    (void)read_plan_file(file.path);
  } catch (const BadInput& problem) {
    CHECK_THAT(problem.what(), contains(file.path));
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a compact text is read key by key") {
  const Plan p =
      parse_plan("dp=8, tp=4,pp=2,micro_batch=1,schedule=gpipe,zero=1,sequence_parallel=on,overlap=off,allreduce=ring,spatial=2x3");
  CHECK(p.dp == 8);
  CHECK(p.tp == 4);
  CHECK(p.pp == 2);
  CHECK(p.micro_batch == 1);
  CHECK(p.schedule == "gpipe");
  CHECK(p.zero == 1);
  CHECK(p.sequence_parallel);
  CHECK_FALSE(p.overlap);
  CHECK(p.allreduce == "ring");
  CHECK(p.spatial == std::array<int, 3>{1, 2, 3});
  CHECK(p.ranks() == 8 * 4 * 2 * 2 * 3);
  CHECK(parse_plan("spatial=5").spatial == std::array<int, 3>{1, 1, 5});
  CHECK(parse_plan("spatial=4x5x6").spatial == std::array<int, 3>{4, 5, 6});
}

TEST_CASE("neutral values are left out, all but dp") {
  CHECK(to_text(Plan{}) == "dp=1");
  CHECK(to_text(parse_plan("zero=0,dp=1,schedule=1f1b,overlap=on,order=tp.cp.ep.dp.pp,fill=listed")) == "dp=1");
  CHECK(to_text(parse_plan("pp=2,dp=4,micro_batch=1")) == "dp=4,pp=2,micro_batch=1");
}

TEST_CASE("auto is recorded as searched, in one order") {
  const Plan p = parse_plan("micro_batch=auto,tp=2,dp=auto");
  CHECK(p.searched == std::vector<std::string>{"dp", "micro_batch"});
  CHECK(p == parse_plan("dp=auto,micro_batch=auto,tp=2"));
  CHECK(to_text(p) == "dp=auto,tp=2,micro_batch=auto");
  CHECK(parse_plan("allreduce=auto").searched.empty());                          // a choice by closed form, not a search
  CHECK(parse_plan("dp=2,recompute=fit") == parse_plan("dp=2,recompute=auto"));  // the quickest that fits recomputes least
}

TEST_CASE("full recomputation may be of some blocks, and says which number is right") {
  const Plan some = parse_plan("recompute=full:21");
  CHECK(some.recompute == Recompute{RecomputeRule::Full, 0, 21});
  CHECK(to_text(some) == "dp=1,recompute=full:21");
  for (const char* wrong : {"full:", "full:0", "full:-1", "full:x", "full:3x", "full:99999999999", "full:1.5"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(parse_plan(std::string("recompute=") + wrong), contains("a number of blocks behind full:, from 1 to 1000000 (full:4)"));
  }
  CHECK_THROWS_WITH(parse_plan("recompute=selective:2"), contains("full:N"));
}

TEST_CASE("text and file give back every plan") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Plan p = any_plan(seed);
    INFO(to_text(p));
    REQUIRE(parse_plan(to_text(p)) == p);
    if (seed % 25 != 0) continue;  // files are flushed to the disk: fewer of them
    const TemporaryFile file;
    write_plan_file(file.path, {p, kContext});
    const auto read = read_plan_file(file.path);
    REQUIRE(read.plan == p);
    CHECK(read.context.model == kContext.model);
    CHECK(read.context.model_hash == kContext.model_hash);
    CHECK(read.context.batch == 64);
    CHECK(read.context.loss == "cross-entropy");
    CHECK(read.context.dtype == "fp8-block");
    CHECK(read.context.optimizer == "adamw");
    CHECK(read.context.training == kContext.training);
    CHECK(read.context.searched_on == kContext.searched_on);
  }
}

TEST_CASE("a wrong plan is refused by key, with what would be right") {
  const std::string degree = "must be a whole number from 1 to 10000000";
  for (const std::string bad :
       {"dp=0", "dp=-1", "dp=1e9", "dp=99999999999999999999", "dp=2.5", "dp=two", "dp=+2", "dp=0x2", "tp=100000003"})
    CHECK(refusal(bad) == "plan: " + bad + ": " + degree);
  CHECK(refusal("dp=2;tp=2") == "plan: dp=2;tp=2: " + degree + "; keys are separated by commas");
  CHECK_THAT(refusal("xx=2"), contains("'xx' is no key") && contains("dp, tp, pp, cp, ep, spatial, micro_batch, shares, schedule"));
  CHECK_THAT(refusal("dp"), contains("dp needs a value: dp=..."));
  CHECK_THAT(refusal("dp="), contains("dp needs a value"));
  CHECK(refusal("dp=2,dp=4") == "plan: dp is given 2 times");
  CHECK(refusal("schedule=foo") == "plan: schedule=foo: must be one of " + joined(schedule_table(), ", ", &ScheduleRow::name));
  CHECK_THAT(refusal("micro_batch=0"), contains("micro_batch=0: must be a whole number from 1 to"));
  CHECK_THAT(refusal("zero=4"), contains("from 0 to 3"));
  CHECK_THAT(refusal("allreduce=tree"), contains("must be one of auto, ring, recursive-doubling, halving-doubling, hierarchical"));
  CHECK_THAT(refusal("overlap=yes"), contains("must be one of on, off"));
  CHECK_THAT(refusal("order=tp.dp"), contains("must name tp, cp, ep, dp and pp once each"));
  CHECK_THAT(refusal("order=tp.cp.ep.dp.dp"), contains("once each"));
  CHECK_THAT(refusal("fill=a|a"), contains("must name groups of nodes") && contains("none empty or twice"));
  CHECK_THAT(refusal("fill=a|"), contains("none empty or twice"));
  CHECK_THAT(refusal("spatial=1x2x3x4"), contains("more than three degrees"));
  CHECK_THAT(refusal("spatial=2x"), contains("spatial=2x: must be a whole number"));
  CHECK_THAT(refusal("algorithms=ring"), contains("KIND:AXIS:BYTES:ALGORITHM"));
  CHECK_THAT(refusal("algorithms=sum:dp:4:ring"), contains("'sum' is no kind of collective"));
  CHECK_THAT(refusal("algorithms=all-reduce:dp:4:tree"), contains("'tree' is no algorithm of all-reduce: ring"));
  CHECK_THAT(refusal("algorithms=all-reduce:dp:-4:ring"), contains("must be a whole number from 0"));
  for (const std::string wrong : {"gist-sparse:0", "gist-sparse:1.5", "gist-sparse:half"})
    CHECK_THAT(refusal("compression=" + wrong), contains("above 0, at most 1"));
  CHECK_THAT(refusal("cuts=a|a"), contains("none empty or twice"));
  CHECK_THAT(refusal("cuts=a%2"), contains("hexadecimal"));
  for (const std::string empty : {"", ",,,", "dp=2,", ",dp=2", "=2", " "}) CHECK_THAT(refusal(empty), contains("an entry is empty"));
}

TEST_CASE("more ranks than any machine has are refused without overflow") {
  CHECK(parse_plan("dp=1000,tp=10,pp=1000").ranks() == 10'000'000);
  CHECK_THAT(refusal("dp=1000,tp=10,pp=1001"),
             contains("plan: the degrees dp, tp, pp, cp and spatial multiply to more than 10000000 ranks"));
  CHECK_THAT(refusal("dp=10000000,tp=10000000,pp=10000000,cp=10000000,spatial=10000000x10000000x10000000"),
             contains("multiply to more than"));
}

TEST_CASE("a plan file with a wrong value is refused by file and key") {
  CHECK_THAT(file_refusal("/schema", 2), contains("schema: must be 1"));
  CHECK_THAT(file_refusal("/bandwith", 2), contains("bandwith: is no key here"));
  CHECK_THAT(file_refusal("/mesh/zz", 2), contains("mesh.zz: is no key here; known keys: dp, tp, pp, cp, ep, spatial"));
  CHECK_THAT(file_refusal("/mesh/zero", 2), contains("mesh.zero: is no key here"));
  CHECK_THAT(file_refusal("/mesh/dp", 0), contains("mesh.dp: dp=0: must be a whole number from 1"));
  CHECK_THAT(file_refusal("/mesh/dp", 1.5), contains("mesh.dp: must be a whole number, or \"auto\""));
  CHECK_THAT(file_refusal("/mesh/dp", "2"), contains("mesh.dp: must be a whole number, or \"auto\""));
  CHECK_THAT(file_refusal("/mesh/dp", 100000000), contains("mesh.dp"));
  CHECK_THAT(file_refusal("/mesh", nullptr), contains("mesh: must be an object"));
  CHECK_THAT(file_refusal("/rules/overlap", "on"), contains("rules.overlap: must be true or false"));
  CHECK_THAT(file_refusal("/pipeline/cuts", nlohmann::json::array({1})), contains("pipeline.cuts: must be a list of names"));
  CHECK_THAT(file_refusal("/pipeline/schedule", "foo"), contains("must be one of gpipe, 1f1b"));
  CHECK_THAT(file_refusal("/context/batch", 0), contains("context.batch: must be a whole number of at least 1"));
  CHECK_THAT(file_refusal("/context/batch", 18446744073709551615ULL), contains("context.batch"));
  CHECK_THAT(file_refusal("/context/dtype", "i32"), contains("context.dtype: must be one of f32, f64, tf32, f16, bf16, fp8"));
  CHECK_THAT(file_refusal("/context/training", "lora"), contains("context.training: must be an object of options"));
  CHECK_THAT(file_refusal("/context/training/lora", true), contains("context.training.lora: must be a text"));
  CHECK_THAT(file_refusal("/context/searched_on/nodes", nullptr), contains("context.searched_on.nodes: must be a text"));
  CHECK(file_refusal("/context/searched_on/nodes", 4) == "accepted");
  CHECK_THAT(file_refusal("/context/searched_on/platform", nlohmann::json::array()), contains("searched_on.platform: is an empty list"));
  CHECK_THAT(file_refusal("/context/searched_on/platform", ""), contains("searched_on.platform: must be a text that is not empty"));
  for (const std::string key : {"model", "loss", "dtype", "optimizer", "model_hash"})
    for (const auto& wrong : {nlohmann::json(""), nlohmann::json(3), nlohmann::json(nullptr)})
      CHECK_THAT(file_refusal("/context/" + key, wrong), contains("context." + key + ": must be a text that is not empty"));
  CHECK_THAT(file_refusal("/context/model_hash", "short"), contains("context.model_hash: must be 16 hexadecimal digits"));
  CHECK_THAT(file_refusal("/context/extra", 1), contains("context.extra: is no key here"));
  CHECK_THAT(file_refusal("/mesh/tp", 10000000), contains("mesh: the degrees"));  // 2 times 10 million
  CHECK(file_refusal("/mesh/tp", 3) == "accepted");
}

TEST_CASE("a plan file that is cut, empty or no object is refused by name") {
  for (const std::string text : {"{", "[]", "null", "{}", "{\"schema\":1}", "{\"schema\":1,\"schema\":1}", "plan"}) {
    const TemporaryFile file(text);
    INFO(text);
    CHECK_THROWS_AS(read_plan_file(file.path), BadInput);
    CHECK_THROWS_WITH(read_plan_file(file.path), contains(file.path));
  }
  CHECK_THROWS_WITH(read_plan_file("nowhere/plan.json"), contains("nowhere/plan.json"));
}

TEST_CASE("the published schema knows the keys and names that the program knows") {
  nlohmann::json schema;
  std::ifstream("plan/schema/plan.schema.json") >> schema;
  std::set<std::string> published, known;
  for (const std::string section : {"mesh", "pipeline", "rules", "placement"})
    for (const auto& [key, rule] : schema["properties"][section]["properties"].items()) published.insert(section + "." + key);
  for (const auto& row : plan_keys()) known.insert(std::string(row.section) + "." + std::string(row.key));
  CHECK(published == known);
  std::set<std::string> schedules{"auto"}, algorithms{"auto"};
  for (const auto& row : schedule_table()) schedules.emplace(row.name);
  for (const auto& row : collective_table())
    if (row.kind == CollectiveKind::AllReduce) algorithms.emplace(row.name);
  CHECK(schema["properties"]["pipeline"]["properties"]["schedule"]["enum"].get<std::set<std::string>>() == schedules);
  CHECK(schema["properties"]["rules"]["properties"]["allreduce"]["enum"].get<std::set<std::string>>() == algorithms);
  const std::regex compression(schema["properties"]["rules"]["properties"]["compression"]["pattern"].get<std::string>());
  for (const auto& row : compressors())
    for (const double setting : {row.usual, row.most}) {
      Compression how{row.rule};
      how.setting = setting;
      INFO(to_text(how));
      CHECK(std::regex_match(to_text(how), compression));
    }
}

TEST_CASE("an outer step has a rule, and numbers where the rule takes some") {
  CHECK(to_text(parse_outer_step("nesterov")) == "nesterov:0.7:0.9");
  CHECK(to_text(parse_outer_step("nesterov:1:0")) == "nesterov:1:0");
  CHECK(to_text(parse_outer_step("average")) == "average");
  for (const auto* wrong :
       {"average:1:0", "nesterov:1", "nesterov:0:0.9", "nesterov:1:1", "nesterov:x:0.5", "nesterov:", "nesterov:1:0:2"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse_outer_step(wrong), contains("nesterov:0.7:0.9"));
  }
  CHECK_THROWS_WITH(parse_plan("dp=2,outer=mean"), contains("outer=mean") && contains("average"));
  CHECK_THROWS_WITH(parse_plan("dp=2,local_steps=-1"), contains("local_steps=-1"));
}

TEST_CASE("names of values may be written in any case, and are one text") {
  for (const auto& [given, known] : {std::pair{"recompute=Full", "recompute=full"},
                                     {"recompute=FULL:4", "recompute=full:4"},
                                     {"recompute=Selective_OP", "recompute=selective-op"},
                                     {"micro_batch=Auto", "micro_batch=auto"},
                                     {"recompute=Fit", "recompute=auto"},
                                     {"zero=1,zero_group=ALL", "zero=1"},
                                     {"staleness=Any", "staleness=any"},
                                     {"staleness=None", ""},
                                     {"shares=Equal", "shares=equal"},
                                     {"servers=All", ""},
                                     {"servers=AT:0+4", "servers=at:0+4"},
                                     {"servers=At:1+4+6+7", "servers=at:1+4+6+7"},
                                     {"order=PP.DP.EP.CP.TP", "order=pp.dp.ep.cp.tp"},
                                     {"compression=TopK:0.02", "compression=topk:0.02"},
                                     {"compression=GIST_sparse:0.5", "compression=gist-sparse:0.5"},
                                     {"outer=Nesterov:1:0", "outer=nesterov:1:0"}}) {
    INFO(given);
    CHECK(to_text(parse_plan(std::string("dp=8,") + given)) == "dp=8" + (*known == 0 ? std::string() : std::string(",") + known));
  }
  CHECK(parse_plan("dp=2,cuts=Auto").cuts == std::vector<std::string>{"Auto"});  // a node may be called so
}

TEST_CASE("groups of shards divide the replicas, whose experts are the same") {
  const auto problems = [](const char* text) {
    std::string all;
    for (const auto& violation : shard_group_violations(parse_plan(text))) all += violation.problem + "\n";
    return all;
  };
  CHECK_THAT(problems("dp=4,zero=1,zero_group=3"), contains("3 replicas do not divide the 4 of dp"));
  CHECK_THAT(problems("dp=4,ep=2,zero=1,zero_group=2"), contains("experts of their own"));
  CHECK(problems("dp=4,zero=1,zero_group=2").empty());
  CHECK(problems("dp=4,ep=2,zero=1").empty());
}

TEST_CASE("the description of a key names every value that it may have") {
  std::map<std::string_view, std::vector<std::string_view>> values{
      {"attention", {ChoiceNames<AttentionForm>::kAll.begin(), ChoiceNames<AttentionForm>::kAll.end()}},
      {"fuse", {ChoiceNames<Fusion>::kAll.begin(), ChoiceNames<Fusion>::kAll.end()}},
      {"offload", {ChoiceNames<Offload>::kAll.begin(), ChoiceNames<Offload>::kAll.end()}},
      {"recompute", {ChoiceNames<RecomputeRule>::kAll.begin(), ChoiceNames<RecomputeRule>::kAll.end()}},
      {"compression", {ChoiceNames<CompressionRule>::kAll.begin(), ChoiceNames<CompressionRule>::kAll.end()}},
      {"outer", {ChoiceNames<OuterRule>::kAll.begin(), ChoiceNames<OuterRule>::kAll.end()}}};
  for (const auto& [key, names] : values)
    for (const auto name : names) {
      INFO(key << " " << name);
      CHECK(find_plan_key(key)->description.find(name) != std::string_view::npos);
    }
  CHECK_THAT(description_of(*find_plan_key("schedule")), contains("passes: gpipe, 1f1b, interleaved"));
  CHECK_THAT(description_of(*find_plan_key("allreduce")), contains(": auto, ring, recursive-doubling"));
}
