// What plans are answered: refused with what would mend them, or lowered with what they warn of. Most stand in pairs, on both sides of a
// condition. Files as those of written_out.cpp.
#include "base/error.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"
#include "tests/plan/lowering/written_program.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using rehearsal::plan::test::written_training;

namespace {

struct Asked {
  const char *model, *plan, *how = "";
};

std::string answer(const Asked& asked) {
  std::string text = std::string(asked.model) + ", " + asked.plan + (*asked.how == '\0' ? "" : std::string(", ") + asked.how) + "\n";
  try {
    const auto program = lower(written_training(asked.model, asked.plan, asked.how), parse_plan(asked.plan), TableBackend(), {});
    for (const auto& warning : program.warnings) text += "  warning: " + warning + "\n";
    if (program.warnings.empty()) text += "  lowered\n";
  } catch (const Refusal& refusal) {
    text += std::string("  refused: ") + refusal.what() + "\n";
  } catch (const BadInput& wrong) {
    text += std::string("  wrong: ") + wrong.what() + "\n";
  }
  return text;
}

void check_answers(const char* file, const std::vector<Asked>& all) {
  std::string text;
  for (const auto& asked : all) text += answer(asked);
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + file + ".txt", text);
}

}  // namespace

TEST_CASE("shares of the batch are answered as written out") {
  check_answers("answers-shares", {
                                      {"layers", "dp=6"},
                                      {"layers", "dp=7"},
                                      {"layers", "dp=2,shares=1:1"},
                                      {"layers", "dp=2,shares=3:1"},
                                      {"layers", "dp=3,shares=3:1"},
                                      {"layers", "dp=2,shares=20:1"},
                                      {"layers", "dp=4,zero=3,zero_group=2,shares=2:1:2:1"},
                                      {"layers", "dp=2,pp=2,schedule=pipedream-2bw,micro_batch=1,shares=2:1"},
                                      {"layers", "dp=2,shares=2:1,micro_batch=1,zero=1"},
                                      {"layers", "dp=2,shares=2:1,micro_batch=1,zero=2"},
                                      {"layers", "dp=2,shares=2:1,micro_batch=1,zero=3"},
                                      {"layers", "dp=2,shares=2:1,zero=3"},
                                      {"experts", "dp=2,ep=2,shares=1:1"},
                                      {"experts", "dp=2,ep=2,shares=3:1"},
                                      {"layers", "dp=2,micro_batch=3"},
                                      {"layers", "dp=2,micro_batch=4"},
                                      {"layers", "dp=4"},
                                      {"layers", "dp=4,micro_batch=1"},
                                      {"layers", "dp=4,micro_batch=2"},
                                      {"experts", "dp=2,ep=2,micro_batch=1"},
                                      {"experts", "dp=3,ep=3,micro_batch=1"},
                                      {"experts", "dp=2,ep=2"},
                                      {"experts", "dp=3,ep=2"},
                                      {"gpt", "dp=2,ep=2"},
                                      {"convolutions", "micro_batch=3"},
                                      {"convolutions", "bn=local"},
                                      {"convolutions", "micro_batch=3,bn=local"},
                                      {"convolutions", "micro_batch=4,bn=local"},
                                      {"convolutions", "dp=2,bn=sync"},
                                      {"convolutions", "dp=2,micro_batch=1,bn=sync"},
                                      {"convolutions", "dp=2,shares=2:1,bn=local"},
                                      {"layers", "micro_batch=3,bn=local"},
                                      {"layers", "dp=auto"},
                                  });
}

TEST_CASE("sharded state is answered as written out") {
  check_answers("answers-zero", {
                                    {"layers", "dp=2,zero=1"},
                                    {"layers", "zero=1"},
                                    {"layers", "dp=2,zero=2"},
                                    {"layers", "dp=4,zero_group=2"},
                                    {"layers", "dp=4,zero=2,zero_group=1"},
                                    {"layers", "dp=4,zero=2,zero_group=2"},
                                    {"layers", "dp=4,zero=1,zero_group=3"},
                                    {"experts", "dp=2,ep=2,zero=1"},
                                    {"experts", "dp=4,ep=2,zero=1"},
                                    {"experts", "dp=4,ep=2,zero=1,zero_group=2"},
                                    {"layers", "dp=2,decompositions=spread"},
                                    {"layers", "dp=2,decompositions=spread", "kfac"},
                                    {"layers", "decompositions=spread", "kfac"},
                                    {"layers", "dp=2,decompositions=spread,local_steps=2", "shampoo"},
                                    {"layers", "dp=2,decompositions=spread,local_steps=1", "shampoo"},
                                    {"layers", "zero=1", "stateless"},
                                    {"layers", "dp=2,zero=1", "stateless"},
                                    {"layers", "dp=2,zero=2", "stateless"},
                                    {"layers", "dp=2,algorithms=all-reduce:dp:8:ring"},
                                    {"layers", "dp=2,algorithms=all-reduce:dp:8:ring|all-reduce:dp:9:ring"},
                                });
}

TEST_CASE("compression and what is kept elsewhere are answered as written out") {
  check_answers("answers-compression", {
                                           {"layers", "compression=gist"},
                                           {"convolutions", "compression=gist"},
                                           {"layers", "compression=gist-f16"},
                                           {"layers", "offload=activations"},
                                           {"layers", "offload=activations,compression=gist"},
                                           {"layers", "recompute=selective,offload=activations"},
                                           {"layers", "compression=bf16"},
                                           {"layers", "dp=2,compression=bf16"},
                                           {"layers", "dp=2,compression=f16"},
                                           {"layers", "compression=sign"},
                                           {"layers", "dp=2,exact_steps=1"},
                                           {"layers", "dp=2,compression=sign,exact_steps=1"},
                                           {"layers", "dp=2,compression=sign,zero=1"},
                                           {"layers", "dp=2,tp=2,compression=sign"},
                                           {"gpt", "dp=2,cp=2,compression=sign"},
                                           {"experts", "dp=2,ep=2,compression=sign"},
                                           {"convolutions", "dp=2,spatial=2,compression=sign"},
                                           {"layers", "dp=2,pp=2,compression=sign"},
                                           {"layers", "dp=2,pp=2,micro_batch=1,schedule=dualpipe,compression=sign"},
                                           {"layers", "dp=2,compression=1bit-adam,exact_steps=2"},
                                           {"layers", "dp=2,compression=1bit-adam", "adam"},
                                           {"layers", "dp=2,compression=1bit-adam,exact_steps=2", "adam"},
                                           {"layers", "dp=2,compression=1bit-adam,exact_steps=2", "adam clipped"},
                                           {"layers", "dp=2,compression=1bit-adam,exact_steps=2", "adam decays"},
                                           {"layers", "dp=2,compression=1bit-adam,exact_steps=2,offload=optimizer", "adam"},
                                           {"layers", "recompute=1GiB"},
                                           {"layers", "recompute=1000B"},
                                           {"layers", "recompute=selective-op"},
                                           {"layers", "recompute=full-except-last"},
                                           {"layers", "recompute=full:1"},
                                           {"layers", "dp=2,compression=terngrad"},
                                           {"layers", "dp=2,compression=qsgd:4"},
                                           {"layers", "dp=2,compression=randomk:0.5"},
                                           {"layers", "dp=2,compression=1bit"},
                                           {"layers", "dp=2,compression=topk:0.5"},
                                           {"layers", "dp=2,compression=randomk-memory:0.5"},
                                           {"layers", "dp=2,compression=powersgd:1"},
                                           {"layers", "dp=2,compression=sparcml:0.5"},
                                           {"layers", "recompute=full:9"},
                                       });
}

TEST_CASE("replicas that meet are answered as written out") {
  check_answers("answers-meetings", {
                                        {"layers", "dp=2,outer=gossip"},
                                        {"layers", "dp=2,staleness=1"},
                                        {"layers", "dp=2,servers=1"},
                                        {"layers", "local_steps=2"},
                                        {"layers", "dp=2,local_steps=1"},
                                        {"layers", "dp=2,local_steps=2,exact_steps=1"},
                                        {"layers", "dp=2,local_steps=2,outer=nesterov:0.5:0.25"},
                                        {"layers", "dp=2,local_steps=2,outer=gossip"},
                                        {"layers", "dp=2,local_steps=2,outer=elastic"},
                                        {"layers", "dp=2,local_steps=2,staleness=0,outer=elastic:0.5"},
                                        {"layers", "dp=2,local_steps=2,outer=adasum"},
                                        {"layers", "dp=3,local_steps=2,outer=adasum"},
                                        {"layers", "dp=2,local_steps=2,staleness=0"},
                                        {"layers", "dp=2,local_steps=2,staleness=1"},
                                        {"layers", "dp=2,local_steps=1,staleness=2"},
                                        {"layers", "dp=2,local_steps=2,staleness=any"},
                                        {"layers", "dp=2,local_steps=2,staleness=1,outer=nesterov"},
                                        {"layers", "dp=2,local_steps=2,staleness=1,outer=gossip"},
                                        {"layers", "dp=2,local_steps=2,servers=1"},
                                        {"layers", "dp=2,local_steps=2,staleness=1,servers=2"},
                                        {"layers", "dp=2,local_steps=2,staleness=1,servers=3"},
                                        {"layers", "dp=2,local_steps=2,staleness=1,servers=at:0+1"},
                                        {"layers", "dp=2,local_steps=2,staleness=1,servers=at:0+2"},
                                        {"compared", "dp=2,local_steps=2,staleness=1"},
                                        {"compared", "dp=2,local_steps=2"},
                                        {"convolutions", "dp=2,local_steps=2,staleness=1"},
                                        {"convolutions", "dp=2,local_steps=2,staleness=1,bn=local"},
                                        {"convolutions", "dp=2,local_steps=2"},
                                        {"layers", "dp=2,local_steps=2,staleness=1", "clipped"},
                                        {"layers", "dp=2,local_steps=2,zero=1"},
                                        {"experts", "dp=2,ep=2,local_steps=2"},
                                        {"layers", "dp=2,local_steps=2,compression=sign"},
                                        {"layers", "dp=2,local_steps=2,compression=bf16"},
                                        {"layers", "dp=2,pp=2,micro_batch=1,local_steps=2,schedule=dualpipe"},
                                        {"layers", "dp=2,pp=2,micro_batch=1,local_steps=2,schedule=pipedream-2bw"},
                                        {"layers", "dp=2,pp=2,micro_batch=1,local_steps=2"},
                                        {"layers", "dp=4,local_steps=2"},
                                        {"layers", "dp=2,local_steps=2,shares=2:1"},
                                        {"layers", "dp=2,local_steps=2", "kfac"},
                                        {"layers", "dp=2,local_steps=2", "noise"},
                                        {"layers", "dp=2,local_steps=2", "half"},
                                    });
}

TEST_CASE("pipelines are answered as written out") {
  check_answers("answers-pipelines", {
                                         {"layers", "schedule=gpipe"},
                                         {"layers", "cuts=fc1"},
                                         {"layers", "interleave=2"},
                                         {"layers", "pp=2,schedule=gpipe,interleave=2"},
                                         {"layers", "pp=2,schedule=breadth-first,interleave=2"},
                                         {"layers", "pp=2,cuts=fc1"},
                                         {"layers", "pp=2,cuts=nowhere"},
                                         {"layers", "pp=2,cuts=fc1|last"},
                                         {"layers", "pp=3,cuts=fc1|last"},
                                         {"layers", "pp=3,cuts=last|fc1"},
                                         {"layers", "pp=3,cuts=fc1"},
                                         {"layers", "pp=2,cuts=fc0"},
                                         {"layers", "pp=8"},
                                         {"layers", "pp=20"},
                                         {"layers", "pp=2,schedule=pipedream"},
                                         {"layers", "pp=2,schedule=pipedream,micro_batch=3"},
                                         {"layers", "pp=3,schedule=pipedream-2bw"},
                                         {"layers", "pp=3,schedule=pipedream-2bw,micro_batch=3"},
                                         {"layers", "pp=4,schedule=pipedream-2bw,micro_batch=3"},
                                         {"layers", "schedule=pipedream-2bw"},
                                         {"layers", "pp=2,schedule=dualpipe"},
                                         {"layers", "pp=3,schedule=dualpipe,micro_batch=3"},
                                         {"tied", "pp=2,schedule=pipedream"},
                                         {"tied", "pp=2,schedule=pipedream-2bw,micro_batch=3"},
                                         {"layers", "pp=2,schedule=pipedream-2bw,micro_batch=3", "clipped"},
                                         {"convolutions", "pp=2,schedule=pipedream-2bw,micro_batch=3,bn=local"},
                                         {"normalized", "pp=2,schedule=pipedream-2bw,micro_batch=3"},
                                         {"normalized", "pp=2,micro_batch=3"},
                                         {"attention", "pp=2,cp=2,attention=ring,cuts=weights"},
                                         {"attention", "pp=2,cp=2,attention=ring,cuts=last"},
                                         {"layers", "pp=2,micro_batch=3,recompute=1GiB"},
                                         {"layers", "pp=2,micro_batch=3,recompute=1000B"},
                                     });
}

TEST_CASE("split tensors are answered as written out") {
  check_answers("answers-splits", {
                                      {"layers", "tp=8"},
                                      {"layers", "tp=9"},
                                      {"layers", "sequence_parallel=on"},
                                      {"gpt", "tp=2,sequence_parallel=on"},
                                      {"gpt", "tp=3"},
                                      {"layers", "cp=2"},
                                      {"layers", "cp=2,attention=ring"},
                                      {"gpt", "attention=ring"},
                                      {"gpt", "cp=2,attention=ring"},
                                      {"gpt", "cp=5,attention=ring"},
                                      {"attention", "cp=2,attention=all-to-all"},
                                      {"gpt", "cp=3,attention=all-to-all"},
                                      {"layers", "spatial=2"},
                                      {"convolutions", "spatial=2x2x2"},
                                      {"convolutions", "spatial=5"},
                                      {"convolutions", "spatial=10"},
                                      {"convolutions", "spatial=2x2"},
                                      {"averages", "spatial=4"},
                                      {"averages", "spatial=5"},
                                      {"masked", "cp=2,attention=ring"},
                                      {"experts", "tp=2"},
                                      {"experts", "dp=2,ep=2,tp=4"},
                                  });
}
