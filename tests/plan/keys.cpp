// What plans are read from, on both sides of every bound, written out: the canonical text, or what is wrong. REHEARSAL_WRITE_OUT=1 writes
// the file anew.
#include "base/error.hpp"
#include "plan/plan.hpp"
#include "plan/plan_keys.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

std::string read_as(const std::string& text) {
  try {
    return to_text(parse_plan(text));
  } catch (const BadInput& wrong) {
    return wrong.what();
  }
}

struct KeyTexts {
  std::string_view key;
  std::vector<std::string_view> values;
};

const std::vector<KeyTexts> kKeyTexts{
    {"dp", {"1", "0", "10000000", "10000001", "-1", "1.0", "auto", " 2"}},
    {"tp", {"2", "0"}},
    {"pp", {"2", "0"}},
    {"cp", {"2", "0"}},
    {"ep", {"2", "0"}},
    {"spatial", {"2", "2x3", "2x3x4", "1x1x1", "2x3x4x5", "x2", "2x", "0x2", "2x10000000x1", "10000000x1x1", "10000000x1x2", "auto"}},
    {"micro_batch", {"1", "0", "2147483647", "2147483648", "auto"}},
    {"shares", {"speed", "equal", "3:1", "2:2:1", "2x2:1", "0:1", "3:", "1x0", "auto"}},
    {"schedule", {"gpipe", "1F1B", "zb_h1", "pipe", "auto"}},
    {"interleave", {"1", "2", "0"}},
    {"zero", {"0", "3", "4", "-1"}},
    {"zero_group", {"all", "1", "0", "8", "many"}},
    {"recompute",
     {"none", "selective", "full", "full:1", "full:0", "full:1000000", "full:1000001", "full:2x", "1B", "0.5B", "4GiB", "1500kB", "fit",
      "most"}},
    {"sequence_parallel", {"on", "off", "ON", "yes", "auto"}},
    {"attention", {"gather", "ring", "all-to-all", "all_to_all", "rings"}},
    {"fuse", {"attention", "none", "all", "auto"}},
    {"offload", {"none", "optimizer", "activations", "weights"}},
    {"compression",
     {"none",
      "gist",
      "gist-sparse",
      "gist-sparse:0.75",
      "gist-sparse:1",
      "gist-sparse:1.01",
      "gist-sparse:0",
      "gist-sparse:",
      "gist-sparse2",
      "bf16",
      "f16",
      "sign",
      "sign:1",
      "topk",
      "topk:0.5",
      "topk:1",
      "topk:1.5",
      "topk:",
      "topk:x",
      "randomk",
      "randomk-memory:0.25",
      "1bit",
      "1bit-adam",
      "powersgd:1",
      "powersgd:1.5",
      "qsgd:127",
      "qsgd:128",
      "terngrad",
      "sparcml:0.002",
      "sparcml:0.001",
      "zip"}},
    {"exact_steps", {"0", "2147483647", "2147483648", "-1"}},
    {"local_steps", {"0", "1", "2147483648"}},
    {"outer", {"average",       "average:1",       "gossip",       "adasum",       "adasum:2",   "nesterov",     "nesterov:0.7:0.9",
               "nesterov:10:0", "nesterov:10.1:0", "nesterov:0:0", "nesterov:1:1", "nesterov:1", "nesterov:1:x", "nesterov:x:0",
               "elastic",       "elastic:1",       "elastic:1.01", "elastic:0",    "elastic:x",  "mean"}},
    {"staleness", {"none", "0", "1", "any", "2147483648", "-1", "some"}},
    {"servers",
     {"all", "1", "0", "10000000", "10000001", "at:0", "at:0+4", "at:4+0", "at:0+0", "at:", "at:-1", "at:0+", "at:9999999", "at:10000000",
      "x"}},
    {"decompositions", {"everywhere", "spread", "none"}},
    {"allreduce", {"auto", "ring", "rings", "nothing"}},
    {"overlap", {"on", "off", "maybe"}},
    {"bn", {"batch", "local", "sync", "global"}},
    {"order",
     {"tp.cp.ep.dp.pp", "pp.dp.ep.cp.tp", "spatial.tp.cp.ep.dp.pp", "tp.spatial.cp.ep.dp.pp", "spatial.spatial.tp.cp.ep.dp.pp",
      "tp.cp.ep.dp", "tp.tp.ep.dp.pp", "tp.cp.ep.dp.pp.tp"}},
    {"fill", {"V100", "H100|A100", "2|1", "listed", "", "a|a", "a||b", "|a", "auto"}},
    {"cuts", {"a", "a|b", "a|a", "a|", "a%2Cb", "a%2cb", "a%2", "a%", "a%7Cb|c", "auto"}},
    {"algorithms",
     {"all-reduce:dp:4096:ring", "all-reduce:dp:0:ring", "all-reduce:dp:-1:ring", "all-reduce::4:ring", "all-reduce:dp:4",
      "all-reduce:dp:4:ring:x", "sum:dp:4:ring", "all-gather:dp:4:rings", "all-reduce:dp:4:ring|all-gather:tp:8:ring"}},
};

}  // namespace

TEST_CASE("keys of plans are read as written out") {
  std::string text;
  for (const auto& [key, values] : kKeyTexts)
    for (const auto value : values) {
      const auto given = std::string(key) + "=" + std::string(value);
      text += given + " -> " + read_as(given) + "\n";
    }
  for (const auto* whole : {"dp=2,dp=2", "dp", "dp=", "=2", "dpp=2", "DP=2", "micro-batch=2", "dp=2,,tp=2", "dp=3162,tp=3162",
                            "dp=3163,tp=3163", "dp=2;tp=2", "dp=2 tp=2", "tp=2, dp=4"})
    text += std::string(whole) + " -> " + read_as(whole) + "\n";
  rehearsal::test::check_written_out(std::string(REHEARSAL_PLAN_WRITTEN_OUT) + "/keys.txt", text);
  for (const auto& row : plan_keys()) CHECK(std::ranges::find(kKeyTexts, row.key, &KeyTexts::key) != kKeyTexts.end());
}

TEST_CASE("a key that is set again has its last value") {
  const auto before = parse_plan(
      "dp=2,tp=2,pp=2,cp=2,ep=2,spatial=2,micro_batch=2,shares=3:1,schedule=gpipe,interleave=2,zero=3,zero_group=2,"
      "recompute=full,sequence_parallel=on,attention=ring,fuse=none,offload=optimizer,compression=topk,exact_steps=3,"
      "local_steps=3,outer=gossip,staleness=3,servers=2,decompositions=spread,allreduce=ring,overlap=off,bn=sync,"
      "order=pp.dp.ep.cp.tp,fill=V100|A100,cuts=a,algorithms=all-reduce:dp:4:ring");
  Plan plan = before;
  for (const auto& row : plan_keys())
    if (const auto neutral = row.print(Plan{}); !neutral.empty()) set_plan_key(plan, row, neutral);
  plan.micro_batch.reset(), plan.cuts.clear(), plan.algorithms.clear(), plan.fill.clear();  // what has no neutral text
  CHECK(to_text(plan) == "dp=1");
  plan = Plan{};
  for (const auto& row : plan_keys()) set_plan_key(plan, row, row.print(before));
  CHECK(plan == before);
}
